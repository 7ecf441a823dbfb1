//! How much of the cloud's time we take: calls at once, and calls a second, over everything that
//! shares a client.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The most that a client may ask of a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Requests under way at once, at least 1.
    pub parallel: u32,
    /// Requests begun a second, at least 1; as many may begin at once after a second of silence.
    pub per_second: u32,
}

impl Default for Budget {
    /// More than the product needs with 64 validators, less than what hurts a small Neutron.
    fn default() -> Self {
        Self {
            parallel: 16,
            per_second: 100,
        }
    }
}

/// Hands out the budget.
#[derive(Debug)]
pub(crate) struct Purse {
    calls: Semaphore,
    gap: Duration,
    /// When the next call would begin if all came at the even pace.
    even: Mutex<Instant>,
}

/// Silence that is saved up for a burst.
const SAVED: Duration = Duration::from_secs(1);

impl Purse {
    pub(crate) fn new(budget: Budget) -> Self {
        let parallel = usize::try_from(budget.parallel.max(1)).unwrap_or(usize::MAX);
        Self {
            calls: Semaphore::new(parallel.min(Semaphore::MAX_PERMITS)),
            gap: SAVED / budget.per_second.max(1),
            even: Mutex::new(Instant::now()),
        }
    }

    /// Waits until another call may begin; it counts as under way until the permit is dropped.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // Only a closed semaphore gives nothing, and nobody closes it.
        let permit = self.calls.acquire().await.ok();
        tokio::time::sleep_until(self.turn()).await;
        permit
    }

    /// When the next call may begin. Takes that turn.
    fn turn(&self) -> Instant {
        let mut even = self.even.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // What was not used is saved for a second, no longer.
        let begin = (*even).max(now.checked_sub(SAVED).unwrap_or(now));
        *even = begin + self.gap;
        begin.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_a_second_are_bounded_after_a_burst() {
        let purse = Purse::new(Budget {
            parallel: 4,
            per_second: 100,
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        for _ in 0..100 {
            drop(purse.take().await);
        }
        assert!(
            began.elapsed() < Duration::from_millis(20),
            "a second's worth at once"
        );
        for _ in 0..200 {
            drop(purse.take().await);
        }
        let took = began.elapsed().as_millis();
        assert!((1_980..=2_020).contains(&took), "{took}");
    }
}
