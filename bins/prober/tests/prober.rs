//! The prober as a whole against a small control-api and real sockets on loopback.
#![cfg(test)]

#[expect(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../../../crates/link/tests/stand_in/mod.rs"]
mod stand_in;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_boot::Context;
use civ_boot::config::{ControlApi, Reach};
use civ_boot::secrets::SecretSource;
use civ_boot::tasks::Tasks;
use civ_prober::config::{Checks, Settings};
use civ_types::SiteId;
use serde_json::{Value, json};
use stand_in::{PATIENCE, StandIn};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct Stage {
    server: StandIn,
    context: Context,
    tasks: JoinSet<()>,
    /// Accepts on 127.0.0.5, an address that nothing else listens on.
    open_port: TcpListener,
}

impl Stage {
    async fn open(bind_address: Option<IpAddr>) -> Self {
        Self::with(bind_address, Duration::from_secs(30)).await
    }

    async fn with(bind_address: Option<IpAddr>, timeout: Duration) -> Self {
        let server = StandIn::start().await;
        let shutdown = CancellationToken::new();
        let token = ("TOKEN".to_owned(), "a-token-of-tests".to_owned());
        let context = Context {
            shutdown: shutdown.clone(),
            tasks: Tasks::new(shutdown),
            environment: Arc::new(BTreeMap::from([token])),
        };
        let settings = Settings {
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
            site_id: SiteId::parse("s-1").unwrap(),
            bind_address,
            checks: Checks {
                max_concurrent: 64,
                timeout,
                icmp_packets_per_second: 20_000,
                targets: Reach {
                    allow: vec!["127.0.0.0/8".parse().unwrap()],
                    deny: Vec::new(),
                },
            },
        };
        let mut tasks = JoinSet::new();
        let running = civ_prober::run(settings, context.clone());
        tasks.spawn(async move { running.await.unwrap() });
        let open_port = TcpListener::bind("127.0.0.5:0").await.unwrap();
        Self {
            server,
            context,
            tasks,
            open_port,
        }
    }

    fn port(&self) -> u16 {
        self.open_port.local_addr().unwrap().port()
    }

    fn assign(&self, list: &[(i64, i64, &[u16])]) {
        let list = list.iter().map(|(ip_id, fence, ports)| {
            json!({"ip_id": ip_id, "ip_address": "127.0.0.5", "ports": ports, "icmp": false,
                   "attempt_number": 1, "fence": fence})
        });
        self.server.assign("probers/s-1", list.collect());
    }

    async fn complete_of(&self, fence: i64) {
        self.server
            .until("complete", |server| completes(server, fence) > 0)
            .await;
    }

    fn rows_of(&self, fence: i64) -> Vec<Value> {
        self.server
            .rows()
            .into_iter()
            .filter(|row| row["fence"] == fence)
            .collect()
    }

    fn passed(&self, fence: i64) -> BTreeMap<String, bool> {
        let text = |row: &Value| row["check_type"].as_str().unwrap().to_owned();
        let rows = self.rows_of(fence);
        rows.iter()
            .map(|row| (text(row), row["success"].as_bool().unwrap()))
            .collect()
    }
}

fn completes(server: &StandIn, fence: i64) -> usize {
    let rows = server.rows();
    rows.iter()
        .filter(|row| row["fence"] == fence && row["complete"] == true)
        .count()
}

/// A port whose queue of connections is full: connecting to it takes until the budget is over.
async fn black_hole() -> (u16, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.5:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(TcpStream::connect(addr).await.unwrap());
    }
    (addr.port(), listener, held)
}

#[tokio::test]
async fn every_port_is_probed_once_and_the_last_result_says_complete() {
    let stage = Stage::open(None).await;
    let open = stage.port();
    stage.assign(&[(42, 7, &[open, 1, 22, 443])]);
    stage.complete_of(7).await;
    let passed = stage.passed(7);
    let names: Vec<&str> = passed.keys().map(String::as_str).collect();
    let opened = format!("tcp-{open}");
    let mut expected = [
        "ssh",
        "tcp-1",
        opened.as_str(),
        "tcp-22",
        "tcp-443",
        "tls-443",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(passed[&opened] && !passed["tcp-1"]);
    assert_eq!(stage.rows_of(7).last().unwrap()["complete"], true);
    stage.assign(&[(42, 7, &[open, 1, 22, 443]), (43, 8, &[open])]);
    stage.complete_of(8).await;
    assert_eq!(
        (stage.rows_of(7).len(), completes(&stage.server, 7)),
        (6, 1)
    );
    assert_eq!(
        stage.server.calls("results")[0].token.as_deref(),
        Some("Bearer a-token-of-tests")
    );
}

#[tokio::test]
async fn an_address_that_vanishes_is_dropped_at_once() {
    let stage = Stage::open(None).await;
    let (open, (hole, _listener, _held)) = (stage.port(), black_hole().await);
    stage.assign(&[(42, 7, &[open, 1, hole])]);
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    stage.assign(&[(43, 8, &[open])]);
    stage.complete_of(8).await;
    stage
        .server
        .until("idle", |server| {
            server
                .calls("heartbeat")
                .last()
                .is_some_and(|call| call.body["local_state"] == "idle")
        })
        .await;
    assert_eq!(
        (stage.rows_of(7).len(), completes(&stage.server, 7)),
        (1, 0)
    );
}

#[tokio::test]
async fn other_ports_make_another_pass() {
    let stage = Stage::open(None).await;
    let open = stage.port();
    stage.assign(&[(42, 7, &[open])]);
    stage.complete_of(7).await;
    stage.assign(&[(42, 7, &[open, 1])]);
    stage
        .server
        .until("twice", |server| completes(server, 7) == 2)
        .await;
    assert_eq!(stage.passed(7).len(), 2);
}

#[tokio::test]
async fn control_api_may_be_away_in_the_middle() {
    let stage = Stage::open(None).await;
    let open = stage.port();
    let lists: Vec<(i64, i64, Vec<u16>)> = (0..20)
        .map(|n| (n, 100 + n, (open..=open).chain(1..6).collect()))
        .collect();
    let lists: Vec<(i64, i64, &[u16])> = lists
        .iter()
        .map(|(ip, fence, ports)| (*ip, *fence, ports.as_slice()))
        .collect();
    stage.assign(&lists);
    stage
        .server
        .until("the beginning", |server| !server.rows().is_empty())
        .await;
    stage.server.kill().await;
    stage.server.start_again().await;
    for fence in 100..120 {
        stage.complete_of(fence).await;
        assert_eq!(stage.passed(fence).len(), 6, "of {fence}");
        assert_eq!(stage.rows_of(fence).last().unwrap()["complete"], true);
    }
}

#[tokio::test]
async fn a_stale_claim_is_left_and_the_next_is_probed() {
    let stage = Stage::open(None).await;
    let open = stage.port();
    stage
        .server
        .answer_once("results", 200, None, json!({"ok": true, "stale": 1}));
    stage.assign(&[(42, 7, &[open])]);
    stage
        .server
        .until("the stale batch", |server| server.rows().len() == 1)
        .await;
    stage.assign(&[(42, 8, &[open])]);
    stage.complete_of(8).await;
    assert_eq!(stage.rows_of(7).len(), 1);
}

#[tokio::test]
async fn what_could_not_be_checked_is_no_result() {
    let stage = Stage::open(Some("203.0.113.77".parse().unwrap())).await;
    stage.assign(&[(42, 7, &[1, 22])]);
    stage
        .server
        .until("three events", |server| server.calls("events").len() == 3)
        .await;
    let event = stage.server.calls("events").remove(0).body;
    assert_eq!(
        (&event["event_type"], &event["fence"]),
        (&json!("check_inconclusive"), &json!(7))
    );
    let payload: Value = serde_json::from_str(event["payload"].as_str().unwrap()).unwrap();
    assert!(
        payload["code"]
            .as_str()
            .unwrap()
            .starts_with("source_unavailable"),
        "{payload}"
    );
    assert!(stage.server.rows().is_empty(), "nothing carries `complete`");
}

#[tokio::test]
async fn a_stop_ends_everything_in_time() {
    let mut stage = Stage::open(None).await;
    let (open, (hole, _listener, _held)) = (stage.port(), black_hole().await);
    stage.assign(&[(42, 7, &[open, 1, hole])]);
    stage
        .server
        .until("one result", |server| server.rows().len() == 1)
        .await;
    stage.server.kill().await;
    stage.context.shutdown.cancel();
    tokio::time::timeout(PATIENCE, stage.tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let ended = stage.context.tasks.ended();
    tokio::time::timeout(Duration::from_secs(5), ended)
        .await
        .expect("ends within 5 s");
    assert_eq!(stage.context.tasks.fault(), None);
}

const NONCE: &str = "0123456789abcdef";

/// A server on 127.0.0.5 whose answers have these headers, the n-th one the n-th, the last one for
/// ever.
async fn answers(tasks: &mut JoinSet<()>, heads: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.5:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tasks.spawn(async move {
        for n in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head = heads[heads.len().min(n + 1) - 1];
            let mut request = [0; 1024];
            let _read = stream.read(&mut request).await.unwrap();
            let answer = format!("HTTP/1.1 {head}content-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

impl Stage {
    fn assign_identity(&self, ports: &[u16], closed: &[u16]) {
        let one = json!({"ip_id": 42, "ip_address": "127.0.0.5", "ports": [], "icmp": false,
            "attempt_number": 1, "fence": 7, "revision": 3, "closed_ports": closed,
            "identity": {"validator_id": "v-1", "nonce": NONCE, "ports": ports}});
        self.server.assign("probers/s-1", vec![one]);
    }
}

/// What the prober makes of servers on that many ports.
async fn identity_of(heads: &[&'static [&'static str]]) -> Value {
    let mut stage = Stage::with(None, Duration::from_secs(1)).await;
    let mut ports = Vec::new();
    for heads in heads {
        ports.push(answers(&mut stage.tasks, heads).await);
    }
    stage.assign_identity(&ports, &[]);
    stage.complete_of(7).await;
    let mut rows = stage.rows_of(7);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[tokio::test]
async fn it_says_what_it_can_do_and_which_list_it_is_through_with() {
    let row = identity_of(&[&["200 OK\r\nX-Validator-Id: v-1\r\n\
        X-Validator-Nonce: 0123456789abcdef\r\n"]])
    .await;
    assert_eq!(
        (&row["check_type"], &row["success"]),
        (&json!("identity"), &json!(true)),
        "{row}"
    );
    assert_eq!(
        (&row["complete"], &row["revision"]),
        (&json!(true), &json!(3))
    );
    assert!(!row.to_string().contains(NONCE), "{row}");
    let stage = Stage::open(None).await;
    let registered = |server: &StandIn| !server.calls("register").is_empty();
    stage.server.until("register", registered).await;
    let said = &stage.server.calls("register")[0].body["capabilities"];
    assert_eq!(*said, json!(["identity", "closed_ports"]));
}

#[tokio::test]
async fn an_identity_that_is_not_proven_says_who_answered() {
    let cases: [(&'static [&'static str], &str); 6] = [
        (
            &["200 OK\r\nX-Validator-Id: v-2\r\nX-Validator-Nonce: fedcba9876543210\r\n"],
            "wrong_host answered by v-2, not by v-1",
        ),
        (
            &["404 Not Found\r\nX-Validator-Id: v-1\r\n"],
            "wrong_host answered by v-1 itself, but without a nonce",
        ),
        (
            &["200 OK\r\nX-Validator-Id: v-1\r\nX-Validator-Nonce: fedcba9876543210\r\n"],
            "wrong_host answered by v-1 itself, but with another nonce",
        ),
        (
            &["200 OK\r\nServer: nginx\r\n"],
            "wrong_host answered by a server that is none of ours and calls itself \"nginx\"",
        ),
        // What it copies from another claim's validator does not help, nor does a redirect.
        (
            &["302 Found\r\nLocation: http://127.0.0.1:1/\r\n"],
            "wrong_host answered by a server",
        ),
        (
            &["200 OK\r\nX-Validator-Nonce: 0123456789abcdef\r\n"],
            "wrong_host answered by a server",
        ),
    ];
    for (heads, wanted) in cases {
        let row = identity_of(&[heads]).await;
        let detail = row["detail"].as_str().unwrap();
        assert_eq!(row["success"], false);
        assert!(detail.starts_with(wanted), "{detail}");
        assert!(
            !detail.contains("fedcba") && !detail.contains(NONCE),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn a_responder_that_is_about_to_learn_its_nonce_is_asked_again() {
    let late: &[&str] = &[
        "404 Not Found\r\nX-Validator-Id: v-1\r\n",
        "200 OK\r\nX-Validator-Id: v-1\r\nX-Validator-Nonce: 0123456789abcdef\r\n",
    ];
    assert_eq!(identity_of(&[late]).await["success"], true);
}

#[tokio::test]
async fn one_port_that_proves_it_is_enough() {
    let row = identity_of(&[
        &["200 OK\r\nServer: nginx\r\n"],
        &["200 OK\r\nX-Validator-Id: v-1\r\nX-Validator-Nonce: 0123456789abcdef\r\n"],
    ])
    .await;
    assert_eq!(row["success"], true, "{row}");
}

#[tokio::test]
async fn nobody_at_all_is_a_failed_identity_too_and_closed_ports_are_looked_at() {
    let stage = Stage::with(None, Duration::from_secs(1)).await;
    let open = stage.port();
    stage.assign_identity(&[1], &[1, open]);
    stage.complete_of(7).await;
    let passed = stage.passed(7);
    let opened = format!("closed-{open}");
    assert!(!passed["identity"]);
    assert!(passed["closed-1"] && !passed[&opened], "{passed:?}");
    let rows = stage.rows_of(7);
    let detail = |name: &str| {
        let row = rows.iter().find(|row| row["check_type"] == name).unwrap();
        row["detail"].as_str().unwrap().to_owned()
    };
    assert!(
        detail("identity").starts_with("refused "),
        "{}",
        detail("identity")
    );
    assert!(
        detail(&opened).starts_with("unexpectedly_open "),
        "{}",
        detail(&opened)
    );
}
