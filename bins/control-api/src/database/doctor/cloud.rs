//! What the cloud shows, compared with the database; reads alone. What control-api is at work on
//! meanwhile is looked at twice, and left out if it has changed.

use std::path::Path;

use civ_boot::chain::Chain;
use civ_cloud::{Cloud as _, Fault, FloatingIp, OpenStack};
use civ_orch::reconcile::{Held, Repair, Seen, reconcile};
use civ_store::peek::Look;
use civ_store::{StoreError, leases, validators};
use civ_types::PortId;

use super::Finding;
use crate::database::now;

#[derive(Debug, thiserror::Error)]
enum NotLooked {
    #[error("the cloud could not be read")]
    Cloud(#[from] Fault),
    #[error("the cloud could not be asked for a port")]
    Port(#[from] civ_cloud::ReadFault),
    #[error("the database could not be read")]
    Store(#[from] StoreError),
}

fn found(kind: &'static str, repairable: bool, text: String) -> Finding {
    Finding {
        kind,
        text,
        repairable,
        repaired: false,
    }
}

/// What of the cloud does not fit the database, or why that is not known.
pub(super) async fn findings(client: &OpenStack, path: &Path) -> Result<Vec<Finding>, String> {
    let all = async {
        let look = Look::open(path)?;
        let mut all = addresses(client, &look).await?;
        all.extend(ports(client, &look).await?);
        all.extend(marks(client, &look).await?);
        Ok::<_, NotLooked>(all)
    };
    all.await.map_err(|error| Chain(&error).to_string())
}

/// As the reconciler compares them.
async fn addresses(client: &OpenStack, look: &Look) -> Result<Vec<Finding>, NotLooked> {
    let began = now();
    let ports = look.read(leases::ports)?;
    let listed = client.on_ports(&ports).await?;
    let seen: Vec<Seen> = listed
        .into_iter()
        .filter_map(|fip| {
            let port = fip.port.filter(|port| ports.contains(port))?;
            Some(Seen {
                fip: fip.id,
                address: fip.address,
                port,
            })
        })
        .collect();
    let held = look.read(leases::held)?;
    let mut all = Vec::new();
    for repair in reconcile(&seen, &held, began) {
        all.extend(match repair {
            Repair::Orphan(seen) => orphan(client, look, &seen).await?,
            Repair::Detached(claim) => match held.iter().find(|lease| lease.claim == claim) {
                Some(lease) => detached(client, look, lease).await?,
                None => None,
            },
        });
    }
    Ok(all)
}

async fn orphan(
    client: &OpenStack,
    look: &Look,
    seen: &Seen,
) -> Result<Option<Finding>, NotLooked> {
    let fresh = client.get(&seen.fip).await?;
    let known = |lease: &Held| lease.address == seen.address;
    let is_known = look.read(leases::held)?.iter().any(known);
    if is_known || !fresh.is_some_and(|fip| fip.is_on(&seen.port)) {
        return Ok(None);
    }
    let text = format!(
        "{} is on the validator port {}, and the database knows nothing of it",
        seen.address, seen.port
    );
    Ok(Some(found("on_our_port", true, text)))
}

async fn detached(
    client: &OpenStack,
    look: &Look,
    lease: &Held,
) -> Result<Option<Finding>, NotLooked> {
    let fresh = match &lease.fip {
        Some(fip) => client.get(fip).await?,
        None => client.find(lease.address).await?,
    };
    let is_as_it_was = look.read(leases::held)?.contains(lease);
    if !is_as_it_was || fresh.as_ref().is_some_and(|fip| fip.is_on(&lease.port)) {
        return Ok(None);
    }
    let usage = fresh.map_or_else(|| "gone from the cloud".to_owned(), |fip| fip.usage());
    let text = format!(
        "{} should be on port {} under claim {}, but it is {usage}",
        lease.address, lease.port, lease.claim
    );
    Ok(Some(found("not_on_our_port", true, text)))
}

/// Ports of validators that the cloud does not have.
async fn ports(client: &OpenStack, look: &Look) -> Result<Vec<Finding>, NotLooked> {
    let mut all = Vec::new();
    for (validator, port) in look.read(validators::ports)? {
        if client.port(&port).await?.is_none() {
            let text = format!(
                "the cloud has no port {port} of validator {validator}, or shows none to this \
                 project: correct it or take the validator out"
            );
            all.push(found("port_missing", false, text));
        }
    }
    Ok(all)
}

/// Descriptions that say that we hold what we do not. They are not taken off: a write to what is
/// not ours could undo what its owner does at the same moment.
async fn marks(client: &OpenStack, look: &Look) -> Result<Vec<Finding>, NotLooked> {
    let marked = client.marked().await?;
    let ours: Vec<PortId> = look.read(leases::ports)?;
    let is_ours = |fip: &FloatingIp| fip.port.as_ref().is_some_and(|port| ours.contains(port));
    let mut all = Vec::new();
    for seen in marked.iter().filter(|fip| !is_ours(fip)) {
        // A release under way takes it off in the same call.
        let fresh = client.get(&seen.id).await?;
        let is_left = |fip: &FloatingIp| fip.description == seen.description && !is_ours(fip);
        if let Some(fip) = fresh.filter(is_left) {
            let (address, usage, id) = (fip.address, fip.usage(), &fip.id);
            let text = format!(
                "the description of {address} says that we hold it, but it is {usage}: openstack \
                 floating ip set --description '' {id}"
            );
            all.push(found("mark_left", false, text));
        }
    }
    Ok(all)
}
