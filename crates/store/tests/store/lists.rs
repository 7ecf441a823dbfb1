//! Lists, filters, pages, counts.

use civ_orch::attempt::{Outcome, StateName};
use civ_store::ips::{self, Filter, ListOrder, Window};
use civ_testkit::{address, addresses};

use crate::world::World;

async fn world() -> World {
    let world = World::new(1, 0).await;
    world.up_to_done(address(10), 0, true).await;
    world.db.clock.advance_secs(1);
    world.up_to_done(address(11), 0, false).await;
    world.enqueue(&addresses(3)).await;
    world.cancel(address(2)).await.unwrap();
    world
}

async fn listed(world: &World, filter: Filter, order: ListOrder) -> Vec<String> {
    let rows = world
        .db
        .read(move |conn| ips::list(conn, &filter, order, None))
        .await
        .unwrap();
    let last = |row: &ips::IpRow| {
        let text = row.attempt.head.address.to_string();
        text.rsplit('.').next().unwrap().to_owned()
    };
    rows.iter().map(last).collect()
}

fn states(states: &[StateName]) -> Filter {
    Filter {
        states: states.to_vec(),
        ..Filter::default()
    }
}

#[tokio::test]
async fn filters_are_joined_by_and() {
    let world = world().await;
    let all = listed(&world, Filter::default(), ListOrder::Sequence).await;
    assert_eq!(all, ["10", "11", "1", "2", "3"]);
    let some = states(&[StateName::Done, StateName::Failed]);
    assert_eq!(
        listed(&world, some.clone(), ListOrder::Sequence).await,
        ["10", "11", "2"]
    );
    let by_result = Filter {
        result: Some(Outcome::Cancelled),
        ..Filter::default()
    };
    assert_eq!(listed(&world, by_result, ListOrder::Sequence).await, ["2"]);
    let all_three = Filter {
        q: Some("113.1".to_owned()),
        result: Some(Outcome::Fail),
        ..some
    };
    assert_eq!(listed(&world, all_three, ListOrder::Sequence).await, ["11"]);
    let percent = Filter {
        q: Some("%".to_owned()),
        ..Filter::default()
    };
    assert_eq!(
        listed(&world, percent, ListOrder::Sequence).await,
        Vec::<String>::new(),
        "a substring, not a pattern"
    );
}

#[tokio::test]
async fn the_latest_verdicts_come_first_and_those_without_one_last() {
    let world = world().await;
    let order = listed(&world, Filter::default(), ListOrder::AggregatedDesc).await;
    assert_eq!(order, ["11", "2", "10", "1", "3"]);
}

#[tokio::test]
async fn pages_cover_a_list_without_gap_or_overlap() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(25)).await;
    let mut seen = Vec::new();
    for offset in [0, 10, 20, 30, u64::MAX] {
        let window = Window { limit: 10, offset };
        let page = world
            .db
            .read(move |conn| {
                ips::list(conn, &Filter::default(), ListOrder::Sequence, Some(window))
            })
            .await
            .unwrap();
        seen.extend(page.iter().map(|row| row.attempt.head.address));
    }
    assert_eq!(seen, addresses(25));
    let filter = Filter {
        q: Some("113.2".to_owned()),
        ..Filter::default()
    };
    let n = world
        .db
        .read(move |conn| ips::count(conn, &filter))
        .await
        .unwrap();
    assert_eq!(n, 1 + 6, "2 and 20 to 25");
}

#[tokio::test]
async fn counts_are_by_state_and_result() {
    let world = world().await;
    let counts = world.db.read(ips::counts).await.unwrap();
    assert_eq!(counts.states["queued"], 2);
    assert_eq!(counts.states["done"], 2);
    assert_eq!(counts.states["failed"], 1);
    assert_eq!(counts.results[""], 2);
    assert_eq!(counts.results["pass"], 1);
    assert_eq!(counts.results["fail"], 1);
    assert_eq!(counts.results["cancelled"], 1);
    assert_eq!(counts.validators, 1);
}
