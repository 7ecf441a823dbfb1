//! The link against a small control-api: order, outages, refusals, old servers.
#![cfg(test)]

mod stand_in;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use civ_link::{Agent, Client, Desk, Ended, Endpoint, Report, Seat};
use civ_proto::{EventReport, agent};
use serde_json::json;
use stand_in::{PATIENCE, StandIn};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A running seat of `v-1`.
struct Stage {
    server: StandIn,
    seat: Arc<Seat<Agent>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn seat(server: &StandIn) -> Arc<Seat<Agent>> {
    let endpoint = Endpoint {
        url: server.url().parse().unwrap(),
        ca_file: None,
        cert_file: None,
        key_file: None,
    };
    let client = Client::new(&endpoint).unwrap();
    let register = agent::Register {
        validator_id: "v-1".to_owned(),
        ..Default::default()
    };
    Arc::new(Seat::new(
        client,
        "v-1",
        Some("a-token-of-tests".into()),
        register,
    ))
}

fn open(server: StandIn) -> Stage {
    let (seat, stop) = (seat(&server), CancellationToken::new());
    let mut tasks = JoinSet::new();
    let (running, stopping) = (Arc::clone(&seat), stop.clone());
    tasks.spawn(async move { running.run(&stopping).await });
    Stage {
        server,
        seat,
        stop,
        tasks,
    }
}

fn assignment(ip_id: i64, fence: i64, phase: &str) -> serde_json::Value {
    json!({"ip_id": ip_id, "ip_address": "203.0.113.10", "phase": phase, "check_config": [],
           "attempt_number": 1, "fence": fence})
}

fn row(n: i64) -> agent::CheckResult {
    let check_type = format!("tcp-{n}");
    agent::CheckResult {
        ip_id: 42,
        check_type,
        success: true,
        ..Default::default()
    }
}

async fn rows(desk: Desk<Agent>, numbers: std::ops::Range<i64>) {
    for n in numbers {
        desk.row(row(n)).await;
    }
    desk.report(Report::Complete(agent::Complete {
        ip_id: 42,
        fence: None,
        revision: None,
    }))
    .await;
}

fn arrived(server: &StandIn) -> Vec<String> {
    server
        .rows()
        .iter()
        .map(|row| row["check_type"].as_str().unwrap().to_owned())
        .collect()
}

async fn assigned(stage: &Stage, fence: Option<i64>) {
    let mut level = stage.seat.assigned();
    let wanted = level.wait_for(|list| list.first().and_then(|a| a.fence) == fence);
    tokio::time::timeout(PATIENCE, wanted)
        .await
        .expect("the assignment arrives")
        .unwrap();
}

#[tokio::test]
async fn assignments_arrive_change_and_vanish_through_the_long_poll() {
    let stage = open(StandIn::start().await);
    for fence in [7, 8] {
        stage
            .server
            .assign("agents/v-1", vec![assignment(42, fence, "checking")]);
        assigned(&stage, Some(fence)).await;
    }
    stage.server.assign("agents/v-1", vec![]);
    assigned(&stage, None).await;
    let polls = stage.server.calls("assignment");
    assert!(polls.len() <= 5, "no spinning: {polls:?}");
    assert!(polls.iter().any(|poll| poll.if_none_match.is_some()));
    assert_eq!(
        stage.server.calls("register")[0].body["validator_id"],
        "v-1"
    );
    assert_eq!(polls[0].token.as_deref(), Some("Bearer a-token-of-tests"));
}

#[tokio::test]
async fn an_outage_loses_no_report_and_keeps_their_order() {
    let stage = open(StandIn::start().await);
    stage
        .server
        .assign("agents/v-1", vec![assignment(42, 7, "checking")]);
    assigned(&stage, Some(7)).await;
    stage.server.kill().await;
    let over = CancellationToken::new();
    let work = stage.seat.work(&over, |desk| rows(desk, 1..501));
    let (ended, ()) = tokio::join!(work, stage.server.start_again());
    assert_eq!(ended, Ended::Settled);
    let expected: Vec<String> = (1..501).map(|n| format!("tcp-{n}")).collect();
    assert_eq!(arrived(&stage.server), expected);
    assert_eq!(
        stage
            .server
            .methods_but(&["register", "heartbeat", "assignment"])
            .last()
            .unwrap(),
        "complete"
    );
    stage
        .server
        .until("registered again", |s| s.calls("register").len() >= 2)
        .await;
    stage
        .server
        .assign("agents/v-1", vec![assignment(42, 9, "checking")]);
    assigned(&stage, Some(9)).await;
}

#[tokio::test]
async fn transient_refusals_are_waited_out() {
    let server = StandIn::start().await;
    for status in [503, 500, 401] {
        server.refuse("results", status, None);
    }
    let ended = seat(&server)
        .work(&CancellationToken::new(), |desk| rows(desk, 1..3))
        .await;
    assert_eq!((ended, arrived(&server).len()), (Ended::Settled, 2));
    assert_eq!(server.refusals_left(), 0);
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let server = StandIn::start().await;
    server.refuse("results", 429, Some(1));
    let start = tokio::time::Instant::now();
    let ended = seat(&server)
        .work(&CancellationToken::new(), |desk| rows(desk, 1..2))
        .await;
    assert_eq!(ended, Ended::Settled);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_conflict_ends_the_work_at_once() {
    let server = StandIn::start().await;
    server.refuse("events", 409, None);
    let over = CancellationToken::new();
    let ended = seat(&server)
        .work(&over, |desk| async move {
            desk.event(EventReport {
                event_type: "x".to_owned(),
                ..Default::default()
            })
            .await;
            std::future::pending::<()>().await;
        })
        .await;
    assert_eq!(ended, Ended::Over);
    assert!(over.is_cancelled());
}

#[tokio::test]
async fn a_stale_batch_ends_the_work_and_complete_is_not_said() {
    let server = StandIn::start().await;
    server.answer_once("results", 200, None, json!({"ok": true, "stale": 1}));
    let ended = seat(&server)
        .work(&CancellationToken::new(), |desk| rows(desk, 1..2))
        .await;
    assert_eq!(ended, Ended::Over);
    assert!(server.calls("complete").is_empty());
}

#[tokio::test]
async fn a_bad_row_costs_one_row() {
    let server = StandIn::start().await;
    // The whole, its first half, and the first quarter: of eight rows, the first two stand alone.
    for _ in 0..4 {
        server.refuse("results", 400, None);
    }
    let ended = seat(&server)
        .work(&CancellationToken::new(), |desk| async move {
            rows(desk, 1..9).await;
        })
        .await;
    assert_eq!(ended, Ended::Settled);
    let expected: Vec<String> = (2..9).map(|n| format!("tcp-{n}")).collect();
    assert_eq!(arrived(&server), expected);
}

#[tokio::test]
async fn the_callers_end_drops_the_work_and_what_waits() {
    let server = StandIn::start().await;
    server.kill().await;
    let over = CancellationToken::new();
    let seat = seat(&server);
    let work = seat.work(&over, |desk| rows(desk, 1..3));
    let ended = tokio::join!(work, async { over.cancel() }).0;
    assert_eq!(ended, Ended::Dropped);
}

#[tokio::test]
async fn an_unknown_id_registers_again_and_drops_what_was_assigned() {
    let stage = open(StandIn::start().await);
    stage
        .server
        .assign("agents/v-1", vec![assignment(42, 7, "checking")]);
    assigned(&stage, Some(7)).await;
    let registered = stage.server.calls("register").len();
    stage.server.refuse("assignment", 404, None);
    let mut level = stage.seat.assigned();
    stage.seat.ask_again();
    tokio::time::timeout(PATIENCE, level.wait_for(Vec::is_empty))
        .await
        .unwrap()
        .unwrap();
    stage
        .server
        .until("registers", |s| s.calls("register").len() > registered)
        .await;
    assigned(&stage, Some(7)).await;
}

#[tokio::test]
async fn an_old_server_is_asked_at_the_interval_and_at_once_on_a_wish() {
    let server = StandIn::start().await;
    server.be_old();
    server.advise_poll_interval(60);
    let stage = open(server);
    stage
        .server
        .until("one poll", |s| s.calls("assignment").len() == 1)
        .await;
    stage
        .server
        .assign("agents/v-1", vec![assignment(42, 7, "checking")]);
    stage.seat.ask_again();
    assigned(&stage, Some(7)).await;
    // The first poll may have brought the news itself, if it was answered late.
    stage
        .server
        .until("settles", |s| s.calls("assignment").len() >= 2)
        .await;
    // One more if the wish came while the first poll was under way.
    stage
        .server
        .until("silence", |s| !s.calls("heartbeat").is_empty())
        .await;
    assert!(stage.server.calls("assignment").len() <= 4);
}

#[tokio::test]
async fn silence_is_broken_by_heartbeats_with_the_local_state() {
    let stage = open(StandIn::start().await);
    stage.seat.set_local_state("checking");
    stage
        .server
        .until("two heartbeats", |s| s.calls("heartbeat").len() >= 2)
        .await;
    assert_eq!(
        stage.server.calls("heartbeat")[0].body["local_state"],
        "checking"
    );
}

#[tokio::test]
async fn registration_is_tried_for_ever_and_stop_ends_it() {
    let server = StandIn::start().await;
    for _ in 0..3 {
        server.refuse("register", 404, None);
    }
    let mut stage = open(server);
    stage
        .server
        .until("registered", |s| s.calls("register").len() == 1)
        .await;
    stage.stop.cancel();
    tokio::time::timeout(PATIENCE, stage.tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

/// Collects what is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        match self.0.lock() {
            Ok(mut log) => log.write(text),
            Err(_poisoned) => Err(std::io::ErrorKind::Other.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_row_that_is_durable_is_logged_and_no_other() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = StandIn::start().await;
    let seat = seat(&server);
    server.refuse("results", 503, None);
    seat.work(&CancellationToken::new(), |desk| rows(desk, 1..3))
        .await;
    server.answer_once("results", 200, None, json!({"ok": true, "stale": 2}));
    seat.work(&CancellationToken::new(), |desk| rows(desk, 3..5))
        .await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let said: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("result acknowledged"))
        .collect();
    assert_eq!(said.len(), 2, "{text}");
    assert!(
        said[0].contains(r#"ip_id=42 source="egress" site="" check_type="tcp-1" target="""#),
        "{text}"
    );
    assert!(!text.contains("a-token-of-tests"));
}
