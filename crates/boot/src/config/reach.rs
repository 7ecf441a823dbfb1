//! The section `checks.targets`, which agent and prober share.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::Report;

/// Most ranges of one list: each is looked at for every address that is checked.
const RANGES_MAX: usize = 256;

/// As it stands in the file: networks as `ADDRESS/BITS`, or single addresses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawReach {
    /// Checked although they are refused by themselves.
    pub allow: Vec<String>,
    /// Never checked.
    pub deny: Vec<String>,
}

/// Which targets may be checked, beyond what is refused by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Checked although they are refused by themselves.
    pub allow: Vec<IpNet>,
    /// Never checked.
    pub deny: Vec<IpNet>,
}

impl Reach {
    /// Builds the section that stands at `checks.targets`.
    pub fn build(raw: &RawReach, report: &mut Report) -> Self {
        Self {
            allow: ranges("checks.targets.allow", &raw.allow, report),
            deny: ranges("checks.targets.deny", &raw.deny, report),
        }
    }
}

fn ranges(path: &str, texts: &[String], report: &mut Report) -> Vec<IpNet> {
    if texts.len() > RANGES_MAX {
        report.fault(path, format!("must not hold more than {RANGES_MAX} ranges"));
    }
    let mut built = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let net = text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        match net {
            Ok(net) if net.network() == net.addr() => built.push(net),
            Ok(net) => {
                let text = format!("has bits beyond its mask: write {}", net.trunc());
                report.fault(&format!("{path}[{index}]"), text);
            }
            Err(_) => {
                let text = "must be a network as ADDRESS/BITS, or an address";
                report.fault(&format!("{path}[{index}]"), text);
            }
        }
    }
    built
}
