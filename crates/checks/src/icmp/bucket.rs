//! How fast this process may send echoes, all checks together. Pure arithmetic of time.

use std::time::Duration;

use tokio::time::Instant;

/// Unused time is worth at most this much sending: a longer pause is no licence for a flood.
const DEPTH: Duration = Duration::from_millis(5);

/// A token bucket; one token is one echo.
#[derive(Debug)]
pub(super) struct Bucket {
    per_token: Duration,
    depth: Duration,
    /// Tokens have been used up to this moment; it may lie ahead by less than one token.
    used_until: Instant,
}

impl Bucket {
    /// `per_second`: 1 to 1,000,000 echoes.
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_token = Duration::from_secs(1) / per_second.clamp(1, 1_000_000);
        Self {
            per_token,
            depth: DEPTH.max(per_token),
            used_until: now,
        }
    }

    /// At most that many echoes a second from now on, and no faster than before.
    pub(super) fn slow_down_to(&mut self, per_second: u32) {
        let slower = Self::new(per_second, self.used_until);
        if slower.per_token > self.per_token {
            *self = slower;
        }
    }

    /// Takes up to `want` tokens; how many there were.
    pub(super) fn take(&mut self, now: Instant, want: usize) -> usize {
        let since = now.saturating_duration_since(self.used_until);
        if since > self.depth {
            self.used_until = now.checked_sub(self.depth).unwrap_or(now);
        }
        let since = now.saturating_duration_since(self.used_until);
        let there = since.as_nanos() / self.per_token.as_nanos().max(1);
        let taken = usize::try_from(there).unwrap_or(usize::MAX).min(want);
        self.used_until += self.per_token * u32::try_from(taken).unwrap_or(u32::MAX);
        taken
    }

    /// When `want` tokens are there, or as many as it holds.
    pub(super) fn ready_at(&self, want: u32) -> Instant {
        self.used_until + (self.per_token * want).min(self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_held_whatever_is_asked_for() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, start);
        let mut sent = 0;
        for tick in 1..=2000_u32 {
            sent += bucket.take(start + Duration::from_micros(500) * tick, 64);
        }
        assert!((995..=1005).contains(&sent), "{sent}");
    }

    #[test]
    fn a_pause_is_worth_only_the_depth() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, start);
        let later = start + Duration::from_secs(60);
        assert_eq!(bucket.take(later, 1000), 5);
        assert_eq!(bucket.take(later, 1000), 0);
        assert_eq!(bucket.ready_at(1), later + Duration::from_millis(1));
        assert_eq!(bucket.take(bucket.ready_at(2), 1000), 2);
    }

    #[test]
    fn the_slowest_bucket_gives_one_at_a_time() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1, start);
        assert_eq!(bucket.take(start, 5), 0);
        assert_eq!(bucket.take(start + Duration::from_secs(9), 5), 1);
    }
}
