//! Round trips of one check as numbers. Pure.

use std::fmt;
use std::time::Duration;

use crate::outcome::millis;

/// What the probes of one check came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Probes that left this host.
    pub(crate) sent: u32,
    /// Probes whose replies we may have lost ourselves; not counted as sent.
    pub(crate) undecided: u32,
    /// Round trips in the order of sending.
    pub(crate) trips: Vec<Duration>,
}

impl Stats {
    /// Replies.
    pub(crate) fn received(&self) -> u32 {
        u32::try_from(self.trips.len()).unwrap_or(u32::MAX)
    }

    /// Lost probes in percent, rounded down; 0 if none was sent.
    pub(crate) fn loss_percent(&self) -> u32 {
        let lost = self.sent.saturating_sub(self.received());
        (lost * 100).checked_div(self.sent).unwrap_or(0)
    }

    /// Mean round trip.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let sum: Duration = self.trips.iter().sum();
        sum.checked_div(self.received())
    }

    /// Mean difference between neighbours in the order of sending; `None` below two replies.
    pub(crate) fn jitter(&self) -> Option<Duration> {
        let pairs = self.trips.windows(2);
        let sum: Duration = pairs.map(|pair| pair[0].abs_diff(pair[1])).sum();
        sum.checked_div(self.received().saturating_sub(1))
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (received, loss) = (self.received(), self.loss_percent());
        write!(f, "sent={} received={received} loss={loss}%", self.sent)?;
        if let (Some(min), Some(mean), Some(max)) = (
            self.trips.iter().min(),
            self.mean(),
            self.trips.iter().max(),
        ) {
            write!(
                f,
                " min={} avg={} max={}",
                millis(*min),
                millis(mean),
                millis(*max)
            )?;
        }
        if let Some(jitter) = self.jitter() {
            write!(f, " jitter={}", millis(jitter))?;
        }
        if self.undecided > 0 {
            write!(f, " undecided={}", self.undecided)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Stats};

    #[test]
    fn numbers_of_a_lossy_run() {
        let ms = Duration::from_millis;
        let stats = Stats {
            sent: 3,
            undecided: 0,
            trips: vec![ms(10), ms(14)],
        };
        assert_eq!(
            stats.to_string(),
            "sent=3 received=2 loss=33% min=10.00ms avg=12.00ms max=14.00ms jitter=4.00ms"
        );
    }

    #[test]
    fn nothing_sent_divides_by_nothing() {
        assert_eq!(Stats::default().to_string(), "sent=0 received=0 loss=0%");
    }
}
