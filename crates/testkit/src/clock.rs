//! A clock that stands still until a test moves it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use civ_types::{Clock, Utc};

/// A clock that stands still until it is set.
#[derive(Debug)]
pub struct FakeClock(AtomicI64);

impl FakeClock {
    /// A clock that shows `now`.
    #[must_use]
    pub const fn at(now: Utc) -> Self {
        Self(AtomicI64::new(now.as_micros()))
    }

    /// Sets it, forwards or backwards.
    pub fn set(&self, now: Utc) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves it forwards.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    /// Moves it forwards by whole seconds.
    pub fn advance_secs(&self, secs: u32) {
        self.set(self.now().plus_secs(secs));
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Utc {
        Utc::from_micros(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_it_was_set_to() {
        let clock = FakeClock::at(Utc::EPOCH);
        clock.advance_secs(2);
        clock.advance(Duration::from_micros(5));
        assert_eq!(clock.now(), Utc::from_micros(2_000_005));
        clock.set(Utc::EPOCH);
        assert_eq!(clock.now(), Utc::EPOCH);
    }
}
