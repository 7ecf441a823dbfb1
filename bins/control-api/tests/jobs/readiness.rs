//! Ready is whose loop goes round and whose database answers and takes writes.

use std::sync::mpsc;

use civ_store::{StoreError, WriteTx};
use civ_testkit::eventually;
use tokio::task::JoinSet;

use crate::place::Place;

#[tokio::test]
async fn a_loop_that_stands_still_makes_unready_until_it_goes_round_again() {
    let place = Place::new("", "");
    let service = place.start().await;
    assert_eq!(service.readiness().await.0, 200);
    // As long as the loop sleeps, a clock that is moved on makes its last round an old one.
    let body = eventually("it is not ready", async || {
        place.clock.on_by(600);
        let (status, body) = service.readiness().await;
        (status == 503).then_some(body)
    })
    .await;
    let text = body["error"].as_str().unwrap();
    let begin = "the orchestrator's loop has not gone round for ";
    let rest = text.strip_prefix(begin).unwrap();
    let secs = rest.strip_suffix(" seconds").unwrap();
    assert!(secs.parse::<u32>().unwrap() >= 599, "{text}");
    eventually("it is ready again", async || {
        (service.readiness().await.0 == 200).then_some(())
    })
    .await;
    service.end().await;
}

/// As many as there are readers.
const FULL: usize = 8;

#[tokio::test]
async fn readers_that_do_not_answer_make_unready_until_they_do() {
    let place = Place::new("", "");
    let service = place.start().await;
    let app = service.app();
    let mut busy = JoinSet::new();
    let mut closed = Vec::new();
    for _ in 0..FULL {
        let (open, gate) = mpsc::channel::<()>();
        closed.push(open);
        let app = app.clone();
        busy.spawn(async move {
            app.read(move |_conn| -> Result<(), StoreError> {
                // Ends when the other side is dropped.
                let _closed = gate.recv();
                Ok(())
            })
            .await
        });
    }
    let body = eventually("it is not ready", async || {
        let (status, body) = service.readiness().await;
        (status == 503).then_some(body)
    })
    .await;
    assert_eq!(body["error"], "the database does not answer");
    drop(closed);
    eventually("it is ready again", async || {
        (service.readiness().await.0 == 200).then_some(())
    })
    .await;
    service.end().await;
}

#[tokio::test]
async fn a_database_that_takes_no_writes_makes_unready_until_it_does() {
    let place = Place::new("", "");
    let service = place.start().await;
    assert_eq!(service.readiness().await.0, 200);
    let other = place.intruder();
    let (open, gate) = mpsc::channel::<()>();
    let mut holding = JoinSet::new();
    holding.spawn(async move {
        let hold = move |_tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
            let _closed = gate.recv();
            Ok(())
        };
        other.write(hold).await
    });
    let begin = "the database has taken no write for ";
    eventually("it says that it takes no writes", async || {
        let (status, body) = service.readiness().await;
        let text = body["error"].as_str().unwrap_or_default();
        (status == 503 && text.starts_with(begin)).then_some(())
    })
    .await;
    drop(open);
    holding.join_next().await.unwrap().unwrap().unwrap();
    eventually("it is ready again", async || {
        (service.readiness().await.0 == 200).then_some(())
    })
    .await;
    service.end().await;
}
