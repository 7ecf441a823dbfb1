//! The section `server`.

use std::net::SocketAddr;
use std::time::Duration;

use civ_boot::config::Report;
use ipnet::IpNet;
use serde::Deserialize;

/// The HTTP side.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where to listen; port 0 lets the kernel pick one.
    pub listen_addr: SocketAddr,
    /// Largest accepted body, in bytes: 1 KiB to 64 MiB.
    pub body_limit_bytes: usize,
    /// Time to read a request and prepare its answer; waits and streams come on top.
    pub request_timeout: Duration,
    /// Requests a second of one client on open methods; 0: no limit.
    pub open_requests_per_second: u32,
    /// Peers whose `X-Forwarded-For` counts.
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    listen_addr: String,
    tls: RawTls,
    body_limit_bytes: i64,
    request_timeout_seconds: i64,
    open_requests_per_second: i64,
    trusted_proxies: Vec<String>,
}

/// TLS is not part of this version; a file with the documented, empty keys loads.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTls {
    cert_file: Option<String>,
    key_file: Option<String>,
    client_ca_file: Option<String>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            listen_addr: "127.0.0.1:8080".to_owned(),
            tls: RawTls::default(),
            body_limit_bytes: 2 * 1024 * 1024,
            request_timeout_seconds: 30,
            open_requests_per_second: 500,
            trusted_proxies: Vec::new(),
        }
    }
}

impl Server {
    pub(super) fn build(raw: &Raw, report: &mut Report) -> Option<Self> {
        let tls = &raw.tls;
        report.not_available("server.tls.cert_file", tls.cert_file.is_some());
        report.not_available("server.tls.key_file", tls.key_file.is_some());
        report.not_available("server.tls.client_ca_file", tls.client_ca_file.is_some());
        let listen_addr = raw.listen_addr.parse::<SocketAddr>();
        let listen_addr = report.parsed(
            "server.listen_addr",
            listen_addr.map_err(|_e| "must be an IP address and a port, such as 127.0.0.1:8080"),
        );
        let body_limit_bytes = report.int(
            "server.body_limit_bytes",
            raw.body_limit_bytes,
            1024..=64 * 1024 * 1024,
        );
        let request_timeout = report.int(
            "server.request_timeout_seconds",
            raw.request_timeout_seconds,
            1..=3600,
        );
        let open_requests_per_second = report.int(
            "server.open_requests_per_second",
            raw.open_requests_per_second,
            0..=i64::from(u32::MAX),
        );
        let trusted_proxies = proxies(&raw.trusted_proxies, report);
        Some(Self {
            listen_addr: listen_addr?,
            body_limit_bytes,
            request_timeout: Duration::from_secs(request_timeout),
            open_requests_per_second,
            trusted_proxies,
        })
    }
}

fn proxies(list: &[String], report: &mut Report) -> Vec<IpNet> {
    let mut nets = Vec::with_capacity(list.len());
    for (index, text) in list.iter().enumerate() {
        let one = text.parse::<std::net::IpAddr>().map(IpNet::from);
        let net = one.or_else(|_e| text.parse::<IpNet>());
        let why = "must be an IP address or a prefix, such as 10.0.0.0/8";
        let path = format!("server.trusted_proxies[{index}]");
        nets.extend(report.parsed(&path, net.map_err(|_e| why)));
    }
    nets
}
