//! The outbox of notifications on a real file: what gets in, in which order it leaves, and what is
//! dropped and told.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use civ_store::events::{self, NewEvent};
use civ_store::notifications::{self, Next, Notification, Receiver};
use civ_store::{Hint, StoreError, queue, seed};
use civ_testkit::{TempStore, address};
use civ_types::{Clock as _, NOTIFICATION_DROPPED};

fn receiver(name: &str, events: &[&str], rows_max: u32) -> Receiver {
    Receiver {
        name: name.to_owned(),
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        rows_max,
    }
}

async fn with(receivers: &[Receiver]) -> TempStore {
    let db = TempStore::new();
    configure(&db, receivers).await;
    drop(db.take_hints());
    db
}

async fn configure(db: &TempStore, receivers: &[Receiver]) -> Vec<(String, u64)> {
    let receivers = receivers.to_vec();
    let done = db.write(move |tx| notifications::configure(tx, &receivers));
    done.await.unwrap()
}

async fn happen(db: &TempStore, kinds: &[&'static str]) {
    for kind in kinds {
        let event = NewEvent {
            address: Some(address(1)),
            payload: "{}".to_owned(),
            ..NewEvent::new(kind)
        };
        db.write(move |tx| events::append(tx, &event))
            .await
            .unwrap();
    }
}

async fn next(db: &TempStore, name: &'static str) -> Next {
    let now = db.clock.now();
    let read = db.read(move |conn| notifications::next(conn, name, now));
    read.await.unwrap()
}

async fn row(db: &TempStore, name: &'static str) -> Notification {
    match next(db, name).await {
        Next::Send(row) => *row,
        other => panic!("{other:?}"),
    }
}

/// Takes out everything that waits for `name`, in order; the types.
async fn drain(db: &TempStore, name: &'static str) -> Vec<String> {
    let mut kinds = Vec::new();
    while let Next::Send(row) = next(db, name).await {
        let id = row.id;
        db.write(move |tx| notifications::delivered(tx, name, id))
            .await
            .unwrap();
        kinds.push(row.event_type);
    }
    kinds
}

async fn waiting(db: &TempStore) -> Vec<(String, u64)> {
    db.read(notifications::waiting).await.unwrap()
}

fn counts(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter()
        .map(|(name, n)| ((*name).to_owned(), *n))
        .collect()
}

/// Events of that type in the history, newest first.
async fn history(db: &TempStore, kind: &str) -> Vec<serde_json::Value> {
    let rows = db.read(|conn| events::latest(conn, 1_000)).await.unwrap();
    let of = rows.into_iter().filter(|row| row.event_type == kind);
    of.map(|row| serde_json::from_str(&row.payload).unwrap())
        .collect()
}

#[tokio::test]
async fn each_receiver_gets_what_it_subscribed_to_in_order() {
    let receivers = [
        receiver("all", &["*"], 9),
        receiver("some", &["failed", "claimed"], 9),
    ];
    let db = with(&receivers).await;
    happen(&db, &["enqueued", "claimed", "failed", "made_up"]).await;
    assert!(db.take_hints().contains(&Hint::Notifications));
    let first = row(&db, "some").await;
    assert_eq!(first.address, Some(address(1).to_string()));
    assert_eq!((first.severity.as_str(), first.tries), ("info", 0));
    assert_eq!(drain(&db, "some").await, ["claimed", "failed"]);
    let all = ["enqueued", "claimed", "failed", "made_up"];
    assert_eq!(drain(&db, "all").await, all);
    assert_eq!(waiting(&db).await, counts(&[("all", 0), ("some", 0)]));
}

#[tokio::test]
async fn nothing_is_queued_for_an_event_that_was_rolled_back() {
    let db = with(&[receiver("all", &["*"], 9)]).await;
    let undone = db.write(|tx| -> Result<(), StoreError> {
        events::append(tx, &NewEvent::new("failed"))?;
        Err(StoreError::Corrupt {
            what: "a test".to_owned(),
        })
    });
    assert!(undone.await.is_err());
    assert_eq!(next(&db, "all").await, Next::Nothing);
    assert!(!db.take_hints().contains(&Hint::Notifications));
    assert_eq!(waiting(&db).await, counts(&[("all", 0)]));
}

#[tokio::test]
async fn an_overflow_drops_the_oldest_and_is_told_once() {
    let db = with(&[
        receiver("slow", &["claimed"], 4),
        receiver("well", &["*"], 99),
    ])
    .await;
    happen(&db, &["claimed"; 10]).await;
    assert_eq!(history(&db, NOTIFICATION_DROPPED).await.len(), 1);
    assert_eq!(waiting(&db).await, counts(&[("slow", 4), ("well", 11)]));
    // The seventh of ten; one event before it tells of the overflow.
    assert_eq!(row(&db, "slow").await.event_id, 8);
    // Caught up: the next overflow is another one.
    assert_eq!(drain(&db, "slow").await.len(), 4);
    happen(&db, &["claimed"; 5]).await;
    let told = history(&db, NOTIFICATION_DROPPED).await;
    assert_eq!(told.len(), 2);
    assert_eq!(told[0]["receiver"], "slow");
}

#[tokio::test]
async fn a_receiver_of_everything_may_overflow_too() {
    let db = with(&[receiver("all", &["*"], 3)]).await;
    happen(&db, &["claimed"; 50]).await;
    assert_eq!(history(&db, NOTIFICATION_DROPPED).await.len(), 1);
    assert_eq!(waiting(&db).await, counts(&[("all", 3)]));
    assert_eq!(drain(&db, "all").await, ["claimed"; 3]);
}

#[tokio::test]
async fn what_is_put_aside_lets_others_go_first_and_comes_back() {
    let db = with(&[receiver("all", &["*"], 9)]).await;
    happen(&db, &["claimed", "failed"]).await;
    let id = row(&db, "all").await.id;
    let until = db.clock.now().plus_secs(600);
    db.write(move |tx| notifications::failed(tx, id, None))
        .await
        .unwrap();
    let again = row(&db, "all").await;
    assert_eq!((again.id, again.tries), (id, 1));
    db.write(move |tx| notifications::failed(tx, id, Some(until)))
        .await
        .unwrap();
    assert_eq!(drain(&db, "all").await, ["failed"]);
    assert_eq!(next(&db, "all").await, Next::Later(until));
    db.clock.advance_secs(600);
    assert_eq!(row(&db, "all").await.tries, 2);
}

#[tokio::test]
async fn giving_up_is_told_and_a_drop_of_that_is_not() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let db = with(&[receiver("all", &["*"], 9)]).await;
    happen(&db, &["claimed", "failed"]).await;
    db.clock.advance(DAY);
    happen(&db, &["deleted"]).await;
    let give_up = || db.write(|tx| notifications::give_up(tx, "all", DAY, "HTTP 500"));
    let given_up = give_up().await.unwrap().unwrap();
    let told = (given_up.count, given_up.first_event, given_up.last_event);
    assert_eq!(told, (2, 1, 2));
    let told = history(&db, NOTIFICATION_DROPPED).await;
    assert_eq!(told[0]["dropped"], 2);
    assert_eq!(told[0]["last_error"], "HTTP 500");
    assert_eq!(give_up().await.unwrap(), None);
    // What is left is one event and the word of the drop; a day later such a word goes in silence.
    assert_eq!(drain(&db, "all").await, ["deleted", NOTIFICATION_DROPPED]);
    let word = NewEvent {
        payload: "{}".to_owned(),
        ..NewEvent::new(NOTIFICATION_DROPPED)
    };
    db.write(move |tx| events::append(tx, &word)).await.unwrap();
    db.clock.advance(DAY);
    assert_eq!(give_up().await.unwrap().unwrap().count, 1);
    assert_eq!(waiting(&db).await, counts(&[("all", 0)]));
}

#[tokio::test]
async fn a_restart_keeps_rows_and_the_time_down_does_not_age_them() {
    let receivers = [receiver("all", &["*"], 9), receiver("gone", &["failed"], 9)];
    let mut db = with(&receivers).await;
    happen(&db, &["failed"]).await;
    let before = row(&db, "all").await;
    db.restart(Duration::from_secs(3_600)).await;
    let gone = configure(&db, &[receiver("all", &["*"], 9)]).await;
    assert_eq!(gone, counts(&[("gone", 1)]));
    let after = row(&db, "all").await;
    assert_eq!(after.event_id, before.event_id);
    assert_eq!(after.queued_at, before.queued_at.plus_secs(3_600));
    assert_eq!(after.occurred_at, before.occurred_at);
    assert_eq!(waiting(&db).await, counts(&[("all", 1)]));
    // A receiver that comes back begins empty; a room that became smaller is made at once.
    happen(&db, &["failed"]).await;
    configure(
        &db,
        &[receiver("all", &["*"], 1), receiver("gone", &["*"], 9)],
    )
    .await;
    assert_eq!(drain(&db, "all").await, [NOTIFICATION_DROPPED]);
    assert_eq!(waiting(&db).await, counts(&[("all", 0), ("gone", 0)]));
}

#[tokio::test]
async fn a_queue_that_is_cleared_at_once_is_told_address_by_address() {
    let db = with(&[receiver("r", &["deleted"], 9), receiver("few", &["*"], 2)]).await;
    let list: Vec<_> = (1..=5).map(address).collect();
    let configuration = civ_testkit::seed(1, 0);
    db.write(move |tx| seed::apply(tx, &configuration))
        .await
        .unwrap();
    db.write(move |tx| queue::enqueue(tx, &list)).await.unwrap();
    db.write(queue::clear).await.unwrap();
    assert_eq!(waiting(&db).await, counts(&[("few", 2), ("r", 5)]));
    assert_eq!(row(&db, "r").await.address, Some(address(1).to_string()));
    assert_eq!(drain(&db, "r").await, ["deleted"; 5]);
    assert_eq!(history(&db, NOTIFICATION_DROPPED).await.len(), 1);
}
