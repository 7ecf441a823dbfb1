//! Compares the cloud with the database: at start, by timer, and after trouble. Acts only on what
//! a fresh read confirms.

use std::time::Duration;

use civ_boot::chain::Chain;
use civ_cloud::Fault;
use civ_crash::step;
use civ_orch::backoff::pause;
use civ_orch::reconcile::{Held, Repair, Seen, reconcile};
use civ_store::{StoreError, leases};
use civ_types::PortId;

use super::{Runner, cloud_worker};

/// After trouble the comparison waits this many request times: a write whose answer was lost has
/// landed by then, or never will.
const SETTLE_REQUESTS: u32 = 2;

/// Why cloud and database were not compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReconciled {
    #[error("the cloud could not be read")]
    Cloud(#[from] Fault),
    #[error("the database failed")]
    Store(#[from] StoreError),
}

pub(super) async fn run(runner: Runner) {
    let interval = Duration::from_secs(runner.app.timers().reconcile_interval_seconds.into());
    let mut n_failed = 0;
    loop {
        // What a comparison has found is written in one transaction each, and found again.
        let compared = tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            compared = compare(&runner) => compared,
        };
        let wait = match compared {
            Ok(n_repairs) => {
                n_failed = 0;
                runner.gate.answered();
                runner.gate.reconciled();
                runner.app.hub().schedule.notify_one();
                // Releases may have waited for the cloud to be back.
                runner.app.hub().outbox.notify_one();
                if n_repairs > 0 {
                    tracing::warn!(n_repairs, "cloud and database differed");
                }
                interval
            }
            Err(error) => {
                if let NotReconciled::Cloud(Fault::Cloud { text, retry_after }) = &error {
                    runner.gate.fault(runner.app.now(), text, *retry_after);
                }
                if n_failed == 0 {
                    tracing::warn!(error = %Chain(&error), "cloud and database not compared");
                }
                n_failed += 1;
                pause(n_failed, runner.gate.jitter())
            }
        };
        let due = tokio::time::Instant::now() + wait;
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            () = tokio::time::sleep_until(due) => {}
            () = runner.app.hub().reconcile.notified() => {}
            () = runner.app.hub().reconcile_later.notified() => {
                let settle = (runner.request_timeout * SETTLE_REQUESTS).min(wait);
                if runner.sleep(settle).await {
                    return;
                }
            }
        }
    }
}

impl Runner {
    /// One comparison, and one try of every release that is to be made; says how many are still to
    /// be. For when no task of the runner is at work.
    pub(crate) async fn compare_and_release(&self) -> Result<usize, NotReconciled> {
        compare(self).await?;
        Ok(cloud_worker::release_all(self).await?)
    }
}

/// One comparison; says how many differences were acted on.
async fn compare(runner: &Runner) -> Result<usize, NotReconciled> {
    let began = runner.app.now();
    let (ports, lost) = runner
        .app
        .read(move |conn| -> Result<_, StoreError> {
            Ok((leases::ports(conn)?, leases::lost_writes(conn, began)?))
        })
        .await?;
    let mut asked = ports.clone();
    asked.extend(lost.iter().map(|(_, port)| port.clone()));
    asked.sort();
    asked.dedup();
    let listed = runner.cloud.on_ports(&asked).await?;
    let seen: Vec<Seen> = listed
        .into_iter()
        .filter_map(|fip| {
            // On a port that is none of ours any more, only what we may have bound there.
            let landed = |port: &PortId| lost.contains(&(fip.id.clone(), port.clone()));
            let is_ours = |port: &PortId| ports.contains(port) || landed(port);
            let port = fip.port.clone().filter(is_ours)?;
            Some(Seen {
                fip: fip.id,
                address: fip.address,
                port,
            })
        })
        .collect();
    let held = runner.app.read(leases::held).await?;
    let mut n_repairs = 0;
    for repair in reconcile(&seen, &held, began) {
        let done = match repair {
            Repair::Orphan(seen) => release_orphan(runner, seen).await?,
            Repair::Detached(claim) => match held.iter().find(|lease| lease.claim == claim) {
                Some(lease) => requeue_detached(runner, lease).await?,
                None => false,
            },
        };
        n_repairs += usize::from(done);
    }
    Ok(n_repairs)
}

async fn release_orphan(runner: &Runner, seen: Seen) -> Result<bool, NotReconciled> {
    let fresh = runner.cloud.get(&seen.fip).await?;
    if !fresh.is_some_and(|fip| fip.is_on(&seen.port)) {
        return Ok(false);
    }
    tracing::warn!(address = %seen.address, port = %seen.port, "found without an owner: releasing");
    let adopted = runner.app.write(move |tx| leases::adopt_orphan(tx, &seen));
    Ok(step!(AdoptOrphan, adopted.await)?)
}

async fn requeue_detached(runner: &Runner, lease: &Held) -> Result<bool, NotReconciled> {
    let fresh = match &lease.fip {
        Some(fip) => runner.cloud.get(fip).await?,
        None => runner.cloud.find(lease.address).await?,
    };
    if fresh.as_ref().is_some_and(|fip| fip.is_on(&lease.port)) {
        return Ok(false);
    }
    let seen = fresh.map_or_else(|| "no such floating IP".to_owned(), |fip| fip.usage());
    tracing::warn!(address = %lease.address, seen, "not on our port though it should be");
    let lease = lease.clone();
    let requeued = runner
        .app
        .write(move |tx| leases::detached(tx, &lease, &seen));
    Ok(step!(Detached, requeued.await)?)
}
