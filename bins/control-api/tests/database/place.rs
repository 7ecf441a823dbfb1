//! A database and a cloud that outlive the processes; two validators on two ports.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use civ_cloudsim::{NoDataPlane, Setup, Sim};
use civ_testkit::eventually_within;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// For whatever is waited for: far more than it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// One child is started at a time: until it closes what it inherits, which may be after its parent
/// goes on, a child holds the pipes of another.
static STARTING: Mutex<()> = Mutex::const_new(());

const YAML: &str = "
server: { listen_addr: \"127.0.0.1:0\" }
validators: [{ validator_id: v1, os_port_id: port-1 }, { validator_id: v2, os_port_id: port-2 }]
orchestrator: { poll_interval_seconds: 1, inbound_checks: { ports: [], icmp: false } }
";

pub(crate) struct Place {
    folder: TempDir,
    pub(crate) sim: Sim,
    variables: Vec<(&'static str, String)>,
    _server: JoinSet<()>,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// 203.0.113.10 to .19.
pub(crate) fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(203, 0, 113, last).into()
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with("database: { path: control-api.db }\n", Setup::default()).await
    }

    pub(crate) async fn with(more: &str, setup: Setup) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v3", listener.local_addr().unwrap());
        let variables = vec![
            ("OS_AUTH_URL", url),
            ("OS_USERNAME", setup.username.clone()),
            ("OS_PASSWORD", setup.password.clone()),
            ("OS_PROJECT_NAME", setup.project.clone()),
        ];
        let sim = Sim::new(setup, Arc::new(NoDataPlane)).unwrap();
        let mut server = JoinSet::new();
        let serving = sim.clone();
        server.spawn(async move { serving.serve(listener).await.unwrap() });
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            sim,
            variables,
            _server: server,
        };
        std::fs::write(place.path("control-api.yaml"), format!("{YAML}{more}")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names in the folder that begin so.
    pub(crate) fn names(&self, folder: &str, begin: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(begin)).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_control-api"));
        command
            .arg(args[0])
            .args(["--config", "control-api.yaml"])
            .args(&args[1..])
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// A command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        let output = {
            let _one_at_a_time = STARTING.lock().await;
            let mut command = self.command(args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let output = tokio::time::timeout(LIMIT, output.wait_with_output());
        let output = output.await.unwrap().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// A command that is killed so long after it began, if it has not ended before.
    pub(crate) async fn killed(&self, args: &[&str], after: Duration) {
        let mut child = {
            let _one_at_a_time = STARTING.lock().await;
            let mut command = self.command(args);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        tokio::time::sleep(after).await;
        child.kill().await.unwrap();
    }

    /// A command that must succeed; what it prints.
    pub(crate) async fn done(&self, args: &[&str]) -> String {
        let ended = self.run(args).await;
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        ended.out
    }

    /// control-api, until it listens.
    pub(crate) async fn start(&self) -> Process {
        let log = self.path("control-api.log");
        let child = {
            let _one_at_a_time = STARTING.lock().await;
            let mut command = self.command(&["run"]);
            command
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(&log).unwrap());
            command.spawn().unwrap()
        };
        let addr = eventually_within("it listens", LIMIT, async || {
            let log = std::fs::read_to_string(&log).unwrap();
            let (_, rest) = log.split_once("control-api listens addr=")?;
            Some(rest.split_once('\n')?.0.to_owned())
        });
        Process {
            base: format!("http://{}/api/v1", addr.await),
            child,
            client: reqwest::Client::builder().timeout(LIMIT).build().unwrap(),
        }
    }

    /// A start that must be refused: its code and what it said.
    pub(crate) async fn refused(&self) -> (i32, String) {
        let ended = self.run(&["run"]).await;
        (ended.code, ended.out + &ended.err)
    }

    /// Nothing is on our ports.
    pub(crate) async fn nothing_is_ours(&self) {
        eventually_within("nothing is attached", LIMIT, async || {
            let ours = |port: &str| ["port-1", "port-2"].contains(&port);
            let attached = self.sim.attached();
            (!attached.iter().any(|one| ours(&one.port))).then_some(())
        })
        .await;
    }
}

/// A running control-api.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    base: String,
    client: reqwest::Client,
}

impl Process {
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method.parse().unwrap(), url);
        let answer = request.body(body.to_string()).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).await.1
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn when(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually_within(path, LIMIT, async || {
            let body = self.get(path).await;
            is(&body).then_some(body)
        })
        .await
    }

    pub(crate) async fn enqueue(&self, list: impl IntoIterator<Item = u8>) {
        let list: Vec<String> = list.into_iter().map(|last| ip(last).to_string()).collect();
        self.post("/admin/ips", &json!({ "addresses": list })).await;
    }

    pub(crate) async fn register_one(&self, id: &str) {
        let body = json!({ "validator_id": id });
        self.post("/agents/register", &body).await;
    }

    pub(crate) async fn register(&self) {
        self.register_one("v1").await;
        self.register_one("v2").await;
    }

    /// What a validator is to do, as soon as it is to do something.
    pub(crate) async fn work(&self, id: &str) -> Value {
        let path = format!("/agents/{id}/assignment?wait=1");
        self.when(&path, |work| work["ip_id"].is_number()).await
    }

    /// A validator reports that its address is well, with or without the fence.
    pub(crate) async fn report(&self, id: &str, work: &Value, fenced: bool) -> [u16; 2] {
        let mut check = json!({"ip_id": work["ip_id"], "success": true,
            "detected_egress_ip": work["ip_address"], "detail": ""});
        let mut complete = json!({"ip_id": work["ip_id"]});
        if fenced {
            check["fence"] = work["fence"].clone();
            complete["fence"] = work["fence"].clone();
        }
        let (first, _) = self
            .ask("POST", &format!("/agents/{id}/self-check"), &check)
            .await;
        let (second, _) = self
            .ask("POST", &format!("/agents/{id}/complete"), &complete)
            .await;
        [first, second]
    }

    pub(crate) async fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it had ended before");
        self.child.kill().await.unwrap();
    }
}
