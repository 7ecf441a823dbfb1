//! Waiting for a condition that becomes true by itself and then stays so.

use std::time::{Duration, Instant};

/// Between two looks at the condition: short enough not to be felt, long enough not to be load.
const LOOK: Duration = Duration::from_millis(10);

/// How long a condition is waited for unless a test says otherwise: far more than it takes on a
/// loaded machine, since a test that passes does not use it up.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until `condition` gives a value; `what` says in the failure what was waited for.
///
/// The condition must be a level (something that stays true), never a moment that could pass
/// between two looks.
///
/// # Panics
/// If it gave none within 20 s.
pub async fn eventually<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(what, DEADLINE, condition).await
}

/// The same with another deadline.
///
/// # Panics
/// If it gave none within `deadline`.
pub async fn eventually_within<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_looks_until_there_is_a_value() {
        let mut looks = 0;
        let seen = eventually("three looks", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(seen.await, 3);
    }
}
