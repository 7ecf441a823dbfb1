//! The rules of the domain that one database decides.

use civ_orch::attempt::{Attempt, StateName};
use civ_store::agents::NotAccepted;
use civ_testkit::{address, addresses, validator};
use civ_types::{ClaimNo, Clock as _};

use crate::world::World;

#[tokio::test]
async fn rule_01_one_address_a_validator_and_one_validator_an_address() {
    let world = World::new(3, 0).await;
    world.enqueue(&addresses(5)).await;
    assert_eq!(world.claim().await, 3);
    assert_eq!(world.claim().await, 0);
    let mut who = Vec::new();
    for ip in addresses(3) {
        who.push(world.holder(ip).await.0);
    }
    who.sort();
    assert_eq!(who, [validator(1), validator(2), validator(3)]);
    assert_eq!(world.state(address(4)).await, StateName::Queued);
}

#[tokio::test]
async fn rule_01_the_database_itself_refuses_a_second_owner() {
    let world = World::new(2, 0).await;
    world.enqueue(&[address(1)]).await;
    world.claim().await;
    world.associated(address(1)).await;
    let insert = |address: &str, validator: &str, port: &str, fip: &str| {
        let sql = "INSERT INTO leases (claim_no, address, validator_id, port_id, fip_id, made_at, \
             changed_at) VALUES (1, ?1, ?2, ?3, ?4, 0, 0)";
        world.sql().execute(sql, [address, validator, port, fip])
    };
    let taken = ["203.0.113.1", "v1", "port-1", "fip-203.0.113.1"];
    let free = ["203.0.113.9", "v9", "port-9", "fip-9"];
    for column in 0..4 {
        let mut row = free;
        row[column] = taken[column];
        let [address, validator, port, fip] = row;
        let refused = insert(address, validator, port, fip).unwrap_err();
        assert!(refused.to_string().contains("UNIQUE"), "{refused}");
    }
    let [address, validator, port, fip] = free;
    assert_eq!(insert(address, validator, port, fip).unwrap(), 1);
}

#[tokio::test]
async fn rule_07_a_late_report_changes_nothing() {
    let world = World::new(2, 0).await;
    let ip = address(1);
    world.up_to_self_check(ip).await;
    let (first, old) = world.holder(ip).await;
    let other = validator(2);
    // Not the owner; not this claim.
    for (by, fence) in [
        (other.clone(), None),
        (other.clone(), Some(old)),
        (first.clone(), Some(ClaimNo(old.0 - 1))),
        (first.clone(), Some(ClaimNo(old.0 + 1))),
    ] {
        let told = world.self_check_as(by, ip, fence, true).await;
        assert!(matches!(told, Err(NotAccepted::Stale(_))), "{told:?}");
        assert_eq!(world.state(ip).await, StateName::AwaitingSelfCheck);
    }
    // Requeued: the old claim is over, whoever speaks of it.
    world.self_check(ip, false).await;
    let told = world.self_check_as(first.clone(), ip, None, true).await;
    assert!(matches!(told, Err(NotAccepted::Stale(_))));
    world.released(ip).await;
    world.claim().await;
    world.associated(ip).await;
    let (second, new) = world.holder(ip).await;
    assert!(old < new);
    let told = world
        .self_check_as(second.clone(), ip, Some(old), true)
        .await;
    assert!(matches!(told, Err(NotAccepted::Stale(_))));
    assert_eq!(world.state(ip).await, StateName::AwaitingSelfCheck);
    // A client of the old contract names no fence: then ownership decides.
    world.self_check_as(second, ip, None, true).await.unwrap();
    assert_eq!(world.state(ip).await, StateName::Checking);
}

#[tokio::test]
async fn rule_07_results_of_a_former_claim_decide_nothing() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_self_check(ip).await;
    assert_eq!(world.egress(ip, true).await, 0, "early results are kept");
    world.self_check(ip, false).await;
    world.released(ip).await;
    world.claim().await;
    world.associated(ip).await;
    world.self_check(ip, true).await;
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    let row = world.row(ip).await.attempt;
    assert_eq!(row.outcome().unwrap().as_str(), "fail", "all are missing");
    assert_eq!(world.checks(ip).await.len(), 2, "kept and shown");
}

#[tokio::test]
async fn rule_07_claim_numbers_grow_over_a_restored_backup() {
    let world = World::new(1, 0).await;
    world.enqueue(&[address(1)]).await;
    world.claim().await;
    let (_, claim) = world.holder(address(1)).await;
    world.delete(address(1)).await.unwrap();
    world.released(address(1)).await;
    // The counter as in a backup from before the claim.
    world
        .sql()
        .execute("UPDATE runtime SET last_claim = 0", [])
        .unwrap();
    world.db.clock.advance_secs(1);
    world.enqueue(&[address(1)]).await;
    world.claim().await;
    assert!(claim < world.holder(address(1)).await.1);
}

#[tokio::test]
async fn rule_08_silent_agents_let_every_claim_end() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    let mut n_claims = 0;
    while world.state(ip).await == StateName::Queued {
        assert_eq!(world.claim().await, 1);
        n_claims += 1;
        world.associated(ip).await;
        assert_eq!(world.tick_after(120).await, 1);
        world.released(ip).await;
        world.db.clock.advance_secs(1);
        assert_eq!(world.claim().await, 0, "silenced until its next report");
        world.speaks(validator(1)).await;
    }
    assert_eq!(world.state(ip).await, StateName::Failed);
    assert_eq!(n_claims, 6, "the third of each row is counted");
}

#[tokio::test]
async fn rule_08_a_call_that_was_never_made_is_given_up_and_nobodys_retry() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    for _ in 0..5 {
        world.claim().await;
        assert_eq!(world.tick_after(240).await, 1);
        assert_eq!(world.state(ip).await, StateName::Queued);
        assert_eq!(world.row(ip).await.attempt.head.retries.assign, 0);
        world.released(ip).await;
    }
}

#[tokio::test]
async fn rule_09_history_outlives_the_queue_and_cycles_never_mix() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_done(ip, 0, true).await;
    let first = world.row(ip).await.attempt.head;
    let before = world.events(ip).await.len();
    world.delete(ip).await.unwrap();
    assert_eq!(world.events(ip).await.len(), before + 1);
    let count = |sql: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {sql}");
        world.sql().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("checks"), 2);
    world.up_to_done(ip, 0, true).await;
    let second = world.row(ip).await.attempt.head;
    assert_ne!(first.ip, second.ip, "an id is never used again");
    assert_eq!((first.cycle.0, second.cycle.0), (1, 2));
    assert_eq!((first.attempt.0, second.attempt.0), (1, 1));
    assert_eq!(count("checks"), 4);
    assert_eq!(count("(SELECT DISTINCT cycle_id FROM checks)"), 2);
    assert_eq!(
        count("registry WHERE total_cycles = 2 AND last_result = 'pass'"),
        1
    );
    world.delete(ip).await.unwrap();
    let orphans = count("events WHERE cycle_id NOT IN (1, 2)");
    assert_eq!(orphans, 0);
}

#[tokio::test]
async fn rule_11_claims_follow_the_sequence() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(3)).await;
    // Reordered ones go to the end in the order of the list.
    let done = world.enqueue(&[address(2), address(1)]).await;
    assert_eq!(done.reordered, [address(2), address(1)]);
    for expected in [address(3), address(2), address(1)] {
        assert_eq!(world.claim().await, 1);
        assert_eq!(world.state(expected).await, StateName::AssigningFip);
        world.delete(expected).await.unwrap();
        world.released(expected).await;
    }
}

#[tokio::test]
async fn rule_11_an_address_that_fails_does_not_starve_the_others() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(3)).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        assert_eq!(world.claim().await, 1);
        for ip in addresses(3) {
            if world.state(ip).await == StateName::AssigningFip {
                order.push(ip);
                world.associated(ip).await;
                world.self_check(ip, false).await;
                world.released(ip).await;
            }
        }
    }
    assert_eq!(order, [address(1), address(2), address(3), address(1)]);
}

#[tokio::test]
async fn every_stored_row_is_one_that_the_machine_knows() {
    let world = World::new(1, 1).await;
    world.up_to_done(address(1), 1, true).await;
    let row = world.row(address(1)).await.attempt;
    assert_eq!(Attempt::from_row(row.clone()).unwrap().to_row(), row);
    assert!(world.db.clock.now() >= civ_testkit::START);
}
