//! Who waits for what. A wake-up is a hint: it may come for nothing, and whoever waits looks again
//! at the database, which alone knows.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use civ_store::Hint;
use civ_types::ValidatorId;
use tokio::sync::{Notify, watch};

/// Wakes those who wait for assignments, for the outbox and for the schedule.
#[derive(Debug, Default)]
pub struct Hub {
    /// One channel for each validator that ever polled: bounded by the configuration, since
    /// unknown ids are refused before. The value counts wake-ups and is not used otherwise.
    validators: Mutex<BTreeMap<ValidatorId, watch::Sender<u64>>>,
    sites: watch::Sender<u64>,
    events: watch::Sender<u64>,
    notifications: watch::Sender<u64>,
    /// For the cloud worker.
    pub outbox: Notify,
    /// For the runner's loop.
    pub schedule: Notify,
    /// For the auto-cycle: look again.
    pub cycle: Notify,
    /// For the reconciler: compare at once.
    pub reconcile: Notify,
    /// For the reconciler: compare once writes whose answers were lost have landed.
    pub reconcile_later: Notify,
    /// For the cut of the history.
    pub retention: Notify,
}

impl Hub {
    fn validators(&self) -> MutexGuard<'_, BTreeMap<ValidatorId, watch::Sender<u64>>> {
        self.validators
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// To be taken before looking, so that no change falls between looking and waiting.
    #[must_use]
    pub fn watch_validator(&self, id: &ValidatorId) -> watch::Receiver<u64> {
        self.validators().entry(id.clone()).or_default().subscribe()
    }

    /// To be taken before looking, so that no change falls between looking and waiting.
    #[must_use]
    pub fn watch_sites(&self) -> watch::Receiver<u64> {
        self.sites.subscribe()
    }

    /// To be taken before looking, so that no entry falls between looking and waiting.
    #[must_use]
    pub fn watch_events(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    /// To be taken before looking, so that no change falls between looking and waiting.
    #[must_use]
    pub fn watch_notifications(&self) -> watch::Receiver<u64> {
        self.notifications.subscribe()
    }

    /// Passes on what a commit has changed.
    pub fn hint(&self, hint: &Hint) {
        match hint {
            Hint::Validator(id) => {
                if let Some(channel) = self.validators().get(id) {
                    channel.send_modify(|n| *n = n.wrapping_add(1));
                }
            }
            Hint::Sites => self.sites.send_modify(|n| *n = n.wrapping_add(1)),
            Hint::Events => self.events.send_modify(|n| *n = n.wrapping_add(1)),
            Hint::Notifications => self.notifications.send_modify(|n| *n = n.wrapping_add(1)),
            Hint::Outbox => self.outbox.notify_one(),
            Hint::Schedule => {
                self.schedule.notify_one();
                self.cycle.notify_one();
            }
            // Reports and signs of life are what these are about: see `Presence`.
            Hint::Silenced(_) | Hint::ValidatorReset(_) | Hint::SiteReset(_) => {}
            Hint::Retention => self.retention.notify_one(),
        }
    }
}
