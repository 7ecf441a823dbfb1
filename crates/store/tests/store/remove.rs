//! Clearing and bulk deletion leave exactly what deleting one by one leaves.

use std::collections::BTreeSet;

use civ_orch::attempt::{FaultKind, Report, StateName};
use civ_store::settings::{self, Orchestrator};
use civ_store::{Hint, WriteTx, ips, queue};
use civ_testkit::{address, addresses, site};
use civ_types::Address;
use fastrand::Rng;
use rusqlite::types::Value;

use crate::world::World;

const VALIDATORS: u8 = 4;
const ADDRESSES: u8 = 14;

/// Everything that is stored, but for the numbers of events, whose order among addresses is free.
fn dump(world: &World) -> Vec<String> {
    let sql = world.sql();
    let mut rows = Vec::new();
    for (table, columns) in [
        ("ips", "*"),
        ("leases", "*"),
        ("outbox", "*"),
        ("registry", "*"),
        ("expected_checks", "*"),
        ("inconclusive_checks", "*"),
        ("site_progress", "*"),
        ("checks", "*"),
        ("validators", "*"),
        (
            "events",
            "ip_id, address, cycle_id, validator_id, site_id, event_type, severity, payload, \
             occurred_at",
        ),
    ] {
        let mut statement = sql
            .prepare(&format!("SELECT {columns} FROM {table}"))
            .unwrap();
        let n = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            let values: Result<Vec<Value>, _> = (0..n).map(|i| row.get(i)).collect();
            Ok(format!("{table} {:?}", values?))
        };
        let some = statement.query_map([], read).unwrap();
        rows.extend(some.map(Result::unwrap));
    }
    rows.sort();
    rows
}

/// A queue in the middle of its work: the same seed makes the same queue.
async fn busy(seed: u64, keep: i64) -> World {
    let mut rng = Rng::with_seed(seed);
    let world = World::new(VALIDATORS, 1).await;
    let told = Orchestrator {
        fip_settle_seconds: 0,
        history_retention_cycles: keep,
    };
    let set = move |tx: &mut WriteTx<'_>| settings::set_orchestrator(tx, told);
    world.db.write(set).await.unwrap();
    world.enqueue(&addresses(ADDRESSES)).await;
    for _ in 0..90 {
        world.db.clock.advance_secs(1);
        world.claim().await;
        let one = address(rng.u8(1..=ADDRESSES));
        match world.state(one).await {
            StateName::Queued if rng.u8(0..4) == 0 => world.cancel(one).await.unwrap(),
            StateName::Queued => {}
            StateName::AssigningFip => match rng.u8(0..5) {
                0 => {
                    let seen = "port of somebody else".to_owned();
                    world.answer(one, Report::Occupied { seen }).await;
                }
                1 => world.cloud_failed(one, FaultKind::Address).await,
                _ => world.associated(one).await,
            },
            StateName::AwaitingSelfCheck => world.self_check(one, rng.u8(0..4) > 0).await,
            StateName::Checking => {
                world.egress(one, rng.bool()).await;
                if rng.bool() {
                    world.complete(one).await.unwrap();
                }
                if world.state(one).await == StateName::Checking && rng.bool() {
                    world.inbound(one, site(1), rng.bool()).await;
                }
            }
            StateName::Aggregating if rng.bool() => world.released(one).await,
            StateName::Aggregating => {}
            StateName::Done | StateName::Failed | StateName::Occupied => {
                if rng.u8(0..3) > 0 {
                    world.enqueue(&[one]).await;
                }
            }
        }
    }
    world
}

async fn in_order(world: &World) -> Vec<(Address, StateName)> {
    let all = |conn: &civ_store::ReadConn<'_>| {
        ips::list(
            conn,
            &ips::Filter::default(),
            ips::ListOrder::Sequence,
            None,
        )
    };
    let rows = world.db.read(all).await.unwrap();
    let row = |row: ips::IpRow| (row.attempt.head.address, row.attempt.state);
    rows.into_iter().map(row).collect()
}

/// Hints as a set: nobody counts them.
fn hints(world: &World) -> BTreeSet<String> {
    let hints = world.db.take_hints();
    hints.iter().map(|hint| format!("{hint:?}")).collect()
}

#[tokio::test]
async fn clearing_is_deleting_one_by_one() {
    let mut seen = BTreeSet::new();
    for seed in 0..16 {
        let keep = i64::try_from(seed % 3).unwrap();
        let (at_once, one_by_one) = (busy(seed, keep).await, busy(seed, keep).await);
        assert_eq!(dump(&at_once), dump(&one_by_one), "the same seed");
        let queue = in_order(&at_once).await;
        seen.extend(queue.iter().map(|(_, state)| state.as_str()));
        drop(at_once.db.take_hints());
        drop(one_by_one.db.take_hints());
        let cleared = at_once.db.write(queue::clear).await.unwrap();
        let expected: Vec<_> = queue.iter().map(|(address, _)| *address).collect();
        assert_eq!(cleared, expected);
        for (address, _) in queue {
            one_by_one.delete(address).await.unwrap();
        }
        assert_eq!(in_order(&at_once).await, []);
        assert_eq!(dump(&at_once), dump(&one_by_one), "seed {seed}");
        assert_eq!(hints(&at_once), hints(&one_by_one), "seed {seed}");
    }
    assert_eq!(seen.len(), StateName::ALL.len(), "states reached: {seen:?}");
}

/// What the auto-cycle does: the same in bounded steps, up to an address that it has chosen.
#[tokio::test]
async fn clearing_in_parts_is_deleting_one_by_one() {
    for seed in 200..208 {
        let (in_parts, one_by_one) = (busy(seed, 1).await, busy(seed, 1).await);
        let newest = in_parts.db.read(queue::newest).await.unwrap().unwrap();
        loop {
            let part = move |tx: &mut WriteTx<'_>| queue::clear_some(tx, newest, 3);
            if in_parts.db.write(part).await.unwrap() < 3 {
                break;
            }
        }
        for (address, _) in in_order(&one_by_one).await {
            one_by_one.delete(address).await.unwrap();
        }
        assert_eq!(in_order(&in_parts).await, []);
        assert_eq!(dump(&in_parts), dump(&one_by_one), "seed {seed}");
        assert_eq!(hints(&in_parts), hints(&one_by_one), "seed {seed}");
    }
}

#[tokio::test]
async fn deleting_a_list_is_deleting_one_by_one() {
    let mut n_deleted = 0;
    for seed in 100..112 {
        let (at_once, one_by_one) = (busy(seed, 1).await, busy(seed, 1).await);
        let mut rng = Rng::with_seed(seed);
        let list: Vec<_> = (1..=ADDRESSES + 4)
            .filter(|_| rng.bool())
            .map(address)
            .collect();
        let asked = list.clone();
        let removed = move |tx: &mut WriteTx<'_>| queue::delete_all(tx, &asked);
        let removed = at_once.db.write(removed).await.unwrap();
        for &one in &list {
            let known = one_by_one.delete(one).await.is_ok();
            let told = if known {
                &removed.deleted
            } else {
                &removed.not_found
            };
            assert!(told.contains(&one), "{one}");
        }
        assert_eq!(removed.deleted.len() + removed.not_found.len(), list.len());
        n_deleted += removed.deleted.len();
        assert_eq!(dump(&at_once), dump(&one_by_one), "seed {seed}");
    }
    assert!(n_deleted > 40, "{n_deleted}");
}

#[tokio::test]
async fn what_is_named_twice_is_told_once() {
    let world = World::new(1, 0).await;
    world.enqueue(&[address(1)]).await;
    let twice = [address(1), address(1)];
    let removed = move |tx: &mut WriteTx<'_>| queue::delete_all(tx, &twice);
    let removed = world.db.write(removed).await.unwrap();
    assert_eq!(removed.deleted, [address(1)]);
    assert_eq!(removed.not_found, []);
}

#[tokio::test]
async fn rule_03_what_is_cleared_while_it_is_checked_is_released() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    drop(world.db.take_hints());
    world.db.write(queue::clear).await.unwrap();
    assert!(world.db.take_hints().contains(&Hint::Outbox));
    assert_eq!(world.find(ip).await, None);
    world.released(ip).await;
    assert_eq!(world.orders().await, []);
    let events = world.events(ip).await;
    assert_eq!(events.last().map(String::as_str), Some("fip_released"));
}
