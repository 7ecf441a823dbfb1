//! Long lists: enqueued in runs, in their order, with pages and counts right after each commit.
#![expect(
    clippy::unwrap_used,
    reason = "whatever fails here fails the test that uses it"
)]

use civ_store::ips::{self, Filter, ListOrder, Window};
use civ_store::{StoreError, queue};
use civ_testkit::TempStore;
use civ_types::{Address, parse_list};

fn list(entries: &[&str]) -> Vec<Address> {
    parse_list(entries, 65_536).unwrap()
}

async fn queued(store: &TempStore) -> Vec<String> {
    let whole = Window {
        limit: 1_000,
        offset: 0,
    };
    let (rows, total) = store
        .read(move |conn| ips::page(conn, &Filter::default(), ListOrder::Sequence, whole))
        .await
        .unwrap();
    assert_eq!(rows.len() as u64, total);
    let address = |row: &ips::IpRow| row.attempt.head.address.to_string();
    rows.iter().map(address).collect()
}

#[tokio::test]
async fn new_and_waiting_ones_stand_in_the_order_of_the_list() {
    let store = TempStore::new();
    let first = list(&["192.0.2.1-192.0.2.4"]);
    let done = store.write(move |tx| queue::enqueue(tx, &first)).await;
    assert_eq!(done.unwrap().added.len(), 4);
    let mut mixed = list(&[
        "192.0.2.9",
        "192.0.2.3",
        "192.0.2.8",
        "192.0.2.7",
        "192.0.2.1",
    ]);
    // Named twice: added once, and then stands where it was named last.
    mixed.extend(list(&["192.0.2.9"]));
    let done = store.write(move |tx| queue::enqueue(tx, &mixed)).await;
    let done: queue::Enqueued = done.unwrap();
    assert_eq!(done.added.len(), 3);
    assert_eq!(
        done.reordered,
        list(&["192.0.2.3", "192.0.2.1", "192.0.2.9"])
    );
    let ends = [2, 4, 3, 8, 7, 1, 9].map(|n| format!("192.0.2.{n}"));
    assert_eq!(queued(&store).await, ends);
}

#[tokio::test]
async fn a_long_list_is_one_commit_and_undone_as_one() {
    let store = TempStore::new();
    let many = list(&["198.18.0.0/19"]);
    let failed = store.store().write_alone({
        let many = many.clone();
        move |tx| -> Result<(), StoreError> {
            queue::enqueue(tx, &many)?;
            Err(StoreError::Corrupt {
                what: "a reason to undo it".to_owned(),
            })
        }
    });
    assert!(failed.await.is_err());
    assert_eq!(queued(&store).await, [""; 0]);
    let done = store
        .store()
        .write_alone(move |tx| queue::enqueue(tx, &many));
    let done: Result<_, StoreError> = done.await;
    assert_eq!(done.unwrap().added.len(), 8_192);
    let deep = Window {
        limit: 2,
        offset: 8_000,
    };
    let filter = Filter {
        q: Some("8.31.".to_owned()),
        ..Filter::default()
    };
    let found = store.read(move |conn| -> Result<_, StoreError> {
        let counts = ips::counts(conn)?;
        let whole = ips::page(conn, &Filter::default(), ListOrder::Sequence, deep)?;
        let (_, total) = ips::page(conn, &filter, ListOrder::Sequence, deep)?;
        Ok((counts.states["queued"], whole.0.len(), whole.1, total))
    });
    assert_eq!(found.await.unwrap(), (8_192, 2, 8_192, 256));
}
