//! Builders with sane values: what a test does not name does not matter to it.

use civ_orch::attempt::Policy;
use civ_store::Rules;
use civ_store::seed::Seed;
use civ_types::{Address, CheckName, FipId, Nonce, PortId, SiteId, Utc, ValidatorId};

/// When tests begin: 2026-01-01T00:00:00Z.
pub const START: Utc = Utc::from_micros(1_767_225_600_000_000);

/// The targets of the one check type that [`seed`] enables.
pub const CHECK_TARGETS: [&str; 2] = ["https://a.example", "https://b.example"];

/// Timers as documented, with few retries.
#[must_use]
pub const fn policy() -> Policy {
    Policy {
        answer_secs: 240,
        lease_secs: 120,
        window_secs: 120,
        release_grace_secs: 60,
        assign_retries_max: 1,
        self_check_retries_max: 1,
    }
}

/// [`policy`], and missing checks count as failed.
#[must_use]
pub const fn rules() -> Rules {
    Rules {
        policy: policy(),
        missing_counts: true,
    }
}

/// `203.0.113.<n>`.
///
/// # Panics
/// Never: every `n` makes an address.
#[must_use]
pub fn address(n: u8) -> Address {
    Address::parse(&format!("203.0.113.{n}")).expect("an address")
}

/// The first `n` of [`address`], from 1.
#[must_use]
pub fn addresses(n: u8) -> Vec<Address> {
    (1..=n).map(address).collect()
}

/// `v<n>`.
///
/// # Panics
/// Never: every `n` makes a name.
#[must_use]
pub fn validator(n: u8) -> ValidatorId {
    ValidatorId::parse(&format!("v{n}")).expect("a name")
}

/// `port-<n>`, the port of [`validator`].
///
/// # Panics
/// Never: every `n` makes a name.
#[must_use]
pub fn port(n: u8) -> PortId {
    PortId::parse(&format!("port-{n}")).expect("a name")
}

/// `site-<n>`.
///
/// # Panics
/// Never: every `n` makes a name.
#[must_use]
pub fn site(n: u8) -> SiteId {
    SiteId::parse(&format!("site-{n}")).expect("a name")
}

/// `fip-<address>`: the floating IP of an address.
///
/// # Panics
/// Never: every address makes a name.
#[must_use]
pub fn fip(address: Address) -> FipId {
    FipId::parse(&format!("fip-{address}")).expect("a name")
}

/// A nonce; every claim of a test has the same.
#[must_use]
pub fn nonce() -> Nonce {
    Nonce::of_bits(7)
}

/// A check type.
///
/// # Panics
/// If `name` is none.
#[must_use]
pub fn check(name: &str) -> CheckName {
    CheckName::parse(name).expect("a check type")
}

/// That many validators and sites, `https` with [`CHECK_TARGETS`], port 22 and echo requests.
#[must_use]
pub fn seed(validators: u8, sites: u8) -> Seed {
    let targets = CHECK_TARGETS.map(str::to_owned).to_vec();
    Seed {
        validators: (1..=validators).map(|n| (validator(n), port(n))).collect(),
        sites: (1..=sites).map(site).collect(),
        targets: [("web".to_owned(), targets)].into(),
        check_types: vec![(check("https"), true, vec!["web".to_owned()])],
        fip_settle_seconds: 0,
        inbound_ports: vec![22],
        inbound_icmp: true,
        inbound_closed_ports: Vec::new(),
    }
}
