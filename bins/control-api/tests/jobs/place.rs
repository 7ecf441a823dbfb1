//! control-api in this process, for tests of its long jobs: a real socket, a file that outlives
//! the service, a clock that can be moved on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::Cloud;
use civ_cloud::fake::FakeCloud;
use civ_control_api::app::App;
use civ_control_api::{config, start_at};
use civ_orch::attempt::Policy;
use civ_store::{Rules, Store};
use civ_types::{Address, Clock, FipId, PortId, SystemClock, Utc};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// One validator without a single check, so that a passed self-check makes `pass`; the loop looks
/// once a second, for a clock that is moved wakes nobody.
const YAML: &str = "
server: { listen_addr: \"127.0.0.1:0\" }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";

/// For one request, however long it waits for a scan.
const LIMIT: Duration = Duration::from_secs(60);

/// The machine's clock, and however much a test has moved it on.
#[derive(Debug, Default)]
pub(crate) struct Moved(AtomicI64);

impl Moved {
    pub(crate) fn on_by(&self, secs: i64) {
        self.0.fetch_add(secs * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now(&self) -> Utc {
        let ahead = self.0.load(Ordering::SeqCst);
        Utc::from_micros(SystemClock.now().as_micros() + ahead)
    }
}

/// What a service is started on; outlives it.
pub(crate) struct Place {
    folder: TempDir,
    yaml: String,
    pub(crate) clock: Arc<Moved>,
    pub(crate) cloud: Arc<FakeCloud>,
}

impl Place {
    /// `orchestrator` and `openstack` are lines of these sections, without braces.
    pub(crate) fn new(orchestrator: &str, openstack: &str) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let cloud = FakeCloud::new();
        for port in ["port-1", "port-x"] {
            cloud.add_port(PortId::parse(port).unwrap());
        }
        let inbound = "inbound_checks: { ports: [], icmp: false }";
        Self {
            folder: tempfile::tempdir().unwrap(),
            yaml: format!(
                "{YAML}orchestrator: {{ poll_interval_seconds: 1, {inbound}, {orchestrator} }}\n\
                 openstack: {{ {openstack} }}\n"
            ),
            clock: Arc::default(),
            cloud: Arc::new(cloud),
        }
    }

    /// Free floating IPs with the addresses 10.0.0.1 and so on; ids in another order.
    pub(crate) fn with_fips(self, n: u32) -> Self {
        for index in 1..=n {
            let address = nth(index);
            self.cloud.add_fip(fip(address), address, None);
        }
        self
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("control-api.db")
    }

    /// The file before a service is started on it.
    pub(crate) fn store(&self) -> Store {
        Self::store_at(&self.database())
    }

    /// The same file by another name, which the lock beside it does not know.
    pub(crate) fn intruder(&self) -> Store {
        let link = self.folder.path().join("intruder.db");
        std::os::unix::fs::symlink(self.database(), &link).unwrap();
        Self::store_at(&link)
    }

    fn store_at(path: &Path) -> Store {
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
        let clock = Arc::new(SystemClock);
        Store::open(path, clock, rules, Box::new(|_| {})).unwrap()
    }

    pub(crate) async fn start(&self) -> Service {
        self.start_on(Arc::<FakeCloud>::clone(&self.cloud)).await
    }

    pub(crate) async fn start_on(&self, cloud: Arc<dyn Cloud>) -> Service {
        let database = self.database();
        let yaml = format!(
            "{}database: {{ path: {} }}\n",
            self.yaml,
            database.display()
        );
        let file = self.folder.path().join("control-api.yaml");
        std::fs::write(&file, yaml).unwrap();
        let settings = match config::load(&file) {
            Ok(loaded) => loaded.settings,
            Err(faults) => panic!("{faults}"),
        };
        let shutdown = CancellationToken::new();
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(BTreeMap::<String, String>::new()),
        };
        let clock: Arc<dyn Clock> = Arc::<Moved>::clone(&self.clock);
        let running = start_at(settings, &context, cloud, clock).await.unwrap();
        Service {
            base: format!("http://{}/api/v1", running.addr),
            client: reqwest::Client::builder().timeout(LIMIT).build().unwrap(),
            context,
            app: running.app,
        }
    }
}

/// 10.0.0.1 and so on.
pub(crate) fn nth(n: u32) -> Address {
    Address::from_ip(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into())
}

/// Its order is another one than that of the addresses.
pub(crate) fn fip(address: Address) -> FipId {
    let backwards: String = address.to_string().chars().rev().collect();
    FipId::parse(&format!("fip-{backwards}")).unwrap()
}

/// The first `n` addresses as text.
pub(crate) fn texts(range: impl IntoIterator<Item = u32>) -> Vec<String> {
    range.into_iter().map(|n| nth(n).to_string()).collect()
}

/// A running service.
pub(crate) struct Service {
    base: String,
    client: reqwest::Client,
    context: Context,
    app: App,
}

impl Service {
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) const fn app(&self) -> &App {
        &self.app
    }

    /// What `/readyz` says.
    pub(crate) async fn readiness(&self) -> (u16, Value) {
        self.ask("GET", "/../../readyz", None).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, Some(body)).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Waits until `condition` holds for what a GET answers.
    pub(crate) async fn when(
        &self,
        path: &str,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let body = self.get(path).await;
            if condition(&body) {
                return body;
            }
            assert!(Instant::now() < until, "not {what}: {body}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The queue, in order of claiming.
    pub(crate) async fn queue(&self) -> Vec<String> {
        let list = self.get("/admin/ips").await;
        let rows = list.as_array().unwrap();
        rows.iter()
            .map(|row| row["IPAddress"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The payloads of the events of a type that belong to no address, oldest first.
    pub(crate) async fn events(&self, event_type: &str) -> Vec<Value> {
        let mut latest = self.app.events_latest(5_000).await.unwrap();
        latest.reverse();
        let of_type = latest.iter().filter(|event| event.event_type == event_type);
        of_type
            .map(|event| serde_json::from_str(&event.payload).unwrap())
            .collect()
    }

    /// An agent that passes whatever it is given, for as long as this lives.
    pub(crate) fn agent(&self) -> JoinSet<()> {
        let (client, base) = (self.client.clone(), self.base.clone());
        let mut agent = JoinSet::new();
        agent.spawn(async move {
            let send = |path: String, body: Value| {
                let request = client.post(format!("{base}{path}")).body(body.to_string());
                async move { request.send().await.map(|answer| answer.status().as_u16()) }
            };
            send("/agents/register".to_owned(), json!({"validator_id": "v1"}))
                .await
                .unwrap();
            loop {
                let url = format!("{base}/agents/v1/assignment?wait=5");
                let Ok(answer) = client.get(url).send().await else {
                    return;
                };
                if answer.status() != 200 {
                    continue;
                }
                let work: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                let ip = &work["ip_id"];
                let check = json!({"ip_id": ip, "success": true,
                    "detected_egress_ip": work["ip_address"], "detail": ""});
                for (path, body) in [("self-check", check), ("complete", json!({"ip_id": ip}))] {
                    if send(format!("/agents/v1/{path}"), body).await.is_err() {
                        return;
                    }
                }
            }
        });
        agent
    }

    /// Asks to end, without waiting for it.
    pub(crate) fn shut_down(&self) {
        self.context.shutdown.cancel();
    }

    /// An orderly end: every task has ended and the file is closed.
    pub(crate) async fn end(self) {
        self.shut_down();
        drop(self.client);
        let ended = tokio::time::timeout(Duration::from_secs(5), self.context.tasks.ended());
        ended.await.unwrap();
        assert_eq!(self.context.tasks.fault(), None);
    }
}
