//! How long to wait before the next try. Pure: the caller brings the random number.

use std::time::Duration;

/// Exponential waits with jitter, from 0.2 s up to 10 s.
///
/// Each wait lies between half and the whole of its step, so that many agents whose server went
/// away at one moment do not come back at one moment.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The first step: a restart of control-api takes about that long.
    pub const FIRST: Duration = Duration::from_millis(200);
    /// The last step: an outage of an hour is over for the agent 10 s after it is over.
    pub const LAST: Duration = Duration::from_secs(10);
    /// The most that a server may make us wait by `Retry-After`: more would be a slip of it.
    pub const ADVICE_MAX: Duration = Duration::from_secs(60);

    /// Failures in a row that are warned about: the first, and the one that says it lasts.
    const LOUD_TRIES: u32 = 2;

    /// The next wait. `random` is from 0 (inclusive) to 1; `advice` is the server's
    /// `Retry-After`, which makes the wait longer but never shorter.
    pub fn next(&mut self, random: f64, advice: Option<Duration>) -> Duration {
        let step = Self::FIRST
            .saturating_mul(1 << self.tries.min(16))
            .min(Self::LAST);
        self.tries = self.tries.saturating_add(1);
        let wait = step.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0);
        match advice {
            Some(advice) => wait.max(advice.min(Self::ADVICE_MAX)),
            None => wait,
        }
    }

    /// Starts again at the first step; to be called after a success.
    pub const fn reset(&mut self) {
        self.tries = 0;
    }

    /// Whether the failures in a row are still few enough to be said aloud.
    #[must_use]
    pub const fn is_loud(&self) -> bool {
        self.tries <= Self::LOUD_TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_seconds() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..8)
            .map(|_| backoff.next(1.0, None).as_millis())
            .collect();
        assert!(!backoff.is_loud());
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        for _ in 0..100 {
            assert_eq!(backoff.next(1.0, None), Backoff::LAST);
        }
        backoff.reset();
        assert!(backoff.is_loud());
        assert_eq!(backoff.next(0.0, None), Duration::from_millis(100));
    }

    #[test]
    fn jitter_stays_between_half_and_the_whole() {
        for random in [-1.0, 0.0, 0.3, 0.999, 1.0, 7.0] {
            let wait = Backoff::default().next(random, None);
            assert!(
                wait >= Backoff::FIRST / 2 && wait <= Backoff::FIRST,
                "{wait:?}"
            );
        }
    }

    #[test]
    fn advice_of_the_server_lengthens_but_is_bounded() {
        let secs = |n| Some(Duration::from_secs(n));
        assert_eq!(
            Backoff::default().next(1.0, secs(3)),
            Duration::from_secs(3)
        );
        assert_eq!(Backoff::default().next(1.0, secs(0)), Backoff::FIRST);
        assert_eq!(
            Backoff::default().next(1.0, secs(86_400)),
            Backoff::ADVICE_MAX
        );
    }
}
