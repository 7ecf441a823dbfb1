//! When a notification that was not delivered is tried again, and when it must make way.
//!
//! One receiver gets its notifications in order, so that whatever may pass by itself (no answer, an
//! overload) makes all of them wait. An answer that may be about the one notification alone makes
//! it wait aside after a few tries: one that is never accepted must not hold up the rest for a day.

use std::time::Duration;

use civ_types::Utc;

/// How long delivery is tried.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The first pause; doubled with every further failure.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Failed tries after which a notification that may be at fault itself makes way.
const TRIES_AHEAD: u32 = 5;

/// Why a try failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No answer, or one that speaks of the receiver (overload, a dead backend).
    Receiver,
    /// Any other answer: it may be about this notification alone.
    Answer,
}

impl Failure {
    /// What an HTTP status outside of 2xx says.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            429 | 502 | 503 | 504 => Self::Receiver,
            _ => Self::Answer,
        }
    }
}

/// What follows a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long the receiver is left alone.
    pub pause: Duration,
    /// Until when the notification lets those behind it go first.
    pub aside_until: Option<Utc>,
}

/// Decides after a failure.
///
/// `in_row` counts failures of this receiver without a success, `tries` those of this notification,
/// both from 1, this one included. The pause goes from 1 s to 10 min, its upper half spread by
/// `jitter` (0 to 1).
#[must_use]
pub fn after_failure(failure: Failure, in_row: u32, tries: u32, now: Utc, jitter: f64) -> Retry {
    let doublings = in_row.saturating_sub(1).min(16);
    let whole = PAUSE_FIRST
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(PAUSE_MAX);
    let aside = failure == Failure::Answer && TRIES_AHEAD <= tries;
    Retry {
        pause: whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0)),
        aside_until: aside.then(|| now.plus(PAUSE_MAX)),
    }
}

/// Whether a notification that waits since `queued_at` is given up at `now`.
#[must_use]
pub fn is_over(queued_at: Utc, now: Utc) -> bool {
    GIVE_UP_AFTER <= now.since(queued_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(failure: Failure, in_row: u32, tries: u32, jitter: f64) -> Retry {
        after_failure(failure, in_row, tries, Utc::EPOCH, jitter)
    }

    #[test]
    fn pauses_grow_from_one_second_to_ten_minutes() {
        let pause = |in_row, jitter| retry(Failure::Receiver, in_row, in_row, jitter).pause;
        assert_eq!(pause(1, 1.0), Duration::from_secs(1));
        assert_eq!(pause(2, 0.0), Duration::from_secs(1));
        assert_eq!(pause(4, 1.0), Duration::from_secs(8));
        assert_eq!(pause(11, 1.0), Duration::from_secs(600));
        assert_eq!(pause(u32::MAX, 0.0), Duration::from_secs(300));
    }

    #[test]
    fn only_what_may_be_at_fault_itself_makes_way() {
        let until = Some(Utc::EPOCH.plus(Duration::from_secs(600)));
        assert_eq!(retry(Failure::Answer, 4, 4, 1.0).aside_until, None);
        assert_eq!(retry(Failure::Answer, 5, 5, 1.0).aside_until, until);
        assert_eq!(retry(Failure::Receiver, 99, 99, 1.0).aside_until, None);
        assert_eq!(Failure::of_status(503), Failure::Receiver);
        assert_eq!(Failure::of_status(302), Failure::Answer);
    }

    #[test]
    fn a_day_is_the_end() {
        let day = Utc::EPOCH.plus(GIVE_UP_AFTER);
        assert!(is_over(Utc::EPOCH, day));
        assert!(!is_over(Utc::from_micros(1), day));
    }
}
