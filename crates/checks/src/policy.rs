//! Which addresses this process may check. Pure; judged after resolving and at every redirect, so
//! that no name and no redirect leads into the networks around this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Where no check leads by itself, from any side.
const NEVER: &[(&str, &str)] = &[
    ("0.0.0.0/8", "this host"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, metadata service"),
    ("100.100.100.200/32", "metadata service"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/128", "this host"),
    ("::1/128", "loopback"),
    ("fe80::/10", "link-local"),
    ("fd00:ec2::254/128", "metadata service"),
    ("fd20:ce::254/128", "metadata service"),
    ("ff00::/8", "multicast"),
];

/// Where a check from outside has no business: a floating IP is a public address.
const PRIVATE: &[(&str, &str)] = &[
    ("10.0.0.0/8", "private"),
    ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"),
    ("100.64.0.0/10", "shared address space"),
    ("fc00::/7", "unique local"),
    ("fec0::/10", "site-local"),
];

/// Which addresses may be checked. What is denied by name beats what is allowed by name, and that
/// beats the built-in ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    built_in: &'static [&'static [(&'static str, &'static str)]],
}

/// An address that is not to be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ip} is not to be checked from here: it is in {range} ({why}); allow it in checks.targets"
)]
pub struct Denied {
    /// The address.
    pub ip: IpAddr,
    /// The range that denies it.
    pub range: String,
    /// What is there.
    pub why: &'static str,
}

impl Policy {
    /// For checks from inside a cloud: loopback, link-local, metadata services and multicast are
    /// denied, private ranges are not, since targets may well be there.
    #[must_use]
    pub const fn from_inside(allow: Vec<IpNet>, deny: Vec<IpNet>) -> Self {
        Self {
            allow,
            deny,
            built_in: &[NEVER],
        }
    }

    /// For checks of public addresses from outside: private ranges are denied too.
    #[must_use]
    pub const fn from_outside(allow: Vec<IpNet>, deny: Vec<IpNet>) -> Self {
        Self {
            allow,
            deny,
            built_in: &[NEVER, PRIVATE],
        }
    }

    /// Nothing is denied: for what the operator of this host has named himself.
    #[must_use]
    pub const fn anywhere() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            built_in: &[],
        }
    }

    /// May `ip` be checked? An IPv4 address within an IPv6 one (mapped, translated, 6to4) is
    /// judged as well.
    ///
    /// # Errors
    /// [`Denied`] names the range.
    pub fn judge(&self, ip: IpAddr) -> Result<(), Denied> {
        self.judge_one(ip, ip)?;
        match ip {
            IpAddr::V6(v6) => match embedded(v6) {
                Some(v4) => self.judge_one(IpAddr::V4(v4), ip),
                None => Ok(()),
            },
            IpAddr::V4(_) => Ok(()),
        }
    }

    fn judge_one(&self, ip: IpAddr, shown: IpAddr) -> Result<(), Denied> {
        let denied = |range: String, why| {
            Err(Denied {
                ip: shown,
                range,
                why,
            })
        };
        if let Some(net) = self.deny.iter().find(|net| net.contains(&ip)) {
            return denied(net.to_string(), "denied by the configuration");
        }
        if self.allow.iter().any(|net| net.contains(&ip)) {
            return Ok(());
        }
        let ranges = self.built_in.iter().copied().flatten();
        for (range, why) in ranges {
            // A test holds that all of them parse.
            if range.parse::<IpNet>().is_ok_and(|net| net.contains(&ip)) {
                return denied((*range).to_owned(), why);
            }
        }
        Ok(())
    }
}

/// The IPv4 address that packets to `ip` end at: mapped (RFC 4291 §2.5.5.2), compatible, 6to4
/// (RFC 3056) or translated (RFC 6052).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(w, x, y, z)
    };
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(v4(g, h)),
        (0, 0, 0, 0, 0, 0) if g > 0 => Some(v4(g, h)),
        (0x2002, ..) => Some(v4(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{IpAddr, IpNet, NEVER, PRIVATE, Policy};

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn denies(policy: &Policy, ip: &str) -> bool {
        policy.judge(ip.parse::<IpAddr>().unwrap()).is_err()
    }

    #[test]
    fn all_built_in_ranges_parse() {
        for (range, _) in NEVER.iter().chain(PRIVATE) {
            assert!(range.parse::<IpNet>().is_ok(), "{range}");
        }
    }

    #[test]
    fn what_is_around_this_host_is_denied_from_both_sides() {
        let inside = Policy::from_inside(Vec::new(), Vec::new());
        let outside = Policy::from_outside(Vec::new(), Vec::new());
        for ip in [
            "127.0.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
        ] {
            assert!(denies(&inside, ip) && denies(&outside, ip), "{ip}");
        }
        for ip in [
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd12::1",
        ] {
            assert!(!denies(&inside, ip) && denies(&outside, ip), "{ip}");
        }
        for ip in ["203.0.113.7", "8.8.8.8", "172.32.0.1", "2001:db8::1"] {
            assert!(!denies(&inside, ip) && !denies(&outside, ip), "{ip}");
        }
    }

    #[test]
    fn hidden_forms_are_denied_like_plain_ones() {
        let outside = Policy::from_outside(Vec::new(), Vec::new());
        for ip in [
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(denies(&outside, ip), "{ip}");
        }
        assert!(!denies(&outside, "64:ff9b::8.8.8.8"));
    }

    #[test]
    fn the_configuration_allows_and_denies() {
        let policy =
            Policy::from_outside(nets(&["10.0.0.0/8", "127.0.0.0/8"]), nets(&["10.9.0.0/16"]));
        assert!(!denies(&policy, "10.1.2.3") && !denies(&policy, "127.0.0.1"));
        assert!(denies(&policy, "10.9.1.1") && denies(&policy, "192.168.0.1"));
        assert!(!denies(&Policy::anywhere(), "127.0.0.1"));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let outside = Policy::from_outside(Vec::new(), Vec::new());
        let text = outside
            .judge("10.0.0.1".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("10.0.0.0/8") && text.contains("checks.targets"),
            "{text}"
        );
    }
}
