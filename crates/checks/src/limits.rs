//! Time and parallelism: what a check may take. Knows no sockets.

use std::time::Duration;

use tokio::time::Instant;

/// Bounds of every check of one [`crate::Engine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Checks at the same time in this process, 1 to 65,536; more wait for a slot.
    pub max_concurrent: usize,
    /// Total for one check, from resolving to the verdict: 100 ms to 5 min. Connecting may use
    /// half of it where something has to be read afterwards.
    pub timeout: Duration,
    /// Echoes a second that this process sends, all checks together: 1 to 1,000,000.
    pub icmp_packets_per_second: u32,
}

/// A bound that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// Parallelism out of range.
    #[error("max_concurrent is {0}: set 1 to {max}", max = Limits::CONCURRENT_MAX)]
    Concurrent(usize),
    /// Total out of range.
    #[error("the check timeout is {0:?}: set 100 ms to 5 min")]
    Timeout(Duration),
    /// Pace out of range.
    #[error("icmp_packets_per_second is {0}: set 1 to {max}", max = Limits::ICMP_PACKETS_MAX)]
    IcmpPackets(u32),
}

impl Limits {
    /// Most checks at the same time: beyond it one host has no ports left for one target.
    pub const CONCURRENT_MAX: usize = 65_536;
    /// Most echoes a second.
    pub const ICMP_PACKETS_MAX: u32 = 1_000_000;
    /// Echoes a second if nothing else is set: 16,384 addresses in a second, and 16 Mbit/s.
    pub const ICMP_PACKETS: u32 = 20_000;

    /// # Errors
    /// [`LimitsError`] names the bound that is out of range.
    pub const fn validate(&self) -> Result<(), LimitsError> {
        if self.max_concurrent == 0 || self.max_concurrent > Self::CONCURRENT_MAX {
            return Err(LimitsError::Concurrent(self.max_concurrent));
        }
        let millis = self.timeout.as_millis();
        if millis < 100 || millis > 300_000 {
            return Err(LimitsError::Timeout(self.timeout));
        }
        let pace = self.icmp_packets_per_second;
        if pace == 0 || pace > Self::ICMP_PACKETS_MAX {
            return Err(LimitsError::IcmpPackets(pace));
        }
        Ok(())
    }
}

impl Default for Limits {
    /// 64 at a time, 10 s each, 20,000 echoes a second.
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            timeout: Duration::from_secs(10),
            icmp_packets_per_second: Self::ICMP_PACKETS,
        }
    }
}

/// The one deadline of a check, and the part of it that connecting may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    start: Instant,
    total: Duration,
}

impl Budget {
    /// Begins now.
    pub(crate) fn start(total: Duration) -> Self {
        Self {
            start: Instant::now(),
            total,
        }
    }

    /// When everything must be over.
    pub(crate) fn end(&self) -> Instant {
        self.start + self.total
    }

    /// When connecting must be over, if something is to be read afterwards: half of what is left
    /// now, so that a slow connect leaves time for a slow answer.
    pub(crate) fn connect_end(&self) -> Instant {
        Instant::now() + self.left() / 2
    }

    /// What is left.
    pub(crate) fn left(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }

    /// What has been used.
    pub(crate) fn used(&self) -> Duration {
        self.start.elapsed()
    }

    /// All of it.
    pub(crate) const fn total(&self) -> Duration {
        self.total
    }
}
