//! Time in which nobody could be heard: the process was stopped, the machine suspended, or the
//! clock set. As after a restart, it counts against no deadline.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use civ_crash::step;
use civ_store::{StoreError, runtime};

use super::{PULSE, Runner};

/// A gap between two looks at the clock longer than this is a pause of the process.
const PAUSE: Duration = Duration::from_secs(3);

/// How long the process stood still, as far as nobody has made up for it yet. Somebody looks at
/// least once a [`PULSE`].
#[derive(Debug)]
pub(crate) struct Stalls {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
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
    fn look(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.seen);
        self.seen = self.seen.max(now);
        if gap > PAUSE {
            self.owed += gap.saturating_sub(PULSE);
        }
    }
}

impl Stalls {
    /// Looks at the clock. Whoever comes first after a pause books it, once.
    pub(super) fn look(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.look(Instant::now());
        state.owed
    }

    fn made_up(&self, time: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.owed = state.owed.saturating_sub(time);
    }
}

/// Moves deadlines by lost time, if there is any. To be done before one of them is looked at.
pub(super) async fn make_up(runner: &Runner) -> Result<(), StoreError> {
    let (app, stalled) = (&runner.app, runner.stalls.look());
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
    runner.stalls.made_up(stalled);
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
    fn a_pause_is_booked_once_by_whoever_looks_first() {
        let began = Instant::now();
        let mut state = State {
            seen: began,
            owed: Duration::ZERO,
        };
        let at = |secs| began + Duration::from_secs(secs);
        for secs in [1, 2, 5] {
            state.look(at(secs));
            assert_eq!(state.owed, Duration::ZERO);
        }
        state.look(at(65));
        state.look(at(65));
        state.look(at(66));
        assert_eq!(state.owed, Duration::from_secs(59));
        // Who was late with an older reading books nothing.
        state.look(at(10));
        state.look(at(67));
        assert_eq!(state.owed, Duration::from_secs(59));
    }
}
