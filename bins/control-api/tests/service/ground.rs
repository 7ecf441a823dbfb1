//! control-api in this process: a real socket, a real database, a cloud in memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::Cloud;
use civ_cloud::fake::FakeCloud;
use civ_control_api::app::App;
use civ_control_api::{config, start};
use civ_testkit::{eventually, fip};
use civ_types::{Address, PortId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::http::{Answer, Client};

/// Longer than the 16 characters that `auth.required` asks for.
pub(crate) const ADMIN: &str = "admin-token-0123456789";
pub(crate) const AGENT: &str = "agent-token-0123456789";

/// How long an orderly end may take.
const END: Duration = Duration::from_secs(5);

/// Two validators, one site, two egress targets, one port: small enough to be reported by hand.
/// The loop never wakes by itself in the time of a test: whatever moves was woken by a hint.
pub(crate) const YAML: &str = "
orchestrator:
  poll_interval_seconds: 60
  inbound_checks: { ports: [22], icmp: false }
validators:
  - { validator_id: v1, os_port_id: port-1 }
  - { validator_id: v2, os_port_id: port-2 }
sites: [{ site_id: site-1 }]
targets:
  web: [https://a.example, https://b.example]
check_types: [{ name: https, enabled: true, targets: [web] }]
";

/// What a service is started on; outlives it, so that another one can be started on the same.
pub(crate) struct Ground {
    folder: TempDir,
    yaml: String,
    has_server: bool,
    environment: BTreeMap<String, String>,
    pub(crate) cloud: Arc<FakeCloud>,
}

impl Ground {
    /// `yaml` on top of [`YAML`], without tokens.
    pub(crate) fn new(yaml: &str) -> Self {
        Self::of(&format!("{YAML}{yaml}"))
    }

    /// `yaml` alone.
    pub(crate) fn of(yaml: &str) -> Self {
        let cloud = FakeCloud::new();
        for port in ["port-1", "port-2"] {
            cloud.add_port(PortId::parse(port).unwrap());
        }
        Self {
            folder: tempfile::tempdir().unwrap(),
            yaml: yaml.to_owned(),
            has_server: false,
            environment: BTreeMap::new(),
            cloud: Arc::new(cloud),
        }
    }

    /// `yaml` is the whole file but for the database, its `server` included.
    pub(crate) fn whole(yaml: &str) -> Self {
        Self {
            has_server: true,
            ..Self::of(yaml)
        }
    }

    /// Both tokens are asked for.
    pub(crate) fn with_tokens(self) -> Self {
        self.with_tokens_of(ADMIN, AGENT)
    }

    pub(crate) fn with_tokens_of(mut self, admin: &str, agent: &str) -> Self {
        let name = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        self.environment = [
            name("CONTROL_API_ADMIN_TOKEN", admin),
            name("CONTROL_API_AGENT_TOKEN", agent),
        ]
        .into();
        self
    }

    /// One more variable of the environment.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The project has floating IPs with these addresses, free.
    pub(crate) fn with_fips(self, list: &[Address]) -> Self {
        for address in list {
            self.cloud.add_fip(fip(*address), *address, None);
        }
        self
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("control-api.db")
    }

    pub(crate) async fn start(&self) -> Service {
        self.start_on(Arc::<FakeCloud>::clone(&self.cloud)).await
    }

    /// On another cloud than that in memory.
    pub(crate) async fn start_on(&self, cloud: Arc<dyn Cloud>) -> Service {
        self.try_start(cloud).await.unwrap()
    }

    /// The same file and cloud, under other settings.
    pub(crate) fn under(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.yaml);
        self
    }

    /// Says why it does not start.
    pub(crate) async fn try_start(&self, cloud: Arc<dyn Cloud>) -> anyhow::Result<Service> {
        let server = if self.has_server {
            ""
        } else {
            "server: { listen_addr: \"127.0.0.1:0\", body_limit_bytes: 65536 }"
        };
        let database = self.database();
        let text = format!(
            "{server}\ndatabase: {{ path: {} }}\n{}",
            database.display(),
            self.yaml
        );
        let file = self.folder.path().join("control-api.yaml");
        std::fs::write(&file, text).unwrap();
        let settings = match config::load(&file) {
            Ok(loaded) => loaded.settings,
            Err(faults) => panic!("{faults}"),
        };
        let shutdown = CancellationToken::new();
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(self.environment.clone()),
        };
        let running = start(settings, &context, cloud).await?;
        Ok(Service {
            client: Client::new(running.addr),
            app: running.app,
            context,
        })
    }
}

/// A running service. It must be ended with [`Service::end`], which is part of every test.
pub(crate) struct Service {
    pub(crate) client: Client,
    pub(crate) app: App,
    pub(crate) context: Context,
}

impl Service {
    /// Ends in order and in time.
    pub(crate) async fn end(self) {
        assert_eq!(self.context.tasks.fault(), None);
        self.context.shutdown.cancel();
        let tasks = &self.context.tasks;
        let ended = tokio::time::timeout(END, tasks.ended()).await;
        assert!(ended.is_ok(), "still running: {:?}", tasks.running());
        assert_eq!(tasks.fault(), None);
    }

    /// An open method.
    pub(crate) async fn open(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.client.json(method, path, body, None).await
    }

    /// With the agent token.
    pub(crate) async fn agent(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.client.json(method, path, body, Some(AGENT)).await
    }

    /// With the admin token.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let path = format!("/api/v1/admin{path}");
        self.client.json(method, &path, body, Some(ADMIN)).await
    }

    pub(crate) async fn register(&self, validator: &str) {
        let body = json!({"validator_id": validator, "hostname": "vm", "agent_version": "1"});
        let told = self
            .open("POST", "/api/v1/agents/register", Some(body))
            .await;
        assert_eq!(told.status, 200, "{told:?}");
    }

    pub(crate) async fn enqueue(&self, list: &[&str]) -> Value {
        let body = json!({"addresses": list});
        let told = self.admin("POST", "/ips", Some(body)).await;
        assert_eq!(told.status, 200, "{told:?}");
        told.json()
    }

    /// One address with its checks and events.
    pub(crate) async fn details(&self, address: &str) -> Value {
        let told = self.admin("GET", &format!("/ips/{address}"), None).await;
        assert_eq!(told.status, 200, "{told:?}");
        told.json()
    }

    pub(crate) async fn state(&self, address: &str) -> String {
        let details = self.details(address).await;
        details["ip"]["State"].as_str().unwrap().to_owned()
    }

    /// Waits until the address is in that state, and gives the row.
    pub(crate) async fn reached(&self, address: &str, state: &str) -> Value {
        eventually(&format!("{address} is {state}"), async || {
            let row = self.details(address).await["ip"].take();
            (row["State"] == state).then_some(row)
        })
        .await
    }

    /// What the validator is to do, once there is something.
    pub(crate) async fn assignment(&self, validator: &str) -> Value {
        let path = format!("/api/v1/agents/{validator}/assignment?wait=20");
        let told = self.open("GET", &path, None).await;
        assert_eq!(told.status, 200, "{told:?}");
        told.json()
    }

    /// A report of an agent, with the fence of `work`.
    pub(crate) async fn report(
        &self,
        validator: &str,
        what: &str,
        work: &Value,
        more: Value,
    ) -> Answer {
        let mut body = json!({"ip_id": work["ip_id"], "fence": work["fence"]});
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        let path = format!("/api/v1/agents/{validator}/{what}");
        self.agent("POST", &path, Some(body)).await
    }

    pub(crate) async fn self_check(&self, validator: &str, work: &Value, success: bool) -> Answer {
        let told = json!({"success": success, "detail": "told"});
        self.report(validator, "self-check", work, told).await
    }

    /// Results for both targets, then `complete`.
    pub(crate) async fn egress(&self, validator: &str, work: &Value, success: bool) {
        let row = |target: &str| {
            json!({"ip_id": work["ip_id"], "check_type": "https", "target": target,
                "success": success, "latency_ms": 8, "checked_at": "2026-08-21T09:00:00Z"})
        };
        let rows = json!({"results": [row("https://a.example"), row("https://b.example")],
            "fence": work["fence"]});
        let path = format!("/api/v1/agents/{validator}/results");
        let told = self.agent("POST", &path, Some(rows)).await;
        assert_eq!(told.json(), json!({"ok": true}));
        let told = self.report(validator, "complete", work, json!({})).await;
        assert_eq!(told.status, 200, "{told:?}");
    }

    /// The checks of the one site, complete.
    pub(crate) async fn inbound(&self, work: &Value, success: bool) -> Answer {
        let row = |check_type: &str, complete: bool| {
            json!({"ip_id": work["ip_id"], "ip_address": work["ip_address"],
                "check_type": check_type, "success": success, "latency_ms": 5,
                "checked_at": "2026-08-21T09:00:01Z", "complete": complete,
                "fence": work["fence"]})
        };
        let rows = json!({"results": [row("tcp-22", false), row("ssh", true)]});
        self.agent("POST", "/api/v1/probers/site-1/results", Some(rows))
            .await
    }

    /// From the assignment to the verdict.
    pub(crate) async fn check(&self, validator: &str, work: &Value, success: bool) {
        let told = self.self_check(validator, work, true).await;
        assert_eq!(told.status, 200, "{told:?}");
        self.egress(validator, work, success).await;
        let told = self.inbound(work, success).await;
        assert_eq!(told.json(), json!({"ok": true}));
    }
}
