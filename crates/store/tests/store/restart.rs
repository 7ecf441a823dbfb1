//! A restart changes nothing, and the time that the process was down counts against no deadline.

use std::time::Duration;

use civ_orch::attempt::StateName;
use civ_store::ips::IpRow;
use civ_store::leases;
use civ_store::{agents, queue, sites, validators};
use civ_testkit::{address, site, validator};
use civ_types::{Address, Clock as _, Utc};

use crate::world::World;

const HOUR: u32 = 3600;

fn down() -> Duration {
    Duration::from_secs(HOUR.into())
}

/// The row without what a restart moves.
fn still(mut row: IpRow) -> IpRow {
    row.attempt.due_at = None;
    row.attempt.head.stamps.associated = None;
    row
}

fn moved(at: Option<Utc>) -> Option<Utc> {
    at.map(|at| at.plus_secs(HOUR))
}

/// One address in each state that is not terminal, and a pulse five seconds later.
async fn everywhere(all: &[Address]) -> World {
    let world = World::new(4, 1).await;
    world.enqueue(all).await;
    world.claim().await;
    for n in 2..=4 {
        world.associated(address(n)).await;
    }
    for n in 3..=4 {
        world.self_check(address(n), true).await;
    }
    world.egress(address(4), true).await;
    world.complete(address(4)).await.unwrap();
    world.inbound(address(4), site(1), true).await;
    world.db.clock.advance_secs(5);
    // The last sign of life of the process, and signs of an agent and a prober.
    let now = world.db.clock.now();
    let pulse = move |tx: &mut civ_store::WriteTx<'_>| {
        validators::seen(tx, &[(validator(1), now)])?;
        sites::seen(tx, &[(site(1), now)])
    };
    world.db.write(pulse).await.unwrap();
    world
}

#[tokio::test]
async fn rule_10_a_restart_moves_every_deadline_and_nothing_else() {
    let all: Vec<_> = (1..=5).map(address).collect();
    let mut world = everywhere(&all).await;
    let now = world.db.clock.now();
    let mut before = Vec::new();
    for ip in &all {
        before.push(world.row(*ip).await);
    }
    let states: Vec<_> = before
        .iter()
        .map(|row| row.attempt.state.as_str())
        .collect();
    assert_eq!(
        states,
        [
            "assigning_fip",
            "awaiting_self_check",
            "checking",
            "aggregating",
            "queued"
        ]
    );
    let events = world.events(address(4)).await;
    let held = world.db.read(leases::held).await.unwrap();
    let orders = world.orders().await;

    world.db.restart(down()).await;

    for (ip, before) in all.iter().zip(before) {
        let after = world.row(*ip).await;
        assert_eq!(after.attempt.due_at, moved(before.attempt.due_at));
        let stamp = |row: &IpRow| row.attempt.head.stamps.associated;
        if before.attempt.state == StateName::AwaitingSelfCheck {
            assert_eq!(stamp(&after), moved(stamp(&before)));
        } else {
            assert_eq!(stamp(&after), stamp(&before));
        }
        assert_eq!(still(after), still(before));
    }
    assert_eq!(world.events(address(4)).await, events);
    assert_eq!(world.db.read(leases::held).await.unwrap(), held);
    let after = world.orders().await;
    assert_eq!(after.len(), orders.len());
    for (after, before) in after.iter().zip(&orders) {
        assert_eq!(after.not_before, before.not_before.plus_secs(HOUR));
        assert_eq!((after.claim, after.call), (before.claim, before.call));
    }
    let agents = world.db.read(validators::list).await.unwrap();
    assert_eq!(agents[0].last_seen_at, moved(Some(now)));
    let probers = world.db.read(sites::list).await.unwrap();
    assert_eq!(probers[0].last_seen_at, moved(Some(now)));
    // And it goes on where it was.
    assert_eq!(world.tick_after(0).await, 0);
    world.associated(address(1)).await;
    world.self_check(address(2), true).await;
    world.complete(address(3)).await.unwrap();
    world.released(address(4)).await;
    assert_eq!(world.state(address(4)).await, StateName::Done);
}

#[tokio::test]
async fn rule_10_a_clock_that_is_behind_at_the_start_makes_no_deadline_later() {
    let all: Vec<_> = (1..=5).map(address).collect();
    let mut world = everywhere(&all).await;
    let before = world.row(address(3)).await.attempt.due_at.unwrap();
    let back = world.db.clock.now().minus_secs(HOUR);
    world.db.clock.set(back);
    world.db.restart(Duration::ZERO).await;
    let after = world.row(address(3)).await.attempt.due_at.unwrap();
    assert_eq!(after, before.minus_secs(HOUR));
}

#[tokio::test]
async fn rule_10_who_was_away_gets_the_time_to_come_back() {
    // An agent that was refused for minutes tries again within ten seconds, not at once.
    let all: Vec<_> = (1..=5).map(address).collect();
    let mut world = everywhere(&all).await;
    let due = world.row(address(3)).await.attempt.due_at.unwrap();
    // Written down one second before its end.
    world.db.clock.set(due.minus_secs(1));
    let pulse = |tx: &mut civ_store::WriteTx<'_>| validators::seen(tx, &[]);
    world.db.write(pulse).await.unwrap();
    for (down, left) in [(3, 5), (HOUR, 12)] {
        world.db.restart(Duration::from_secs(down.into())).await;
        let now = world.db.clock.now();
        let due = world.row(address(3)).await.attempt.due_at;
        assert_eq!(due, Some(now.plus_secs(left)), "after {down} s");
    }
}

#[tokio::test]
async fn rule_10_lost_time_moves_deadlines_both_ways_and_is_told() {
    let all: Vec<_> = (1..=5).map(address).collect();
    let world = everywhere(&all).await;
    let before = world.row(address(3)).await.attempt.due_at.unwrap();
    let hour = i64::from(HOUR) * 1_000_000;
    for (jump, stalled, by) in [(-hour, 0, -hour), (0, HOUR, hour), (hour, 0, hour)] {
        let due = world.row(address(3)).await.attempt.due_at.unwrap();
        let stalled = Duration::from_secs(stalled.into());
        let lost = world
            .db
            .write(move |tx| civ_store::runtime::lost_time(tx, jump, stalled));
        lost.await.unwrap();
        let after = world.row(address(3)).await.attempt.due_at.unwrap();
        assert_eq!(after.as_micros(), due.as_micros() + by);
    }
    let after = world.row(address(3)).await.attempt.due_at.unwrap();
    assert_eq!(after, before.plus_secs(HOUR));
    let filter = civ_store::events::Filter::default();
    let told = move |conn: &civ_store::ReadConn<'_>| civ_store::events::tail(conn, &filter, 3);
    let told = world.db.read(told).await.unwrap();
    assert!(told.iter().all(|event| event.event_type == "time_lost"));
}

#[tokio::test]
async fn rule_10_what_was_left_of_a_settle_pause_is_still_left() {
    let mut world = World::new(1, 0).await;
    world
        .sql()
        .execute("UPDATE settings SET fip_settle_seconds = 20", [])
        .unwrap();
    world.up_to_self_check(address(1)).await;
    world.db.clock.advance_secs(5);
    world.db.write(|tx| queue::tick(tx, 1)).await.unwrap();
    world.db.restart(down()).await;
    let work = |conn: &civ_store::ReadConn<'_>| agents::work(conn, &validator(1));
    let work = world.db.read(work).await.unwrap().unwrap();
    let left = work.settles_at.unwrap().since(world.db.clock.now());
    assert_eq!(left, Duration::from_secs(15));
}

#[tokio::test]
async fn rule_10_a_silenced_validator_stays_so() {
    let mut world = World::new(1, 0).await;
    world.up_to_self_check(address(1)).await;
    world.tick_after(120).await;
    world.released(address(1)).await;
    world.db.restart(down()).await;
    assert_eq!(world.claim().await, 0);
    world.speaks(validator(1)).await;
    assert_eq!(world.claim().await, 1);
}
