//! The time of the simulation: as it is, faster, or only as fast as somebody steps it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

/// How the simulation's time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the machine's.
    #[default]
    Real,
    /// So many times as fast, at least 1.
    Scaled(u32),
    /// Only when it is stepped.
    Stepped,
}

/// What a snapshot keeps of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// The simulation's time.
    pub now: Timestamp,
    /// How it passes.
    pub pace: Pace,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// The simulation's time at `anchor`.
    base: Timestamp,
    anchor: Instant,
    pace: Pace,
}

impl State {
    fn now(&self) -> Timestamp {
        let passed = self.anchor.elapsed();
        let passed = match self.pace {
            Pace::Real => passed,
            Pace::Scaled(factor) => passed.saturating_mul(factor.max(1)),
            Pace::Stepped => Duration::ZERO,
        };
        later(self.base, passed)
    }
}

/// A clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    state: Arc<Mutex<State>>,
    /// Bumped by whatever makes sleepers look again.
    changed: Arc<watch::Sender<()>>,
}

impl Clock {
    /// A clock that shows the machine's time now.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self::at(Moment {
            now: Timestamp::now(),
            pace,
        })
    }

    /// A clock that goes on from `moment`.
    #[must_use]
    pub fn at(moment: Moment) -> Self {
        let state = State {
            base: moment.now,
            anchor: Instant::now(),
            pace: moment.pace,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(watch::Sender::new(())),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The simulation's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.state().now()
    }

    /// The time and its pace.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let state = self.state();
        Moment {
            now: state.now(),
            pace: state.pace,
        }
    }

    /// The simulation's time in `delay`.
    #[must_use]
    pub fn after(&self, delay: Duration) -> Timestamp {
        later(self.now(), delay)
    }

    /// Goes on from `moment`: of a snapshot, or with another pace.
    pub fn set(&self, moment: Moment) {
        *self.state() = State {
            base: moment.now,
            anchor: Instant::now(),
            pace: moment.pace,
        };
        self.changed.send_replace(());
    }

    /// Lets time pass at once, at any pace.
    pub fn advance(&self, by: Duration) {
        let moment = self.moment();
        self.set(Moment {
            now: later(moment.now, by),
            pace: moment.pace,
        });
    }

    /// Waits for that much of the simulation's time.
    pub async fn sleep(&self, delay: Duration) {
        if !delay.is_zero() {
            self.sleep_until(self.after(delay)).await;
        }
    }

    /// Waits until the simulation's time is `due`.
    pub async fn sleep_until(&self, due: Timestamp) {
        let mut changed = self.changed.subscribe();
        loop {
            let Moment { now, pace } = self.moment();
            let left = Duration::try_from(now.duration_until(due)).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            let real = match pace {
                Pace::Real => Some(left),
                // Rounded up, so that it is not slept through in pieces of nothing.
                Pace::Scaled(factor) => Some(left / factor.max(1) + Duration::from_nanos(1)),
                Pace::Stepped => None,
            };
            tokio::select! {
                () = pass(real) => {}
                _ = changed.changed() => {}
            }
        }
    }
}

/// Waits that long; for `None`, for ever.
async fn pass(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_passes_at_its_pace() {
        for (pace, expected) in [
            (Pace::Real, 10),
            (Pace::Scaled(60), 600),
            (Pace::Stepped, 0),
        ] {
            let clock = Clock::new(pace);
            let before = clock.now();
            tokio::time::advance(SECOND * 10).await;
            assert_eq!(before.duration_until(clock.now()).as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stepped_sleeper_waits_for_the_steps() {
        let clock = Clock::new(Pace::Stepped);
        let other = clock.clone();
        let sleeper = async { other.sleep(SECOND * 60).await };
        tokio::pin!(sleeper);
        let asleep = tokio::time::timeout(SECOND * 3_600, &mut sleeper).await;
        assert!(asleep.is_err(), "the machine's time does not count");
        clock.advance(SECOND * 59);
        assert!(tokio::time::timeout(SECOND, &mut sleeper).await.is_err());
        clock.advance(SECOND);
        assert!(tokio::time::timeout(SECOND, &mut sleeper).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_scaled_sleeper_wakes_in_time() {
        let (clock, started) = (Clock::new(Pace::Scaled(100)), Instant::now());
        clock.sleep(SECOND * 100).await;
        let took = started.elapsed();
        assert!(SECOND <= took && took < SECOND * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_on_where_it_was() {
        let clock = Clock::new(Pace::Stepped);
        clock.advance(SECOND * 1_000);
        let moment = clock.moment();
        assert_eq!(Clock::at(moment).moment(), moment);
    }
}
