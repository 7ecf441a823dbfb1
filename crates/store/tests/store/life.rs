//! The whole life of an address to each of its ends, and every effect twice.

use civ_orch::attempt::{Cause, FaultKind, Outcome, Report, StateName};
use civ_store::agents::NotAccepted;
use civ_store::leases::{Call, ReleaseEnd};
use civ_testkit::{address, fip, rules, site};

use crate::world::World;

#[tokio::test]
async fn a_healthy_address_passes() {
    let world = World::new(1, 2).await;
    let ip = address(1);
    world.up_to_done(ip, 2, true).await;
    let row = world.row(ip).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Pass));
    let stamps = row.attempt.head.stamps;
    assert!(stamps.assigned.is_some() && stamps.associated.is_some());
    assert!(stamps.checking.is_some() && stamps.aggregated.is_some());
    assert!(stamps.released.is_some());
    assert_eq!(world.orders().await, []);
    assert_eq!(
        world.events(ip).await,
        [
            "enqueued",
            "claimed",
            "fip_associated",
            "self_check_result",
            "checking_started",
            "egress_complete",
            "site_complete",
            "site_complete",
            "aggregated",
            "fip_released",
        ]
    );
    assert_eq!(world.checks(ip).await.len(), 2 + 2 * 3);
}

#[tokio::test]
async fn what_fails_everywhere_fails_and_what_fails_somewhere_is_partial() {
    let world = World::new(1, 1).await;
    world.up_to_done(address(1), 1, false).await;
    let row = world.row(address(1)).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Fail));

    world.up_to_checking(address(2)).await;
    world.egress(address(2), true).await;
    world.complete(address(2)).await.unwrap();
    world.inbound(address(2), site(1), false).await;
    world.released(address(2)).await;
    let row = world.row(address(2)).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Partial));
}

#[tokio::test]
async fn a_window_that_ends_forces_the_verdict() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.egress(ip, true).await;
    assert_eq!(world.tick_after(119).await, 0);
    assert_eq!(world.tick_after(1).await, 1);
    assert_eq!(world.state(ip).await, StateName::Aggregating);
    world.released(ip).await;
    let row = world.row(ip).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Partial));
}

#[tokio::test]
async fn missing_checks_count_unless_told_otherwise() {
    let mut lenient = rules();
    lenient.missing_counts = false;
    let world = World::with(lenient, 1, 1).await;
    world.up_to_checking(address(1)).await;
    world.egress(address(1), true).await;
    world.tick_after(120).await;
    world.released(address(1)).await;
    let row = world.row(address(1)).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Pass));

    // Nothing expected was reported at all.
    world.up_to_checking(address(2)).await;
    world.tick_after(120).await;
    world.released(address(2)).await;
    let row = world.row(address(2)).await;
    assert_eq!(row.attempt.outcome(), Some(Outcome::Fail));
}

#[tokio::test]
async fn failed_self_checks_use_up_the_retries() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_self_check(ip).await;
    world.self_check(ip, false).await;
    assert_eq!(world.state(ip).await, StateName::Queued);
    assert_eq!(world.claim().await, 0, "rule 5: its release is pending");
    world.released(ip).await;
    assert_eq!(world.claim().await, 1);
    world.associated(ip).await;
    world.self_check(ip, false).await;
    let row = world.row(ip).await.attempt;
    assert_eq!(row.state, StateName::Failed);
    assert_eq!(row.cause, Some(Cause::SelfCheckRetries));
    assert_eq!(row.outcome(), Some(Outcome::Fail));
    world.released(ip).await;
    assert!(world.row(ip).await.attempt.head.stamps.released.is_some());
}

#[tokio::test]
async fn faults_of_the_address_use_up_the_retries() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    for state in [StateName::Queued, StateName::Failed] {
        assert_eq!(world.claim().await, 1);
        world.cloud_failed(ip, FaultKind::Address).await;
        assert_eq!(world.state(ip).await, state);
        world.released(ip).await;
    }
    let row = world.row(ip).await.attempt;
    assert_eq!(row.cause, Some(Cause::AssignRetries));
    assert_eq!(row.head.last_error, "the cloud said no");
}

#[tokio::test]
async fn somebody_elses_address_is_occupied_and_nothing_is_released() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    let seen = "bound to port foreign".to_owned();
    world.answer(ip, Report::Occupied { seen }).await;
    let row = world.row(ip).await.attempt;
    assert_eq!((row.state, row.outcome()), (StateName::Occupied, None));
    assert_eq!(world.orders().await, []);
    // The validator is free at once.
    world.enqueue(&[address(2)]).await;
    assert_eq!(world.claim().await, 1);
}

#[tokio::test]
async fn a_conflict_on_our_port_is_released_and_on_theirs_left_alone() {
    for ours in [true, false] {
        let world = World::new(1, 0).await;
        let ip = address(1);
        world.enqueue(&[ip]).await;
        world.claim().await;
        let seen = "both".to_owned();
        world.answer(ip, Report::Conflict { ours, seen }).await;
        assert_eq!(world.state(ip).await, StateName::Occupied);
        let release = world.order(ip, Call::Release).await;
        assert_eq!(release.is_some(), ours);
        assert!(world.events(ip).await.contains(&"fip_conflict".to_owned()));
    }
}

#[tokio::test]
async fn every_effect_may_come_twice() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    world.associated(ip).await;
    world.associated(ip).await;
    assert_eq!(world.state(ip).await, StateName::AwaitingSelfCheck);
    world.self_check(ip, true).await;
    world.self_check(ip, true).await;
    world.egress(ip, false).await;
    world.egress(ip, true).await;
    world.complete(ip).await.unwrap();
    world.complete(ip).await.unwrap();
    world.inbound(ip, site(1), true).await;
    let claim = world.order(ip, Call::Release).await.unwrap().claim;
    world.released_as(claim, ReleaseEnd::Released).await;
    let once = world.row(ip).await;
    world.released_as(claim, ReleaseEnd::Released).await;
    assert_eq!(world.row(ip).await, once);
    assert_eq!(once.attempt.outcome(), Some(Outcome::Pass));
    let events = world.events(ip).await;
    for kind in [
        "fip_associated",
        "self_check_result",
        "egress_complete",
        "site_complete",
        "aggregated",
        "fip_released",
    ] {
        let n = events.iter().filter(|event| *event == kind).count();
        assert_eq!(n, 1, "{kind} in {events:?}");
    }
    assert_eq!(world.checks(ip).await.len(), 2 + 3);
    // What comes after the end is told so.
    assert!(matches!(
        world.complete(ip).await,
        Err(NotAccepted::Stale(_))
    ));
    assert_eq!(world.inbound(ip, site(1), false).await, 3);
    assert_eq!(world.egress(ip, false).await, 2);
}

#[tokio::test]
async fn cancelling_and_deleting_from_every_state() {
    for delete in [false, true] {
        for n_steps in 0..6 {
            let world = World::new(1, 0).await;
            let ip = address(1);
            world.enqueue(&[ip]).await;
            if n_steps > 0 {
                world.claim().await;
            }
            if n_steps > 1 {
                world.associated(ip).await;
            }
            if n_steps > 2 {
                world.self_check(ip, true).await;
            }
            if n_steps > 3 {
                world.egress(ip, true).await;
                world.complete(ip).await.unwrap();
            }
            if n_steps > 4 {
                world.released(ip).await;
            }
            let before = world.state(ip).await;
            if delete {
                world.delete(ip).await.unwrap();
                assert_eq!(world.find(ip).await, None);
            } else if before.is_terminal() {
                assert!(world.cancel(ip).await.is_err());
                continue;
            } else {
                world.cancel(ip).await.unwrap();
                let row = world.row(ip).await.attempt;
                assert_eq!(row.outcome(), Some(Outcome::Cancelled), "{before}");
            }
            let pending = (1..5).contains(&n_steps);
            let release = world.order(ip, Call::Release).await;
            assert_eq!(release.is_some(), pending, "{before}");
            if pending {
                world.enqueue(&[address(2)]).await;
                assert_eq!(world.claim().await, 0, "{before}: the release is pending");
                world.released(ip).await;
                assert_eq!(world.claim().await, 1, "{before}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_after_a_cancel_changes_nothing_and_the_release_stays() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    world.claim().await;
    world.cancel(ip).await.unwrap();
    let fip = fip(ip);
    world.answer(ip, Report::Associated { fip }).await;
    assert_eq!(world.state(ip).await, StateName::Failed);
    let orders = world.orders().await;
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].call, Call::Release);
}

#[tokio::test]
async fn a_new_attempt_begins_with_nothing_of_the_old_one() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_done(ip, 1, true).await;
    let before = world.row(ip).await.attempt.head;
    let done = world.enqueue(&[ip]).await;
    assert_eq!(done.requeued, [ip]);
    let row = world.row(ip).await;
    let head = &row.attempt.head;
    assert_eq!(head.attempt.0, before.attempt.0 + 1);
    assert_eq!(head.cycle.0, before.cycle.0 + 1);
    assert_eq!(row.attempt.outcome(), None);
    assert_eq!(head.place, None);
    assert!(!row.egress_complete, "of the former attempt");
    let id = head.ip;
    let sites = world
        .db
        .read(move |conn| civ_store::ips::sites_complete(conn, Some(id)))
        .await
        .unwrap();
    assert!(sites.is_empty(), "of the former attempt: {sites:?}");
    assert_eq!(world.checks(ip).await, []);
}
