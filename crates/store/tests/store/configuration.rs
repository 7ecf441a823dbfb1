//! Changes of the configuration in the middle of an attempt, and the pause after association.

use std::time::Duration;

use civ_orch::attempt::{Outcome, StateName};
use civ_store::{ReadConn, StoreError, WriteTx, agents, queue, results, seed, settings};
use civ_testkit::{address, seed as seed_of, site, validator};
use civ_types::{Clock as _, SiteId};

use crate::world::World;

async fn recheck(world: &World) {
    world.db.write(queue::recheck).await.unwrap();
}

/// A prober asks, and what is handed out to it counts.
async fn hand_out(world: &World, to: SiteId) {
    let list = move |conn: &ReadConn<'_>| agents::site_list(conn, &to);
    let list = world.db.read(list).await.unwrap();
    let job = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        for one in &list.work {
            results::hand_out(tx, one.ip, one.claim, &one.uncounted, one.revision)?;
        }
        Ok(())
    };
    world.db.write(job).await.unwrap();
}

#[tokio::test]
async fn yaml_seeds_each_table_once() {
    let world = World::new(2, 1).await;
    let other = seed_of(3, 3);
    world.sql().execute("DELETE FROM sites", []).unwrap();
    let job = move |tx: &mut WriteTx<'_>| seed::apply(tx, &other);
    world.db.write(job).await.unwrap();
    let counts = world.db.read(civ_store::ips::counts).await.unwrap();
    assert_eq!(counts.validators, 2, "was not empty");
    let sites = world.db.read(settings::site_ids).await.unwrap();
    assert_eq!(sites, [], "was emptied, and stays so");
    let world = World::new(2, 0).await;
    let other = seed_of(3, 3);
    let job = move |tx: &mut WriteTx<'_>| seed::apply(tx, &other);
    world.db.write(job).await.unwrap();
    let sites = world.db.read(settings::site_ids).await.unwrap();
    assert_eq!(sites, [site(1), site(2), site(3)], "never had one");
}

#[tokio::test]
async fn a_removed_site_or_port_no_longer_counts() {
    let world = World::new(1, 2).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.egress(ip, true).await;
    world.complete(ip).await.unwrap();
    world.inbound(ip, site(1), true).await;
    assert_eq!(world.state(ip).await, StateName::Checking);
    world
        .sql()
        .execute("DELETE FROM sites WHERE slot = 2", [])
        .unwrap();
    recheck(&world).await;
    assert_eq!(world.state(ip).await, StateName::Aggregating);
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.outcome(), Some(Outcome::Pass));
}

#[tokio::test]
async fn an_added_site_counts_once_it_has_been_handed_out() {
    for handed_out in [false, true] {
        let world = World::new(1, 1).await;
        let ip = address(1);
        world.up_to_checking(ip).await;
        let add = "INSERT INTO sites (slot, site_id) VALUES (2, 'site-2')";
        world.sql().execute(add, []).unwrap();
        if handed_out {
            hand_out(&world, site(2)).await;
        }
        world.egress(ip, true).await;
        world.complete(ip).await.unwrap();
        world.inbound(ip, site(1), true).await;
        let expected = if handed_out {
            StateName::Checking
        } else {
            StateName::Aggregating
        };
        assert_eq!(world.state(ip).await, expected);
        if handed_out {
            world.inbound(ip, site(2), true).await;
        }
        world.released(ip).await;
        let outcome = world.row(ip).await.attempt.outcome();
        assert_eq!(outcome, Some(Outcome::Pass), "handed out: {handed_out}");
    }
}

#[tokio::test]
async fn an_added_port_never_makes_a_healthy_address_partial() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    let add = "UPDATE settings SET inbound_ports = '[22, 80]'";
    world.sql().execute(add, []).unwrap();
    world.egress(ip, true).await;
    world.inbound(ip, site(1), true).await;
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.outcome(), Some(Outcome::Pass));
}

#[tokio::test]
async fn with_nothing_expected_the_self_check_alone_makes_a_pass() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world
        .sql()
        .execute("UPDATE check_types SET enabled = 0", [])
        .unwrap();
    world.up_to_checking(ip).await;
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.outcome(), Some(Outcome::Pass));
}

#[tokio::test]
async fn the_settle_pause_is_read_at_every_use() {
    let world = World::new(1, 0).await;
    world
        .sql()
        .execute("UPDATE settings SET fip_settle_seconds = 30", [])
        .unwrap();
    world.up_to_self_check(address(1)).await;
    let left = async || {
        let work = |conn: &ReadConn<'_>| agents::work(conn, &validator(1));
        let work = world.db.read(work).await.unwrap().unwrap();
        work.settles_at.map(|at| at.since(world.db.clock.now()))
    };
    assert_eq!(left().await, Some(Duration::from_secs(30)));
    world
        .sql()
        .execute("UPDATE settings SET fip_settle_seconds = 10", [])
        .unwrap();
    world.db.clock.advance_secs(4);
    assert_eq!(left().await, Some(Duration::from_secs(6)));
    // A requeue clears the stamp; `checking` never waits.
    world.self_check(address(1), true).await;
    assert_eq!(left().await, None);
    world.cancel(address(1)).await.unwrap();
    world.enqueue(&[address(1)]).await;
    let stamps = world.row(address(1)).await.attempt.head.stamps;
    assert_eq!(stamps.associated, None);
}

#[tokio::test]
async fn nothing_is_handed_out_after_complete_or_during_a_release() {
    let world = World::new(1, 1).await;
    let work = async || {
        let work = |conn: &ReadConn<'_>| agents::work(conn, &validator(1));
        world.db.read(work).await.unwrap()
    };
    assert_eq!(work().await, None);
    world.enqueue(&[address(1)]).await;
    world.claim().await;
    assert_eq!(work().await, None, "not associated yet");
    world.associated(address(1)).await;
    assert!(work().await.is_some());
    world.self_check(address(1), true).await;
    assert!(work().await.is_some());
    world.complete(address(1)).await.unwrap();
    assert_eq!(work().await, None);
    assert_eq!(world.state(address(1)).await, StateName::Checking);
    world.cancel(address(1)).await.unwrap();
    assert_eq!(work().await, None);
}
