//! When claims pause and resume, and when a failed release is tried again.

use std::time::Duration;

use civ_types::Utc;

/// The longest pause after a fault of the cloud (rule 12).
pub const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The first pause; doubled with every further fault.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// How long to wait after the `n`-th fault in a row (from 0): 0.5 s doubled each time, at most
/// 30 s, spread by `jitter` (0 to 1) over its upper half so that many do not come back at once.
#[must_use]
pub fn pause(n: u32, jitter: f64) -> Duration {
    let whole = PAUSE_FIRST
        .saturating_mul(2_u32.saturating_pow(n.min(16)))
        .min(PAUSE_MAX);
    whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
}

/// Tries after which a release that the cloud does not answer tells of its own address only.
const TRIES_FOR_ALL: u32 = 3;

/// Whether a release that has failed `tries` times says anything about the cloud as a whole (rule
/// 12): one that never succeeds neither pauses the others nor is it paused with them.
#[must_use]
pub const fn speaks_for_the_cloud(tries: u32) -> bool {
    tries < TRIES_FOR_ALL
}

/// Whether claims are made at all: closed by a fault of the cloud, opened by time, one claim
/// first to see whether the cloud is back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloudGate {
    n_faults: u32,
    closed_until: Option<Utc>,
}

impl CloudGate {
    /// The cloud did not answer, or refused everybody. `retry_after` is its own wish, which is
    /// followed up to [`PAUSE_MAX`].
    pub fn fault(&mut self, now: Utc, retry_after: Option<Duration>, jitter: f64) {
        // Calls that were under way together fail together: one outage is one step.
        if self.closed_until.is_some_and(|until| now < until) || civ_planted::is!(GateStaysOpen) {
            return;
        }
        let wait = pause(self.n_faults, jitter)
            .max(retry_after.unwrap_or_default())
            .min(PAUSE_MAX);
        self.n_faults = self.n_faults.saturating_add(1);
        self.closed_until = Some(now.plus(wait));
    }

    /// Time was lost, or the clock set back by so many microseconds: a pause keeps its length.
    pub fn shift(&mut self, micros: i64) {
        self.closed_until = self
            .closed_until
            .map(|until| Utc::from_micros(until.as_micros().saturating_add(micros)));
    }

    /// The cloud answered.
    pub const fn answered(&mut self) {
        self.n_faults = 0;
        self.closed_until = None;
    }

    /// How many claims may be made now, while `n_open` calls are under way.
    #[must_use]
    pub fn claims_max(&self, now: Utc, n_open: usize) -> usize {
        match self.closed_until {
            None => usize::MAX,
            Some(until) if now < until => 0,
            Some(_) => 1_usize.saturating_sub(n_open),
        }
    }

    /// When it is worth asking again, if claims are paused.
    #[must_use]
    pub const fn opens_at(&self) -> Option<Utc> {
        self.closed_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_minute() {
        assert_eq!(pause(0, 1.0), Duration::from_millis(500));
        assert_eq!(pause(0, 0.0), Duration::from_millis(250));
        assert_eq!(pause(3, 1.0), Duration::from_secs(4));
        assert_eq!(pause(u32::MAX, 1.0), PAUSE_MAX);
    }

    #[test]
    fn the_gate_closes_lets_one_through_and_opens() {
        let mut gate = CloudGate::default();
        let at = |ms: i64| Utc::from_micros(ms * 1000);
        assert_eq!(gate.claims_max(at(0), 5), usize::MAX);
        gate.fault(at(0), None, 1.0);
        gate.fault(at(1), None, 1.0);
        assert_eq!(gate.opens_at(), Some(at(500)));
        assert_eq!(gate.claims_max(at(499), 0), 0);
        assert_eq!(gate.claims_max(at(500), 0), 1);
        assert_eq!(gate.claims_max(at(500), 1), 0);
        gate.fault(at(500), None, 1.0);
        assert_eq!(gate.opens_at(), Some(at(1500)));
        gate.answered();
        assert_eq!(gate.claims_max(at(501), 9), usize::MAX);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_pause_longer() {
        let mut gate = CloudGate::default();
        let hour = Utc::EPOCH.plus_secs(3600);
        gate.fault(hour, None, 1.0);
        gate.shift(-3_600_000_000);
        assert_eq!(gate.opens_at(), Some(Utc::from_micros(500_000)));
    }

    #[test]
    fn the_clouds_own_wish_is_followed_within_bounds() {
        let mut gate = CloudGate::default();
        gate.fault(Utc::EPOCH, Some(Duration::from_secs(7)), 0.0);
        assert_eq!(gate.opens_at(), Some(Utc::EPOCH.plus_secs(7)));
        let mut gate = CloudGate::default();
        gate.fault(Utc::EPOCH, Some(Duration::from_secs(700)), 0.0);
        assert_eq!(gate.opens_at(), Some(Utc::EPOCH.plus_secs(30)));
    }
}
