//! Owns the cast of one scenario: simulated cloud, control-api, agents, probers, and their end.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_cloudsim::{Attached, Call, FipSetup, PortSetup, Setup, Sim};
use civ_proto::read_model::{Ip, IpDetails};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::audit;
use crate::plane::StagePlane;
use crate::procs::Proc;
use crate::settings::{ADMIN_TOKEN, AGENT_TOKEN, NOTIFY_SECRET, NOTIFY_VAR, Settings, port_id};
use crate::stage::Stage;
use crate::stage::netns::Rights;
use crate::stage::plan::Place;
use crate::waiting::found;

/// How many ports of somebody else the simulated cloud has: a port has one floating address.
const FOREIGN_PORTS: u8 = 4;

/// A port of somebody else in the simulated cloud, from 1 to [`FOREIGN_PORTS`].
pub(crate) fn foreign_port(n: u8) -> String {
    format!("ffffffff-0000-4000-8000-0000000000{n:02x}")
}

/// What all scenarios of a run share.
#[derive(Clone)]
pub(crate) struct House {
    /// The stage.
    pub(crate) stage: Arc<dyn Stage>,
    /// Where the product's binaries lie.
    pub(crate) bin: PathBuf,
    /// Where logs go, one folder per scenario.
    pub(crate) out: PathBuf,
    /// For the dice of the scenarios that throw them.
    pub(crate) seed: u64,
}

/// The cast of one scenario.
pub(crate) struct World {
    /// The stage that it plays on.
    pub(crate) stage: Arc<dyn Stage>,
    /// Its configuration.
    pub(crate) settings: Settings,
    /// The administrator's client.
    pub(crate) api: Api,
    /// The simulated cloud.
    pub(crate) sim: Sim,
    plane: Arc<StagePlane>,
    setup: Setup,
    cloud_url: String,
    /// Ends with this value.
    serving: JoinSet<std::io::Result<()>>,
    bin: PathBuf,
    dir: PathBuf,
    control: Option<Proc>,
    cast: Vec<Proc>,
}

impl World {
    /// Sets the scene: an empty folder, the simulated cloud with `free` addresses that are nobody's
    /// and `bound` ones that hang on a foreign port. No process of the product runs yet.
    ///
    /// # Errors
    ///
    /// When the folder or the simulated cloud cannot be made.
    pub(crate) async fn new(
        house: &House,
        name: &str,
        settings: Settings,
        free: &[Ipv4Addr],
        bound: &[Ipv4Addr],
    ) -> Result<Self> {
        let dir = house.out.join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)
                .with_context(|| format!("{} cannot be emptied", dir.display()))?;
        }
        fs::create_dir_all(&dir)?;
        let stage = Arc::clone(&house.stage);
        let plane = Arc::new(StagePlane::new(Arc::clone(&stage)));
        let setup = cloud(stage.as_ref(), free, bound);
        let sim = Sim::new(setup.clone(), Arc::clone(&plane) as _)?;
        let listener = TcpListener::bind((stage.plan().mgmt, 0)).await?;
        let cloud_url = format!("http://{}/v3", listener.local_addr()?);
        let mut serving = JoinSet::new();
        serving.spawn(sim.clone().serve(listener));
        let token = settings.tokens.then_some(ADMIN_TOKEN);
        let api = Api::new(settings.control_address(stage.plan()), token)?;
        Ok(Self {
            stage,
            api,
            sim,
            plane,
            settings,
            setup,
            cloud_url,
            serving,
            bin: house.bin.clone(),
            dir,
            control: None,
            cast: Vec::new(),
        })
    }

    /// Starts control-api and waits until it is ready, then all agents and probers.
    ///
    /// # Errors
    ///
    /// When one of them does not start.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.start_control().await?;
        for n in 1..=self.settings.validators {
            self.start_agent(n)?;
        }
        for n in 1..=self.settings.sites {
            self.start_prober(n)?;
        }
        Ok(())
    }

    /// Starts control-api and waits until it is ready. Its database stays from run to run.
    ///
    /// # Errors
    ///
    /// When it is not ready in time, or ends by itself.
    pub(crate) async fn start_control(&mut self) -> Result<()> {
        let mut process = self.spawn_control()?;
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        while !self.api.is_ready().await {
            if let Some(status) = process.ended()? {
                bail!("control-api ended with {status} at its start: see its log");
            }
            if tokio::time::Instant::now() > end {
                bail!("control-api was not ready after 10 s: see its log");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.control = Some(process);
        Ok(())
    }

    /// Starts control-api, which must refuse; returns what it says.
    ///
    /// # Errors
    ///
    /// When it goes on, or ends with another code than 1.
    pub(crate) async fn control_refused(&self) -> Result<String> {
        let process = self.spawn_control()?;
        let log = process.log().to_owned();
        let before = fs::metadata(&log)?.len();
        let status = process.end(Duration::from_secs(10)).await?;
        if status.code() != Some(1) {
            bail!("control-api ended with {status}, and should have refused with 1");
        }
        let text = fs::read(&log)?;
        let said = text.get(usize::try_from(before)?..).unwrap_or_default();
        Ok(String::from_utf8_lossy(said).into_owned())
    }

    fn spawn_control(&self) -> Result<Proc> {
        let plan = self.stage.plan();
        let home = self.stage.visible(&self.dir);
        let config = self.settings.write_control(plan, &self.dir, &home)?;
        let mut command = self.product(Place::Mgmt, Rights::Own, "control-api", &config);
        let setup = &self.setup;
        command
            .env("OS_AUTH_URL", &self.cloud_url)
            .env("OS_USERNAME", &setup.username)
            .env("OS_PASSWORD", &setup.password)
            .env("OS_PROJECT_NAME", &setup.project)
            .env("OS_USER_DOMAIN_NAME", "Default")
            .env("OS_PROJECT_DOMAIN_NAME", "Default")
            .env("OS_REGION_NAME", &setup.region);
        if self.settings.tokens {
            command
                .env("CONTROL_API_ADMIN_TOKEN", ADMIN_TOKEN)
                .env("CONTROL_API_AGENT_TOKEN", AGENT_TOKEN);
        }
        if self.settings.notify.is_some() {
            command.env(NOTIFY_VAR, NOTIFY_SECRET);
        }
        Proc::spawn("control-api", &mut command, &self.dir)
    }

    /// Starts the agent of validator `n` in its VM.
    ///
    /// # Errors
    ///
    /// When the program does not start.
    pub(crate) fn start_agent(&mut self, n: u8) -> Result<()> {
        let config = self.settings.write_agent(self.stage.plan(), n, &self.dir)?;
        self.start_remote(Place::Vm(n), "validator-agent", &config)
    }

    /// Starts the prober of site `n`.
    ///
    /// # Errors
    ///
    /// When the program does not start.
    pub(crate) fn start_prober(&mut self, n: u8) -> Result<()> {
        let config = self
            .settings
            .write_prober(self.stage.plan(), n, &self.dir)?;
        self.start_remote(Place::Site(n), "prober", &config)
    }

    fn start_remote(&mut self, place: Place, program: &str, config: &Path) -> Result<()> {
        let mut command = self.product(place, Rights::Service, program, config);
        command
            .env(
                "CIV_LOG",
                "debug,hyper=info,rustls=info,reqwest=info,h2=info",
            )
            .env("SSL_CERT_FILE", self.stage.ca_file());
        if self.settings.tokens {
            command.env("CONTROL_API_AGENT_TOKEN", AGENT_TOKEN);
        }
        let process = Proc::spawn(&place.name(), &mut command, &self.dir)?;
        self.cast.push(process);
        Ok(())
    }

    fn product(&self, place: Place, rights: Rights, program: &str, config: &Path) -> Command {
        let binary = self.stage.visible(&self.bin.join(program));
        let mut command = self.stage.command(place, rights, &binary);
        command
            .args(["run", "--config"])
            .arg(self.stage.visible(config))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("CIV_LOG_FORMAT", "json");
        command
    }

    /// SIGKILL for control-api.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub(crate) async fn kill_control(&mut self) -> Result<()> {
        let process = self.control.take().context("control-api is not running")?;
        process.kill().await
    }

    /// SIGSTOP for control-api, and SIGCONT after `time`.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub(crate) async fn stop_control(&self, time: Duration) -> Result<()> {
        let process = self.control.as_ref();
        process
            .context("control-api is not running")?
            .stop(time)
            .await
    }

    /// SIGKILL for the agent or prober of a place.
    ///
    /// # Errors
    ///
    /// When none runs there.
    pub(crate) async fn kill_remote(&mut self, place: Place) -> Result<()> {
        let name = place.name();
        let at = self.cast.iter().position(|process| process.name() == name);
        let at = at.with_context(|| format!("nothing runs at {name}"))?;
        self.cast.swap_remove(at).kill().await
    }

    /// SIGSTOP for the agent or prober of a place, and SIGCONT after `time`.
    ///
    /// # Errors
    ///
    /// When none runs there.
    pub(crate) async fn stop_remote(&self, place: Place, time: Duration) -> Result<()> {
        let name = place.name();
        let process = self.cast.iter().find(|process| process.name() == name);
        let process = process.with_context(|| format!("nothing runs at {name}"))?;
        process.stop(time).await
    }

    /// The folder of this scenario.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until `condition` holds for an address, and returns its row.
    ///
    /// # Errors
    ///
    /// When `limit` is over, or control-api does not answer.
    pub(crate) async fn ip_when(
        &self,
        address: Ipv4Addr,
        what: &str,
        limit: Duration,
        condition: impl Fn(&Ip) -> bool,
    ) -> Result<Ip> {
        let address = address.to_string();
        found(&format!("{address} is {what}"), limit, async || {
            let queue = self.api.queue().await?;
            let row = queue.into_iter().find(|ip| ip.ip_address == address);
            Ok(row.filter(|ip| condition(ip)))
        })
        .await
    }

    /// Waits until every address of the queue rests and none hangs on our ports any more.
    ///
    /// # Errors
    ///
    /// When `limit` is over, or control-api does not answer.
    pub(crate) async fn all_ended(&self, limit: Duration) -> Result<Vec<Ip>> {
        found(
            "every address has its end and is released",
            limit,
            async || {
                let queue = self.api.queue().await?;
                let rest = queue.iter().all(audit::is_terminal) && self.attached().is_empty();
                Ok((rest && !queue.is_empty()).then_some(queue))
            },
        )
        .await
    }

    /// Demands one result for all addresses of the queue.
    ///
    /// # Errors
    ///
    /// Names the addresses that ended otherwise, with what failed.
    pub(crate) async fn demand(&self, expected: &[(Ipv4Addr, &str)]) -> Result<()> {
        let mut wrong = Vec::new();
        for (address, result) in expected {
            let details = self.api.details(&address.to_string()).await?;
            let got = if details.ip.state == "occupied" {
                "occupied"
            } else {
                &details.ip.overall_result
            };
            if got != *result {
                let why = failures(&details);
                wrong.push(format!("{address} is {got:?}, not {result:?}: {why}"));
            }
        }
        if !wrong.is_empty() {
            bail!("{}", wrong.join("\n"));
        }
        Ok(())
    }

    /// What hangs on a validator's port in the simulated cloud.
    pub(crate) fn attached(&self) -> Vec<Attached> {
        let ours: Vec<_> = (1..=self.stage.plan().vms).map(port_id).collect();
        let mut attached = self.sim.attached();
        attached.retain(|entry| ours.contains(&entry.port));
        attached
    }

    /// Demands that the cloud has an address on this port, or on none.
    ///
    /// # Errors
    ///
    /// When it is elsewhere.
    pub(crate) fn demand_port(&self, address: Ipv4Addr, port: Option<&str>) -> Result<()> {
        let attached = self.sim.attached();
        let at = attached
            .iter()
            .find(|entry| entry.address == IpAddr::V4(address))
            .map(|entry| entry.port.as_str());
        if at != port {
            bail!("the cloud has {address} on {at:?}, and not on {port:?}");
        }
        Ok(())
    }

    /// Calls that would change a binding of an address, as the cloud saw them.
    pub(crate) fn writes_to(&self, address: Ipv4Addr) -> Vec<Call> {
        let mut calls = self.sim.calls();
        calls.retain(|call| {
            call.address == Some(IpAddr::V4(address))
                && !matches!(call.method.as_str(), "GET" | "HEAD" | "SIM")
        });
        calls
    }

    /// The audit, and the orderly end of all processes. `expected` are parts of log lines that this
    /// scenario provokes.
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
        for attached in self.attached() {
            faults.push(format!("still attached in the cloud: {attached:?}"));
        }
        for call in self.sim.unknown_calls() {
            faults.push(format!("the cloud does not know this call: {call:?}"));
        }
        faults.extend(self.sim.faults());
        faults.extend(self.plane.faults());
        let flowing = self.stage.associated().await?;
        if !flowing.is_empty() && self.sim.attached().is_empty() {
            faults.push(format!("packets still flow: {flowing}"));
        }
        self.serving.shutdown().await;
        if !faults.is_empty() {
            bail!("audit: {}", faults.join("\n"));
        }
        Ok(())
    }

    async fn end_processes(&mut self, expected: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut logs = BTreeSet::new();
        // Agents and probers first: a server that ends before its clients makes them complain.
        let cast = std::mem::take(&mut self.cast);
        for process in cast.into_iter().chain(self.control.take()) {
            logs.insert((process.name().to_owned(), process.log().to_owned()));
            if let Err(error) = process.terminate().await {
                faults.push(format!("{error:#}"));
            }
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

/// What failed of an address, for the remark of a scenario.
fn failures(details: &IpDetails) -> String {
    let mut parts: Vec<String> = details
        .checks
        .iter()
        .filter(|check| !check.success)
        .map(|check| {
            let site = check.site_id.as_deref().unwrap_or("egress");
            format!(
                "{site} {} {} {}",
                check.check_type, check.target, check.detail
            )
        })
        .collect();
    if !details.ip.last_error.is_empty() {
        parts.push(details.ip.last_error.clone());
    }
    parts.join("; ")
}

/// What the simulated cloud holds.
fn cloud(stage: &dyn Stage, free: &[Ipv4Addr], bound: &[Ipv4Addr]) -> Setup {
    let plan = stage.plan();
    let mut ports: Vec<PortSetup> = (1..=plan.vms)
        .map(|n| PortSetup {
            id: port_id(n),
            fixed_ip: IpAddr::V4(plan.fixed(n)),
            ours: true,
        })
        .collect();
    ports.extend((1..=FOREIGN_PORTS).map(|n| PortSetup {
        id: foreign_port(n),
        fixed_ip: IpAddr::V4(plan.fixed(n.saturating_add(200))),
        ours: false,
    }));
    let fip = |address: &Ipv4Addr, port: Option<String>| FipSetup {
        address: IpAddr::V4(*address),
        port,
        forwarded: false,
    };
    let mut fips: Vec<FipSetup> = free.iter().map(|address| fip(address, None)).collect();
    let bound = bound.iter().zip(1..=FOREIGN_PORTS);
    fips.extend(bound.map(|(address, n)| fip(address, Some(foreign_port(n)))));
    Setup {
        ports,
        fips,
        ..Setup::default()
    }
}
