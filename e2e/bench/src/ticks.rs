//! The cost of a round of the orchestrator against the length of the queue.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use civ_orch::attempt::Policy;
use civ_store::bulk::{self, Amounts};
use civ_store::{Rules, Store, StoreError, leases, queue};
use civ_types::{Nonce, SystemClock, Utc, ValidatorId};

use crate::figures::{Figures, Times};
use crate::make;

/// Rounds that are measured on each database, in turn.
const ROUNDS: u32 = 300;

/// Validators that are free in each round.
const FREE: u32 = 8;

/// How many times the cost with ten addresses the cost with 100,000 may be.
const RATIO: f64 = 1.2;

fn open(path: &Path) -> Result<Store> {
    let policy = Policy {
        answer_secs: 240,
        lease_secs: 120,
        window_secs: 120,
        release_grace_secs: 60,
        assign_retries_max: 3,
        self_check_retries_max: 3,
    };
    let rules = Rules {
        policy,
        missing_counts: true,
    };
    let store = Store::open(path, Arc::new(SystemClock), rules, Box::new(|_hints| {}));
    Ok(store?)
}

/// Takes the first leases away, so that their validators are free.
async fn make_free(store: &Store) -> Result<()> {
    let addresses = store
        .read(|conn| -> Result<_, StoreError> { leases::held(conn) })
        .await?;
    for held in addresses.into_iter().take(FREE as usize) {
        store
            .write(move |tx| -> Result<_, StoreError> {
                leases::released(tx, held.claim, &leases::ReleaseEnd::Released)
            })
            .await?;
    }
    Ok(())
}

/// One round as the loop goes it, and then back to where it began, which is not measured.
async fn round(store: &Store) -> Result<Duration> {
    let fresh = (0..crate::VALIDATORS)
        .map(|n| {
            Ok((
                ValidatorId::parse(&bulk::validator(n))?,
                Utc::from_micros(i64::MAX / 2),
            ))
        })
        .collect::<Result<_>>()?;
    let begun = Instant::now();
    store
        .read(|conn| -> Result<_, StoreError> {
            leases::orders(conn)?;
            queue::next_due(conn, Utc::EPOCH)
        })
        .await?;
    store.write(|tx| queue::tick(tx, 256)).await?;
    let n = store
        .write(move |tx| queue::claim(tx, &fresh, FREE as usize, || Nonce::of_bits(1)))
        .await?;
    let time = begun.elapsed();
    if n != FREE as usize {
        return Err(anyhow!("{n} claims were made instead of {FREE}"));
    }
    undo(store).await?;
    Ok(time)
}

/// Cancels what was claimed, lets it go and enqueues it again, behind the others.
async fn undo(store: &Store) -> Result<()> {
    let orders = store.read(leases::orders).await?;
    for order in orders {
        store
            .write(move |tx| -> Result<_, StoreError> {
                // What has ended already is only to be released.
                drop(queue::cancel(tx, order.address));
                leases::released(tx, order.claim, &leases::ReleaseEnd::AlreadyFree)?;
                queue::enqueue(tx, &[order.address]).map(drop)
            })
            .await?;
    }
    Ok(())
}

/// Rounds on a short queue and on the long one, in turn, so that both meet the same disk.
pub(crate) async fn measure(folder: &Path, long: &Path, figures: &mut Figures) -> Result<()> {
    let short = folder.join("short.db");
    let few = Amounts {
        registry: 200,
        queued: 10,
        ended: 0,
        checks: 1_000,
        validators: crate::VALIDATORS,
        seed: 1,
    };
    make(&short, &few)?;
    let (short, long) = (open(&short)?, open(long)?);
    let (mut times_short, mut times_long) = (Times::default(), Times::default());
    for store in [&short, &long] {
        make_free(store).await?;
        round(store).await?;
    }
    for _ in 0..ROUNDS {
        times_short.add(round(&short).await?);
        times_long.add(round(&long).await?);
    }
    let (short, long) = (times_short.quantile(0.5), times_long.quantile(0.5));
    figures.add(
        "a round with 8 claims, ten addresses queued, p50",
        short,
        "ms",
        None,
    );
    figures.add(
        "a round with 8 claims, 100,000 addresses queued, p50",
        long,
        "ms",
        None,
    );
    figures.add(
        "the latter against the former",
        long / short,
        "times",
        Some(RATIO),
    );
    Ok(())
}
