//! Use cases, one file a noun. Speaks the words of the domain and the store; knows neither HTTP
//! nor the wire contract.

pub mod agents;
mod audit;
pub mod auto_cycle;
pub mod backup;
pub mod config;
mod error;
pub mod export;
pub mod history;
mod hub;
pub mod ips;
mod presence;
pub mod probers;
pub mod registry;
pub mod scan;
pub mod status;
pub mod validators;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use civ_store::{ReadConn, Store, StoreError, WriteTx};
use civ_types::{Clock, Family, Utc, ValidatorId};

use crate::config::Timers;
use crate::metrics::Metrics;
pub use audit::Caller;
pub use backup::BackupDesk;
pub use error::AppError;
pub use hub::Hub;
pub use presence::{Presence, Unwritten};
pub use scan::ScanDesk;
pub use status::Signs;

/// What every use case works with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
}

/// The parts of an [`App`].
#[derive(Debug)]
pub struct Inner {
    /// The database.
    pub store: Store,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who waits for what.
    pub hub: Arc<Hub>,
    /// Signs of life of agents and probers.
    pub presence: Arc<Presence>,
    /// The scan that is under way, or the last one.
    pub scans: Arc<ScanDesk>,
    /// The timers of the orchestrator.
    pub timers: Timers,
    /// Families that the cloud's floating IPs can have.
    pub families: Vec<Family>,
    /// Periodic backups, if they are configured.
    pub backups: Option<BackupDesk>,
    /// When the runner's loop last went round, in microseconds since 1970.
    pub last_round: AtomicI64,
    /// How the last write of the process's own sign of life went.
    pub signs: Signs,
    /// What is counted.
    pub metrics: Metrics,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Utc {
        self.inner.clock.now()
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Who waits for what.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    /// Signs of life of agents and probers.
    #[must_use]
    pub fn presence(&self) -> &Presence {
        &self.inner.presence
    }

    /// The scan that is under way, or the last one.
    #[must_use]
    pub fn scans(&self) -> &Arc<ScanDesk> {
        &self.inner.scans
    }

    /// The timers of the orchestrator.
    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.inner.timers
    }

    /// Families that the cloud's floating IPs can have.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.inner.families
    }

    /// The runner's loop has gone round.
    pub fn went_round(&self) {
        self.inner
            .last_round
            .store(self.now().as_micros(), Ordering::Relaxed);
    }

    /// How the last write of the process's own sign of life went.
    #[must_use]
    pub fn signs(&self) -> &Signs {
        &self.inner.signs
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    fn last_round(&self) -> Utc {
        Utc::from_micros(self.inner.last_round.load(Ordering::Relaxed))
    }

    /// Validators with a sign of life within the heartbeat's timeout, and when it was.
    #[must_use]
    pub fn fresh_validators(&self) -> BTreeMap<ValidatorId, Utc> {
        self.presence()
            .fresh(self.now(), self.timers().heartbeat_timeout_seconds)
    }

    /// Folds the write-ahead log into the database file, so that the file alone is a backup. To be
    /// called when nobody writes any more.
    pub async fn close_database(&self) {
        if let Err(error) = self.inner.store.checkpoint().await {
            tracing::warn!(error = %civ_boot::chain::Chain(&error), "the log was not folded in");
        }
    }

    /// Ends when the database can no longer be written.
    pub async fn database_closed(&self) {
        self.inner.store.closed().await;
    }

    /// See [`Store::read`].
    ///
    /// # Errors
    /// As `job` returns them.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&ReadConn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.store.read(job).await
    }

    /// See [`Store::write_alone`].
    ///
    /// # Errors
    /// As `job` returns them.
    pub async fn write_alone<T, E>(
        &self,
        job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.store.write_alone(job).await
    }

    /// See [`Store::write`].
    ///
    /// # Errors
    /// As `job` returns them.
    pub async fn write<T, E>(
        &self,
        job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.store.write(job).await
    }
}
