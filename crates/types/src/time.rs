//! Time, in the one precision that the database keeps: microseconds since 1970, UTC.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A moment. Finer input is cut to the microsecond, so that what is stored, compared and printed
/// is the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(i64);

/// A text that is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time")]
pub struct TimeError(pub String);

impl Utc {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// From microseconds since 1970.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Takes RFC 3339 with any offset and any number of fractional digits (nine are kept, six
    /// are used).
    ///
    /// # Errors
    /// [`TimeError`] with the text.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let moment: Timestamp = text.parse().map_err(|_e| TimeError(text.to_owned()))?;
        Ok(Self(moment.as_microsecond()))
    }

    /// `20261201T033411Z`: for names of files, which sort by it. Cut to the second.
    #[must_use]
    pub fn compact(self) -> String {
        Timestamp::from_microsecond(self.0).map_or_else(
            |_beyond| self.0.to_string(),
            |moment| moment.strftime("%Y%m%dT%H%M%SZ").to_string(),
        )
    }

    /// The other way round; `None` for any other text.
    #[must_use]
    pub fn parse_compact(text: &str) -> Option<Self> {
        let moment = Self::parse(text).ok()?;
        (moment.compact() == text).then_some(moment)
    }

    /// This moment plus whole seconds; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus_secs(self, secs: u32) -> Self {
        Self(self.0.saturating_add(secs as i64 * 1_000_000))
    }

    /// This moment minus whole seconds.
    #[must_use]
    pub const fn minus_secs(self, secs: u32) -> Self {
        Self(self.0.saturating_sub(secs as i64 * 1_000_000))
    }

    /// This moment plus a duration, cut to the microsecond.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            // Beyond year 9999: only a broken clock or row gets here, and the number still tells.
            Err(_) => write!(f, "{} us", self.0),
        }
    }
}

/// Where the time comes from. Decisions never ask: they are told.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Utc;

    /// By how many microseconds the machine's clock was set, forwards or backwards, without
    /// [`Clock::now`] having followed yet.
    fn jump(&self) -> i64 {
        0
    }

    /// Follows a jump. Whoever keeps deadlines moves them by as much at the same moment; given the
    /// negative of it, goes back.
    fn follow(&self, jump: i64) {
        let _ = jump;
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Utc {
        Utc(Timestamp::now().as_microsecond())
    }
}

/// The machine's clock, without its jumps: a step of the clock, or a suspended machine, does not
/// make a deadline pass, nor keep one from passing, until somebody follows it.
#[derive(Debug)]
pub struct EvenClock {
    /// Where the steady clock began.
    began: Instant,
    line: Mutex<Line>,
}

/// The farthest that the machine's clock may be off the line and still be followed silently, in
/// microseconds: what NTP corrects by slewing is far below it.
const SLACK: i64 = 1_000_000;

/// Two readings farther apart than this were not made at the same time.
const HELD_UP: Duration = Duration::from_millis(100);

/// Where the line stood at a moment of the steady clock, and how far the machine's clock is ahead.
#[derive(Debug, Clone, Copy)]
struct Line {
    shown: i64,
    steady: Duration,
    ahead: i64,
}

impl Line {
    /// What it shows when the machine's clock shows `wall` and the steady one `steady`.
    fn read(&mut self, wall: i64, steady: Duration) -> i64 {
        let gone = steady.saturating_sub(self.steady).as_micros();
        let expected = self
            .shown
            .saturating_add(i64::try_from(gone).unwrap_or(i64::MAX));
        let even = wall.saturating_sub(self.ahead);
        let off = even.saturating_sub(expected);
        self.steady = steady;
        self.shown = if off.saturating_abs() <= SLACK {
            even
        } else {
            self.ahead = self.ahead.saturating_add(off);
            expected
        };
        self.shown
    }
}

impl EvenClock {
    /// A clock that shows what the machine's shows now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            line: Mutex::new(Line {
                shown: SystemClock.now().0,
                steady: Duration::ZERO,
                ahead: 0,
            }),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for EvenClock {
    fn now(&self) -> Utc {
        let mut line = self.line();
        // Whoever is held up between the two readings must not take that for a jump.
        loop {
            let before = self.began.elapsed();
            let wall = SystemClock.now();
            if self.began.elapsed().saturating_sub(before) < HELD_UP {
                return Utc(line.read(wall.0, before));
            }
        }
    }

    fn jump(&self) -> i64 {
        // A jump is noticed by reading the clock.
        self.now();
        self.line().ahead
    }

    fn follow(&self, jump: i64) {
        let mut line = self.line();
        line.shown = line.shown.saturating_add(jump);
        line.ahead = line.ahead.saturating_sub(jump);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn line() -> Line {
        Line {
            shown: 0,
            steady: Duration::ZERO,
            ahead: 0,
        }
    }

    #[test]
    fn a_line_has_no_jumps_and_says_how_far_ahead_the_machine_is() {
        for jump in [HOUR, -HOUR, 2 * SLACK] {
            let mut line = line();
            assert_eq!(
                line.read(jump + 5_000_000, Duration::from_secs(5)),
                5_000_000
            );
            assert_eq!(line.ahead, jump);
            assert_eq!(
                line.read(jump + 6_000_000, Duration::from_secs(6)),
                6_000_000
            );
            assert_eq!(line.ahead, jump);
        }
    }

    #[test]
    fn small_corrections_are_followed_and_do_not_add_up_to_a_jump() {
        let mut line = line();
        for n in 1..=100 {
            // The machine's clock gains 0.9 s with every second.
            let wall = n * 1_900_000;
            let steady = Duration::from_secs(u64::try_from(n).unwrap());
            assert_eq!(line.read(wall, steady), wall);
        }
        assert_eq!(line.ahead, 0);
    }

    #[test]
    fn a_jump_that_is_followed_is_over_and_can_be_taken_back() {
        let clock = EvenClock::start();
        clock.line().ahead = HOUR;
        clock.line().shown -= HOUR;
        let before = clock.now();
        assert_eq!(clock.jump(), HOUR);
        clock.follow(HOUR);
        assert_eq!(clock.jump(), 0);
        let hour = Duration::from_secs(3600);
        assert!(clock.now().since(before) >= hour);
        clock.follow(-HOUR);
        assert_eq!(clock.jump(), HOUR);
        assert!(clock.now().since(before) < hour);
    }

    #[test]
    fn finer_input_is_cut() {
        let moment = Utc::parse("2026-08-21T09:15:00.123456789Z").unwrap();
        assert_eq!(moment.to_string(), "2026-08-21T09:15:00.123456Z");
        assert_eq!(
            Utc::parse("2026-08-21T11:15:00.123456+02:00").unwrap(),
            moment
        );
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(
            Utc::from_micros(i64::MAX).plus_secs(1),
            Utc::from_micros(i64::MAX)
        );
        assert_eq!(Utc::EPOCH.since(Utc::from_micros(5)), Duration::ZERO);
        assert!(Utc::parse("yesterday").is_err());
    }
}
