//! What is, or may be, on our ports: written before the call, found after a crash, given back.

use std::time::Duration;

use civ_orch::attempt::{FaultKind, StateName};
use civ_orch::reconcile::{Held, Repair, Seen, reconcile};
use civ_store::leases::{self, Call, ReleaseEnd};
use civ_testkit::{address, fip, port, validator};
use civ_types::Clock as _;

use crate::world::World;

async fn held(world: &World) -> Vec<Held> {
    world.db.read(leases::held).await.unwrap()
}

fn seen(n: u8, on: u8) -> Seen {
    Seen {
        fip: fip(address(n)),
        address: address(n),
        port: port(on),
    }
}

async fn adopt(world: &World, orphan: Seen) -> bool {
    let job = move |tx: &mut civ_store::WriteTx<'_>| leases::adopt_orphan(tx, &orphan);
    world.db.write(job).await.unwrap()
}

async fn detach(world: &World, lease: Held) -> bool {
    let job = move |tx: &mut civ_store::WriteTx<'_>| leases::detached(tx, &lease, "free");
    world.db.write(job).await.unwrap()
}

#[tokio::test]
async fn rule_03_the_call_is_written_down_before_it_is_made() {
    let mut world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    world.db.restart(Duration::ZERO).await;
    let order = world.order(ip, Call::Associate).await.unwrap();
    assert_eq!((order.port, order.fip), (port(1), None));
    assert_eq!(order.ip, Some(world.row(ip).await.attempt.head.ip));
    // Found in the cloud, and the process dies in the call: it is known where to look.
    let claim = order.claim;
    let found = move |tx: &mut civ_store::WriteTx<'_>| leases::fip_found(tx, claim, &fip(ip));
    assert!(world.db.write(found).await.unwrap());
    world.db.restart(Duration::ZERO).await;
    let order = world.order(ip, Call::Associate).await.unwrap();
    assert_eq!(order.fip, Some(fip(ip)));
}

#[tokio::test]
async fn rule_03_what_was_deleted_is_still_released_after_a_restart() {
    let mut world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.delete(ip).await.unwrap();
    world.db.restart(Duration::from_secs(3600)).await;
    let order = world.order(ip, Call::Release).await.unwrap();
    assert_eq!(order.fip, Some(fip(ip)));
    world.released(ip).await;
    assert_eq!(world.orders().await, []);
    assert!(world.events(ip).await.contains(&"fip_released".to_owned()));
}

#[tokio::test]
async fn rule_03_an_association_that_is_no_longer_wanted_is_not_made() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    let (_, claim) = world.holder(ip).await;
    world.cancel(ip).await.unwrap();
    let found = move |tx: &mut civ_store::WriteTx<'_>| leases::fip_found(tx, claim, &fip(ip));
    assert!(!world.db.write(found).await.unwrap());
    let calls: Vec<_> = world
        .orders()
        .await
        .iter()
        .map(|order| order.call)
        .collect();
    assert_eq!(calls, [Call::Release, Call::Associate], "the release first");
}

#[tokio::test]
async fn rule_03_orphans_are_adopted_and_released() {
    let world = World::new(2, 0).await;
    world.enqueue(&[address(7)]).await;
    assert!(adopt(&world, seen(7, 1)).await);
    assert!(!adopt(&world, seen(7, 1)).await, "it is being released");
    let order = world.order(address(7), Call::Release).await.unwrap();
    assert_eq!((order.ip, order.fip), (None, Some(fip(address(7)))));
    // Neither the address nor the port are claimed meanwhile.
    assert_eq!(world.claim().await, 0);
    world.enqueue(&[address(8)]).await;
    assert_eq!(world.claim().await, 1);
    assert_eq!(world.holder(address(8)).await.0, validator(2));
    world.released(address(7)).await;
    assert_eq!(world.claim().await, 1);
    assert_eq!(world.holder(address(7)).await.0, validator(1));
    let events = world.events(address(7)).await;
    assert_eq!(
        events,
        ["enqueued", "reconciled", "fip_released", "claimed"]
    );
}

#[tokio::test]
async fn rule_03_an_address_with_a_lease_is_no_orphan() {
    let world = World::new(2, 0).await;
    world.up_to_self_check(address(1)).await;
    assert!(!adopt(&world, seen(1, 2)).await);
    world.delete(address(1)).await.unwrap();
    assert!(
        !adopt(&world, seen(1, 1)).await,
        "its own release is pending"
    );
    assert_eq!(world.orders().await.len(), 1);
}

#[tokio::test]
async fn rule_03_a_detached_address_goes_back_as_a_retry() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    for state in [StateName::Queued, StateName::Failed] {
        world.enqueue(&[ip]).await;
        world.claim().await;
        world.associated(ip).await;
        world.db.clock.advance_secs(1);
        let began = world.db.clock.now();
        let leases = held(&world).await;
        let repairs = reconcile(&[], &leases, began);
        assert_eq!(repairs, [Repair::Detached(leases[0].claim)]);
        assert!(detach(&world, leases[0].clone()).await);
        assert!(!detach(&world, leases[0].clone()).await);
        let row = world.row(ip).await.attempt;
        assert_eq!((row.state, row.head.retries.assign), (state, 1));
        world.released(ip).await;
    }
    assert!(world.events(ip).await.contains(&"reconciled".to_owned()));
}

#[tokio::test]
async fn rule_03_a_busy_or_younger_lease_is_left_alone() {
    let world = World::new(3, 0).await;
    let began = world.db.clock.now();
    world.enqueue(&[address(1), address(2), address(3)]).await;
    world.claim().await;
    // One is being associated, one was associated since, one is being released.
    world.associated(address(2)).await;
    world.associated(address(3)).await;
    world.cancel(address(3)).await.unwrap();
    assert_eq!(reconcile(&[], &held(&world).await, began), []);
    let later = began.plus_secs(1);
    let detached = reconcile(&[], &held(&world).await, later);
    assert_eq!(detached.len(), 1, "{detached:?}");
    // And what changed between the listing and the repair is not repaired.
    let stale = held(&world).await.into_iter().find(|lease| lease.attached);
    world.db.clock.advance_secs(1);
    world.cancel(address(2)).await.unwrap();
    assert!(!detach(&world, stale.unwrap()).await);
}

#[tokio::test]
async fn rule_04_an_address_that_is_not_ours_any_more_ends_the_lease_and_is_told() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.cancel(ip).await.unwrap();
    let claim = world.order(ip, Call::Release).await.unwrap().claim;
    let seen = "bound to port foreign".to_owned();
    world.released_as(claim, ReleaseEnd::NotOurs { seen }).await;
    assert!(world.events(ip).await.contains(&"fip_conflict".to_owned()));
    assert_eq!(held(&world).await, []);
}

#[tokio::test]
async fn rule_05_a_validator_waits_for_its_release_even_when_the_attempt_has_ended() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.complete(ip).await.unwrap();
    let claim = world.order(ip, Call::Release).await.unwrap().claim;
    let failing = move |tx: &mut civ_store::WriteTx<'_>| {
        let not_before = tx.now().plus_secs(9);
        leases::release_failed(tx, claim, not_before, "the cloud is away")
    };
    world.db.write(failing).await.unwrap();
    assert_eq!(world.tick_after(60).await, 1);
    assert_eq!(world.state(ip).await, StateName::Done);
    assert_eq!(world.row(ip).await.attempt.head.stamps.released, None);
    world.enqueue(&[address(2)]).await;
    assert_eq!(world.claim().await, 0);
    let order = world.order(ip, Call::Release).await.unwrap();
    assert_eq!(order.tries, 1);
    // Requeued meanwhile, it is not claimed by anybody, and its old release does not touch it.
    world.enqueue(&[ip]).await;
    assert_eq!(world.claim().await, 0);
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.head.stamps.released, None);
    assert_eq!(world.claim().await, 1);
}

#[tokio::test]
async fn rule_05_ports_of_open_leases_stay_ours() {
    let world = World::new(1, 0).await;
    world.up_to_checking(address(1)).await;
    world
        .sql()
        .execute("UPDATE validators SET port_id = 'new'", [])
        .unwrap();
    let ports = world.db.read(leases::ports).await.unwrap();
    assert!(ports.contains(&port(1)) && ports.len() == 2, "{ports:?}");
    world.cancel(address(1)).await.unwrap();
    let order = world.order(address(1), Call::Release).await.unwrap();
    assert_eq!(order.port, port(1));
}

#[tokio::test]
async fn rule_12_an_outage_uses_up_no_retries_and_pauses_no_port() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    for _ in 0..10 {
        assert_eq!(world.claim().await, 1);
        world.cloud_failed(ip, FaultKind::Cloud).await;
        world.released(ip).await;
    }
    let head = world.row(ip).await.attempt.head;
    assert_eq!((head.retries.assign, head.retries.self_check), (0, 0));
}

#[tokio::test]
async fn rule_12_a_fault_of_the_port_pauses_that_validator_and_says_why() {
    let world = World::new(2, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    let (first, _) = world.holder(ip).await;
    world.cloud_failed(ip, FaultKind::Port).await;
    world.released(ip).await;
    assert_eq!(world.claim().await, 1);
    assert_ne!(world.holder(ip).await.0, first);
    assert_eq!(world.row(ip).await.attempt.head.retries.assign, 0);
    world.enqueue(&[address(2)]).await;
    assert_eq!(world.claim().await, 0);
    let rows = world.db.read(civ_store::validators::list).await.unwrap();
    let paused = rows.into_iter().find(|row| row.id == first).unwrap();
    assert_eq!(paused.paused_why, "the cloud said no");
    let until = paused.paused_until.unwrap();
    let now = world.db.clock.now();
    let due = move |conn: &civ_store::ReadConn<'_>| civ_store::queue::next_due(conn, now);
    assert!(world.db.read(due).await.unwrap().unwrap() <= until);
    world.db.clock.set(until);
    assert_eq!(world.claim().await, 1);
}
