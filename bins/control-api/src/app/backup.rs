//! Periodic backups: when one is due, how it went, what is told of it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use civ_boot::chain::Chain;
use civ_store::backup::{self, BackupError, Made, Series};
use civ_store::events::{self, NewEvent, Severity};
use civ_types::Utc;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::App;
use crate::config::Backup;

/// After a failure it is tried again so soon, unless the next one is due before.
const RETRY: Duration = Duration::from_secs(15 * 60);

/// What the periodic backups are, and how the last ones went.
#[derive(Debug)]
pub struct BackupDesk {
    database: PathBuf,
    settings: Backup,
    series: Series,
    state: Mutex<BackupStatus>,
}

/// How the backups stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupStatus {
    /// The moment of the latest one that is there.
    pub last_at: Option<Utc>,
    /// Its file.
    pub last_file: Option<PathBuf>,
    /// Its size.
    pub last_bytes: Option<u64>,
    /// When the next one is due.
    pub next_at: Option<Utc>,
    /// Why the last try failed; `None` after one that did not.
    pub error: Option<String>,
    /// When it did.
    pub failed_at: Option<Utc>,
}

#[derive(Debug, thiserror::Error)]
enum NotMade {
    #[error("the folder {} of the backups cannot be used", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("the backup ended early")]
    Ended(#[from] tokio::task::JoinError),
}

impl BackupDesk {
    /// Looks at what is there. The first one is due as soon as its interval is over; without any,
    /// at once.
    #[must_use]
    pub fn new(database: PathBuf, settings: Backup) -> Self {
        let series = Series::new(&settings.folder, &database);
        let listed = series.list().unwrap_or_default();
        let state = listed
            .into_iter()
            .last()
            .map_or_else(BackupStatus::default, |(at, file)| BackupStatus {
                last_at: Some(at),
                last_bytes: file.metadata().ok().map(|file| file.len()),
                last_file: Some(file),
                next_at: Some(at.plus(settings.interval)),
                ..BackupStatus::default()
            });
        Self {
            database,
            settings,
            series,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, BackupStatus> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A clock that was set back must not put the next one off for longer than an interval.
    fn is_due(&self, now: Utc) -> bool {
        let latest = now.plus(self.settings.interval);
        let next_at = self.state().next_at;
        next_at.is_none_or(|at| at <= now || latest < at)
    }
}

impl App {
    /// How the periodic backups stand; `None` if none are configured.
    #[must_use]
    pub fn backups(&self) -> Option<BackupStatus> {
        let desk = self.inner.backups.as_ref()?;
        Some(desk.state().clone())
    }

    /// Makes a backup if one is due, removes those beyond what is kept, and tells of it.
    pub async fn back_up_if_due(&self, shutdown: &CancellationToken) {
        let now = self.now();
        let Some(desk) = self.inner.backups.as_ref().filter(|desk| desk.is_due(now)) else {
            return;
        };
        let began = Instant::now();
        let made = desk.make(now, shutdown).await;
        let made = made.map_err(|error| match error {
            NotMade::Backup(BackupError::Stopped) => None,
            error => Some(Chain(&error).to_string()),
        });
        match made {
            Ok((file, made)) => self.made(desk, now, file, &made, began.elapsed()).await,
            Err(Some(why)) => self.not_made(desk, now, why).await,
            // The process ends.
            Err(None) => {}
        }
    }

    async fn made(&self, desk: &BackupDesk, at: Utc, file: PathBuf, made: &Made, took: Duration) {
        let pruned = desk.series.prune(desk.settings.keep);
        let payload = json!({
            "file": file.display().to_string(),
            "bytes": made.bytes,
            "rows": made.rows,
            "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "removed": pruned.as_ref().ok(),
        });
        tracing::info!(%payload, "a backup was made");
        *desk.state() = BackupStatus {
            last_at: Some(at),
            last_bytes: Some(made.bytes),
            last_file: Some(file),
            next_at: Some(at.plus(desk.settings.interval)),
            ..BackupStatus::default()
        };
        self.tell("backup_made", Severity::Info, payload).await;
        if let Err(error) = pruned {
            let why = format!("a backup was made, but an old one was not removed: {error}");
            self.complain(desk, at, why).await;
        }
        if !made.dangling.is_empty() {
            let rows = made.dangling.join("; ");
            tracing::warn!(rows, "rows dangle: see control-api doctor");
        }
    }

    async fn not_made(&self, desk: &BackupDesk, at: Utc, why: String) {
        let wait = desk.settings.interval.min(RETRY);
        desk.state().next_at = Some(at.plus(wait));
        self.complain(desk, at, why).await;
    }

    async fn complain(&self, desk: &BackupDesk, at: Utc, why: String) {
        tracing::warn!(error = why, "the backup failed");
        let payload = json!({ "error": why });
        {
            let mut state = desk.state();
            state.error = Some(why);
            state.failed_at = Some(at);
        }
        self.tell("backup_failed", Severity::Warning, payload).await;
    }

    async fn tell(&self, event_type: &'static str, severity: Severity, payload: Value) {
        let told = self.write(move |tx| {
            let event = NewEvent {
                severity,
                payload: payload.to_string(),
                ..NewEvent::new(event_type)
            };
            events::append(tx, &event)
        });
        if let Err(error) = told.await {
            tracing::error!(error = %Chain(&error), "a backup could not be written down");
        }
    }
}

impl BackupDesk {
    async fn make(
        &self,
        at: Utc,
        shutdown: &CancellationToken,
    ) -> Result<(PathBuf, Made), NotMade> {
        let (series, file) = (self.series.clone(), self.series.name_at(at));
        let (database, to) = (self.database.clone(), file.clone());
        let (folder, shutdown) = (self.settings.folder.clone(), shutdown.clone());
        // A thread of its own for as long as it takes: it sleeps between steps.
        let made = tokio::task::spawn_blocking(move || -> Result<Made, NotMade> {
            let cannot = |source| NotMade::Folder { folder, source };
            series.prepare().map_err(cannot)?;
            let mut go_on = |_stage| {
                if shutdown.is_cancelled() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            Ok(backup::make(&database, &to, false, &mut go_on)?)
        });
        Ok((file, made.await??))
    }
}
