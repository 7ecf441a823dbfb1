//! Scenario files: what a cloud holds at the start, how it behaves and what goes wrong, in YAML.
//!
//! Strict, as the product's configurations are: every fault in one go, each with file and line.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use civ_boot::config::{self, Faults, Report};
use civ_simkit::{Latency, Pace};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::faults::Rule;
use crate::ids::dashed;
use crate::setup::{ExternalSetup, FipSetup, OtherProject, PortSetup, Role, Setup, UserSetup};

/// The version of scenario files that is read.
const SCHEMA_VERSION: i64 = 1;

/// Most floating IPs that a scenario may have.
const ADDRESSES_MAX: usize = 131_072;

/// Most ports of a kind.
const PORTS_MAX: i64 = 1_000;

/// A day, in milliseconds: no delay is longer.
const DAY_MS: i64 = 86_400_000;

/// A scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What the cloud holds at the start, and how it behaves.
    pub setup: Setup,
    /// What goes wrong from the start.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Raw {
    schema_version: i64,
    seed: i64,
    clock: RawClock,
    cloud: RawCloud,
    /// Read on their own, so that their faults have places too.
    latency: Vec<Value>,
    faults: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawClock {
    pace: String,
    factor: i64,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the keys of a file")]
struct RawCloud {
    addresses: Vec<String>,
    occupied: Vec<String>,
    forwarded: Vec<String>,
    status_never: Vec<String>,
    status_error: Vec<String>,
    ports: i64,
    customer_ports: i64,
    unrouted_ports: i64,
    two_address_ports: i64,
    quota_floating_ips: i64,
    page_rows_max: i64,
    token_ttl_seconds: i64,
    status_delay_ms: i64,
    idle_close_ms: i64,
    compute: bool,
    plugins: bool,
    revisions: bool,
    other_project: bool,
    small_network: bool,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            seed: 0,
            clock: RawClock::default(),
            cloud: RawCloud::default(),
            latency: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl Default for RawClock {
    fn default() -> Self {
        Self {
            pace: "real".to_owned(),
            factor: 1,
        }
    }
}

impl Default for RawCloud {
    fn default() -> Self {
        Self {
            addresses: vec!["203.0.113.16/28".to_owned()],
            occupied: vec!["203.0.113.16".to_owned(), "203.0.113.17".to_owned()],
            forwarded: Vec::new(),
            status_never: Vec::new(),
            status_error: Vec::new(),
            ports: 4,
            customer_ports: 3,
            unrouted_ports: 0,
            two_address_ports: 0,
            quota_floating_ips: 50,
            page_rows_max: -1,
            token_ttl_seconds: 3_600,
            status_delay_ms: 1_000,
            idle_close_ms: 4_000,
            compute: false,
            plugins: true,
            revisions: true,
            other_project: true,
            small_network: true,
        }
    }
}

impl Scenario {
    /// What `cloud-sim` is without a file: sixteen addresses of which two are a customer's, four
    /// validators' ports, a second project, a second external network.
    #[must_use]
    pub fn standard() -> Self {
        let built = config::parse("standard", "", |raw, report| build(&raw, report));
        built.map_or_else(
            |_| Self {
                setup: Setup::default(),
                rules: Vec::new(),
            },
            |loaded| loaded.settings,
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    /// All its faults, each with its place.
    pub fn load(path: &Path) -> Result<Self, Faults> {
        config::load(path, |raw, report| build(&raw, report)).map(|loaded| loaded.settings)
    }

    /// Reads a text; `file` is only the name that stands in the faults.
    ///
    /// # Errors
    /// All its faults, each with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, Faults> {
        config::parse(file, text, |raw, report| build(&raw, report)).map(|loaded| loaded.settings)
    }
}

fn build(raw: &Raw, report: &mut Report) -> Option<Scenario> {
    if raw.schema_version != SCHEMA_VERSION {
        let text = format!("must be {SCHEMA_VERSION}: this program reads no other");
        report.fault("schema_version", text);
    }
    let mut setup = cloud(&raw.cloud, report);
    setup.seed = report.int("seed", raw.seed, 0..=i64::MAX);
    setup.pace = pace(&raw.clock, report);
    setup.latencies = items::<Latency>("latency", &raw.latency, report);
    let rules = items::<Rule>("faults", &raw.faults, report);
    Some(Scenario { setup, rules })
}

fn pace(raw: &RawClock, report: &mut Report) -> Pace {
    let words = ["real", "scaled", "stepped"];
    let factor = report.int("clock.factor", raw.factor, 1..=100_000);
    match report.word("clock.pace", &raw.pace, &words) {
        Some("scaled") => Pace::Scaled(factor),
        Some("stepped") => Pace::Stepped,
        _ => {
            if factor != 1 {
                report.fault("clock.factor", "is only for pace scaled");
            }
            Pace::Real
        }
    }
}

/// Entries that have types of their own, each fault at the key where it is.
fn items<T: DeserializeOwned>(name: &str, raw: &[Value], report: &mut Report) -> Vec<T> {
    let mut all = Vec::new();
    for (index, value) in raw.iter().enumerate() {
        match serde_path_to_error::deserialize(value.clone()) {
            Ok(item) => all.push(item),
            Err(error) => {
                let mut path = format!("{name}[{index}]");
                let inner = error.path().to_string();
                if inner != "." {
                    path = format!("{path}.{inner}");
                }
                report.fault(&path, error.inner().to_string());
            }
        }
    }
    all
}

/// Addresses, prefixes and ranges of a list.
fn addresses(path: &str, texts: &[String], report: &mut Report) -> Vec<IpAddr> {
    match civ_types::parse_list(texts, ADDRESSES_MAX) {
        Ok(all) => all.into_iter().map(|address| address.ip()).collect(),
        Err(faults) => {
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            report.fault(path, texts.join("; "));
            Vec::new()
        }
    }
}

/// The same, of addresses that the cloud has.
fn some(path: &str, texts: &[String], of: &BTreeSet<IpAddr>, report: &mut Report) -> Vec<IpAddr> {
    let all = addresses(path, texts, report);
    if let Some(other) = all.iter().find(|address| !of.contains(address)) {
        report.fault(path, format!("{other} is not among cloud.addresses"));
    }
    all
}

fn cloud(raw: &RawCloud, report: &mut Report) -> Setup {
    let all = addresses("cloud.addresses", &raw.addresses, report);
    let of: BTreeSet<IpAddr> = all.iter().copied().collect();
    let occupied = some("cloud.occupied", &raw.occupied, &of, report);
    let forwarded = some("cloud.forwarded", &raw.forwarded, &of, report);
    if let Some(both) = forwarded.iter().find(|address| occupied.contains(address)) {
        let text = format!("{both} is occupied: it cannot have port forwardings too");
        report.fault("cloud.forwarded", text);
    }
    let ports = ports(raw, occupied.len(), report);
    let customers = ports.iter().filter(|port| !port.ours);
    let mut customers = customers.map(|port| port.id.clone());
    let fips = all.iter().map(|address| FipSetup {
        address: *address,
        port: occupied
            .contains(address)
            .then(|| customers.next())
            .flatten(),
        forwarded: forwarded.contains(address) && !occupied.contains(address),
    });
    let fips = fips.collect();
    let milliseconds = |value: u64| Duration::from_millis(value);
    let mut setup = Setup {
        ports,
        fips,
        status_never: some("cloud.status_never", &raw.status_never, &of, report),
        status_error: some("cloud.status_error", &raw.status_error, &of, report),
        fip_quota: limit("cloud.quota_floating_ips", raw.quota_floating_ips, report),
        page_max: limit("cloud.page_rows_max", raw.page_rows_max, report),
        token_ttl: {
            let path = "cloud.token_ttl_seconds";
            Duration::from_secs(report.int(path, raw.token_ttl_seconds, 1..=31_536_000))
        },
        status_delay: limit_to("cloud.status_delay_ms", raw.status_delay_ms, 0, report)
            .map(milliseconds),
        idle_close: limit_to("cloud.idle_close_ms", raw.idle_close_ms, 1, report).map(milliseconds),
        has_compute: raw.compute,
        has_plugins: raw.plugins,
        has_revisions: raw.revisions,
        ..Setup::default()
    };
    let special = setup.ports.iter().filter(|port| port.ours).rev();
    let special: Vec<String> = special.map(|port| port.id.clone()).collect();
    let n_unrouted: usize = report.int("cloud.unrouted_ports", raw.unrouted_ports, 0..=raw.ports);
    let left = raw.ports - raw.unrouted_ports.max(0);
    let path = "cloud.two_address_ports";
    let n_double: usize = report.int(path, raw.two_address_ports, 0..=left.max(0));
    setup.unrouted_ports = special.iter().take(n_unrouted).cloned().collect();
    let double = special.iter().skip(n_unrouted).take(n_double);
    setup.two_address_ports = double.cloned().collect();
    add_people(&mut setup, raw);
    setup
}

/// A limit; -1: none.
fn limit<N: TryFrom<i64> + Default>(path: &str, value: i64, report: &mut Report) -> Option<N> {
    limit_to(path, value, 1, report)
}

fn limit_to<N: TryFrom<i64> + Default>(
    path: &str,
    value: i64,
    least: i64,
    report: &mut Report,
) -> Option<N> {
    if value == -1 {
        return None;
    }
    if !(least..=DAY_MS).contains(&value) {
        let text = format!("must be a whole number from {least} to {DAY_MS}, or -1 for none");
        report.fault(path, text);
    }
    Some(N::try_from(value).unwrap_or_default())
}

/// The validators' ports, then the customers': at least one for each occupied address.
fn ports(raw: &RawCloud, n_occupied: usize, report: &mut Report) -> Vec<PortSetup> {
    let n_ours: u32 = report.int("cloud.ports", raw.ports, 0..=PORTS_MAX);
    let n_customers: u32 = report.int("cloud.customer_ports", raw.customer_ports, 0..=PORTS_MAX);
    let n_customers = n_customers.max(u32::try_from(n_occupied).unwrap_or(u32::MAX));
    let base = Ipv4Addr::new(10, 77, 0, 10).to_bits();
    let port = |kind: &str, n: u32, offset: u32, ours| PortSetup {
        id: dashed(&format!("{kind} port {n}")),
        fixed_ip: IpAddr::V4(Ipv4Addr::from_bits(base + offset + n)),
        ours,
    };
    let ours = (1..=n_ours).map(|n| port("validator", n, 0, true));
    let customers = (1..=n_customers).map(|n| port("customer", n, 0x1000, false));
    ours.chain(customers).collect()
}

/// Others who use the cloud: a reader of the same project, another project, an administrator.
fn add_people(setup: &mut Setup, raw: &RawCloud) {
    let user = |name: &str, project: &str, role| UserSetup {
        name: name.to_owned(),
        password: format!("{name}-password"),
        project: project.to_owned(),
        role,
    };
    setup.users = vec![
        user("auditor", &setup.project, Role::Reader),
        user("admin", "admin", Role::Admin),
    ];
    if raw.other_project {
        setup.users.push(user("other", "other", Role::Member));
        let port = PortSetup {
            id: dashed("other port"),
            fixed_ip: IpAddr::from([10, 88, 0, 10]),
            ours: false,
        };
        let fip = |last, port: Option<&PortSetup>| FipSetup {
            address: IpAddr::from([198, 51, 100, last]),
            port: port.map(|port| port.id.clone()),
            forwarded: false,
        };
        setup.others.push(OtherProject {
            name: "other".to_owned(),
            fips: vec![fip(200, Some(&port)), fip(201, None)],
            ports: vec![port],
            fip_quota: Some(3),
        });
    }
    if raw.small_network {
        setup.external.push(ExternalSetup {
            id: dashed("public2"),
            name: "public2".to_owned(),
            network: Ipv4Addr::new(198, 18, 255, 0),
            bits: 28,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Action;

    fn faults(text: &str) -> Vec<String> {
        let faults = Scenario::parse("s.yaml", text).unwrap_err();
        faults.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_standard_scenario_is_what_an_empty_file_says() {
        let setup = Scenario::standard().setup;
        assert_eq!((setup.fips.len(), setup.ports.len()), (16, 7));
        let bound = setup.fips.iter().filter(|fip| fip.port.is_some());
        assert_eq!(bound.count(), 2);
        assert_eq!(setup.users.len(), 3);
    }

    #[test]
    fn the_files_that_come_with_it_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut n = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let loaded = Scenario::load(&path).map_err(|faults| faults.to_string());
            assert!(loaded.is_ok(), "{loaded:?}");
            if path.ends_with("standard.yaml") {
                let (file, none) = (loaded.unwrap().setup, Scenario::standard().setup);
                assert_eq!(format!("{file:?}"), format!("{none:?}"));
            }
            n += 1;
        }
        assert_eq!(n, 3);
    }

    #[test]
    fn everything_of_a_file_is_taken() {
        let text = "
schema_version: 1
seed: 7
clock: {pace: scaled, factor: 60}
cloud:
  addresses: [203.0.113.0/24]
  occupied: [203.0.113.5]
  forwarded: [203.0.113.6]
  ports: 3
  unrouted_ports: 1
  two_address_ports: 1
  page_rows_max: 100
  status_delay_ms: -1
latency:
  - {method: PUT, path_prefix: /v2.0/floatingips, takes: {uniform: {from_ms: 1, to_ms: 5}}}
faults:
  - name: late
    match: {method: PUT, count: 1}
    action: {plane_delay: {ms: 500}}
  - {name: cut, match: {nth: 3, chance_percent: 10, seed: 1}, action: cut_after}
";
        let scenario = Scenario::parse("s.yaml", text).unwrap();
        let setup = &scenario.setup;
        assert_eq!((setup.seed, setup.pace), (7, Pace::Scaled(60)));
        assert_eq!((setup.fips.len(), setup.page_max), (256, Some(100)));
        assert_eq!(setup.status_delay, None);
        assert_eq!(
            setup.unrouted_ports.len() + setup.two_address_ports.len(),
            2
        );
        assert_ne!(setup.unrouted_ports, setup.two_address_ports);
        assert_eq!(setup.latencies.len(), 1);
        assert_eq!(scenario.rules[0].action, Action::PlaneDelay { ms: 500 });
        assert_eq!(scenario.rules[1].action, Action::CutAfter);
    }

    #[test]
    fn every_fault_has_its_place() {
        let text = "schema_version: 2
clock: {pace: slow}
cloud:
  addresses: [203.0.113.0/30]
  occupied: [203.0.113.9]
  prots: 3
faults:
  - name: x
    action: {plane_delay: {seconds: 5}}
  - name: y
    match: {metod: PUT}
    action: cut_before
";
        let found = faults(text);
        for (place, words) in [
            ("s.yaml:1:", "schema_version: must be 1"),
            (
                "s.yaml:2:",
                "clock.pace: must be one of: real, scaled, stepped",
            ),
            ("s.yaml:5:", "203.0.113.9 is not among cloud.addresses"),
            ("s.yaml:6:", "unknown key"),
            ("s.yaml:9:", "unknown field `seconds`"),
            ("s.yaml:11:", "unknown field `metod`"),
        ] {
            let is_there = |line: &&String| line.contains(place) && line.contains(words);
            assert!(
                found.iter().any(|line| is_there(&line)),
                "{place} {words}: {found:#?}"
            );
        }
    }
}
