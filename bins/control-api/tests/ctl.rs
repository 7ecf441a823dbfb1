//! `control-api ctl` as a process: what it asks for, what it shows, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::fake::FakeCloud;
use civ_control_api::{config, start};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "admin-token-0123456789";

/// How one call ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    /// Standard output of a call that must have gone well.
    fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// Standard error of a call that must have ended with `code`.
    fn with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }
}

async fn call(env: &[(&str, &str)], line: &str, input: &str) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_control-api"))
        .arg("ctl")
        .args(line.split_whitespace())
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // Most commands read nothing and may be gone already.
    drop(pipe.write_all(input.as_bytes()).await);
    drop(pipe);
    let ended = child.wait_with_output().await.unwrap();
    Ended {
        code: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// `PUT /config/sites/2`, the body, and the header of authorization.
type Asked = (String, Value, Option<String>);

#[derive(Debug, Default)]
struct Desk {
    asked: Mutex<Vec<Asked>>,
    /// Answers by `METHOD /path?query`, the last of which stays.
    answers: Mutex<BTreeMap<String, VecDeque<(u16, String)>>>,
}

/// A control-api that says what it was told to say.
struct StandIn {
    desk: Arc<Desk>,
    url: String,
    _server: tokio::task::JoinSet<()>,
}

async fn answer(
    State(desk): State<Arc<Desk>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path_and_query().unwrap().as_str();
    let path = path.strip_prefix("/api/v1/admin").unwrap_or(path);
    let key = format!("{method} {path}");
    let token = headers.get("authorization");
    let token = token.map(|value| value.to_str().unwrap().to_owned());
    let said = serde_json::from_slice(&body).unwrap_or(Value::Null);
    desk.asked.lock().unwrap().push((key.clone(), said, token));
    let mut answers = desk.answers.lock().unwrap();
    let Some(queue) = answers.get_mut(&key) else {
        let text = json!({"error": format!("the test has no answer to {key}")});
        return (StatusCode::NOT_FOUND, text.to_string()).into_response();
    };
    let (status, text) = if queue.len() > 1 {
        queue.pop_front().unwrap()
    } else {
        queue.front().unwrap().clone()
    };
    (StatusCode::from_u16(status).unwrap(), text).into_response()
}

impl StandIn {
    async fn new(answers: &[(&str, u16, Value)]) -> Self {
        let desk = Arc::new(Desk::default());
        for (key, status, body) in answers {
            let answer = (*status, body.to_string());
            let mut all = desk.answers.lock().unwrap();
            all.entry((*key).to_owned()).or_default().push_back(answer);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(Arc::clone(&desk));
        let mut server = tokio::task::JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            desk,
            url,
            _server: server,
        }
    }

    async fn ctl(&self, line: &str) -> Ended {
        let env = [
            ("CIV_URL", self.url.as_str()),
            ("CONTROL_API_ADMIN_TOKEN", TOKEN),
        ];
        call(&env, line, "").await
    }

    /// An answer that need not be JSON.
    fn say(&self, key: &str, status: u16, text: &str) {
        let mut answers = self.desk.answers.lock().unwrap();
        answers.insert(key.to_owned(), [(status, text.to_owned())].into());
    }

    /// What it was asked since the last call, without tokens.
    fn asked(&self) -> Vec<(String, Value)> {
        let asked = std::mem::take(&mut *self.desk.asked.lock().unwrap());
        asked
            .into_iter()
            .map(|(key, body, _)| (key, body))
            .collect()
    }
}

fn asked(key: &str, body: Value) -> (String, Value) {
    (key.to_owned(), body)
}

/// The service itself, on a cloud in memory.
struct Service {
    folder: tempfile::TempDir,
    url: String,
    context: Context,
}

impl Service {
    async fn start() -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control-api.yaml");
        let database = folder.path().join("control-api.db");
        let yaml = format!(
            "server: {{ listen_addr: \"127.0.0.1:0\" }}\ndatabase: {{ path: {} }}\n\
             validators: [{{ validator_id: v1, os_port_id: port-1 }}]\n",
            database.display()
        );
        std::fs::write(&file, yaml).unwrap();
        let settings = config::load(&file).unwrap().settings;
        let shutdown = CancellationToken::new();
        let token = ("CONTROL_API_ADMIN_TOKEN".to_owned(), TOKEN.to_owned());
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(BTreeMap::from([token])),
        };
        let cloud = Arc::new(FakeCloud::new());
        let running = start(settings, &context, cloud).await.unwrap();
        Self {
            folder,
            url: format!("http://{}", running.addr),
            context,
        }
    }

    async fn ctl(&self, line: &str) -> Ended {
        self.ctl_with(line, "").await
    }

    async fn ctl_with(&self, line: &str, input: &str) -> Ended {
        let env = [
            ("CIV_URL", self.url.as_str()),
            ("CONTROL_API_ADMIN_TOKEN", TOKEN),
        ];
        call(&env, line, input).await
    }

    async fn end(self) {
        self.context.shutdown.cancel();
        self.context.tasks.ended().await;
    }
}

#[tokio::test]
async fn the_queue_of_the_real_service_is_filled_and_listed() {
    let service = Service::start().await;
    let ctl = async |line: &str| service.ctl(line).await;
    let added = ctl("ips add 203.0.113.0/30 198.51.100.7").await.well();
    assert!(
        added.starts_with("added: 5  203.0.113.0, 203.0.113.1"),
        "{added}"
    );
    assert!(added.contains("\nskipped in progress: 0\n"), "{added}");
    let input = "203.0.113.9\n203.0.113.8\n";
    let more = service.ctl_with("ips add -", input).await.well();
    assert!(
        more.starts_with("added: 2  203.0.113.9, 203.0.113.8"),
        "{more}"
    );

    let list = ctl("ips list --q 198.51 --limit 10").await.well();
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].starts_with("ADDRESS       STATE   RESULT"),
        "{list}"
    );
    assert!(lines[1].starts_with("198.51.100.7  queued  -"), "{list}");
    assert_eq!(lines[2], "1 of 1");
    assert!(!list.contains('\u{1b}'));
    let json = ctl("ips list --limit 1 --json").await.well();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["total"], &json["limit"]), (&json!(7), &json!(1)));
    let status = ctl("status").await.well();
    assert!(
        status.starts_with("addresses   7\nvalidators  1\n"),
        "{status}"
    );
    assert!(status.contains("  queued  7\n"), "{status}");
    let validators = ctl("validators").await.well();
    assert!(
        validators.contains("v1         unregistered"),
        "{validators}"
    );
    service.end().await;
}

#[tokio::test]
async fn refusals_of_the_real_service_are_told() {
    let service = Service::start().await;
    let ctl = async |line: &str| service.ctl(line).await;
    ctl("ips add 203.0.113.0/30").await.well();
    assert_eq!(
        ctl("ips cancel 203.0.113.1").await.well(),
        "203.0.113.1: cancelled\n"
    );
    let shown = ctl("ips show 203.0.113.1").await.well();
    assert!(shown.contains("result              cancelled"), "{shown}");
    assert!(shown.contains("events: 2\n"), "{shown}");
    // One refusal keeps nobody else from being cancelled.
    let both = ctl("ips cancel 203.0.113.1 203.0.113.2").await;
    assert_eq!(both.out, "203.0.113.2: cancelled\n");
    assert!(both.with(1).contains("nothing to cancel (409)"));
    assert!(
        ctl("ips show 203.0.113.77")
            .await
            .with(1)
            .contains("not in the queue (404)")
    );
    assert!(ctl("ips add 1.2.3").await.with(1).contains("1.2.3"));

    let token = service.folder.path().join("token");
    std::fs::write(&token, "wrong\n").unwrap();
    let wrong = format!("status --token-file {}", token.display());
    assert!(
        ctl(&wrong)
            .await
            .with(1)
            .contains("does not take this token (401)")
    );
    let without = call(&[("CIV_URL", &service.url)], "status", "").await;
    assert!(without.with(1).contains("wants the admin token (401)"));
    service.end().await;
}

#[tokio::test]
async fn nobody_there_and_somebody_else_there_are_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let gone = call(&[("CIV_URL", url.as_str())], "status", "")
        .await
        .with(1);
    assert!(
        gone.contains("does not answer at") && gone.contains("refused"),
        "{gone}"
    );
    assert!(gone.contains("--url"), "{gone}");
    let other = StandIn::new(&[]).await;
    other.say("GET /status", 200, "<html>");
    other.say("GET /validators", 502, "Bad\u{1b}[2Jgateway");
    let strange = other.ctl("status").await.with(1);
    assert!(strange.contains("not as control-api does"), "{strange}");
    let gateway = other.ctl("validators").await.with(1);
    assert!(
        gateway.contains("502") && !gateway.contains('\u{1b}'),
        "{gateway:?}"
    );
}

#[tokio::test]
async fn usage_is_2_and_asks_nobody() {
    let server = StandIn::new(&[]).await;
    for line in [
        "ips clear",
        "ips",
        "config set orchestrator x=1",
        "config set inbound-checks icmp=on",
    ] {
        let err = server.ctl(line).await.with(2);
        assert!(!err.is_empty(), "{line}");
    }
    assert!(server.ctl("ips clear").await.with(2).contains("--yes"));
    assert!(server.asked().is_empty());
    let bad = call(&[("CIV_URL", "ftp://x")], "status", "").await;
    assert!(bad.with(2).contains("http://"));
}

#[tokio::test]
async fn the_token_is_sent_and_never_shown() {
    let server = StandIn::new(&[("GET /status", 409, json!({"error": "no"}))]).await;
    let ended = server.ctl("status").await;
    assert!(!format!("{ended:?}").contains(TOKEN));
    let (_, _, token) = server.desk.asked.lock().unwrap().remove(0);
    assert_eq!(token, Some(format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn bulk_calls_and_pages_are_those_of_the_contract() {
    let server = StandIn::new(&[
        (
            "POST /ips/delete",
            200,
            json!({"deleted": ["203.0.113.1"], "not_found": ["203.0.113.2"]}),
        ),
        ("POST /ips/clear", 200, json!({"deleted": []})),
        (
            "GET /ips?state=done%2Cfailed&result=pass&q=113&limit=5&offset=10",
            200,
            json!({"items": [], "total": 3, "limit": 5, "offset": 10}),
        ),
        (
            "GET /registry",
            200,
            json!([{"ip_address": "203.0.113.1", "last_result": "pass",
          "total_cycles": 2, "in_queue": false, "current_state": ""}]),
        ),
        (
            "GET /registry/203.0.113.1",
            200,
            json!({"registry": {"ip_address": "203.0.113.1"},
          "checks": [{"CycleID": 2, "Source": "egress", "CheckType": "https", "Success": true}]}),
        ),
    ])
    .await;
    let deleted = server
        .ctl("ips delete 203.0.113.1 203.0.113.2")
        .await
        .well();
    assert_eq!(
        deleted,
        "deleted: 1  203.0.113.1\nnot found: 1  203.0.113.2\n"
    );
    let body = json!({"addresses": ["203.0.113.1", "203.0.113.2"]});
    assert_eq!(server.asked(), [asked("POST /ips/delete", body)]);
    assert_eq!(server.ctl("ips clear --yes").await.well(), "deleted: 0\n");
    let page = "ips list --state done,failed --result pass --q 113 --limit 5 --offset 10";
    assert!(server.ctl(page).await.well().ends_with("0 of 3\n"));
    let registry = server.ctl("registry").await.well();
    assert!(
        registry.contains("203.0.113.1  pass         -        2       no        -"),
        "{registry}"
    );
    let one = server.ctl("registry show 203.0.113.1").await.well();
    assert!(one.contains("checks: 1\nCYCLE  SOURCE"), "{one}");
}

#[tokio::test]
async fn a_scan_is_followed_in_plain_lines_to_its_end() {
    let job = |state: &str, running: bool, added: u64| {
        json!({"state": state, "running": running, "dry_run": false, "pages": 1, "discovered": 4,
               "free": 4, "added": added, "requeued": 0, "reordered": 0, "skipped_in_progress": 0,
               "started_at": null, "finished_at": null, "error": ""})
    };
    let server = StandIn::new(&[
        ("POST /ips/scan", 202, job("listing", true, 0)),
        ("GET /ips/scan", 200, job("enqueuing", true, 2)),
        ("GET /ips/scan", 200, job("done", false, 4)),
    ])
    .await;
    let out = server.ctl("scan --wait").await.well();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "listing: 1 pages, 4 floating IPs");
    assert!(
        lines[1].starts_with("enqueuing: [###############....") && lines[1].ends_with("2 of 4")
    );
    assert!(out.contains("state                done\n"), "{out}");
    let failed = json!({"state": "error", "running": false, "error": "the cloud is away"});
    let server = StandIn::new(&[("POST /ips/scan?dry_run=true", 202, failed)]).await;
    let ended = server.ctl("scan --dry-run --wait").await;
    assert!(
        ended
            .with(1)
            .contains("the scan ended as error: the cloud is away")
    );
    assert_eq!(server.ctl("scan --dry-run").await.code, 0);
    // A scan of the other kind is joined, and that is said.
    let server =
        StandIn::new(&[("POST /ips/scan?dry_run=true", 202, job("listing", true, 0))]).await;
    let joined = server.ctl("scan --dry-run").await.with(0);
    assert!(
        joined.contains("a scan is under way that queues"),
        "{joined}"
    );
}

fn yes() -> Value {
    json!({"ok": true})
}

fn https() -> Value {
    json!({"name": "https", "enabled": true, "targets": ["web"], "options": {"a": 1}})
}

#[tokio::test]
async fn the_configuration_is_written_as_the_contract_says() {
    let nobody = json!({"error": "there is no validator v9"});
    let inbound = json!({"ports": [22, 80], "icmp": true});
    let server = StandIn::new(&[
        ("PUT /config/validators/v9", 404, nobody),
        ("POST /config/validators", 201, yes()),
        ("PUT /config/sites/2", 200, yes()),
        ("PUT /config/targets/web", 200, yes()),
        ("PUT /config/orchestrator", 200, yes()),
        ("GET /config/check-types", 200, json!([https()])),
        ("PUT /config/check-types/https", 200, yes()),
        ("GET /config/inbound-checks", 200, inbound),
        ("PUT /config/inbound-checks", 200, yes()),
    ])
    .await;
    for (line, last) in [
        (
            "validator v9 port-9",
            asked(
                "POST /config/validators",
                json!({"validator_id": "v9", "os_port_id": "port-9"}),
            ),
        ),
        (
            "site 2 site_id=s-2",
            asked("PUT /config/sites/2", json!({"site_id": "s-2"})),
        ),
        (
            "targets web https://a https://b",
            asked(
                "PUT /config/targets/web",
                json!({"targets": ["https://a", "https://b"]}),
            ),
        ),
        (
            "orchestrator fip_settle_seconds=5",
            asked("PUT /config/orchestrator", json!({"fip_settle_seconds": 5})),
        ),
        (
            "check-type https enabled=false",
            asked(
                "PUT /config/check-types/https",
                json!({"enabled": false, "targets": ["web"], "options": {"a": 1}}),
            ),
        ),
        (
            "inbound-checks ports=22,443",
            asked(
                "PUT /config/inbound-checks",
                json!({"ports": [22, 443], "icmp": true}),
            ),
        ),
    ] {
        assert_eq!(
            server.ctl(&format!("config set {line}")).await.well(),
            "done\n",
            "{line}"
        );
        assert_eq!(server.asked().pop(), Some(last), "{line}");
    }
}

#[tokio::test]
async fn the_configuration_is_shown_and_taken_away() {
    let used = json!({"error": "web is used by check type https"});
    let orchestrator = json!({"fip_settle_seconds": 5, "history_retention_cycles": 0});
    let server = StandIn::new(&[
        ("DELETE /config/sites/2", 200, yes()),
        ("DELETE /config/targets/web", 409, used),
        ("GET /config/orchestrator", 200, orchestrator),
        ("GET /config/check-types", 200, json!([https()])),
    ])
    .await;
    assert_eq!(server.ctl("config delete site 2").await.well(), "done\n");
    let used = server.ctl("config delete targets web").await.with(1);
    assert!(
        used.contains("web is used by check type https (409)"),
        "{used}"
    );
    let shown = server.ctl("config get orchestrator").await.well();
    assert!(
        shown.starts_with("fip_settle_seconds        5\n"),
        "{shown}"
    );
    let types = server.ctl("config get check-types").await.well();
    assert!(
        types.contains("https       yes      web      a 1"),
        "{types}"
    );
}

#[tokio::test]
async fn the_auto_cycle_is_told_only_what_was_said() {
    let status = json!({"enabled": true, "interval_seconds": 3600, "phase": "waiting"});
    let server = StandIn::new(&[
        ("PUT /auto-cycle", 200, status.clone()),
        ("POST /auto-cycle/start", 200, status),
    ])
    .await;
    let set = server.ctl("auto-cycle set --interval 1h").await.well();
    assert!(set.contains("interval, s                   3600"), "{set}");
    let body = json!({"interval_seconds": 3600});
    assert_eq!(server.asked(), [asked("PUT /auto-cycle", body)]);
    let raw = server.ctl("auto-cycle start --json").await.well();
    assert_eq!(
        serde_json::from_str::<Value>(&raw).unwrap()["phase"],
        "waiting"
    );
}

#[tokio::test]
async fn completions_are_scripts_and_need_no_server() {
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef control-api"),
        ("fish", "complete -c"),
    ] {
        let script = call(&[], &format!("completions {shell}"), "").await.well();
        assert!(
            script.contains(word) && script.contains("auto-cycle"),
            "{shell}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_is_an_ordinary_end() {
    let rows: Vec<Value> = (0..20_000)
        .map(|n| json!({"IPAddress": format!("ip-{n}")}))
        .collect();
    let server = StandIn::new(&[("GET /ips", 200, Value::from(rows))]).await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_control-api"))
        .args(["ctl", "--url", &server.url, "ips", "list"])
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(
        (ended.status.code(), ended.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
