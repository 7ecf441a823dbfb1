//! Owns the configuration files of a scenario's processes. Knows no processes.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::stage::plan::{Place, Plan};

/// The administrator's token of every scenario that has tokens.
pub(crate) const ADMIN_TOKEN: &str = "admin-token-of-the-stage";
/// The agents' token.
pub(crate) const AGENT_TOKEN: &str = "agent-token-of-the-stage";
/// The variable that holds the key of notifications' signatures.
pub(crate) const NOTIFY_VAR: &str = "CIV_E2E_NOTIFY_SECRET";
/// The key itself.
pub(crate) const NOTIFY_SECRET: &str = "notify-secret-of-the-stage";

/// What differs from scenario to scenario.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Validators at work, one VM each.
    pub(crate) validators: u8,
    /// Sites at work.
    pub(crate) sites: u8,
    /// `orchestrator.poll_interval_seconds`.
    pub(crate) poll_interval: u16,
    /// `orchestrator.lease_ttl_seconds`.
    pub(crate) lease_ttl: u16,
    /// `orchestrator.self_check_timeout_seconds`.
    pub(crate) self_check_timeout: u16,
    /// `orchestrator.checking_window_seconds`.
    pub(crate) checking_window: u16,
    /// `orchestrator.heartbeat_timeout_seconds`.
    pub(crate) heartbeat_timeout: u16,
    /// `orchestrator.fip_settle_seconds`.
    pub(crate) settle: u16,
    /// `orchestrator.max_self_check_retries`.
    pub(crate) self_check_retries: u16,
    /// `openstack.list_page_size`.
    pub(crate) page_size: u16,
    /// `openstack.request_timeout_seconds`.
    pub(crate) request_timeout: u16,
    /// The ports of the validators' VMs, if not those of the simulated cloud.
    pub(crate) port_ids: Option<Vec<String>>,
    /// Whether tokens are set.
    pub(crate) tokens: bool,
    /// Where control-api listens, if not on the management network.
    pub(crate) listen: Option<SocketAddr>,
    /// Egress targets, if not the stage's.
    pub(crate) web_targets: Option<Vec<String>>,
    /// Egress check types, if not the stage's.
    pub(crate) check_types: Option<Vec<&'static str>>,
    /// Inbound ports, if not the stage's.
    pub(crate) ports: Option<Vec<u16>>,
    /// HTTP and TLS ports of the agents' responders, if they run one.
    pub(crate) responder: Option<(Vec<u16>, Vec<u16>)>,
    /// `ip_addresses`: in the queue from the start.
    pub(crate) ip_addresses: Vec<Ipv4Addr>,
    /// The folder of the database within the scenario's, if it is not that itself.
    pub(crate) disk: &'static str,
    /// Where events of these types are sent to, if anywhere.
    pub(crate) notify: Option<(SocketAddr, &'static [&'static str])>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            validators: 3,
            sites: 2,
            poll_interval: 1,
            lease_ttl: 8,
            self_check_timeout: 3,
            checking_window: 10,
            heartbeat_timeout: 3,
            settle: 0,
            self_check_retries: 3,
            page_size: 200,
            request_timeout: 5,
            port_ids: None,
            tokens: true,
            listen: None,
            web_targets: None,
            check_types: None,
            ports: None,
            responder: None,
            ip_addresses: Vec::new(),
            disk: "",
            notify: None,
        }
    }
}

/// The validator's id in the configuration.
pub(crate) fn validator_id(n: u8) -> String {
    format!("validator_{n:02}")
}

/// The port of that validator's VM in the simulated cloud.
pub(crate) fn port_id(n: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{n:02x}")
}

/// The site's id in the configuration.
pub(crate) fn site_id(n: u8) -> String {
    format!("site-{n}")
}

impl Settings {
    /// Where control-api listens on this stage.
    pub(crate) fn control_address(&self, plan: &Plan) -> SocketAddr {
        self.listen
            .unwrap_or_else(|| SocketAddr::from((plan.mgmt, plan.control_port)))
    }

    /// Writes `control-api.yaml` and returns its path. `home` is the folder as control-api sees it.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write_control(&self, plan: &Plan, dir: &Path, home: &Path) -> Result<PathBuf> {
        let inbound = self.ports.clone().unwrap_or_else(|| plan.ports.to_vec());
        let mut yaml = format!(
            "server: {{ listen_addr: \"{}\" }}
database: {{ path: {} }}
cloud: {{ provider: openstack }}
openstack: {{ request_timeout_seconds: {}, list_page_size: {} }}
orchestrator:
  poll_interval_seconds: {}
  lease_ttl_seconds: {}
  self_check_timeout_seconds: {}
  checking_window_seconds: {}
  heartbeat_timeout_seconds: {}
  fip_settle_seconds: {}
  max_self_check_retries: {}
  inbound_checks: {{ ports: {inbound:?}, icmp: {} }}
",
            self.control_address(plan),
            home.join(self.disk).join("control-api.db").display(),
            self.request_timeout,
            self.page_size,
            self.poll_interval,
            self.lease_ttl,
            self.self_check_timeout,
            self.checking_window,
            self.heartbeat_timeout,
            self.settle,
            self.self_check_retries,
            plan.icmp,
        );
        self.write_lists(plan, &mut yaml)?;
        write(dir, "control-api.yaml", &yaml)
    }

    fn write_lists(&self, plan: &Plan, yaml: &mut String) -> Result<()> {
        writeln!(yaml, "validators:")?;
        let ours: Vec<String> = match &self.port_ids {
            Some(ids) => ids.clone(),
            None => (1..=self.validators).map(port_id).collect(),
        };
        for (n, port) in (1..=self.validators).zip(ours) {
            let id = validator_id(n);
            writeln!(yaml, "  - {{ validator_id: {id}, os_port_id: {port} }}")?;
        }
        if self.sites > 0 {
            writeln!(yaml, "sites:")?;
        }
        for n in 1..=self.sites {
            writeln!(yaml, "  - {{ site_id: {} }}", site_id(n))?;
        }
        let targets = self.web_targets.as_ref().unwrap_or(&plan.web_targets);
        writeln!(yaml, "targets:\n  web: {targets:?}\ncheck_types:")?;
        let stage_types = if plan.icmp {
            vec!["https", "icmp"]
        } else {
            vec!["https"]
        };
        for name in self.check_types.clone().unwrap_or(stage_types) {
            writeln!(
                yaml,
                "  - {{ name: {name}, enabled: true, targets: [web] }}"
            )?;
        }
        writeln!(yaml, "ip_addresses: {:?}", self.ip_addresses)?;
        if let Some((receiver, events)) = self.notify {
            writeln!(
                yaml,
                "notifications:
  - {{ name: runner, url: \"http://{receiver}/\", secret_env: {NOTIFY_VAR}, events: {events:?} }}"
            )?;
        }
        Ok(())
    }

    /// Writes the configuration of one validator's agent and returns its path.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write_agent(&self, plan: &Plan, n: u8, dir: &Path) -> Result<PathBuf> {
        let responder = self.responder.as_ref().map(|(http, tls)| {
            format!("responder: {{ enabled: true, http_ports: {http:?}, tls_ports: {tls:?} }}\n")
        });
        let yaml = format!(
            "control_api: {{ url: \"http://{}\" }}
validators:
  - validator_id: {}
{}self_check:
  ip_echo_urls: {:?}
  timeout_seconds: 2
checks:
  timeout_seconds: 3
  diagnose: false
  targets: {{ allow: [127.0.0.0/8, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16] }}
{}",
            self.control_address(plan),
            validator_id(n),
            bind("    bind_address", plan.vm_bind(n)),
            plan.echo_urls,
            responder.unwrap_or_default(),
        );
        write(dir, &format!("{}.yaml", Place::Vm(n).name()), &yaml)
    }

    /// Writes the configuration of one site's prober and returns its path.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write_prober(&self, plan: &Plan, n: u8, dir: &Path) -> Result<PathBuf> {
        let yaml = format!(
            "control_api: {{ url: \"http://{}\" }}
site_id: {}
{}checks: {{ timeout_seconds: 2, diagnose: false }}
",
            self.control_address(plan),
            site_id(n),
            bind("bind_address", plan.site_bind(n)),
        );
        write(dir, &format!("{}.yaml", Place::Site(n).name()), &yaml)
    }
}

fn bind(key: &str, address: Option<Ipv4Addr>) -> String {
    address.map_or_else(String::new, |address| format!("{key}: {address}\n"))
}

fn write(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = dir.join(name);
    fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(file)
}
