//! How much history is kept: so many cycles of an address, and the registry's row for ever.

use civ_store::settings::{self, Orchestrator};
use civ_store::{Hint, StoreError, WriteTx, events, queue, registry, results, retention};
use civ_testkit::address;
use civ_types::Address;

use crate::world::World;

async fn keep(world: &World, cycles: i64) {
    let told = Orchestrator {
        fip_settle_seconds: 0,
        history_retention_cycles: cycles,
    };
    let set = move |tx: &mut WriteTx<'_>| settings::set_orchestrator(tx, told);
    world.db.write(set).await.unwrap();
}

/// The cut in the background, to its end; says how many steps it took.
async fn cut(world: &World) -> usize {
    let mut n_steps = 0;
    loop {
        n_steps += 1;
        let more: Result<bool, StoreError> = world.db.write(|tx| retention::step(tx)).await;
        if !more.unwrap() {
            return n_steps;
        }
    }
}

/// Cycles of which there are checks, and of which there are events; newest first.
async fn kept(world: &World, of: Address) -> (Vec<i64>, Vec<i64>) {
    let read = move |conn: &civ_store::ReadConn<'_>| -> Result<_, StoreError> {
        let checks = results::of_address(conn, of)?;
        let events = events::of_address(conn, of)?;
        let mut checks: Vec<i64> = checks.iter().map(|row| row.cycle.0).collect();
        let mut events: Vec<i64> = events
            .iter()
            .filter_map(|row| row.cycle.map(|cycle| cycle.0))
            .rev()
            .collect();
        checks.dedup();
        events.dedup();
        Ok((checks, events))
    };
    world.db.read(read).await.unwrap()
}

async fn total(world: &World, of: Address) -> i64 {
    let read = move |conn: &civ_store::ReadConn<'_>| registry::by_address(conn, of);
    world.db.read(read).await.unwrap().unwrap().total_cycles
}

#[tokio::test]
async fn rule_09_without_a_limit_everything_is_kept() {
    let world = World::new(1, 0).await;
    for _ in 0..3 {
        world.up_to_done(address(1), 0, true).await;
    }
    cut(&world).await;
    let all = vec![3, 2, 1];
    assert_eq!(kept(&world, address(1)).await, (all.clone(), all));
}

#[tokio::test]
async fn a_cycle_that_ends_pushes_the_oldest_out() {
    let world = World::new(1, 0).await;
    keep(&world, 2).await;
    let ip = address(1);
    for _ in 0..2 {
        world.up_to_done(ip, 0, true).await;
    }
    world.up_to_checking(ip).await;
    world.egress(ip, true).await;
    let all = vec![3, 2, 1];
    assert_eq!(kept(&world, ip).await, (all.clone(), all), "not ended yet");
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    let two = vec![3, 2];
    assert_eq!(kept(&world, ip).await, (two.clone(), two));
    assert_eq!(total(&world, ip).await, 3);
}

#[tokio::test]
async fn every_way_to_end_a_cycle_counts() {
    let world = World::new(1, 0).await;
    keep(&world, 1).await;
    let ip = address(1);
    world.up_to_done(ip, 0, true).await;
    world.enqueue(&[ip]).await;
    world.cancel(ip).await.unwrap();
    assert_eq!(kept(&world, ip).await, (vec![], vec![2]), "cancelled");
    world.enqueue(&[ip]).await;
    world.delete(ip).await.unwrap();
    assert_eq!(kept(&world, ip).await, (vec![], vec![3]), "deleted");
    world.up_to_done(ip, 0, true).await;
    assert_eq!(kept(&world, ip).await, (vec![4], vec![4]));
    assert_eq!(total(&world, ip).await, 4);
}

#[tokio::test]
async fn a_new_depth_is_applied_in_the_background_in_steps_that_survive_a_restart() {
    let mut world = World::new(1, 0).await;
    for n in 1..=3 {
        for _ in 0..n {
            world.up_to_done(address(n), 0, true).await;
        }
    }
    // A history that is too long for one step.
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) \
         INSERT INTO events (address, cycle_id, event_type, severity, occurred_at) \
         SELECT '203.0.113.3', 1, 'old', 'info', 0 FROM n";
    world.sql().execute(many, []).unwrap();
    keep(&world, 2).await;
    assert!(world.db.write(|tx| retention::step(tx)).await.unwrap());
    world.db.restart(std::time::Duration::from_secs(9)).await;
    assert!(cut(&world).await > 1);
    for (n, left) in [(1, vec![1]), (2, vec![2, 1]), (3, vec![3, 2])] {
        assert_eq!(kept(&world, address(n)).await, (left.clone(), left));
        assert_eq!(total(&world, address(n)).await, i64::from(n));
    }
    assert_eq!(cut(&world).await, 1, "nothing more to do");
}

#[tokio::test]
async fn of_a_full_queue_that_is_cleared_the_history_is_cut_in_the_background() {
    let world = World::new(1, 0).await;
    keep(&world, 1).await;
    let list = civ_types::parse_list(&["198.18.0.0/23"], 512).unwrap();
    for _ in 0..2 {
        world.enqueue(&list).await;
        drop(world.db.take_hints());
        world.db.write(queue::clear).await.unwrap();
    }
    assert!(world.db.take_hints().contains(&Hint::Retention));
    let oldest = async |of| kept(&world, of).await.1.last().copied();
    assert_eq!(oldest(list[0]).await, Some(1), "not yet");
    assert!(cut(&world).await > 1, "in steps");
    for of in [list[0], list[300], list[511]] {
        assert_eq!(oldest(of).await, Some(2), "{of}");
    }
}

#[tokio::test]
async fn the_same_depth_again_begins_nothing_and_no_depth_ends_the_cut() {
    let world = World::new(1, 0).await;
    keep(&world, 1).await;
    cut(&world).await;
    world.up_to_done(address(1), 0, true).await;
    let pending = |world: &World| -> bool {
        let sql = "SELECT retention_after IS NOT NULL FROM settings";
        world.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    keep(&world, 1).await;
    assert!(!pending(&world));
    keep(&world, 3).await;
    assert!(pending(&world));
    keep(&world, 0).await;
    assert!(!pending(&world));
}

#[tokio::test]
async fn events_without_a_cycle_go_with_what_they_stand_between() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    let stray = "INSERT INTO events (address, event_type, severity, occurred_at) \
         VALUES ('203.0.113.1', 'reconciled', 'warning', 0)";
    for _ in 0..2 {
        world.sql().execute(stray, []).unwrap();
        world.up_to_done(ip, 0, true).await;
    }
    keep(&world, 1).await;
    cut(&world).await;
    let events = world.events(ip).await;
    let n = events.iter().filter(|one| *one == "reconciled").count();
    assert_eq!(n, 0, "both stood before the second cycle: {events:?}");
    world.sql().execute(stray, []).unwrap();
    keep(&world, 2).await;
    keep(&world, 1).await;
    cut(&world).await;
    let events = world.events(ip).await;
    assert_eq!(events.last().map(String::as_str), Some("reconciled"));
}
