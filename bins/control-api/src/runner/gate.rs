//! The one switch that pauses claims: shared by everybody who talks to the cloud.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use civ_orch::backoff::CloudGate;
use civ_types::Utc;
use tokio::sync::watch;
use uuid::Uuid;

#[derive(Debug, Default)]
struct State {
    gate: CloudGate,
    /// Claims wait for the first comparison of cloud and database: before it nobody knows which
    /// ports carry something from an earlier life.
    reconciled: bool,
    /// What the cloud said last, while claims are paused.
    why: String,
}

/// Whether claims are made: the circuit breaker of the cloud.
///
/// Closed by a fault, it lets nothing through until its pause is over, then one call that finds
/// out whether the cloud is back, and everything once that is answered.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    /// What the cloud said first, while it is not well.
    outage: watch::Sender<Option<String>>,
    dice: fn() -> f64,
}

impl Default for Gate {
    fn default() -> Self {
        Self::with_dice(jitter)
    }
}

/// A number from 0 to 1 that differs from process to process and call to call.
pub(crate) fn jitter() -> f64 {
    let bits = Uuid::new_v4().as_u64_pair().0;
    let top = u32::try_from(bits >> 32).unwrap_or(0);
    f64::from(top) / f64::from(u32::MAX)
}

impl Gate {
    /// A gate whose pauses, and those of whoever asks it, are spread by these dice (0 to 1).
    #[must_use]
    pub fn with_dice(dice: fn() -> f64) -> Self {
        Self {
            state: Mutex::default(),
            outage: watch::Sender::new(None),
            dice,
        }
    }

    /// A number from 0 to 1, by which a pause is spread.
    pub(super) fn jitter(&self) -> f64 {
        (self.dice)()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cloud did not answer or refused everybody.
    pub fn fault(&self, now: Utc, why: &str, retry_after: Option<Duration>) {
        let mut state = self.state();
        if state.why.is_empty() {
            tracing::warn!(why, "the cloud is not well: claims and releases pause");
            self.outage.send_replace(Some(why.to_owned()));
        }
        why.clone_into(&mut state.why);
        state.gate.fault(now, retry_after, self.jitter());
    }

    /// The clock was set, or the process stood still: a pause keeps its length.
    pub fn shift(&self, micros: i64) {
        self.state().gate.shift(micros);
    }

    /// The cloud answered.
    pub fn answered(&self) {
        let mut state = self.state();
        if !state.why.is_empty() {
            tracing::info!("the cloud answers again: releases and claims resume");
            state.why.clear();
            self.outage.send_replace(None);
        }
        state.gate.answered();
    }

    /// Cloud and database were compared.
    pub fn reconciled(&self) {
        self.state().reconciled = true;
    }

    /// How many claims may be made now, while `n_open` calls are under way.
    #[must_use]
    pub fn claims_max(&self, now: Utc, n_open: usize) -> usize {
        let state = self.state();
        if state.reconciled {
            state.gate.claims_max(now, n_open)
        } else {
            0
        }
    }

    /// How many releases may be started now, while `n_open` calls are under way. Claims count the
    /// releases that are due among the open calls: when the cloud is back, releases go first.
    #[must_use]
    pub fn releases_max(&self, now: Utc, n_open: usize) -> usize {
        self.state().gate.claims_max(now, n_open)
    }

    /// Follows whether the cloud is well: what it said first while it is not.
    pub fn outages(&self) -> watch::Receiver<Option<String>> {
        self.outage.subscribe()
    }

    /// When claims may resume, if they are paused.
    #[must_use]
    pub fn opens_at(&self) -> Option<Utc> {
        self.state().gate.opens_at()
    }

    /// Why claims are paused; `None` while they are not.
    #[must_use]
    pub fn paused_because(&self) -> Option<String> {
        let state = self.state();
        if !state.why.is_empty() {
            return Some(state.why.clone());
        }
        (!state.reconciled).then(|| "cloud and database are being compared".to_owned())
    }
}
