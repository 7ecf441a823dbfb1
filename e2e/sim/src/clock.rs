//! The time of a run: tokio's own, which stands still while there is work, plus what the story
//! adds to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use civ_types::{Clock, Utc};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// When every run begins: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000_000;

#[derive(Debug, Default)]
struct State {
    /// Microseconds since the start that passed in earlier lives of the process, and between.
    before: i64,
    /// Of these, in which the process was down.
    down: i64,
    /// By how much the clock was set.
    jumped: i64,
    /// When this life began, by tokio's clock.
    life: Option<Instant>,
    /// The last answer. Between two pieces of work in the runtime no time passes, and outside of it
    /// tokio would tell the machine's.
    last: i64,
}

impl State {
    fn steady(&mut self) -> i64 {
        if Handle::try_current().is_ok() {
            let life = self.life.map_or(0, |began| {
                i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX)
            });
            self.last = self.before + life;
        }
        self.last
    }
}

/// The clock of a run.
#[derive(Debug, Default)]
pub(crate) struct SimClock(Mutex<State>);

impl SimClock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A life of the process begins; to be called within its runtime.
    pub(crate) fn life_begins(&self) {
        self.state().life = Some(Instant::now());
    }

    /// It ends, and time goes on without it; to be called within its runtime.
    pub(crate) fn life_ends(&self, down_micros: i64) {
        let mut state = self.state();
        state.before = state.steady() + down_micros;
        state.last = state.before;
        state.down += down_micros;
        state.life = None;
    }

    /// Somebody sets the clock.
    pub(crate) fn jump(&self, micros: i64) {
        self.state().jumped += micros;
    }

    /// Microseconds since the start, whatever was set.
    pub(crate) fn steady(&self) -> i64 {
        self.state().steady()
    }

    /// Of these, those in which the process was up.
    pub(crate) fn up(&self) -> i64 {
        let mut state = self.state();
        state.steady() - state.down
    }
}

impl Clock for SimClock {
    fn now(&self) -> Utc {
        let mut state = self.state();
        Utc::from_micros(START + state.steady() + state.jumped)
    }
}
