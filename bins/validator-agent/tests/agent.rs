//! The agent as a whole against a small control-api and real sockets on loopback.
#![cfg(test)]

#[expect(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../../../crates/link/tests/stand_in/mod.rs"]
mod stand_in;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use civ_boot::Context;
use civ_boot::config::{ControlApi, Reach};
use civ_boot::secrets::SecretSource;
use civ_boot::tasks::Tasks;
use civ_types::ValidatorId;
use civ_validator_agent::config::{Checks, Responder, SelfCheck, Settings, Validator};
use serde_json::{Value, json};
use stand_in::{PATIENCE, StandIn};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A running agent with its surroundings.
struct Stage {
    server: StandIn,
    /// Serves `/ip` (the caller's address), `/gate` (once it is open) and `/never` (no answer).
    internet: SocketAddr,
    gate: watch::Sender<bool>,
    context: Context,
    tasks: JoinSet<()>,
}

async fn internet(tasks: &mut JoinSet<()>, gate: watch::Receiver<bool>) -> SocketAddr {
    let ip = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() };
    let opened = async move || drop(gate.clone().wait_for(|open| *open).await);
    let never = || async { std::future::pending::<()>().await };
    let app = Router::new()
        .route("/ip", get(ip))
        .route("/gate", get(opened))
        .route("/never", get(never));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tasks.spawn(async move { axum::serve(listener, service).await.unwrap() });
    addr
}

impl Stage {
    async fn open(validators: &[(&str, &str)]) -> Self {
        Self::with(validators, None).await
    }

    async fn with(validators: &[(&str, &str)], responder: Option<Responder>) -> Self {
        let server = StandIn::start().await;
        let mut tasks = JoinSet::new();
        let gate = watch::Sender::new(false);
        let internet = internet(&mut tasks, gate.subscribe()).await;
        let shutdown = CancellationToken::new();
        let token = ("TOKEN".to_owned(), "a-token-of-tests".to_owned());
        let context = Context {
            shutdown: shutdown.clone(),
            tasks: Tasks::new(shutdown),
            environment: Arc::new(BTreeMap::from([token])),
        };
        let settings = Settings {
            responder,
            ..settings(&server, internet, validators)
        };
        let running = civ_validator_agent::run(settings, context.clone());
        tasks.spawn(async move { running.await.unwrap() });
        Self {
            server,
            internet,
            gate,
            context,
            tasks,
        }
    }

    fn assign(&self, validator: &str, ip: &str, fence: i64, phase: &str, checks: &[(&str, &str)]) {
        let checks = checks
            .iter()
            .map(|(t, target)| json!({"type": t, "targets": [target]}));
        let assignment = json!({
            "ip_id": 42, "ip_address": ip, "phase": phase, "attempt_number": 1, "fence": fence,
            "check_config": checks.collect::<Vec<Value>>(),
        });
        self.server
            .assign(&format!("agents/{validator}"), vec![assignment]);
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.internet)
    }

    async fn self_check_of(&self, fence: i64) -> Value {
        let of = |server: &StandIn| {
            let calls = server.calls("self-check").into_iter();
            calls
                .map(|call| call.body)
                .find(|body| body["fence"] == fence)
        };
        self.server
            .until("self-check", |server| of(server).is_some())
            .await;
        of(&self.server).unwrap()
    }

    async fn complete_of(&self, fence: i64) {
        let is_said = |server: &StandIn| {
            server
                .calls("complete")
                .iter()
                .any(|call| call.body["fence"] == fence)
        };
        self.server.until("complete", is_said).await;
    }

    fn rows_of(&self, fence: i64) -> Vec<Value> {
        self.server
            .rows()
            .into_iter()
            .filter(|row| row["fence"] == fence)
            .collect()
    }

    fn inconclusive(&self) -> Vec<Value> {
        let events = self
            .server
            .calls("events")
            .into_iter()
            .map(|call| call.body);
        let ours = events.filter(|body| body["event_type"] == "check_inconclusive");
        ours.map(|body| serde_json::from_str(body["payload"].as_str().unwrap()).unwrap())
            .collect()
    }
}

fn settings(server: &StandIn, internet: SocketAddr, validators: &[(&str, &str)]) -> Settings {
    let validators = validators.iter().map(|(id, bind)| Validator {
        validator_id: ValidatorId::parse(id).unwrap(),
        bind_address: Some(bind.parse().unwrap()),
        token: None,
    });
    Settings {
        control_api: ControlApi {
            url: server.url().parse().unwrap(),
            token: SecretSource {
                env: Some("TOKEN".to_owned()),
                ..SecretSource::default()
            },
            ca_file: None,
            cert_file: None,
            key_file: None,
        },
        validators: validators.collect(),
        self_check: SelfCheck {
            ip_echo_urls: vec![format!("http://{internet}/ip").parse().unwrap()],
            timeout: Duration::from_secs(1),
        },
        checks: Checks {
            max_concurrent: 64,
            timeout: Duration::from_secs(30),
            icmp_packets_per_second: 20_000,
            targets: Reach {
                allow: vec!["127.0.0.0/8".parse().unwrap()],
                deny: Vec::new(),
            },
        },
        responder: None,
    }
}

const AWAITING: &str = "awaiting_self_check";

#[tokio::test]
async fn an_address_goes_through_self_check_checks_and_complete() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let (page, port) = (stage.url("ip"), stage.internet.to_string());
    let checks = [
        ("http", page.as_str()),
        ("tcp", port.as_str()),
        ("tcp", "127.0.0.1:1"),
    ];
    stage.assign("v-1", "127.0.0.2", 7, AWAITING, &checks);
    let found = stage.self_check_of(7).await;
    assert_eq!(
        (&found["success"], &found["detected_egress_ip"]),
        (&json!(true), &json!("127.0.0.2"))
    );
    stage.assign("v-1", "127.0.0.2", 7, "checking", &checks);
    stage.complete_of(7).await;
    let passed = |row: &Value| (row["target"].clone(), row["success"].as_bool().unwrap());
    let rows: Vec<_> = stage.rows_of(7).iter().map(passed).collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.contains(&(json!(page), true)) && rows.contains(&(json!(port), true)));
    assert!(rows.contains(&(json!("127.0.0.1:1"), false)));
    let events = stage.server.calls("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].body["event_type"], "config_received");
    assert_eq!(events[0].body["payload"], r#"{"checks":3}"#);
    let told = stage
        .server
        .methods_but(&["register", "heartbeat", "assignment"]);
    assert_eq!(told[..2], ["events", "self-check"]);
    assert_eq!(told.last().unwrap(), "complete");
    assert_eq!(
        stage.server.calls("results")[0].token.as_deref(),
        Some("Bearer a-token-of-tests")
    );
}

#[tokio::test]
async fn two_slots_have_two_source_addresses() {
    let stage = Stage::open(&[("v-2", "127.0.0.2"), ("v-3", "127.0.0.3")]).await;
    stage.assign("v-2", "127.0.0.2", 7, AWAITING, &[]);
    stage.assign("v-3", "127.0.0.3", 8, AWAITING, &[]);
    assert_eq!(
        stage.self_check_of(7).await["detected_egress_ip"],
        "127.0.0.2"
    );
    assert_eq!(
        stage.self_check_of(8).await["detected_egress_ip"],
        "127.0.0.3"
    );
}

#[tokio::test]
async fn another_address_fails_the_self_check_and_is_named() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    stage.assign("v-1", "203.0.113.10", 7, AWAITING, &[]);
    let found = stage.self_check_of(7).await;
    assert_eq!(
        (&found["success"], &found["detected_egress_ip"]),
        (&json!(false), &json!("127.0.0.2"))
    );
    assert!(
        found["detail"]
            .as_str()
            .unwrap()
            .starts_with("mismatch 127.0.0.2")
    );
    stage.assign("v-1", "127.0.0.2", 8, AWAITING, &[]);
    assert_eq!(stage.self_check_of(8).await["success"], true);
    assert_eq!(
        stage.server.calls("self-check").len(),
        2,
        "each claim is judged once"
    );
}

#[tokio::test]
async fn a_cancel_drops_the_checks_under_way() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let (page, never) = (stage.url("ip"), stage.url("never"));
    stage.assign(
        "v-1",
        "127.0.0.2",
        7,
        "checking",
        &[("http", &page), ("http", &never)],
    );
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    stage.server.assign("agents/v-1", vec![]);
    stage.assign("v-1", "127.0.0.2", 8, "checking", &[("http", &page)]);
    stage.complete_of(8).await;
    assert_eq!((stage.rows_of(7).len(), stage.rows_of(8).len()), (1, 1));
    assert_eq!(
        stage.server.calls("complete").len(),
        1,
        "nothing is said of what was cancelled"
    );
}

#[tokio::test]
async fn control_api_may_be_away_in_the_middle() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let mut targets: Vec<String> = (0..50).map(|n| stage.url(&format!("gate?{n}"))).collect();
    targets.push(stage.url("ip"));
    let checks: Vec<(&str, &str)> = targets.iter().map(|t| ("http", t.as_str())).collect();
    stage.assign("v-1", "127.0.0.2", 7, "checking", &checks);
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    stage.server.kill().await;
    stage.gate.send_replace(true);
    stage.server.start_again().await;
    stage.complete_of(7).await;
    let mut arrived: Vec<Value> = stage
        .rows_of(7)
        .iter()
        .map(|row| row["target"].clone())
        .collect();
    arrived.sort_by_key(ToString::to_string);
    arrived.dedup();
    assert_eq!(arrived.len(), 51);
    assert_eq!(
        stage
            .server
            .methods_but(&["register", "heartbeat", "assignment"])
            .last()
            .unwrap(),
        "complete"
    );
    stage.assign("v-1", "127.0.0.2", 8, AWAITING, &[]);
    stage.self_check_of(8).await;
}

#[tokio::test]
async fn a_refused_fence_ends_the_work_and_the_next_claim_begins() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    stage.server.refuse("self-check", 409, None);
    stage.assign("v-1", "127.0.0.2", 7, AWAITING, &[]);
    stage
        .server
        .until("the refusal", |server| server.refusals_left() == 0)
        .await;
    stage.assign("v-1", "127.0.0.2", 8, AWAITING, &[]);
    stage.self_check_of(8).await;
    assert_eq!(stage.server.calls("self-check").len(), 1);
}

#[tokio::test]
async fn what_cannot_be_checked_is_no_result() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let page = stage.url("ip");
    let checks = [
        ("telepathy", "a"),
        ("tcp", "no port"),
        ("http", page.as_str()),
    ];
    stage.assign("v-1", "127.0.0.2", 7, "checking", &checks);
    stage.complete_of(7).await;
    assert_eq!(stage.rows_of(7).len(), 1);
    let mut said: Vec<String> = stage
        .inconclusive()
        .iter()
        .map(|said| said["check_type"].to_string())
        .collect();
    said.sort();
    assert_eq!(said, ["\"tcp\"", "\"telepathy\""]);
    assert!(
        stage.inconclusive()[0]["code"]
            .as_str()
            .unwrap()
            .starts_with("internal: ")
    );
}

#[tokio::test]
async fn what_is_around_this_host_is_no_target() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let metadata = "http://169.254.169.254/latest/meta-data/";
    stage.assign("v-1", "127.0.0.2", 7, "checking", &[("http", metadata)]);
    stage.complete_of(7).await;
    assert!(stage.rows_of(7).is_empty());
    let said = stage.inconclusive();
    assert_eq!((said.len(), &said[0]["target"]), (1, &json!(metadata)));
    assert!(
        said[0]["code"]
            .as_str()
            .unwrap()
            .starts_with("target_denied ")
    );
}

#[tokio::test]
async fn options_are_obeyed_and_unknown_ones_make_no_result() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let page = stage.url("nowhere");
    let group = |options: Value| json!({"type": "http", "targets": [page], "options": options});
    let assign = |fence: i64, options: Value| {
        let assignment = json!({
            "ip_id": 42, "ip_address": "127.0.0.2", "phase": "checking", "attempt_number": 1,
            "fence": fence, "check_config": [group(options)],
        });
        stage.server.assign("agents/v-1", vec![assignment]);
    };
    assign(7, json!({"expect_status": 404}));
    stage.complete_of(7).await;
    assert_eq!(stage.rows_of(7)[0]["success"], true);
    assign(8, json!({"expect_colour": "red"}));
    stage.complete_of(8).await;
    assert!(stage.rows_of(8).is_empty());
    let code = stage.inconclusive()[0]["code"].clone();
    assert!(code.as_str().unwrap().contains("expect_colour"), "{code}");
}

#[tokio::test]
async fn a_source_that_is_not_ours_is_inconclusive() {
    let stage = Stage::open(&[("v-1", "203.0.113.77")]).await;
    let page = stage.url("ip");
    stage.assign("v-1", "203.0.113.10", 7, "checking", &[("http", &page)]);
    stage.complete_of(7).await;
    assert!(stage.rows_of(7).is_empty());
    assert!(
        stage.inconclusive()[0]["code"]
            .as_str()
            .unwrap()
            .starts_with("source_unavailable")
    );
}

#[tokio::test]
async fn checks_that_are_added_under_way_are_run() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let (page, port, never) = (
        stage.url("ip"),
        stage.internet.to_string(),
        stage.url("never"),
    );
    let first = [("http", page.as_str()), ("http", never.as_str())];
    stage.assign("v-1", "127.0.0.2", 7, "checking", &first);
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    let more = [
        ("http", page.as_str()),
        ("http", never.as_str()),
        ("tcp", port.as_str()),
    ];
    stage.assign("v-1", "127.0.0.2", 7, "checking", &more);
    stage
        .server
        .until("the added one", |server| server.rows().len() == 2)
        .await;
    assert_eq!(stage.rows_of(7)[1]["check_type"], "tcp");
}

#[tokio::test]
async fn a_stop_ends_everything_in_time() {
    let mut stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    let (page, never) = (stage.url("ip"), stage.url("never"));
    stage.assign(
        "v-1",
        "127.0.0.2",
        7,
        "checking",
        &[("http", &page), ("http", &never)],
    );
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    stage.server.kill().await;
    stage.context.shutdown.cancel();
    let ended = stage.context.tasks.ended();
    tokio::time::timeout(Duration::from_secs(5), ended)
        .await
        .expect("ends within 5 s");
    assert_eq!(stage.context.tasks.fault(), None);
    // The other task of the set is the internet, which never ends.
    tokio::time::timeout(PATIENCE, stage.tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

/// All check types are switched off: the self-check alone decides, and nobody waits for the window.
#[tokio::test]
async fn nothing_to_check_is_complete_at_once() {
    let stage = Stage::open(&[("v-1", "127.0.0.2")]).await;
    stage.assign("v-1", "127.0.0.2", 7, AWAITING, &[]);
    stage.self_check_of(7).await;
    stage.assign("v-1", "127.0.0.2", 7, "checking", &[]);
    stage.complete_of(7).await;
    assert!(stage.rows_of(7).is_empty());
}

/// A port of 127.0.0.2 and 127.0.0.3 that is free now.
fn free_port() -> u16 {
    let on = |ip: &str, port| std::net::TcpListener::bind((ip, port));
    loop {
        let first = on("127.0.0.2", 0).unwrap();
        let port = first.local_addr().unwrap().port();
        if on("127.0.0.3", port).is_ok() {
            return port;
        }
    }
}

/// What answers there: the status line with the headers, in lower case.
async fn head(ip: &str, port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect((ip, port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that has had enough may reset.
    let _reset = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap().to_lowercase()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const NONCE: &str = "0123456789abcdef";

impl Stage {
    fn assign_nonce(&self, validator: &str, fence: i64, nonce: Option<&str>) {
        let mut one = json!({"ip_id": fence, "ip_address": "127.0.0.2", "phase": "checking",
            "check_config": [], "attempt_number": 1, "fence": fence, "revision": 4});
        if let Some(nonce) = nonce {
            one["nonce"] = nonce.into();
        }
        self.server
            .assign(&format!("agents/{validator}"), vec![one]);
    }

    async fn until_served(&self, ip: &str, port: u16, wanted: &str) -> String {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let head = head(ip, port, GET).await;
            if head.contains(wanted) {
                return head;
            }
            assert!(tokio::time::Instant::now() < deadline, "{head}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn responder(http: u16, tls: &[u16]) -> Option<Responder> {
    Some(Responder {
        http_ports: vec![http],
        tls_ports: tls.to_vec(),
    })
}

#[tokio::test]
async fn the_responder_answers_for_the_validator_of_the_address_while_it_has_work() {
    let port = free_port();
    let two = [("v-1", "127.0.0.2"), ("v-2", "127.0.0.3")];
    let stage = Stage::with(&two, responder(port, &[])).await;
    stage
        .server
        .until("register", |server| server.calls("register").len() == 2)
        .await;
    for call in stage.server.calls("register") {
        assert_eq!(call.body["capabilities"], json!(["responder"]));
        assert_eq!(call.body["responder_ports"], json!([port]));
    }
    let idle = head("127.0.0.3", port, GET).await;
    assert!(idle.starts_with("http/1.1 404 "), "{idle}");
    assert!(idle.contains("x-validator-id: v-2\r\n"), "{idle}");
    assert!(!idle.contains("nonce"), "{idle}");
    stage.assign_nonce("v-1", 7, Some(NONCE));
    let shown = format!("x-validator-nonce: {NONCE}\r\n");
    let served = stage.until_served("127.0.0.2", port, &shown).await;
    assert!(served.starts_with("http/1.1 200 "), "{served}");
    assert!(served.contains("x-validator-id: v-1\r\n"), "{served}");
    let other = head("127.0.0.3", port, GET).await;
    assert!(!other.contains("nonce"), "{other}");
    // The checks are done; the nonce stays until the assignment goes.
    let completes = |server: &StandIn| !server.calls("complete").is_empty();
    stage.server.until("complete", completes).await;
    assert_eq!(stage.server.calls("complete")[0].body["revision"], 4);
    assert!(head("127.0.0.2", port, GET).await.contains(NONCE));
    stage.server.assign("agents/v-1", Vec::new());
    stage.until_served("127.0.0.2", port, "http/1.1 404 ").await;
}

#[tokio::test]
async fn the_responder_says_nothing_of_its_host_and_takes_little() {
    let port = free_port();
    let stage = Stage::with(&[("v-1", "127.0.0.2")], responder(port, &[])).await;
    stage
        .server
        .until("register", |server| !server.calls("register").is_empty())
        .await;
    let answer = head("127.0.0.2", port, GET).await;
    let lines: Vec<_> = answer.lines().filter(|line| !line.is_empty()).collect();
    let known = [
        "http/1.1 404",
        "x-validator-id:",
        "content-length: 0",
        "connection: close",
    ];
    for line in lines {
        assert!(known.iter().any(|known| line.starts_with(known)), "{line}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    for hostile in [long.as_str(), many.as_str(), "\u{1}\u{2}\r\n\r\n"] {
        let answer = head("127.0.0.2", port, hostile).await;
        assert!(!answer.contains("http/1.1 2"), "{answer}");
        assert!(answer.len() <= hostile.len().max(200), "{answer}");
    }
    // A visitor who says nothing is shown out; the others are served meanwhile.
    let begin = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(("127.0.0.2", port)).await.unwrap();
    assert!(head("127.0.0.2", port, GET).await.contains("v-1"));
    let mut rest = Vec::new();
    let _reset = silent.read_to_end(&mut rest).await;
    assert!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_left_and_without_any_nothing_is_announced() {
    let taken = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let stage = Stage::with(&[("v-1", "127.0.0.2")], responder(port, &[])).await;
    let registered = |server: &StandIn| !server.calls("register").is_empty();
    stage.server.until("register", registered).await;
    let body = &stage.server.calls("register")[0].body;
    assert!(
        body.get("capabilities").is_none_or(Value::is_null),
        "{body}"
    );
}

#[tokio::test]
async fn tls_is_answered_with_a_certificate_that_names_nobody() {
    let (http, tls) = (free_port(), free_port());
    let stage = Stage::with(&[("v-1", "127.0.0.2")], responder(http, &[tls])).await;
    let registered = |server: &StandIn| !server.calls("register").is_empty();
    stage.server.until("register", registered).await;
    stage.assign(
        "v-1",
        "127.0.0.2",
        7,
        "checking",
        &[("tls", &format!("127.0.0.2:{tls}"))],
    );
    stage
        .server
        .until("a result", |server| !server.rows().is_empty())
        .await;
    let row = &stage.server.rows()[0];
    assert_eq!(row["success"], true, "{row}");
    assert!(
        row["detail"]
            .as_str()
            .unwrap()
            .contains("validator.invalid"),
        "{row}"
    );
}
