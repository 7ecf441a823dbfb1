//! The real control-api as a child process, with the simulated cloud in this one.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use civ_cloudsim::{FipSetup, NoDataPlane, Setup, Sim};
use civ_orch::attempt::Policy;
use civ_orch::cycle::Cycle;
use civ_store::ips::{Filter, IpRow, ListOrder};
use civ_store::seed::Seed;
use civ_store::{ReadConn, Rules, Store, StoreError, WriteTx, cycle, events, export, ips, scan};
use civ_testkit::{FakeClock, eventually_within};
use civ_types::{Address, Clock, PortId, SystemClock, ValidatorId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// For whatever is waited for: far more than it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// How long ago the file was written that a case begins with, in seconds.
const AGO: u32 = 3_600;

/// Read while a database is open here, written to start a child: until it closes what it inherits,
/// which may be after its parent goes on, a child holds the lock of every such database.
static OPEN: RwLock<()> = RwLock::const_new(());

/// SIGKILL.
const KILL: i32 = 9;

/// 10.0.0.1 and so on.
pub(crate) fn nth(n: u32) -> Address {
    Address::from_ip(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into())
}

/// Addresses as text.
pub(crate) fn texts(range: impl IntoIterator<Item = u32>) -> Vec<String> {
    range.into_iter().map(|n| nth(n).to_string()).collect()
}

/// A database file and a cloud, which outlive the processes.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) sim: Sim,
    cloud: String,
    _server: JoinSet<()>,
}

/// What stands in the file when nobody has it open.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) rows: Vec<IpRow>,
    pub(crate) cycle: Cycle,
    pub(crate) is_planned: bool,
    /// Address and how often it was enqueued.
    pub(crate) cycles: BTreeMap<String, i64>,
    events: Vec<String>,
}

impl Left {
    pub(crate) fn queue(&self) -> Vec<String> {
        self.rows
            .iter()
            .map(|row| row.attempt.head.address.to_string())
            .collect()
    }

    /// How many events of a type there are.
    pub(crate) fn count(&self, event_type: &str) -> usize {
        let of_type = |name: &&String| *name == event_type;
        self.events.iter().filter(of_type).count()
    }
}

impl Place {
    /// `n` free floating IPs from 10.0.0.1 on; `orchestrator` holds lines of that section.
    pub(crate) async fn new(n: u32, orchestrator: &str) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let fip = |index| FipSetup {
            address: nth(index).ip(),
            port: None,
            forwarded: false,
        };
        let setup = Setup {
            fips: (1..=n).map(fip).collect(),
            ..Setup::default()
        };
        let sim = Sim::new(setup, Arc::new(NoDataPlane)).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cloud = format!("http://{}/v3", listener.local_addr().unwrap());
        let serving = sim.clone();
        let mut server = JoinSet::new();
        server.spawn(async move { serving.serve(listener).await.unwrap() });
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            sim,
            cloud,
            _server: server,
        };
        let yaml = format!(
            "server: {{ listen_addr: \"127.0.0.1:0\" }}\n\
             validators: [{{ validator_id: v1, os_port_id: port-1 }}]\n\
             openstack: {{ list_page_size: 500, request_timeout_seconds: 5 }}\n\
             orchestrator: {{ poll_interval_seconds: 1, \
             inbound_checks: {{ ports: [], icmp: false }}, {orchestrator} }}\n\
             database: {{ path: {} }}\n",
            place.database().display()
        );
        std::fs::write(place.folder.path().join("control-api.yaml"), yaml).unwrap();
        place
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("control-api.db")
    }

    fn store(&self, clock: Arc<dyn Clock>) -> Store {
        let policy = Policy {
            answer_secs: 60,
            lease_secs: 60,
            window_secs: 60,
            release_grace_secs: 60,
            assign_retries_max: 3,
            self_check_retries_max: 3,
        };
        let rules = Rules {
            policy,
            missing_counts: true,
        };
        Store::open(&self.database(), clock, rules, Box::new(|_| {})).unwrap()
    }

    /// Writes the file as a process would have left it an hour ago.
    pub(crate) async fn prepare(&self, work: impl FnOnce(&mut WriteTx<'_>) + Send + 'static) {
        let _open = OPEN.read().await;
        let then = SystemClock.now().minus_secs(AGO);
        let seed = Seed {
            validators: vec![(
                ValidatorId::parse("v1").unwrap(),
                PortId::parse("port-1").unwrap(),
            )],
            ..Seed::default()
        };
        let done: Result<(), StoreError> = self
            .store(Arc::new(FakeClock::at(then)))
            .write(move |tx| {
                civ_store::seed::apply(tx, &seed)?;
                work(tx);
                Ok(())
            })
            .await;
        done.unwrap();
    }

    /// Reads the file, which no process has open.
    pub(crate) async fn left(&self) -> Left {
        let _open = OPEN.read().await;
        let read = |conn: &ReadConn<'_>| -> Result<Left, StoreError> {
            let all = events::tail(conn, &events::Filter::default(), 100_000)?;
            let registry = export::registry(conn, "", 100_000)?;
            Ok(Left {
                rows: ips::list(conn, &Filter::default(), ListOrder::Sequence, None)?,
                cycle: cycle::load(conn)?,
                is_planned: scan::is_planned(conn)?,
                cycles: registry
                    .into_iter()
                    .map(|row| (row.address, row.total_cycles))
                    .collect(),
                events: all.into_iter().map(|event| event.event_type).collect(),
            })
        };
        self.store(Arc::new(SystemClock)).read(read).await.unwrap()
    }

    async fn spawn(&self, crash_at: Option<&str>) -> Process {
        let _none_is_open = OPEN.write().await;
        let log = self.folder.path().join("control-api.log");
        let child = Command::new(env!("CARGO_BIN_EXE_control-api"))
            .args(["run", "--config"])
            .arg(self.folder.path().join("control-api.yaml"))
            .env_clear()
            .env("OS_AUTH_URL", &self.cloud)
            .env("OS_USERNAME", "validator")
            .env("OS_PASSWORD", "validator-password")
            .env("OS_PROJECT_NAME", "validation")
            .envs(crash_at.map(|at| (civ_crash::VARIABLE, at)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Process { child, log }
    }

    /// Runs control-api until it dies at `point`; `drive` is what is asked of it meanwhile.
    pub(crate) async fn killed_at<F>(&self, point: &str, drive: impl FnOnce(Api) -> F)
    where
        F: Future<Output = Option<()>>,
    {
        let mut process = self.spawn(Some(point)).await;
        let driven = async {
            if let Some(api) = process.api().await {
                // What is asked of a process that dies is not answered, as expected.
                drive(api).await;
            }
            process.child.wait().await.unwrap()
        };
        let ended = timeout(LIMIT, driven).await;
        let status = ended.unwrap_or_else(|_| panic!("{point} was not reached"));
        let log = std::fs::read_to_string(&process.log).unwrap();
        assert_eq!(status.signal(), Some(KILL), "{point}: {status}\n{log}");
    }

    /// Runs control-api, which must live.
    pub(crate) async fn again(&self) -> (Process, Api) {
        let mut process = self.spawn(None).await;
        let api = timeout(LIMIT, process.api()).await.unwrap();
        (process, api.unwrap())
    }
}

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Where it listens; `None` if it died before it did.
    async fn api(&mut self) -> Option<Api> {
        loop {
            let log = std::fs::read_to_string(&self.log).unwrap();
            let listens = log.split_once("control-api listens addr=");
            if let Some((addr, _)) = listens.and_then(|(_, rest)| rest.split_once('\n')) {
                return Some(Api {
                    pid: self.child.id().unwrap(),
                    base: format!("http://{addr}/api/v1"),
                    client: reqwest::Client::builder().timeout(LIMIT).build().unwrap(),
                });
            }
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// SIGKILL: what it has said is on the disk, so this must lose nothing either.
    pub(crate) async fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it had ended before");
        self.child.kill().await.unwrap();
    }
}

/// The HTTP API of a process.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pid: u32,
    base: String,
    client: reqwest::Client,
}

impl Api {
    /// `None` if there was no answer.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method.parse().unwrap(), url);
        let answer = request.body(body.to_string()).send().await.ok()?;
        let status = answer.status();
        let body: Value = answer.json().await.ok()?;
        // A poll may find nothing, an agent may be late.
        assert!(!status.is_server_error(), "{path}: {status} {body}");
        Some(body)
    }

    /// Stops the process for `time`, as an overloaded or frozen machine would.
    pub(crate) async fn stop(&self, time: Duration) {
        let pid = self.pid.to_string();
        for signal in ["-STOP", "-CONT"] {
            let mut kill = Command::new("kill");
            let sent = kill.args([signal, &pid]).status().await.unwrap();
            assert!(sent.success(), "{signal} {pid}");
            if signal == "-STOP" {
                tokio::time::sleep(time).await;
            }
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.ask("GET", path, &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Option<Value> {
        self.ask("POST", path, body).await
    }

    /// Waits until what a GET answers meets `condition`; `None` if there is no answer any more.
    pub(crate) async fn when(
        &self,
        path: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        eventually_within(path, LIMIT, async || match self.get(path).await {
            None => Some(None),
            Some(body) => condition(&body).then_some(Some(body)),
        })
        .await
    }

    /// An agent that passes whatever it is given, until the process is gone.
    pub(crate) async fn agent(&self) -> Option<()> {
        self.post("/agents/register", &json!({"validator_id": "v1"}))
            .await?;
        loop {
            let work = self.get("/agents/v1/assignment?wait=5").await;
            let Some(work) = work else {
                // Nothing to do has no body, and a process that is gone says nothing at all.
                self.get("/admin/status").await?;
                continue;
            };
            let ip = &work["ip_id"];
            let check = json!({"ip_id": ip, "success": true,
                "detected_egress_ip": work["ip_address"], "detail": ""});
            self.post("/agents/v1/self-check", &check).await;
            self.post("/agents/v1/complete", &json!({ "ip_id": ip }))
                .await;
        }
    }
}
