//! The loop: what is due is ticked, what is free is claimed. Its cost depends on what is active,
//! not on the length of the queue.

use std::time::Duration;

use civ_crash::step;
use civ_orch::backoff::speaks_for_the_cloud;
use civ_store::{StoreError, leases, queue};
use civ_types::{Nonce, Utc};

use super::{Runner, complain, lost_time};

/// Ticks in one transaction: bounds how long the writing thread is held.
const TICKS_MAX: u32 = 256;

/// Pause after a fault of the database, so that a full disk is not hammered.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(runner: Runner) {
    loop {
        let wait = match round(&runner).await {
            Ok(wait) => wait,
            Err(error) => {
                complain("a round of the orchestrator failed", &error);
                FAULT_PAUSE
            }
        };
        runner.app.went_round();
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            () = runner.app.hub().schedule.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// One round; says how long the loop may sleep if nobody wakes it.
async fn round(runner: &Runner) -> Result<Duration, StoreError> {
    let app = &runner.app;
    lost_time::make_up(runner).await?;
    let now = app.now();
    let (due, orders) = app
        .read(move |conn| -> Result<_, StoreError> {
            Ok((queue::next_due(conn, now)?, leases::orders(conn)?))
        })
        .await?;
    // A release that waits for its next try is no call under way, and one that never succeeds
    // must not keep the others from being claimed.
    let n_open = orders
        .iter()
        .filter(|order| order.not_before <= now && speaks_for_the_cloud(order.tries))
        .count();
    if due.is_some_and(|due| due <= now) {
        let ticked = app.write(move |tx| queue::tick(tx, TICKS_MAX));
        let n = step!(Tick, ticked.await)?;
        if n == TICKS_MAX as usize {
            app.hub().schedule.notify_one();
        }
    }
    let max = runner
        .gate
        .claims_max(now, n_open)
        .min(room(n_open, app.timers().max_parallel_cloud_calls));
    if max > 0 {
        let fresh = app.fresh_validators();
        let claimed = app.write(move |tx| queue::claim(tx, &fresh, max, new_nonce));
        step!(Claim, claimed.await)?;
    }
    let longest = Duration::from_secs(app.timers().poll_interval_seconds.into());
    let after = app.now();
    let next = app.read(move |conn| queue::next_due(conn, after)).await?;
    Ok(rest(after, next, runner.gate.opens_at(), longest))
}

/// A secret for a new claim: 122 random bits of the system.
fn new_nonce() -> Nonce {
    Nonce::of_bits(uuid::Uuid::new_v4().as_u128())
}

/// How many calls can be started at once beside those there are. What is claimed beyond that would
/// wait behind them, and a cloud that hangs would use up its time (rule 12).
fn room(n_open: usize, n_max: u32) -> usize {
    usize::try_from(n_max)
        .unwrap_or(usize::MAX)
        .saturating_sub(n_open)
}

/// How long to sleep: until the next deadline, which may have come meanwhile, or until claims may
/// resume. A gate that is due to open but still closed waits for an answer, not for time.
fn rest(now: Utc, next: Option<Utc>, opens: Option<Utc>, longest: Duration) -> Duration {
    let opens = opens.filter(|at| now < *at);
    let until = next.into_iter().chain(opens).map(|at| at.since(now)).min();
    until.map_or(longest, |until| {
        until.clamp(Duration::from_millis(5), longest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_sleeps_until_the_next_deadline_and_never_spins() {
        let now = Utc::from_micros(1_000_000_000);
        let (longest, seconds) = (Duration::from_secs(60), Duration::from_secs);
        let at = |secs| Some(now.plus_secs(secs));
        assert_eq!(rest(now, None, None, longest), longest);
        assert_eq!(rest(now, at(9), at(3), longest), seconds(3));
        assert_eq!(rest(now, at(900), None, longest), longest);
        // What has become due since the round began is not slept over.
        let past = Some(now.minus_secs(1));
        assert!(rest(now, past, None, longest) < seconds(1));
        // A gate that is due to open, and nobody to claim.
        assert_eq!(rest(now, None, past, longest), longest);
        assert_eq!(rest(now, at(9), Some(now), longest), seconds(9));
    }
}
