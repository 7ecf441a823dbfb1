//! The scan for free floating IPs: one at a time, its progress in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use civ_orch::scan::{Event, Phase, Scan};
use civ_store::scan::Source;
use civ_types::Utc;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::audit::{Caller, Change, record};
use super::ips::Enqueued;
use super::{App, AppError};

/// One scan, from its beginning.
#[derive(Debug)]
pub struct Job {
    /// Who wanted it.
    pub source: Source,
    /// Asks the one who carries it out to break it off.
    pub cancel: CancellationToken,
    scan: watch::Sender<Scan>,
    /// What became of the addresses; complete when the scan is done.
    enqueued: Mutex<Arc<Enqueued>>,
}

impl Job {
    fn new(source: Source, scan: Scan) -> Self {
        Self {
            source,
            cancel: CancellationToken::new(),
            scan: watch::Sender::new(scan),
            enqueued: Mutex::default(),
        }
    }

    /// How far it is.
    #[must_use]
    pub fn scan(&self) -> Scan {
        self.scan.borrow().clone()
    }

    /// Notes what has happened to it.
    pub fn step(&self, event: &Event, now: Utc) {
        self.scan.send_modify(|scan| match scan.step(event, now) {
            Ok(next) => *scan = next,
            Err(refused) => tracing::error!(?event, %refused, "a scan took a wrong step"),
        });
    }

    /// Notes that it is complete, and what became of the addresses.
    pub fn finish(&self, enqueued: Enqueued, now: Utc) {
        *self.enqueued() = Arc::new(enqueued);
        self.step(&Event::Finished, now);
    }

    fn enqueued(&self) -> MutexGuard<'_, Arc<Enqueued>> {
        self.enqueued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ended(&self) -> Scan {
        let mut changes = self.scan.subscribe();
        match changes.wait_for(|scan| !scan.phase.is_running()).await {
            Ok(scan) => scan.clone(),
            // The sender is a part of this very job.
            Err(_gone) => self.scan(),
        }
    }
}

#[derive(Debug)]
struct State {
    job: Arc<Job>,
    is_taken: bool,
}

/// Where scans are asked for and watched.
#[derive(Debug)]
pub struct ScanDesk {
    state: Mutex<State>,
    /// For the scanner: an operator has asked.
    pub asked: Notify,
}

impl Default for ScanDesk {
    fn default() -> Self {
        let none = Job::new(Source::Request, Scan::default());
        Self {
            state: Mutex::new(State {
                job: Arc::new(none),
                is_taken: true,
            }),
            asked: Notify::new(),
        }
    }
}

impl ScanDesk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scan that is under way, or the last one.
    #[must_use]
    pub fn current(&self) -> Arc<Job> {
        Arc::clone(&self.state().job)
    }

    /// Begins a scan; `None` while there is one under way.
    pub fn begin(&self, source: Source, dry_run: bool, now: Utc) -> Option<Arc<Job>> {
        self.begin_or_join(source, dry_run, now).ok()
    }

    /// Begins a scan (`Ok`), or gives the one that is under way (`Err`).
    fn begin_or_join(&self, source: Source, dry_run: bool, now: Utc) -> Result<Arc<Job>, Arc<Job>> {
        let mut state = self.state();
        let begin = Event::Begin {
            dry_run,
            clears: source == Source::AutoCycle,
        };
        let last = state.job.scan();
        let Ok(scan) = last.step(&begin, now) else {
            return Err(Arc::clone(&state.job));
        };
        *state = State {
            job: Arc::new(Job::new(source, scan)),
            is_taken: source != Source::Request,
        };
        Ok(Arc::clone(&state.job))
    }

    /// A scan that an operator has asked for and nobody carries out yet.
    pub fn take(&self) -> Option<Arc<Job>> {
        let mut state = self.state();
        if state.is_taken {
            return None;
        }
        state.is_taken = true;
        Some(Arc::clone(&state.job))
    }

    /// Breaks off the scan of the auto-cycle, if one is under way.
    pub(super) fn cancel_cycle(&self) {
        let state = self.state();
        if state.job.source == Source::AutoCycle {
            state.job.cancel.cancel();
        }
    }
}

/// What a scan that was waited for has found and enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// Free floating IPs.
    pub free: u64,
    /// What became of them.
    pub enqueued: Arc<Enqueued>,
}

impl App {
    /// How far the scan is, or how the last one ended.
    #[must_use]
    pub fn scan_status(&self) -> Scan {
        self.scans().current().scan()
    }

    /// Begins a scan, or joins the one that is under way, whatever that was begun with. Who asked
    /// is written down before.
    ///
    /// # Errors
    /// [`AppError::Store`]; then nothing has begun.
    pub async fn scan_begin(&self, caller: &Caller, dry_run: bool) -> Result<Arc<Job>, AppError> {
        let caller = caller.clone();
        let change = Change {
            event_type: "admin_scan_requested",
            what: "ips scan".to_owned(),
            before: Value::Null,
            after: json!({ "dry_run": dry_run }),
        };
        self.write(move |tx| record(tx, &caller, &change))
            .await
            .map_err(AppError::Store)?;
        let begun = self
            .scans()
            .begin_or_join(Source::Request, dry_run, self.now());
        if begun.is_ok() {
            self.scans().asked.notify_one();
        }
        Ok(begun.unwrap_or_else(|under_way| under_way))
    }

    /// Waits for the end of a scan.
    ///
    /// # Errors
    /// [`AppError::Cloud`] if it failed, [`AppError::Unavailable`] if it was broken off.
    pub async fn scan_outcome(&self, job: &Job) -> Result<Scanned, AppError> {
        let scan = job.ended().await;
        match scan.phase {
            Phase::Error => Err(AppError::Cloud(format!("the scan failed: {}", scan.error))),
            Phase::Cancelled => Err(AppError::Unavailable(format!(
                "the scan was cancelled: {}",
                scan.error
            ))),
            Phase::Idle | Phase::Clearing | Phase::Listing | Phase::Enqueuing | Phase::Done => {
                Ok(Scanned {
                    free: scan.free,
                    enqueued: Arc::clone(&job.enqueued()),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_a_request_is_taken_once() {
        let desk = ScanDesk::default();
        assert!(desk.take().is_none());
        let job = desk.begin(Source::Request, false, Utc::EPOCH).unwrap();
        assert!(desk.begin(Source::Timer, false, Utc::EPOCH).is_none());
        assert!(Arc::ptr_eq(&desk.take().unwrap(), &job));
        assert!(desk.take().is_none());
        job.step(&Event::Failed("why".to_owned()), Utc::EPOCH);
        let timer = desk.begin(Source::Timer, false, Utc::EPOCH).unwrap();
        assert!(desk.take().is_none(), "the timer carries out its own");
        assert_eq!(timer.scan().phase, Phase::Listing);
        assert_eq!(job.scan().phase, Phase::Error, "its end stays to be told");
    }

    #[test]
    fn only_the_scan_of_the_auto_cycle_is_broken_off_with_it() {
        let desk = ScanDesk::default();
        let job = desk.begin(Source::Request, false, Utc::EPOCH).unwrap();
        desk.cancel_cycle();
        assert!(!job.cancel.is_cancelled());
        job.step(&Event::Cancel, Utc::EPOCH);
        let job = desk.begin(Source::AutoCycle, false, Utc::EPOCH).unwrap();
        assert_eq!(job.scan().phase, Phase::Clearing);
        desk.cancel_cycle();
        assert!(job.cancel.is_cancelled());
    }
}
