//! Time in which nobody could be heard: the process was stopped, the machine suspended, the clock
//! set, or nothing could be written. As after a restart, it counts against no deadline.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use civ_crash::step;
use civ_store::{StoreError, runtime};

use super::{PULSE, Runner};

/// A gap between two writes longer than this is lost time.
const PAUSE: Duration = Duration::from_secs(3);

/// How long nothing could be written, as far as nobody has made up for it yet. Something is written
/// at least once a [`PULSE`].
#[derive(Debug)]
pub(crate) struct Stalls {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The last time that something was written.
    seen: Instant,
    owed: Duration,
}

impl Default for Stalls {
    fn default() -> Self {
        let seen = Instant::now();
        Self {
            state: Mutex::new(State {
                seen,
                owed: Duration::ZERO,
            }),
        }
    }
}

impl State {
    fn due(&self, now: Instant) -> Duration {
        let gap = now.saturating_duration_since(self.seen);
        let lost = if gap > PAUSE {
            gap.saturating_sub(PULSE)
        } else {
            Duration::ZERO
        };
        self.owed + lost
    }

    fn written(&mut self, now: Instant) {
        self.owed = self.due(now);
        self.seen = self.seen.max(now);
    }

    fn made_up(&mut self, now: Instant) {
        self.owed = Duration::ZERO;
        self.seen = self.seen.max(now);
    }
}

impl Stalls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was written.
    pub(super) fn written(&self) {
        self.state().written(Instant::now());
    }
}

/// Moves deadlines by lost time, if there is any. To be done before one of them is looked at.
pub(super) async fn make_up(runner: &Runner) -> Result<(), StoreError> {
    let (app, now) = (&runner.app, Instant::now());
    let stalled = runner.stalls.state().due(now);
    let jump = app.clock().jump();
    if stalled.is_zero() && jump == 0 {
        return Ok(());
    }
    let clock = Arc::clone(app.clock());
    let moved = app.write(move |tx| {
        runtime::lost_time(tx, jump, stalled)?;
        clock.follow(jump);
        Ok(())
    });
    if let Err(error) = step!(LostTime, moved.await) {
        app.clock().follow(jump.saturating_neg());
        return Err(error);
    }
    runner.stalls.state().made_up(now);
    let micros = i64::try_from(stalled.as_micros()).unwrap_or(i64::MAX);
    let by = jump.saturating_add(micros);
    app.presence().shift(by);
    runner.gate.shift(by);
    tracing::warn!(
        clock_set_by_ms = jump / 1000,
        stalled_ms = stalled.as_millis(),
        "nobody could be heard for a while: every deadline was moved"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_owed_once_until_it_is_made_up() {
        let began = Instant::now();
        let mut state = State {
            seen: began,
            owed: Duration::ZERO,
        };
        let (at, seconds) = (
            |secs| began + Duration::from_secs(secs),
            Duration::from_secs,
        );
        for secs in [1, 2, 5] {
            assert_eq!(state.due(at(secs)), Duration::ZERO);
            state.written(at(secs));
        }
        // To look does not end it: the disk may be full all the while.
        assert_eq!(state.due(at(35)), seconds(29));
        assert_eq!(state.due(at(65)), seconds(59));
        state.written(at(65));
        state.written(at(66));
        assert_eq!(state.due(at(66)), seconds(59));
        state.made_up(at(66));
        assert_eq!(state.due(at(67)), Duration::ZERO);
        assert_eq!(state.due(at(76)), seconds(9));
        state.made_up(at(76));
        assert_eq!(state.due(at(77)), Duration::ZERO);
        // Who was late with an older reading changes nothing.
        state.written(at(10));
        assert_eq!(state.due(at(78)), Duration::ZERO);
    }
}
