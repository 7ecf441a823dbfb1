//! Notifications from the event to a real receiver: signed, in order, at least once, through
//! failures, hangs and restarts; and no receiver at the expense of another.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::fake::FakeCloud;
use civ_control_api::{config, start};
use civ_testkit::eventually;
use civ_types::{Clock as _, SystemClock};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

const SECRET: &str = "a-secret-of-these-tests";

/// What the receiver does with one request.
#[derive(Debug, Clone, Copy)]
enum Act {
    Answer(u16),
    /// Never answers.
    Hang,
    /// Sends the caller elsewhere.
    Redirect,
}

/// A request that came in.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
    /// What was done with it.
    act: Act,
}

impl Seen {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }

    fn is_accepted(&self) -> bool {
        matches!(self.act, Act::Answer(200))
    }
}

#[derive(Debug, Default)]
struct Desk {
    seen: Mutex<Vec<Seen>>,
    /// What to do next; without a plan: 200.
    plan: Mutex<VecDeque<Act>>,
    /// What to do with an address, whatever the plan.
    about: Mutex<BTreeMap<String, Act>>,
}

/// A receiver on loopback.
struct Receiver {
    desk: Arc<Desk>,
    url: String,
    _server: tokio::task::JoinSet<()>,
}

async fn take(
    State(desk): State<Arc<Desk>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let about = said["ip_address"].as_str().unwrap_or_default();
    let fixed = desk.about.lock().unwrap().get(about).copied();
    let planned = || desk.plan.lock().unwrap().pop_front();
    let act = fixed.or_else(planned).unwrap_or(Act::Answer(200));
    desk.seen.lock().unwrap().push(Seen {
        path: uri.path().to_owned(),
        headers,
        body: body.to_vec(),
        act,
    });
    match act {
        Act::Answer(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Act::Hang => std::future::pending().await,
        Act::Redirect => (StatusCode::FOUND, [("location", "/elsewhere")]).into_response(),
    }
}

impl Receiver {
    async fn new(plan: &[Act]) -> Self {
        let desk = Arc::new(Desk::default());
        desk.plan.lock().unwrap().extend(plan);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
        let app = Router::new().fallback(take).with_state(Arc::clone(&desk));
        let mut server = tokio::task::JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            desk,
            url,
            _server: server,
        }
    }

    fn seen(&self) -> Vec<Seen> {
        self.desk.seen.lock().unwrap().clone()
    }

    /// Addresses of the requests that were accepted, in order.
    fn accepted(&self) -> Vec<String> {
        let accepted = self.seen().into_iter().filter(Seen::is_accepted);
        let address = |seen: Seen| seen.json()["ip_address"].as_str().unwrap().to_owned();
        accepted.map(address).collect()
    }

    async fn until_accepted(&self, n: usize) -> Vec<String> {
        eventually("the receiver accepts", async || {
            Some(self.accepted()).filter(|all| n <= all.len())
        })
        .await
    }

    async fn until_seen(&self, n: usize) -> Vec<Seen> {
        eventually("the receiver is asked", async || {
            Some(self.seen()).filter(|all| n <= all.len())
        })
        .await
    }

    fn yaml(&self, name: &str, events: &str, timeout: u32) -> String {
        let url = &self.url;
        format!(
            "  - {{ name: {name}, url: \"{url}\", secret_env: HOOK_SECRET, events: {events}, \
             timeout_seconds: {timeout} }}\n"
        )
    }
}

/// What a service is started on; outlives it.
struct Ground {
    folder: tempfile::TempDir,
}

struct Service {
    base: String,
    context: Context,
}

impl Ground {
    fn new() -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, receivers: &[String]) -> std::path::PathBuf {
        let database = self.folder.path().join("control-api.db");
        let text = format!(
            "server: {{ listen_addr: \"127.0.0.1:0\" }}\ndatabase: {{ path: {} }}\n\
             notifications:\n{}",
            database.display(),
            receivers.concat()
        );
        let file = self.folder.path().join("control-api.yaml");
        std::fs::write(&file, text).unwrap();
        file
    }

    async fn start(&self, receivers: &[String]) -> Service {
        let settings = config::load(&self.file(receivers)).unwrap().settings;
        let shutdown = CancellationToken::new();
        let secret = ("HOOK_SECRET".to_owned(), SECRET.to_owned());
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(BTreeMap::from([secret])),
        };
        let cloud = Arc::new(FakeCloud::new());
        let running = start(settings, &context, cloud).await.unwrap();
        Service {
            base: format!("http://{}", running.addr),
            context,
        }
    }
}

async fn enqueue(base: &str, addresses: &[&str]) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("{base}/api/v1/admin/ips"));
    let request = request.json(&json!({"addresses": addresses}));
    assert_eq!(request.send().await.unwrap().status(), 200);
}

/// Events of that type of one address.
async fn events_of(base: &str, address: &str, kind: &str) -> usize {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.get(format!("{base}/api/v1/admin/ips/{address}"));
    let details: Value = request.send().await.unwrap().json().await.unwrap();
    let events = details["events"].as_array().unwrap();
    events
        .iter()
        .filter(|event| event["EventType"] == kind)
        .count()
}

impl Service {
    async fn end(self) {
        self.context.shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(5), self.context.tasks.ended());
        ended.await.unwrap();
        assert_eq!(self.context.tasks.fault(), None);
    }
}

const A: &str = "203.0.113.1";
const B: &str = "203.0.113.2";
const C: &str = "203.0.113.3";

#[tokio::test]
async fn an_event_arrives_signed_and_as_documented() {
    let receiver = Receiver::new(&[]).await;
    let ground = Ground::new();
    let service = ground.start(&[receiver.yaml("r", "[enqueued]", 5)]).await;
    enqueue(&service.base, &[A]).await;
    receiver.until_accepted(1).await;
    let seen = receiver.seen().remove(0);
    let body = seen.json();
    assert_eq!(body["event_type"], "enqueued");
    assert_eq!(
        (&body["severity"], &body["ip_address"]),
        (&json!("info"), &json!(A))
    );
    assert_eq!(
        (&body["validator_id"], &body["site_id"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        body["payload"].is_string() && body["occurred_at"].is_string(),
        "{body}"
    );
    assert_eq!(seen.header("x-civ-event-id"), body["id"].to_string());
    assert_eq!(seen.header("content-type"), "application/json");
    assert!(seen.header("user-agent").starts_with("cloud-ip-validator/"));
    let timestamp = seen.header("x-civ-timestamp");
    let now = SystemClock.now().as_micros() / 1_000_000;
    assert!((now - timestamp.parse::<i64>().unwrap()).abs() < 60);
    let signature = seen
        .header("x-civ-signature")
        .strip_prefix("sha256=")
        .unwrap();
    let bytes: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(signature.get(at..at + 2).unwrap(), 16).unwrap())
        .collect();
    let verified = |secret: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{timestamp}.").as_bytes());
        mac.update(&seen.body);
        mac.verify_slice(&bytes).is_ok()
    };
    assert!(verified(SECRET) && !verified("another"));
    assert_eq!(seen.path, "/hook");
    service.end().await;
}

#[tokio::test]
async fn failures_are_tried_again_and_the_order_stays() {
    let plan = [Act::Answer(500), Act::Answer(410), Act::Redirect];
    let receiver = Receiver::new(&plan).await;
    let ground = Ground::new();
    let service = ground.start(&[receiver.yaml("r", "[enqueued]", 5)]).await;
    enqueue(&service.base, &[A, B, C]).await;
    assert_eq!(receiver.until_accepted(3).await, [A, B, C]);
    let seen = receiver.seen();
    assert_eq!(seen.len(), 6);
    // Every try is the same event; a redirect is a failure and is not followed.
    let first = seen.iter().take(4).map(|seen| seen.json()["id"].clone());
    let ids: Vec<Value> = first.collect();
    assert!(ids.iter().all(|id| id == &ids[0]), "{ids:?}");
    assert!(seen.iter().all(|seen| seen.path == "/hook"));
    service.end().await;
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_neither_another_nor_the_service() {
    let slow = Receiver::new(&[Act::Hang, Act::Hang, Act::Hang, Act::Hang]).await;
    let quick = Receiver::new(&[]).await;
    let ground = Ground::new();
    let receivers = [
        slow.yaml("slow", "[\"*\"]", 60),
        quick.yaml("quick", "[enqueued]", 5),
    ];
    let service = ground.start(&receivers).await;
    enqueue(&service.base, &[A, B, C]).await;
    assert_eq!(quick.until_accepted(3).await, [A, B, C]);
    slow.until_seen(1).await;
    assert_eq!(slow.accepted(), [""; 0]);
    assert_eq!(events_of(&service.base, A, "enqueued").await, 1);
    // An orderly end does not wait for it either.
    service.end().await;
}

#[tokio::test]
async fn a_timeout_is_a_failure() {
    let receiver = Receiver::new(&[Act::Hang]).await;
    let ground = Ground::new();
    let service = ground.start(&[receiver.yaml("r", "[enqueued]", 1)]).await;
    enqueue(&service.base, &[A]).await;
    assert_eq!(receiver.until_accepted(1).await, [A]);
    assert_eq!(receiver.seen().len(), 2);
    service.end().await;
}

#[tokio::test]
async fn what_is_never_accepted_makes_way_for_the_rest() {
    let receiver = Receiver::new(&[]).await;
    receiver
        .desk
        .about
        .lock()
        .unwrap()
        .insert(A.to_owned(), Act::Answer(400));
    let ground = Ground::new();
    let service = ground.start(&[receiver.yaml("r", "[enqueued]", 5)]).await;
    enqueue(&service.base, &[A, B, C]).await;
    let accepted = civ_testkit::eventually_within(
        "the others are accepted",
        Duration::from_secs(90),
        async || Some(receiver.accepted()).filter(|all| all.len() == 2),
    );
    assert_eq!(accepted.await, [B, C]);
    let refused = receiver
        .seen()
        .into_iter()
        .filter(|seen| !seen.is_accepted());
    assert_eq!(refused.count(), 5);
    service.end().await;
}

#[tokio::test]
async fn a_restart_sends_what_was_left_and_forgets_receivers_that_are_gone() {
    let receiver = Receiver::new(&[Act::Answer(200), Act::Hang]).await;
    let gone = Receiver::new(&[Act::Hang]).await;
    let ground = Ground::new();
    let kept = receiver.yaml("r", "[enqueued]", 60);
    let both = [kept.clone(), gone.yaml("gone", "[enqueued]", 60)];
    let service = ground.start(&both).await;
    enqueue(&service.base, &[A, B, C]).await;
    receiver.until_seen(2).await;
    gone.until_seen(1).await;
    service.end().await;
    let service = ground.start(std::slice::from_ref(&kept)).await;
    assert_eq!(receiver.until_accepted(3).await, [A, B, C]);
    service.end().await;
    // Added again it is told of what is new, and of nothing that was dropped.
    let service = ground.start(&both).await;
    enqueue(&service.base, &["203.0.113.9"]).await;
    assert_eq!(gone.until_accepted(1).await, ["203.0.113.9"]);
    service.end().await;
}

/// control-api as a process of its own.
async fn spawn(file: &Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_control-api"))
        .args(["run", "--config"])
        .arg(file)
        .env_clear()
        .env("HOOK_SECRET", SECRET)
        .env("NO_COLOR", "1")
        // Nothing listens there: the queue works without a cloud.
        .env("OS_AUTH_URL", "http://127.0.0.1:9/v3")
        .env("OS_USERNAME", "u")
        .env("OS_PASSWORD", "p")
        .env("OS_PROJECT_NAME", "p")
        .kill_on_drop(true)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let base = loop {
        let line = lines.next_line().await.unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended before it listened"));
        if let Some((_, addr)) = line.split_once("control-api listens addr=") {
            break format!("http://{}", addr.trim());
        }
    };
    // Whatever it still has to say must not fill the pipe.
    let rest = async move { while let Ok(Some(_)) = lines.next_line().await {} };
    tokio::task::spawn_local(rest);
    (child, base)
}

#[tokio::test]
async fn kill_9_in_the_middle_loses_nothing() {
    let local = tokio::task::LocalSet::new();
    local.run_until(killed()).await;
}

async fn killed() {
    let receiver = Receiver::new(&[Act::Answer(200), Act::Hang]).await;
    let ground = Ground::new();
    let file = ground.file(&[receiver.yaml("r", "[enqueued]", 60)]);
    let (mut child, base) = spawn(&file).await;
    enqueue(&base, &[A, B, C]).await;
    receiver.until_seen(2).await;
    child.kill().await.unwrap();
    let (mut child, base) = spawn(&file).await;
    let mut accepted = eventually("the last one is accepted", async || {
        Some(receiver.accepted()).filter(|all| all.last().is_some_and(|last| last == C))
    })
    .await;
    // At least once, in order: the first may or may not have been noted before the end.
    accepted.dedup();
    assert_eq!(accepted, [A, B, C]);
    assert_eq!(events_of(&base, C, "enqueued").await, 1);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn without_its_key_nothing_starts() {
    let receiver = Receiver::new(&[]).await;
    let ground = Ground::new();
    let file = ground.file(&[receiver.yaml("r", "[\"*\"]", 5)]);
    let settings = config::load(&file).unwrap().settings;
    let shutdown = CancellationToken::new();
    let context = Context {
        tasks: Tasks::new(shutdown.clone()),
        shutdown,
        environment: Arc::new(BTreeMap::<String, String>::new()),
    };
    let refused = start(settings, &context, Arc::new(FakeCloud::new())).await;
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("HOOK_SECRET") && text.contains("signs"),
        "{text}"
    );
}
