//! Puts right what was found: by the machine of an address, the reconciler and the outbox, while
//! nobody else works on the database.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use civ_boot::chain::Chain;
use civ_boot::tasks::Tasks;
use civ_cloud::{Cloud, OpenStack};
use civ_store::doctor::{self, Kind};
use civ_store::{Store, StoreError, runtime};
use tokio_util::sync::CancellationToken;

use super::Report;
use crate::app::{App, Hub, Inner, Presence, ScanDesk, Signs};
use crate::config::Settings;
use crate::database::{Ended, clock, now};
use crate::metrics::Metrics;
use crate::runner::{Gate, Runner};
use crate::start::rules;

/// Says what could not be done.
pub(super) async fn all(
    settings: &Settings,
    client: Option<Arc<OpenStack>>,
    before: &Report,
) -> Result<Option<String>, Ended> {
    let (path, rules) = (settings.database_path.clone(), rules(settings));
    let has_lost = |report: &Report| {
        let lost = Kind::LostWrites.as_str();
        report.findings.iter().any(|one| one.kind == lost)
    };
    if has_lost(before) {
        doctor::accept_loss(&path, now(), rules)?;
    }
    let store = Store::open(&path, clock(), rules, Box::new(drop))?;
    let repaired = store.write(|tx| -> Result<(), StoreError> {
        // The time that nobody worked on it counts against no deadline, as at any start.
        runtime::resume(tx)?;
        doctor::repair(tx)
    });
    repaired.await.map_err(|error| Ended::fault(&error))?;
    let not_done = match client {
        Some(client) => with_cloud(settings, store.clone(), client).await,
        None => None,
    };
    if let Err(error) = store.checkpoint().await {
        return Err(Ended::fault(&error));
    }
    Ok(not_done)
}

async fn with_cloud(settings: &Settings, store: Store, client: Arc<OpenStack>) -> Option<String> {
    let shutdown = CancellationToken::new();
    let families = client.families().to_vec();
    let cloud: Arc<dyn Cloud> = client;
    let app = App::new(Inner {
        store,
        clock: clock(),
        hub: Arc::new(Hub::default()),
        presence: Arc::new(Presence::default()),
        scans: Arc::new(ScanDesk::default()),
        timers: settings.timers,
        families,
        backups: None,
        last_round: AtomicI64::new(now().as_micros()),
        signs: Signs::default(),
        metrics: Metrics::default(),
    });
    let runner = Runner {
        app,
        cloud,
        gate: Arc::new(Gate::default()),
        stalls: Arc::default(),
        request_timeout: settings.openstack.request_timeout,
        page_size: settings.openstack.list_page_size,
        page_retries: settings.openstack.page_retries,
        tasks: Tasks::new(shutdown.clone()),
        shutdown,
    };
    match runner.compare_and_release().await {
        Ok(0) => None,
        Ok(n) => Some(format!(
            "{n} releases did not go through: they stand in the outbox, and control-api makes them"
        )),
        Err(error) => Some(Chain(&error).to_string()),
    }
}
