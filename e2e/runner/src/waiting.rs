//! Owns the waiting for a condition. Knows no conditions.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How often a condition is looked at again.
const STEP: Duration = Duration::from_millis(20);
/// How long a condition of the stage itself may take.
const STAGE_LIMIT: Duration = Duration::from_secs(15);

/// Waits up to 15 s for something of the stage.
///
/// # Errors
///
/// When the time is over; `what` says what was waited for.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) -> Result<()> {
    let end = Instant::now() + STAGE_LIMIT;
    while !condition().await {
        if Instant::now() > end {
            bail!("waited {STAGE_LIMIT:?} in vain for this: {what}");
        }
        sleep(STEP).await;
    }
    Ok(())
}

/// Waits up to `limit` until `look` finds something, and returns it.
///
/// # Errors
///
/// When the time is over, or looking itself fails.
pub(crate) async fn found<T>(
    what: &str,
    limit: Duration,
    look: impl AsyncFn() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(thing) = look().await? {
            return Ok(thing);
        }
        if Instant::now() > end {
            bail!("waited {limit:?} in vain for this: {what}");
        }
        sleep(STEP).await;
    }
}
