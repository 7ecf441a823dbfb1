//! What control-api does by itself: claims, sweeps, cloud calls, reconciling.
//!
//! Every task here looks at the database, is woken by hints and by timers alike, and does the same
//! given the same database; a lost hint costs time, never work.
//!
//! Nothing here rolls dice but [`Gate::jitter`], and every `select!` looks in the order in which it
//! is written, so that a run on a clock and dice that are given can be repeated.

mod backup;
mod cloud_worker;
mod cycle;
mod gate;
mod lost_time;
mod outage;
mod reconciler;
mod retention;
mod round;
mod scanner;

use std::sync::Arc;
use std::time::Duration;

use civ_boot::tasks::Tasks;
use civ_cloud::Cloud;
use civ_crash::step;
use civ_store::{StoreError, sites, validators};
use tokio_util::sync::CancellationToken;

use crate::app::App;
pub use gate::Gate;
pub(crate) use gate::jitter;
pub(crate) use lost_time::Stalls;

/// How often signs of life are written down. Every commit, and so this one too, is also the
/// process's own sign of life, by which a restart knows how long it was away.
const PULSE: Duration = Duration::from_secs(1);

/// What the tasks of the runner share.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The use cases and the database.
    pub app: App,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// Whether claims are made at all.
    pub gate: Arc<Gate>,
    /// Whether the process stood still.
    pub(crate) stalls: Arc<Stalls>,
    /// How long one HTTP request to the cloud may take.
    pub request_timeout: Duration,
    /// Rows of a page of a scan.
    pub page_size: u32,
    /// How often a page of a scan is asked for again.
    pub page_retries: u32,
    /// Where calls to the cloud are spawned.
    pub tasks: Tasks,
    /// Ends everything.
    pub shutdown: CancellationToken,
}

impl Runner {
    /// Starts the tasks.
    pub fn start(&self) {
        self.tasks
            .spawn_essential("round", round::run(self.clone()));
        self.tasks
            .spawn_essential("cloud-worker", cloud_worker::run(self.clone()));
        self.tasks
            .spawn_essential("reconciler", reconciler::run(self.clone()));
        self.tasks
            .spawn_essential("retention", retention::run(self.clone()));
        self.tasks
            .spawn_essential("outages", outage::run(self.clone()));
        self.tasks
            .spawn_essential("scans", scanner::run(self.clone()));
        self.tasks
            .spawn_essential("backups", backup::run(self.clone()));
        self.tasks.spawn_essential("pulse", pulse(self.clone()));
    }
}

async fn pulse(runner: Runner) {
    while !runner.sleep(PULSE).await {
        runner.write_signs().await;
    }
    runner.write_signs().await;
}

impl Runner {
    /// Says whether the process is to end.
    async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => true,
            () = tokio::time::sleep(time) => false,
        }
    }

    async fn write_signs(&self) {
        let signs = self.app.presence().take_unwritten();
        let written = self.app.write(move |tx| {
            validators::seen(tx, &signs.validators)?;
            sites::seen(tx, &signs.sites)
        });
        let written = step!(Signs, written.await);
        self.app.signs().written(written.is_ok());
        match written {
            Ok(()) => self.stalls.written(),
            Err(error) => complain("signs of life could not be written down", &error),
        }
    }
}

/// One line for a fault of the database; the work is still there and is tried again.
fn complain(what: &str, error: &StoreError) {
    tracing::error!(error = %civ_boot::chain::Chain(error), "{what}");
}
