//! What the cloud holds at the start.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use civ_simkit::{Latency, Pace};
use serde::{Deserialize, Serialize};

/// A port of the one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Its id: any text without a slash; real ones are UUIDs.
    pub id: String,
    /// Its fixed address.
    pub fixed_ip: IpAddr,
    /// Whether it is a validator's. Others are customers' ports; the API treats them alike.
    pub ours: bool,
}

/// A floating IP of the one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FipSetup {
    /// The public address.
    pub address: IpAddr,
    /// The port that it is bound to.
    pub port: Option<String>,
    /// Whether port forwardings use it; then it has no port and is not free.
    pub forwarded: bool,
}

/// What a user may do in its project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See everything of its project, change nothing.
    Reader,
    /// Change what its project has.
    Member,
    /// See and change everything of every project.
    Admin,
}

/// One more user, in the domain `default` (`Default`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSetup {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
    /// The project in which it has its role, by name.
    pub project: String,
    /// What it may do there.
    pub role: Role,
}

/// What another project holds: nothing of it is the validators'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProject {
    /// Its name.
    pub name: String,
    /// Its ports, on a network and behind a router of its own.
    pub ports: Vec<PortSetup>,
    /// Its floating IPs.
    pub fips: Vec<FipSetup>,
    /// The most floating IPs that it may have; `None`: no limit.
    pub fip_quota: Option<u32>,
}

/// One more external network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalSetup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its one subnet: the network's address.
    pub network: Ipv4Addr,
    /// Bits of the prefix, 8 to 30.
    pub bits: u8,
}

/// Everything that the cloud holds at the start, and how it behaves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setup {
    /// Keystone user, in the domain `default` (`Default`).
    pub username: String,
    /// Its password.
    pub password: String,
    /// The one project, in the same domain.
    pub project: String,
    /// Application credential of that user: id.
    pub app_credential_id: String,
    /// Its name.
    pub app_credential_name: String,
    /// Its secret.
    pub app_credential_secret: String,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// The region in the catalog.
    pub region: String,
    /// Where clients reach this server, like `http://192.0.2.1:9696`; `None`: as the client's
    /// `Host` says.
    pub public_url: Option<String>,
    /// The external network: id.
    pub network_id: String,
    /// Its name.
    pub network_name: String,
    /// The ports.
    pub ports: Vec<PortSetup>,
    /// Of these, those whose subnet has no router to the external network.
    pub unrouted_ports: Vec<String>,
    /// Of these, those with a second fixed address.
    pub two_address_ports: Vec<String>,
    /// The floating IPs.
    pub fips: Vec<FipSetup>,
    /// How long after a change of binding the agent reports the status; `None`: never.
    pub status_delay: Option<Duration>,
    /// Whether floating IPs have a `revision_number`.
    pub has_revisions: bool,
    /// The most rows of a page (`pagination_max_limit`); `None`: all.
    pub page_max: Option<usize>,
    /// Of the floating IPs, those whose status no agent ever reports.
    pub status_never: Vec<IpAddr>,
    /// Of the floating IPs, those whose status is reported as `ERROR` once they are bound.
    pub status_error: Vec<IpAddr>,
    /// Whether floating IPs have what plug-ins add: `qos_policy_id`, `dns_domain`, `dns_name`,
    /// `port_forwardings`.
    pub has_plugins: bool,
    /// The most floating IPs that the project may have; `None`: no limit.
    pub fip_quota: Option<u32>,
    /// More users than the one above.
    pub users: Vec<UserSetup>,
    /// More projects.
    pub others: Vec<OtherProject>,
    /// More external networks. The first one's subnets are the /24s of the floating IPs.
    pub external: Vec<ExternalSetup>,
    /// Whether the catalog has a compute service, which lists an instance for each port.
    pub has_compute: bool,
    /// How long a connection may be idle before it is closed without a word, of the machine's
    /// time; `None`: for ever.
    pub idle_close: Option<Duration>,
    /// How time passes: of tokens, reports, delays and latencies.
    pub pace: Pace,
    /// How long calls take besides the time that they need.
    pub latencies: Vec<Latency>,
    /// For the latencies.
    pub seed: u64,
}

impl Default for Setup {
    /// Two validators' ports `port-1` and `port-2`, a customer's `port-x`, ten free floating IPs
    /// 203.0.113.10 to .19.
    fn default() -> Self {
        let port = |id: &str, last: u8, ours| PortSetup {
            id: id.to_owned(),
            fixed_ip: IpAddr::V4(Ipv4Addr::new(10, 77, 0, last)),
            ours,
        };
        let fip = |last| FipSetup {
            address: IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)),
            port: None,
            forwarded: false,
        };
        Self {
            username: "validator".to_owned(),
            password: "validator-password".to_owned(),
            project: "validation".to_owned(),
            app_credential_id: "5d0ca35b0b3a4d9c8cf4a1b2c3d4e5f6".to_owned(),
            app_credential_name: "validator-credential".to_owned(),
            app_credential_secret: "validator-secret".to_owned(),
            token_ttl: Duration::from_secs(3_600),
            region: "RegionOne".to_owned(),
            public_url: None,
            network_id: "9d1f2a54-4b7e-4d0c-9a3d-0c1c5e7b8a01".to_owned(),
            network_name: "public".to_owned(),
            ports: vec![
                port("port-1", 1, true),
                port("port-2", 2, true),
                port("port-x", 200, false),
            ],
            unrouted_ports: Vec::new(),
            two_address_ports: Vec::new(),
            fips: (10..20).map(fip).collect(),
            status_delay: Some(Duration::from_millis(50)),
            has_revisions: true,
            page_max: None,
            status_never: Vec::new(),
            status_error: Vec::new(),
            has_plugins: true,
            fip_quota: None,
            users: Vec::new(),
            others: Vec::new(),
            external: Vec::new(),
            has_compute: false,
            idle_close: None,
            pace: Pace::Real,
            latencies: Vec::new(),
            seed: 0,
        }
    }
}
