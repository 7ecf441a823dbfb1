//! Whose an address is: the responder proves it. On an address conflict another host answers, TCP,
//! SSH and TLS pass, and `identity` alone says so. A port that should be closed and is open is said
//! too.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, bail};
use civ_proto::config::InboundChecksBody;
use civ_proto::read_model::Check;

use crate::scenarios::{SOON, floats};
use crate::settings::{Settings, validator_id};
use crate::stage::fault::Fault;
use crate::waiting::found;
use crate::world::{House, World};

/// Of the VMs' ports this is the responder's; nginx has the other one that it wants.
const RESPONDER: [u16; 2] = [8080, 18080];
const RESPONDER_TLS: u16 = 18443;
/// Whose host answers on the address of the first validator.
const THIEF: u8 = 3;

pub(super) async fn play(house: &House) -> Result<String> {
    let plan = house.stage.plan();
    let addresses = floats(plan, 2);
    let [stolen, healthy] = [addresses[0], addresses[1]];
    let settings = Settings {
        ports: Some(vec![22, 80, 443, RESPONDER_TLS]),
        responder: Some((RESPONDER.to_vec(), vec![RESPONDER_TLS])),
        ..Settings::default()
    };
    let mut world = World::new(house, "identity", settings, &addresses, &[]).await?;
    let fault = Fault::Conflict {
        floating: stolen,
        other: plan.fixed(THIEF),
    };
    world.stage.break_with(&fault).await?;
    world.start().await?;
    registered(&world).await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    let both = [(stolen, "partial"), (healthy, "pass")];
    world.demand(&both).await?;
    let wanted = format!("wrong_host answered by {}, not by", validator_id(THIEF));
    only_failed(&world, stolen, "identity", &wanted).await?;
    passed(&world, healthy, "identity").await?;
    let closed = InboundChecksBody {
        ports: vec![22, 80, 443],
        icmp: plan.icmp,
        closed_ports: Some(vec![23, 8080]),
    };
    world.api.set_inbound(&closed).await?;
    world.api.enqueue(&[healthy]).await?;
    world.all_ended(SOON).await?;
    world.demand(&[(healthy, "partial")]).await?;
    only_failed(&world, healthy, "closed-8080", "unexpectedly_open ").await?;
    passed(&world, healthy, "closed-23").await?;
    passed(&world, healthy, "identity").await?;
    world.close(&["the responder leaves a port"]).await?;
    Ok(format!(
        "another host on {stolen}: identity alone failed, from both sites; open port 8080 found"
    ))
}

/// The first address goes to the first validator only if that one is there.
async fn registered(world: &World) -> Result<()> {
    found("all have registered", Duration::from_secs(10), async || {
        let validators = world.api.validators().await?;
        let ready = validators.iter().all(|one| one.state == "idle");
        Ok(ready.then_some(()))
    })
    .await
}

async fn checks(world: &World, address: Ipv4Addr) -> Result<Vec<Check>> {
    Ok(world.api.details(&address.to_string()).await?.checks)
}

/// Demands that this check failed from both sites, with such a detail, and nothing else did.
async fn only_failed(world: &World, address: Ipv4Addr, name: &str, detail: &str) -> Result<()> {
    let mut failed = checks(world, address).await?;
    failed.retain(|check| !check.success);
    let right = |check: &Check| check.check_type == name && check.detail.starts_with(detail);
    if failed.len() != 2 || !failed.iter().all(right) {
        bail!("{address}: not {name} {detail:?} alone failed, twice: {failed:?}");
    }
    Ok(())
}

/// Demands that this check passed from both sites.
async fn passed(world: &World, address: Ipv4Addr, name: &str) -> Result<()> {
    let mut all = checks(world, address).await?;
    all.retain(|check| check.check_type == name && check.success);
    if all.len() != 2 {
        bail!("{address}: {name} did not pass from two sites: {all:?}");
    }
    Ok(())
}
