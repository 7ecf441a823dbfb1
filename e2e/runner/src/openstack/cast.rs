//! Owns the cast of one story on the real cloud: control-api, agents, probers, the router, and
//! their end. The cloud itself stays from story to story.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_proto::read_model::Ip;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::Instant;

use super::ground::Ground;
use super::lab::Facts;
use super::proxy::{Call, Proxy};
use super::rest::text;
use super::rig::id_of;
use super::router::Router;
use crate::api::Api;
use crate::audit;
use crate::procs::Proc;
use crate::scenarios::floats;
use crate::settings::{ADMIN_TOKEN, AGENT_TOKEN, Settings};
use crate::stage::netns::Rights;
use crate::stage::plan::Place;
use crate::waiting::found;
use crate::world::House;

/// Floating addresses of the stage's project.
const ADDRESSES: u8 = 8;
/// Ports of somebody else.
const FOREIGN: u8 = 3;
/// How long a handful of addresses may take: a cycle costs the real Neutron seconds of work.
pub(super) const SOON: Duration = Duration::from_secs(90);

/// What all stories share.
pub(crate) struct Scene<'a> {
    pub(crate) house: &'a House,
    pub(crate) facts: &'a Facts,
    /// In front of Keystone.
    pub(crate) identity: Arc<Proxy>,
    /// In front of the Keystone whose tokens end soon.
    pub(crate) brief: Arc<Proxy>,
    /// In front of Neutron; the catalog names it.
    pub(crate) network: Arc<Proxy>,
    pub(crate) ground: Ground,
    /// By name: `vm-1` …, `foreign-1` ….
    pub(crate) ports: BTreeMap<String, String>,
}

impl<'a> Scene<'a> {
    /// Lays the ground of the project `stage`, with the stage's own addresses.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn new(
        house: &'a House,
        facts: &'a Facts,
        [identity, brief, network]: [Arc<Proxy>; 3],
    ) -> Result<Self> {
        let plan = house.stage.plan();
        let [a, b, c] = plan.fixed_net;
        let inside = format!("{a}.{b}.{c}.0/24");
        let ground = Ground::make(facts, "stage", &plan.floating_cidrs(), &inside).await?;
        let vms = (1..=plan.vms).map(|n| (Place::Vm(n).name(), plan.fixed(n)));
        let foreign = (1..=FOREIGN).map(|n| (format!("foreign-{n}"), plan.fixed(n + 200)));
        let ports = ground
            .ports(&vms.chain(foreign).collect::<Vec<_>>())
            .await?;
        Ok(Self {
            house,
            facts,
            identity,
            brief,
            network,
            ground,
            ports,
        })
    }

    /// The stage's floating addresses.
    pub(crate) fn addresses(&self) -> Vec<Ipv4Addr> {
        floats(self.house.stage.plan(), ADDRESSES)
    }

    /// The id of the `n`-th port of somebody else.
    ///
    /// # Errors
    ///
    /// When there are not so many.
    pub(crate) fn foreign(&self, n: u8) -> Result<&str> {
        let port = self.ports.get(&format!("foreign-{n}"));
        Ok(port.context("no such foreign port")?)
    }

    fn ours(&self) -> Vec<String> {
        let vms = self.house.stage.plan().vms;
        let names = (1..=vms).map(|n| Place::Vm(n).name());
        names
            .filter_map(|name| self.ports.get(&name).cloned())
            .collect()
    }
}

/// The cast of one story.
pub(crate) struct Cast<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) api: Api,
    /// Floating IPs of the project by address.
    pub(crate) fips: BTreeMap<Ipv4Addr, String>,
    /// What control-api takes for Keystone.
    pub(crate) keystone: Arc<Proxy>,
    settings: Settings,
    user: &'static str,
    router: Router,
    dir: PathBuf,
    control: Option<Proc>,
    cast: Vec<Proc>,
}

impl<'a> Cast<'a> {
    /// Sets the scene: an empty folder, all addresses of the project free. Nothing runs yet.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made or Neutron refuses.
    pub(crate) async fn new(scene: &'a Scene<'a>, name: &str) -> Result<Self> {
        let settings = Settings {
            request_timeout: 30,
            lease_ttl: 45,
            self_check_timeout: 20,
            checking_window: 30,
            port_ids: Some(scene.ours()),
            ..Settings::default()
        };
        Self::with(scene, name, "stage", settings).await
    }

    /// The same as another user, with other settings.
    ///
    /// # Errors
    ///
    /// As [`Cast::new`].
    pub(crate) async fn with(
        scene: &'a Scene<'a>,
        name: &str,
        user: &'static str,
        settings: Settings,
    ) -> Result<Self> {
        let dir = scene.house.out.join("openstack").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let stage = &scene.house.stage;
        stage.reset().await?;
        let fips = scene.ground.floating_ips(&scene.addresses()).await?;
        scene.facts.status_after(Some(Duration::from_millis(300)))?;
        for proxy in [&scene.network, &scene.identity, &scene.brief] {
            proxy.forget();
        }
        let address = settings.control_address(stage.plan());
        Ok(Self {
            scene,
            api: Api::new(address, Some(ADMIN_TOKEN))?,
            fips,
            keystone: Arc::clone(&scene.identity),
            settings,
            user,
            router: Router::start(Arc::clone(stage), scene.ground.rest.clone()),
            dir,
            control: None,
            cast: Vec::new(),
        })
    }

    /// Starts control-api, waits until it is ready, then all agents and probers.
    ///
    /// # Errors
    ///
    /// When one of them does not start.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.start_control().await?;
        let plan = self.scene.house.stage.plan();
        for n in 1..=self.settings.validators {
            let config = self.settings.write_agent(plan, n, &self.dir)?;
            self.start_remote(Place::Vm(n), "validator-agent", &config)?;
        }
        for n in 1..=self.settings.sites {
            let config = self.settings.write_prober(plan, n, &self.dir)?;
            self.start_remote(Place::Site(n), "prober", &config)?;
        }
        Ok(())
    }

    /// Starts control-api and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it is not ready in time, or ends by itself.
    pub(crate) async fn start_control(&mut self) -> Result<()> {
        let stage = &self.scene.house.stage;
        let home = stage.visible(&self.dir);
        let config = self
            .settings
            .write_control(stage.plan(), &self.dir, &home)?;
        let mut command = self.product(Place::Mgmt, Rights::Own, "control-api", &config);
        command
            .env("OS_AUTH_URL", format!("{}/v3", self.keystone.url))
            .env("OS_USERNAME", self.user)
            .env("OS_PASSWORD", &self.scene.facts.secret)
            .env("OS_PROJECT_NAME", self.user)
            .env("OS_USER_DOMAIN_NAME", "Default")
            .env("OS_PROJECT_DOMAIN_NAME", "Default")
            .env("OS_REGION_NAME", "RegionOne")
            .env("CONTROL_API_ADMIN_TOKEN", ADMIN_TOKEN);
        let mut process = Proc::spawn("control-api", &mut command, &self.dir)?;
        let end = Instant::now() + Duration::from_secs(15);
        while !self.api.is_ready().await {
            if let Some(status) = process.ended()? {
                bail!("control-api ended with {status} at its start: see its log");
            }
            if Instant::now() > end {
                bail!("control-api was not ready after 15 s: see its log");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.control = Some(process);
        Ok(())
    }

    fn start_remote(&mut self, place: Place, program: &str, config: &Path) -> Result<()> {
        let mut command = self.product(place, Rights::Service, program, config);
        command.env("SSL_CERT_FILE", self.scene.house.stage.ca_file());
        let process = Proc::spawn(&place.name(), &mut command, &self.dir)?;
        self.cast.push(process);
        Ok(())
    }

    fn product(&self, place: Place, rights: Rights, program: &str, config: &Path) -> Command {
        let (stage, bin) = (&self.scene.house.stage, &self.scene.house.bin);
        let mut command = stage.command(place, rights, &stage.visible(&bin.join(program)));
        command
            .args(["run", "--config"])
            .arg(stage.visible(config))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("CIV_LOG_FORMAT", "json")
            .env("CONTROL_API_AGENT_TOKEN", AGENT_TOKEN);
        command
    }

    /// Waits until every address of the queue rests and Neutron has none on our ports.
    ///
    /// # Errors
    ///
    /// When [`SOON`] is over, or control-api or Neutron does not answer.
    pub(crate) async fn all_ended(&self) -> Result<Vec<Ip>> {
        let what = "every address has its end and is released";
        found(what, SOON, async || {
            // Neutron is asked only when there is something to learn from it.
            let queue = self.api.queue().await?;
            if queue.is_empty() || !queue.iter().all(audit::is_terminal) {
                tokio::time::sleep(Duration::from_millis(200)).await;
                return Ok(None);
            }
            Ok(self.attached().await?.is_empty().then_some(queue))
        })
        .await
    }

    /// What Neutron has on our ports.
    async fn attached(&self) -> Result<Vec<String>> {
        let (ours, rows) = (self.scene.ours(), self.scene.ground.rows().await?);
        let on_ours = |row: &&Value| ours.iter().any(|port| port == text(row, "port_id"));
        let rows = rows.iter().filter(on_ours);
        Ok(rows
            .map(|row| text(row, "floating_ip_address").to_owned())
            .collect())
    }

    /// Demands a result for each of these addresses.
    ///
    /// # Errors
    ///
    /// Names the addresses that ended otherwise.
    pub(crate) async fn demand(&self, expected: &[(Ipv4Addr, &str)]) -> Result<()> {
        let mut wrong = Vec::new();
        for (address, result) in expected {
            let ip = self.api.details(&address.to_string()).await?.ip;
            let got = match ip.state.as_str() {
                "occupied" => "occupied",
                _ => ip.overall_result.as_str(),
            };
            if got != *result {
                let why = ip.last_error;
                wrong.push(format!("{address} is {got:?}, not {result:?}: {why}"));
            }
        }
        if !wrong.is_empty() {
            bail!("{}", wrong.join("\n"));
        }
        Ok(())
    }

    /// Demands that Neutron has an address on this port, or on none.
    ///
    /// # Errors
    ///
    /// When it is elsewhere.
    pub(crate) async fn demand_port(&self, address: Ipv4Addr, port: Option<&str>) -> Result<()> {
        let query = format!("floating_ip_address={address}");
        let rows = self.scene.ground.rest.all("floatingips", &query).await?;
        let row = rows.first().with_context(|| format!("{address} is gone"))?;
        let at = row["port_id"].as_str();
        if at != port {
            bail!("Neutron has {address} on {at:?}, and not on {port:?}");
        }
        Ok(())
    }

    /// Our changes of an address's binding, as the proxy saw them.
    pub(crate) fn writes_to(&self, address: Ipv4Addr) -> Vec<Call> {
        let id = self
            .fips
            .get(&address)
            .map(String::as_str)
            .unwrap_or_default();
        let mut calls = self.scene.network.calls();
        calls.retain(|call| call.is_write() && id_of(call) == id);
        calls
    }

    /// The audit, and the orderly end of all processes. `expected` are parts of log lines that this
    /// story provokes.
    ///
    /// # Errors
    ///
    /// Names everything that does not hold.
    pub(crate) async fn close(mut self, expected: &[&str]) -> Result<()> {
        let mut faults = Vec::new();
        let queue = self.api.queue().await?;
        faults.extend(audit::queue_faults(&queue));
        let mut details = Vec::new();
        for ip in &queue {
            details.push(self.api.details(&ip.ip_address).await?);
        }
        faults.extend(audit::history_faults(&details));
        faults.extend(self.end_processes(expected).await);
        for address in self.attached().await? {
            faults.push(format!("Neutron still has {address} on a port of ours"));
        }
        let stage = &self.scene.house.stage;
        let silent = found("no packets flow", Duration::from_secs(5), async || {
            Ok(stage.associated().await?.is_empty().then_some(()))
        });
        faults.extend(silent.await.err().map(|error| format!("{error:#}")));
        faults.extend(self.router.faults());
        faults.extend(self.scene.network.forget());
        faults.extend(self.keystone.forget());
        if !faults.is_empty() {
            bail!("audit: {}", faults.join("\n"));
        }
        Ok(())
    }

    async fn end_processes(&mut self, expected: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut logs = BTreeSet::new();
        // A server that ends before its clients makes them complain.
        let cast = std::mem::take(&mut self.cast);
        for process in cast.into_iter().chain(self.control.take()) {
            logs.insert((process.name().to_owned(), process.log().to_owned()));
            faults.extend(process.terminate().await.err().map(|e| format!("{e:#}")));
        }
        for (name, log) in logs {
            match fs::read_to_string(&log) {
                Ok(text) => faults.extend(audit::log_faults(&name, &text, expected)),
                Err(error) => faults.push(format!("the log of {name} cannot be read: {error}")),
            }
        }
        faults
    }
}
