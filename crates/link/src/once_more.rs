//! A second try for work whose first try came to no result.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Long enough for a server that was overloaded, or for descriptors to become free.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs `run`; if `is_doubtful` says so, runs it once more after half a second, within what is
/// left of `budget`. The second result counts, unless the time is up before it is there.
pub async fn once_more<T, F>(
    budget: Duration,
    run: impl Fn() -> F,
    is_doubtful: impl Fn(&T) -> bool,
) -> T
where
    F: Future<Output = T>,
{
    let start = Instant::now();
    let first = run().await;
    let left = budget.saturating_sub(start.elapsed()).saturating_sub(PAUSE);
    if !is_doubtful(&first) || left.is_zero() {
        return first;
    }
    tokio::time::sleep(PAUSE).await;
    tokio::time::timeout(left, run()).await.unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The n-th try takes `times[n]` and results in n.
    async fn tries(budget_ms: u64, times: [u64; 2], doubtful: &[usize]) -> (usize, usize) {
        let n = Cell::new(0);
        let run = || async {
            let this = n.replace(n.get() + 1);
            tokio::time::sleep(Duration::from_millis(times[this])).await;
            this
        };
        let budget = Duration::from_millis(budget_ms);
        let result = once_more(budget, run, |this| doubtful.contains(this)).await;
        (result, n.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_clear_result_is_final_and_a_doubtful_one_gets_one_more_try() {
        assert_eq!(tries(5000, [10, 10], &[]).await, (0, 1));
        assert_eq!(tries(5000, [10, 10], &[0]).await, (1, 2));
        assert_eq!(tries(5000, [10, 10], &[0, 1]).await, (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_bounds_both() {
        assert_eq!(tries(600, [200, 10], &[0]).await, (0, 1));
        assert_eq!(tries(1000, [10, 2000], &[0]).await, (0, 2));
    }
}
