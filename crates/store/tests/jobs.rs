//! What a scan has found and the auto-cycle's row, on a real file.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use civ_orch::attempt::Policy;
use civ_orch::cycle::{Cycle, Event, Outcome, Phase, PhaseName};
use civ_store::ips::{self, Filter, ListOrder};
use civ_store::scan::{Found, Source};
use civ_store::seed::Seed;
use civ_store::{Rules, Store, StoreError, WriteTx, cycle, events, queue, runtime, scan, seed};
use civ_types::{Address, Clock, IpId, Utc};

#[derive(Debug, Default)]
struct Hand(AtomicI64);

impl Hand {
    fn set(&self, secs: u32) {
        self.0
            .store(Utc::EPOCH.plus_secs(secs).as_micros(), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Utc {
        Utc::from_micros(self.0.load(Ordering::SeqCst))
    }
}

fn open(folder: &Path, clock: &Arc<Hand>) -> Store {
    let policy = Policy {
        answer_secs: 60,
        lease_secs: 60,
        window_secs: 60,
        release_grace_secs: 60,
        assign_retries_max: 1,
        self_check_retries_max: 1,
    };
    let rules = Rules {
        policy,
        missing_counts: true,
    };
    let clock: Arc<dyn Clock> = Arc::<Hand>::clone(clock);
    Store::open(&folder.join("test.db"), clock, rules, Box::new(|_| {})).unwrap()
}

async fn write<T: Send + 'static>(
    store: &Store,
    job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> T {
    store.write(job).await.unwrap()
}

async fn cycle_of(store: &Store) -> Cycle {
    let kept: Result<Cycle, StoreError> = store.read(cycle::load).await;
    kept.unwrap()
}

fn addresses(range: impl IntoIterator<Item = u8>) -> Vec<Address> {
    let parse = |n| Address::parse(&format!("203.0.113.{n}")).unwrap();
    range.into_iter().map(parse).collect()
}

const FOUND: Found = Found {
    source: Source::Request,
    pages: 2,
    discovered: 9,
    free: 7,
};

async fn queued(store: &Store) -> Vec<Address> {
    let rows: Result<_, StoreError> = store
        .read(|conn| ips::list(conn, &Filter::default(), ListOrder::Sequence, None))
        .await;
    let rows = rows.unwrap().into_iter();
    rows.map(|row| row.attempt.head.address).collect()
}

async fn history(store: &Store, event_type: &'static str) -> usize {
    let all: Result<_, StoreError> = store.read(|conn| events::latest(conn, 1_000)).await;
    let all = all.unwrap().into_iter();
    all.filter(|event| event.event_type == event_type).count()
}

#[tokio::test]
async fn a_plan_is_carried_out_in_order_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::default();
    let store = open(folder.path(), &clock);
    let first = write(&store, |tx| {
        queue::enqueue(tx, &addresses([5]))?;
        scan::note(tx, &addresses(1..=3))?;
        scan::note(tx, &addresses(4..=7))?;
        assert!(!scan::is_planned(tx)?);
        assert!(scan::plan(tx, &FOUND)?);
        scan::apply(tx, 3)
    })
    .await;
    assert!(!first.is_last);
    assert_eq!(first.enqueued.added, addresses(1..=3));
    drop(store);
    let store = open(folder.path(), &clock);
    let (second, third) = write(&store, |tx| {
        scan::forget(tx)?;
        assert!(scan::is_planned(tx)?, "a plan is not forgotten");
        Ok((scan::apply(tx, 3)?, scan::apply(tx, 3)?))
    })
    .await;
    assert_eq!(second.enqueued.added, addresses([4, 6]));
    assert_eq!(second.enqueued.reordered, addresses([5]));
    assert!(!second.is_last && third.is_last);
    assert_eq!(queued(&store).await, addresses(1..=7));
    assert_eq!(history(&store, "fip_scan").await, 1);
    let nothing = write(&store, |tx| scan::apply(tx, 3)).await;
    assert!(nothing.is_last, "carried out once");
    assert_eq!(history(&store, "fip_scan").await, 1);
}

#[tokio::test]
async fn what_was_found_without_a_plan_is_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &Arc::default());
    write(&store, |tx| {
        scan::note(tx, &addresses(1..=3))?;
        scan::forget(tx)?;
        scan::note(tx, &addresses([9]))?;
        // Only a round that is at its scan may plan.
        let of_cycle = Found {
            source: Source::AutoCycle,
            ..FOUND
        };
        assert!(!scan::plan(tx, &of_cycle)?);
        assert!(!scan::is_planned(tx)?);
        scan::note(tx, &addresses([2]))?;
        assert!(scan::plan(tx, &FOUND)?);
        assert!(scan::apply(tx, 500)?.is_last);
        Ok(())
    })
    .await;
    assert_eq!(queued(&store).await, addresses([2]));
}

#[tokio::test]
async fn clearing_takes_what_was_there_and_leaves_what_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &Arc::default());
    let counts = write(&store, |tx| {
        seed::apply(tx, &Seed::default())?;
        assert_eq!(queue::newest(tx)?, None);
        queue::enqueue(tx, &addresses(1..=5))?;
        let newest = queue::newest(tx)?.unwrap_or(IpId(0));
        queue::enqueue(tx, &addresses([6]))?;
        assert!(queue::has_queued(tx)? && queue::has_open(tx)?);
        let mut counts = Vec::new();
        for _ in 0..4 {
            counts.push(queue::clear_some(tx, newest, 2)?);
        }
        Ok(counts)
    })
    .await;
    assert_eq!(counts, [2, 2, 1, 0]);
    assert_eq!(queued(&store).await, addresses([6]));
    assert_eq!(history(&store, "deleted").await, 5);
}

const fn time(phase: Phase) -> Option<Utc> {
    match phase {
        Phase::Releasing { until } | Phase::Waiting { until } => Some(until),
        Phase::Checking { since } => Some(since),
        Phase::Idle | Phase::Clearing | Phase::Scanning => None,
    }
}

/// Each step, then a restart after 500 s away: what is waited for moves, a pause does not.
#[tokio::test]
async fn rule_10_every_phase_survives_a_restart_and_time_away_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let clock: Arc<Hand> = Arc::default();
    let mut now = 1_000;
    clock.set(now);
    let mut store = open(folder.path(), &clock);
    write(&store, |tx| cycle::step(tx, &Event::Start)).await;
    let mut seen = Vec::new();
    for (event, wait, moved_by) in [
        (Event::Tick, 0, 0),
        (Event::Cleared, 60, 500),
        (Event::Tick, 0, 0),
        (Event::Scanned { free: 4 }, 0, 500),
        (Event::Tick, 3_600, 0),
    ] {
        let stepped = write(&store, move |tx| cycle::step(tx, &event)).await;
        let phase = stepped.unwrap().phase;
        seen.push(phase.name());
        let begun = time(phase);
        if phase.name() != PhaseName::Clearing && phase.name() != PhaseName::Scanning {
            assert_eq!(begun, Some(Utc::EPOCH.plus_secs(now + wait)));
        }
        drop(store);
        now += 500;
        clock.set(now);
        store = open(folder.path(), &clock);
        write(&store, |tx| runtime::resume(tx)).await;
        let kept = cycle_of(&store).await.phase;
        assert_eq!(kept.name(), phase.name());
        assert_eq!(time(kept), begun.map(|at| at.plus_secs(moved_by)));
    }
    assert_eq!(seen, PhaseName::ALL[1..]);
    let kept = cycle_of(&store).await;
    let end = (kept.last_outcome, kept.runs_total, kept.last_scanned_free);
    assert_eq!(end, (Some(Outcome::Completed), 1, 4));
    assert_eq!(history(&store, "auto_cycle_started").await, 1);
    assert_eq!(history(&store, "auto_cycle_completed").await, 1);
}

#[tokio::test]
async fn parameters_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &Arc::default());
    let changed = write(&store, |tx| cycle::configure(tx, Some(60), None)).await;
    assert_eq!((changed.interval_secs, changed.max_run_secs), (60, 0));
    let changed = write(&store, |tx| cycle::configure(tx, None, Some(u32::MAX))).await;
    let parameters = (changed.interval_secs, changed.max_run_secs);
    assert_eq!(parameters, (60, u32::MAX));
    // Beyond the contract's range the table refuses, whoever writes.
    let refused: Result<_, StoreError> =
        store.write(|tx| cycle::configure(tx, Some(59), None)).await;
    assert!(refused.is_err());
}
