//! The settings of validator-agent: what `validator-agent.yaml` may say, and what it means.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use civ_boot::config::{ControlApi, Faults, Loaded, RawControlApi, RawReach, Reach, Report};
use civ_boot::secrets::SecretSource;
use civ_checks::Limits;
use civ_types::ValidatorId;
use serde::Deserialize;
use url::Url;

/// Most validators of one process: a VM has far fewer ports.
const VALIDATORS_MAX: usize = 256;

/// Everything validator-agent needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach control-api.
    pub control_api: ControlApi,
    /// The validators that this process serves: at least one, no id twice.
    pub validators: Vec<Validator>,
    /// How to find out the address that the outside sees.
    pub self_check: SelfCheck,
    /// Limits of the checks.
    pub checks: Checks,
    /// What answers on the addresses under test, if anything is to.
    pub responder: Option<Responder>,
}

/// The responder: it shows whose an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responder {
    /// Ports on which it speaks HTTP: at least one, none twice.
    pub http_ports: Vec<u16>,
    /// Ports on which it speaks HTTP over TLS, none of them in `http_ports`.
    pub tls_ports: Vec<u16>,
}

/// One port of this VM.
#[derive(Debug, Clone)]
pub struct Validator {
    /// Its name in the configuration of control-api.
    pub validator_id: ValidatorId,
    /// Source address of its checks; `None`: the kernel's choice.
    pub bind_address: Option<IpAddr>,
    /// Where its own agent token is; `None`: the one of `control_api` counts.
    pub token: Option<SecretSource>,
}

/// The self-check.
#[derive(Debug, Clone)]
pub struct SelfCheck {
    /// Services that answer with the caller's address, tried in order: at least one.
    pub ip_echo_urls: Vec<Url>,
    /// Time for the whole self-check: 1 to 300 s.
    pub timeout: Duration,
}

/// Limits of the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// Checks under way at once in this process: 1 to 4096.
    pub max_concurrent: usize,
    /// Time for one check in all: 1 to 300 s.
    pub timeout: Duration,
    /// Echoes a second of this process, all checks together: 1 to 1,000,000.
    pub icmp_packets_per_second: u32,
    /// Which targets may be checked.
    pub targets: Reach,
}

/// Loads and checks `validator-agent.yaml`.
///
/// # Errors
/// All faults of the file.
pub fn load(path: &Path) -> Result<Loaded<Settings>, Faults> {
    civ_boot::config::load(path, Settings::build)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    control_api: RawControlApi,
    validator_id: Option<String>,
    validators: Option<Vec<RawValidator>>,
    self_check: RawSelfCheck,
    checks: RawChecks,
    responder: RawResponder,
    metrics: RawMetrics,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawValidator {
    validator_id: Option<String>,
    bind_address: Option<String>,
    token_env: Option<String>,
    token_file: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSelfCheck {
    ip_echo_urls: Vec<String>,
    timeout_seconds: i64,
}

impl Default for RawSelfCheck {
    fn default() -> Self {
        let urls = ["https://api.ipify.org", "https://ifconfig.me/ip"];
        Self {
            ip_echo_urls: urls.map(str::to_owned).to_vec(),
            timeout_seconds: 10,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawChecks {
    max_concurrent: i64,
    timeout_seconds: i64,
    icmp_packets_per_second: i64,
    diagnose: bool,
    targets: RawReach,
}

impl Default for RawChecks {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            timeout_seconds: 10,
            icmp_packets_per_second: Limits::ICMP_PACKETS.into(),
            diagnose: false,
            targets: RawReach::default(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawResponder {
    enabled: bool,
    http_ports: Vec<i64>,
    tls_ports: Vec<i64>,
}

impl Default for RawResponder {
    fn default() -> Self {
        Self {
            enabled: false,
            http_ports: vec![80, 8080],
            tls_ports: vec![443],
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawMetrics {
    listen_addr: Option<String>,
}

impl Settings {
    fn build(raw: Raw, report: &mut Report) -> Option<Self> {
        let control_api = ControlApi::build(&raw.control_api, report);
        let validators = validators(raw.validator_id, raw.validators, report);
        let self_check = SelfCheck::build(&raw.self_check, report);
        if raw.checks.diagnose {
            report.warn(
                "checks.diagnose",
                "traces are not available in this version: failed checks are reported without one",
            );
        }
        let responder = Responder::build(&raw.responder, report);
        if responder.is_some() {
            told_apart(&validators, report);
        }
        report.not_available("metrics.listen_addr", raw.metrics.listen_addr.is_some());
        let checks = Checks {
            max_concurrent: report.int(
                "checks.max_concurrent",
                raw.checks.max_concurrent,
                1..=4096,
            ),
            timeout: seconds("checks.timeout_seconds", raw.checks.timeout_seconds, report),
            icmp_packets_per_second: report.int(
                "checks.icmp_packets_per_second",
                raw.checks.icmp_packets_per_second,
                1..=Limits::ICMP_PACKETS_MAX.into(),
            ),
            targets: Reach::build(&raw.checks.targets, report),
        };
        Some(Self {
            control_api: control_api?,
            validators,
            self_check,
            checks,
            responder,
        })
    }
}

/// Most ports of each kind; probers try them one after the other.
const RESPONDER_PORTS_MAX: usize = 16;

impl Responder {
    fn build(raw: &RawResponder, report: &mut Report) -> Option<Self> {
        let mut seen = BTreeSet::new();
        let mut list = |key: &str, ports: &[i64]| {
            let path = format!("responder.{key}");
            if RESPONDER_PORTS_MAX < ports.len() {
                let text = format!("must not name more than {RESPONDER_PORTS_MAX} ports");
                report.fault(&path, text);
            }
            let mut built = Vec::with_capacity(ports.len());
            for (index, port) in ports.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if !seen.insert(*port) {
                    report.fault(
                        &path,
                        "names a port that this list or the other already has",
                    );
                }
                built.push(report.int(&path, *port, 1..=65_535));
            }
            built
        };
        let built = Self {
            http_ports: list("http_ports", &raw.http_ports),
            tls_ports: list("tls_ports", &raw.tls_ports),
        };
        if raw.enabled && built.http_ports.is_empty() {
            let text = "must name at least one port: it is asked over HTTP who answers";
            report.fault("responder.http_ports", text);
        }
        raw.enabled.then_some(built)
    }
}

/// The responder answers for the validator whose address was reached.
fn told_apart(validators: &[Validator], report: &mut Report) {
    if validators.len() < 2 {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, one) in validators.iter().enumerate() {
        let path = format!("validators[{index}].bind_address");
        match one.bind_address {
            None => report.fault(
                &path,
                "must be given: the responder tells several validators apart by it",
            ),
            Some(ip) if !seen.insert(ip) => report.fault(
                &path,
                "is another validator's: the responder tells several validators apart by it",
            ),
            Some(_) => {}
        }
    }
}

impl SelfCheck {
    fn build(raw: &RawSelfCheck, report: &mut Report) -> Self {
        if raw.ip_echo_urls.is_empty() {
            report.fault("self_check.ip_echo_urls", "must name at least one URL");
        }
        let urls = raw.ip_echo_urls.iter().enumerate();
        let ip_echo_urls = urls
            .filter_map(|(index, text)| {
                report.http_url(&format!("self_check.ip_echo_urls[{index}]"), text)
            })
            .collect();
        Self {
            ip_echo_urls,
            timeout: seconds("self_check.timeout_seconds", raw.timeout_seconds, report),
        }
    }
}

fn seconds(path: &str, value: i64, report: &mut Report) -> Duration {
    Duration::from_secs(report.int(path, value, 1..=300))
}

/// The list, or the contract's single `validator_id` at the top.
fn validators(
    single: Option<String>,
    list: Option<Vec<RawValidator>>,
    report: &mut Report,
) -> Vec<Validator> {
    let list = match (single, list) {
        (Some(_), Some(_)) => {
            report.fault(
                "validator_id",
                "stands beside `validators`: keep one of the two",
            );
            return Vec::new();
        }
        (Some(single), None) => return only(&single, report),
        (None, list) => list.unwrap_or_default(),
    };
    if list.is_empty() {
        report.fault(
            "validators",
            "must name at least one validator, as control-api's configuration does",
        );
    }
    if list.len() > VALIDATORS_MAX {
        let text = format!("must not name more than {VALIDATORS_MAX} validators");
        report.fault("validators", text);
    }
    let mut seen = BTreeSet::new();
    let mut built = Vec::new();
    for (index, raw) in list.iter().enumerate() {
        let path = format!("validators[{index}]");
        let Some(validator) = validator(&path, raw, report) else {
            continue;
        };
        if !seen.insert(validator.validator_id.clone()) {
            report.fault(
                &format!("{path}.validator_id"),
                "names a validator that the list already has",
            );
        }
        built.push(validator);
    }
    built
}

fn only(text: &str, report: &mut Report) -> Vec<Validator> {
    let id = report.parsed("validator_id", ValidatorId::parse(text));
    let one = id.map(|validator_id| Validator {
        validator_id,
        bind_address: None,
        token: None,
    });
    one.into_iter().collect()
}

fn validator(path: &str, raw: &RawValidator, report: &mut Report) -> Option<Validator> {
    let id_path = format!("{path}.validator_id");
    let bind_address = raw.bind_address.as_deref().and_then(|text| {
        let parsed = text.parse::<IpAddr>();
        report.parsed(
            &format!("{path}.bind_address"),
            parsed.map_err(|_e| "must be an IP address of this host, or left out"),
        )
    });
    let token = report.secret(
        &format!("{path}.token"),
        raw.token_env.as_deref(),
        raw.token_file.as_deref(),
    );
    let Some(text) = raw.validator_id.as_deref() else {
        report.fault(&id_path, "must be given");
        return None;
    };
    Some(Validator {
        validator_id: report.parsed(&id_path, ValidatorId::parse(text))?,
        bind_address,
        token: (token.env.is_some() || token.file.is_some()).then_some(token),
    })
}
