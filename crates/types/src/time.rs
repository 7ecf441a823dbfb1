//! Time, in the one precision that the database keeps: microseconds since 1970, UTC.

use std::fmt;
use std::time::Duration;

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
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Utc {
        Utc(Timestamp::now().as_microsecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
