//! Each kind of contradiction is found in a database that was tampered with, named, and put right
//! where it can be.

use civ_orch::attempt::StateName;
use civ_store::doctor::{self, Finding, Kind};
use civ_store::leases::Call;
use civ_store::queue;
use civ_testkit::{address, addresses, rules};
use civ_types::Clock as _;

use crate::world::World;

fn examine(world: &World) -> Vec<Finding> {
    doctor::examine(&world.db.path()).unwrap()
}

fn tamper(world: &World, sql: &str) {
    let connection = world.sql();
    connection
        .pragma_update(None, "foreign_keys", false)
        .unwrap();
    connection.execute_batch(sql).unwrap();
}

/// Three addresses on three validators: assigning, awaiting its self-check, checking.
async fn busy() -> World {
    let world = World::new(3, 1).await;
    world.enqueue(&addresses(4)).await;
    assert_eq!(world.claim().await, 3);
    for n in 2..=3 {
        world.associated(address(n)).await;
    }
    world.self_check(address(3), true).await;
    assert_eq!(examine(&world), []);
    world
}

/// What was done to the database is found as that kind alone, with that text, and is gone after the
/// repair.
async fn found_and_repaired(sql: &str, kind: Kind, text: &str) -> World {
    let world = busy().await;
    tamper(&world, sql);
    let found = examine(&world);
    let kinds: Vec<Kind> = found.iter().map(|one| one.kind).collect();
    assert!(
        !found.is_empty() && kinds.iter().all(|one| *one == kind),
        "{found:?}"
    );
    assert!(found.iter().any(|one| one.text.contains(text)), "{found:?}");
    assert!(kind.is_repairable());
    world.db.write(doctor::repair).await.unwrap();
    assert_eq!(examine(&world), []);
    world
}

#[tokio::test]
async fn a_lease_without_an_attempt_is_released() {
    let sql = "DELETE FROM outbox; UPDATE ips SET state = 'failed', cause = 'cancelled', \
         result = 'cancelled', due_at = NULL WHERE address = '203.0.113.2'; \
         DELETE FROM ips_moves; DELETE FROM ips_counts; \
         INSERT INTO ips_counts SELECT sequence >> 10, state || '/' || result, COUNT(*) \
             FROM ips GROUP BY 1, 2";
    let text = "holds 203.0.113.2 on port port-2 for no attempt";
    let world = found_and_repaired(sql, Kind::LeaseWithoutAttempt, text).await;
    assert!(world.order(address(2), Call::Release).await.is_some());
}

#[tokio::test]
async fn an_attempt_without_a_lease_goes_back_to_the_queue() {
    for n in 1..=3 {
        let sql = format!(
            "DELETE FROM outbox WHERE claim_no IN \
                 (SELECT claim_no FROM leases WHERE address = '203.0.113.{n}'); \
             DELETE FROM leases WHERE address = '203.0.113.{n}'"
        );
        let text = format!("203.0.113.{n} is ");
        let world = found_and_repaired(&sql, Kind::AttemptWithoutLease, &text).await;
        assert_eq!(world.state(address(n)).await, StateName::Queued);
    }
}

#[tokio::test]
async fn a_release_that_nobody_asks_for_is_asked_for() {
    let sql = "UPDATE leases SET releasing = 1 WHERE address = '203.0.113.1'; DELETE FROM outbox";
    let text = "is to release 203.0.113.1 from port port-1";
    let world = found_and_repaired(sql, Kind::ReleaseNotAsked, text).await;
    assert!(world.order(address(1), Call::Release).await.is_some());
}

#[tokio::test]
async fn what_speaks_of_rows_that_are_gone_goes_too() {
    for (sql, text) in [
        (
            "INSERT INTO outbox (claim_no, kind, not_before) VALUES (1, 'release', 0)",
            "outbox",
        ),
        (
            "INSERT INTO site_progress VALUES (99, 'site-1')",
            "site_progress",
        ),
        (
            "INSERT INTO expected_checks (ip_id, source, check_type) VALUES (99, 'egress', 'icmp')",
            "expected_checks",
        ),
        (
            "INSERT INTO inconclusive_checks VALUES (99, 'egress', '', 'x', '', '')",
            "inconclusive",
        ),
        (
            "INSERT INTO subscriptions VALUES ('*', 'nobody')",
            "subscriptions",
        ),
    ] {
        found_and_repaired(sql, Kind::Dangling, text).await;
    }
}

#[tokio::test]
async fn a_state_without_its_deadline_comes_to_its_end() {
    // The row cannot be read either, and is named for that as well.
    let world = busy().await;
    tamper(
        &world,
        "UPDATE ips SET due_at = NULL WHERE address = '203.0.113.3'",
    );
    let found = examine(&world);
    let kinds: Vec<Kind> = found.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::Row, Kind::NoDeadline], "{found:?}");
    assert!(
        found[0]
            .text
            .contains("table ips, row 3: an address that is checking has no due_at")
    );
    world.db.write(doctor::repair).await.unwrap();
    assert_eq!(examine(&world), []);
    assert_eq!(world.db.write(|tx| queue::tick(tx, 10)).await.unwrap(), 1);
    assert_eq!(world.state(address(3)).await, StateName::Aggregating);
}

#[tokio::test]
async fn counts_are_made_anew_from_the_rows() {
    let text = "block 0 of the queue counts 2 that are queued/, there are 1";
    let sql = "UPDATE ips_counts SET n = n + 1 WHERE class = 'queued/'";
    found_and_repaired(sql, Kind::Counts, text).await;
    let text = "the registry counts 9 of the result \"\", there are 4";
    found_and_repaired("UPDATE registry_counts SET n = 9", Kind::Counts, text).await;
    let sql = "INSERT INTO receivers (name, rows_max, waiting) VALUES ('ops', 10, 3)";
    let text = "receiver ops counts 3 notifications, there are 0";
    found_and_repaired(sql, Kind::Waiting, text).await;
}

#[tokio::test]
async fn the_registry_knows_the_queue_and_all_results() {
    let sql = "DELETE FROM registry WHERE address = '203.0.113.4'; DELETE FROM registry_moves; \
         UPDATE registry_counts SET n = n - 1";
    let text = "the registry does not know 203.0.113.4 of the queue";
    found_and_repaired(sql, Kind::NotInRegistry, text).await;
    let sql = "INSERT INTO checks (ip_id, address, cycle_id, attempt_no, claim_no, source, \
         check_type, success, checked_at, received_at) \
         VALUES (77, '203.0.113.77', 1, 1, 1, 'egress', 'icmp', 1, 0, 0)";
    let text = "1 results are of 203.0.113.77";
    found_and_repaired(sql, Kind::OrphanResults, text).await;
}

#[tokio::test]
async fn what_cannot_be_repaired_is_told() {
    let world = busy().await;
    tamper(&world, "UPDATE target_groups SET targets = '['");
    let found = examine(&world);
    assert!(found.iter().all(|one| one.kind == Kind::Row), "{found:?}");
    assert!(
        found[0].text.starts_with("table target_groups, row "),
        "{found:?}"
    );
    let world = busy().await;
    tamper(&world, "DROP INDEX leases_by_ip; CREATE TABLE mine (a)");
    let texts: Vec<String> = examine(&world).into_iter().map(|one| one.text).collect();
    assert_eq!(
        texts,
        ["index leases_by_ip is missing", "table mine is not ours"]
    );
    let mut world = busy().await;
    world.end().await;
    crate::damage::overwrite_page(&world.db.path(), "events");
    let found = examine(&world);
    assert!(
        found.iter().all(|one| one.kind == Kind::Damage),
        "{found:?}"
    );
    assert!(!found.is_empty() && !Kind::Damage.is_repairable());
}

#[tokio::test]
async fn after_a_loss_is_accepted_no_number_is_given_out_twice() {
    let mut world = busy().await;
    world.db.clock.advance_secs(1);
    let (_, claim) = world.holder(address(1)).await;
    let lock = world.db.path().with_added_extension("lock");
    let later = world.db.clock.now().plus_secs(60).as_micros();
    world.end().await;
    std::fs::write(&lock, format!("{later:>20}\n")).unwrap();
    let found = examine(&world);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, Kind::LostWrites);
    doctor::accept_loss(&world.db.path(), world.db.clock.now(), rules()).unwrap();
    assert_eq!(examine(&world), []);
    world.db.restart(std::time::Duration::ZERO).await;
    world.cancel(address(1)).await.unwrap();
    world.released(address(1)).await;
    assert_eq!(world.claim().await, 1);
    let (_, next) = world.holder(address(4)).await;
    assert!(next.0 > claim.0 + 1_000_000_000);
    world.enqueue(&[address(9)]).await;
    assert!(world.row(address(9)).await.attempt.head.ip.0 > 1_000_000_000);
}
