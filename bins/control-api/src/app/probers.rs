//! What a prober asks and reports.

use civ_store::agents::{self, Reporter, SiteWork};
pub use civ_store::identity::Proof;
use civ_store::sites;
pub use civ_store::sites::Knows;
use civ_store::{StoreError, WriteTx, results};
use civ_types::{Address, AttemptNo, CheckSpec, ClaimNo, IpId, SiteId};

use super::agents::{CheckReport, Event};
use super::{App, AppError};

/// One address that a site is to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAssignment {
    /// Names the address in reports.
    pub ip: IpId,
    /// The address.
    pub address: Address,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// Which claim.
    pub fence: ClaimNo,
    /// Which list of checks this is.
    pub revision: i64,
    /// What to compare, if there is something.
    pub proof: Option<Proof>,
}

/// Everything that a site is to check now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAssignments {
    /// The addresses.
    pub list: Vec<SiteAssignment>,
    /// TCP ports to check on each.
    pub ports: Vec<u16>,
    /// TCP ports of each on which nothing is to answer.
    pub closed_ports: Vec<u16>,
    /// Whether to send echo requests to each.
    pub icmp: bool,
}

fn unknown(id: &SiteId) -> String {
    format!("site {id} is not configured")
}

/// Checks that do not count yet are handed out with this list, which gets another revision.
fn hand_out(tx: &WriteTx<'_>, mut list: Vec<SiteWork>) -> Result<Vec<SiteWork>, StoreError> {
    for work in list.iter_mut().filter(|work| !work.uncounted.is_empty()) {
        let (specs, seen) = (&work.uncounted, work.revision);
        work.revision = results::hand_out(tx, work.ip, work.claim, specs, seen)?;
    }
    Ok(list)
}

impl App {
    /// A prober has started.
    ///
    /// # Errors
    /// [`AppError::BadInput`] if the site is not configured.
    pub async fn prober_register(
        &self,
        id: &SiteId,
        hostname: String,
        knows: Knows,
    ) -> Result<(), AppError> {
        let of = id.clone();
        let known = self
            .write(move |tx| sites::register(tx, &of, &hostname, knows))
            .await
            .map_err(AppError::Store)?;
        if !known {
            return Err(AppError::BadInput(format!("site_id: {}", unknown(id))));
        }
        self.presence().site(id, self.now());
        Ok(())
    }

    /// A prober is alive, whatever it asks or reports. Says whether one has registered.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the site is not configured.
    pub async fn prober_seen(&self, id: &SiteId) -> Result<bool, AppError> {
        let of = id.clone();
        let found = self.read(move |conn| sites::registered(conn, &of)).await;
        let registered = found.map_err(AppError::Store)?;
        let registered = registered.ok_or_else(|| AppError::NotFound(unknown(id)))?;
        self.presence().site(id, self.now());
        Ok(registered)
    }

    /// What the site is to check now. Checks that are handed out here count from now on.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the site is not configured any more.
    pub async fn prober_assignments(&self, id: &SiteId) -> Result<SiteAssignments, AppError> {
        let of = id.clone();
        // A long poll may have outlived the site's entry.
        let found = self
            .read(move |conn| match sites::registered(conn, &of)? {
                Some(_) => Ok(agents::site_list(conn, &of)?),
                None => Err(AppError::NotFound(unknown(&of))),
            })
            .await?;
        let mut list = found.work;
        if list.iter().any(|work| !work.uncounted.is_empty()) {
            let handed = self.write(move |tx| hand_out(tx, list));
            list = handed.await.map_err(AppError::Store)?;
        }
        let list = list.into_iter().map(|work| SiteAssignment {
            ip: work.ip,
            address: work.address,
            attempt: work.attempt,
            fence: work.claim,
            revision: work.revision,
            proof: work.proof,
        });
        Ok(SiteAssignments {
            list: list.collect(),
            ports: found.ports,
            closed_ports: found.closed_ports,
            icmp: found.icmp,
        })
    }

    /// Results of a site. Says how many were dropped as stale.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn prober_results(
        &self,
        id: &SiteId,
        rows: Vec<CheckReport>,
    ) -> Result<u32, AppError> {
        let (id, now) = (id.clone(), self.now());
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.into_reported(now, |name, _| CheckSpec::inbound(id.clone(), name)))
            .collect();
        self.write(move |tx| agents::inbound_results(tx, &id, &rows))
            .await
            .map_err(AppError::Store)
    }

    /// An event of a prober; always recorded.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn prober_event(&self, id: &SiteId, event: Event) -> Result<(), AppError> {
        let (id, event) = (id.clone(), event.into());
        self.write(move |tx| agents::event(tx, Reporter::Site(&id), &event))
            .await
            .map_err(AppError::Store)
    }
}
