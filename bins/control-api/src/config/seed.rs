//! What fills the tables of the configuration while they are empty: validators, sites, targets,
//! check types, inbound checks; and the addresses that are queued at each start.

use std::collections::{BTreeMap, BTreeSet};

use civ_boot::config::{Report, key};
use civ_types::{Address, CheckName, EGRESS_CHECKS, PortId, SiteId, ValidatorId, parse_list};
use serde::Deserialize;

/// Most addresses of the file, prefixes and ranges expanded; one call of the API takes as many.
const ADDRESSES_MAX: usize = 65_536;

/// Whether a text can be a target: a URL, a host or `host:port`. What of it a check type takes
/// is seen when the check is made.
#[must_use]
pub fn is_target(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// The rows as the file has them, in its order.
#[derive(Debug, Clone)]
pub struct Seed {
    /// No id and no port twice.
    pub validators: Vec<ValidatorSeed>,
    /// Slot index = place in the list, from 1; no name twice.
    pub sites: Vec<SiteId>,
    /// Groups of targets, by name.
    pub targets: Vec<TargetsSeed>,
    /// No name twice; every group is in `targets`.
    pub check_types: Vec<CheckTypeSeed>,
    /// What sites check.
    pub inbound: Inbound,
    /// Queued at each start unless they are in the queue; each once.
    pub ip_addresses: Vec<Address>,
}

/// A validator and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatorSeed {
    /// Its name.
    pub validator_id: ValidatorId,
    /// Its Neutron port.
    pub os_port_id: PortId,
}

/// A named group of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetsSeed {
    /// The group's name.
    pub name: String,
    /// URLs, hosts or `host:port`, at least one.
    pub targets: Vec<String>,
}

/// An egress check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTypeSeed {
    /// Its name.
    pub name: CheckName,
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of groups of targets.
    pub targets: Vec<String>,
}

/// What sites check of every address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// TCP ports, none twice.
    pub ports: Vec<u16>,
    /// TCP ports on which nothing is to answer, none twice and none of `ports`.
    pub closed_ports: Vec<u16>,
    /// Whether to ping.
    pub icmp: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawValidator {
    validator_id: Option<String>,
    os_port_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSite {
    site_id: Option<String>,
}

pub(super) type RawTargets = BTreeMap<String, Vec<String>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCheckType {
    name: Option<String>,
    enabled: bool,
    targets: Vec<String>,
}

impl Default for RawCheckType {
    fn default() -> Self {
        Self {
            name: None,
            enabled: true,
            targets: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawInbound {
    ports: Vec<i64>,
    closed_ports: Vec<i64>,
    icmp: bool,
}

impl Default for RawInbound {
    fn default() -> Self {
        Self {
            ports: vec![22, 80, 443, 8080],
            closed_ports: Vec::new(),
            icmp: true,
        }
    }
}

impl Inbound {
    pub(super) fn build(raw: &RawInbound, report: &mut Report) -> Self {
        let mut seen = BTreeSet::new();
        let mut list = |key: &str, ports: &[i64]| {
            let mut built = Vec::with_capacity(ports.len());
            for (index, port) in ports.iter().enumerate() {
                let path = format!("orchestrator.inbound_checks.{key}[{index}]");
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
        Self {
            ports: list("ports", &raw.ports),
            closed_ports: list("closed_ports", &raw.closed_ports),
            icmp: raw.icmp,
        }
    }
}

/// A text that must be given, as an id; reported if it is missing or wrong.
fn id<T, E: std::fmt::Display>(
    path: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
    report: &mut Report,
) -> Option<T> {
    let Some(text) = text else {
        report.fault(path, "must be given");
        return None;
    };
    report.parsed(path, parse(text))
}

pub(super) fn validators(raw: &[RawValidator], report: &mut Report) -> Vec<ValidatorSeed> {
    let (mut ids, mut ports) = (BTreeSet::new(), BTreeMap::new());
    let mut built = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("validators[{index}]");
        let (id_path, port_path) = (format!("{path}.validator_id"), format!("{path}.os_port_id"));
        let parse = ValidatorId::parse;
        let validator_id = id(&id_path, raw.validator_id.as_deref(), parse, report);
        let os_port_id = id(&port_path, raw.os_port_id.as_deref(), PortId::parse, report);
        if validator_id
            .as_ref()
            .is_some_and(|id| !ids.insert(id.clone()))
        {
            report.fault(&id_path, "names a validator that the list already has");
        }
        if let Some(port) = &os_port_id
            && let Some(other) = ports.insert(port.clone(), index)
        {
            report.fault(
                &port_path,
                format!("is the port of validators[{other}] too: each validator needs its own"),
            );
        }
        if let (Some(validator_id), Some(os_port_id)) = (validator_id, os_port_id) {
            built.push(ValidatorSeed {
                validator_id,
                os_port_id,
            });
        }
    }
    built
}

pub(super) fn sites(raw: &[RawSite], report: &mut Report) -> Vec<SiteId> {
    let mut seen = BTreeSet::new();
    let mut built = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("sites[{index}].site_id");
        let Some(site) = id(&path, raw.site_id.as_deref(), SiteId::parse, report) else {
            continue;
        };
        if !seen.insert(site.clone()) {
            report.fault(&path, "names a site that the list already has");
        }
        built.push(site);
    }
    built
}

pub(super) fn targets(raw: &RawTargets, report: &mut Report) -> Vec<TargetsSeed> {
    for (name, targets) in raw {
        let path = key("targets", name);
        if name.trim().is_empty() {
            report.fault(&path, "the name of a group must not be empty");
        }
        if targets.is_empty() {
            report.fault(&path, "must name at least one target");
        }
        for (index, target) in targets.iter().enumerate() {
            if !is_target(target) {
                report.fault(
                    &format!("{path}[{index}]"),
                    "must be a URL, a host or host:port, without white space",
                );
            }
        }
    }
    let group = |(name, targets): (&String, &Vec<String>)| TargetsSeed {
        name: name.clone(),
        targets: targets.clone(),
    };
    raw.iter().map(group).collect()
}

pub(super) fn check_types(
    raw: &[RawCheckType],
    groups: &RawTargets,
    report: &mut Report,
) -> Vec<CheckTypeSeed> {
    let mut seen = BTreeSet::new();
    let mut built = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("check_types[{index}]");
        let name_path = format!("{path}.name");
        for (place, group) in raw.targets.iter().enumerate() {
            let known = groups.contains_key(group) || report.is_bad(&key("targets", group));
            if !known {
                let text = undefined(groups);
                report.fault(&format!("{path}.targets[{place}]"), text);
            }
        }
        let Some(name) = id(&name_path, raw.name.as_deref(), CheckName::parse, report) else {
            continue;
        };
        if !name.is_egress() {
            let text = format!("is no check type; there are: {EGRESS_CHECKS}");
            report.fault(&name_path, text);
        }
        if !seen.insert(name.clone()) {
            report.fault(&name_path, "names a check type that the list already has");
        }
        built.push(CheckTypeSeed {
            name,
            enabled: raw.enabled,
            targets: raw.targets.clone(),
        });
    }
    built
}

fn undefined(groups: &RawTargets) -> String {
    if groups.is_empty() {
        return "names a group that `targets` does not define; it defines none".to_owned();
    }
    let names: Vec<&str> = groups.keys().map(String::as_str).collect();
    format!(
        "names a group that `targets` does not define; it defines: {}",
        names.join(", ")
    )
}

pub(super) fn ip_addresses(raw: &[String], report: &mut Report) -> Vec<Address> {
    let mut readable = true;
    for (index, entry) in raw.iter().enumerate() {
        if let Err(wrong) = parse_list(std::slice::from_ref(entry), ADDRESSES_MAX) {
            readable = false;
            for why in wrong {
                report.fault(&format!("ip_addresses[{index}]"), why.to_string());
            }
        }
    }
    if !readable {
        return Vec::new();
    }
    parse_list(raw, ADDRESSES_MAX).unwrap_or_else(|_wrong| {
        // Each entry by itself is sound, so only the sum can be too large.
        let text = format!("must not hold more than {ADDRESSES_MAX} addresses in all");
        report.fault("ip_addresses", text);
        Vec::new()
    })
}
