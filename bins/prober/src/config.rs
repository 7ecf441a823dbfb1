//! The settings of prober: what `prober.yaml` may say, and what it means.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use civ_boot::config::{ControlApi, Faults, Loaded, RawControlApi, RawReach, Reach, Report};
use civ_checks::Limits;
use civ_types::SiteId;
use serde::Deserialize;

/// Everything prober needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach control-api.
    pub control_api: ControlApi,
    /// The site that this process checks from.
    pub site_id: SiteId,
    /// Source address of every check; `None`: the kernel's choice.
    pub bind_address: Option<IpAddr>,
    /// Limits of the checks.
    pub checks: Checks,
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

/// Loads and checks `prober.yaml`.
///
/// # Errors
/// All faults of the file.
pub fn load(path: &Path) -> Result<Loaded<Settings>, Faults> {
    civ_boot::config::load(path, |raw, report| Settings::build(&raw, report))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    control_api: RawControlApi,
    site_id: Option<String>,
    bind_address: Option<String>,
    checks: RawChecks,
    metrics: RawMetrics,
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
            max_concurrent: 256,
            timeout_seconds: 5,
            icmp_packets_per_second: Limits::ICMP_PACKETS.into(),
            diagnose: false,
            targets: RawReach::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawMetrics {
    listen_addr: Option<String>,
}

impl Settings {
    fn build(raw: &Raw, report: &mut Report) -> Option<Self> {
        let control_api = ControlApi::build(&raw.control_api, report);
        let site_id = site(raw.site_id.as_deref(), report);
        let bind_address = raw.bind_address.as_deref().and_then(|text| {
            let parsed = text.parse::<IpAddr>();
            report.parsed(
                "bind_address",
                parsed.map_err(|_e| "must be an IP address of this host, or left out"),
            )
        });
        if raw.checks.diagnose {
            report.warn(
                "checks.diagnose",
                "traces are not available in this version: failed checks are reported without one",
            );
        }
        report.not_available("metrics.listen_addr", raw.metrics.listen_addr.is_some());
        let checks = Checks {
            max_concurrent: report.int(
                "checks.max_concurrent",
                raw.checks.max_concurrent,
                1..=4096,
            ),
            timeout: Duration::from_secs(report.int(
                "checks.timeout_seconds",
                raw.checks.timeout_seconds,
                1..=300,
            )),
            icmp_packets_per_second: report.int(
                "checks.icmp_packets_per_second",
                raw.checks.icmp_packets_per_second,
                1..=Limits::ICMP_PACKETS_MAX.into(),
            ),
            targets: Reach::build(&raw.checks.targets, report),
        };
        Some(Self {
            control_api: control_api?,
            site_id: site_id?,
            bind_address,
            checks,
        })
    }
}

fn site(text: Option<&str>, report: &mut Report) -> Option<SiteId> {
    let Some(text) = text else {
        report.fault(
            "site_id",
            "must be given: the site's name in the configuration of control-api",
        );
        return None;
    };
    report.parsed("site_id", SiteId::parse(text))
}
