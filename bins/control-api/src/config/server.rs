//! The section `server`.

use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// `None`: plain HTTP.
    pub tls: Option<ServerTls>,
}

/// TLS of the listener; the files are read at start and again at each SIGHUP.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// PEM: the certificate, and those between it and the authority.
    pub cert_file: PathBuf,
    /// PEM: its private key.
    pub key_file: PathBuf,
    /// PEM: whose certificates agents and probers must show; `None`: they need none.
    pub client_ca_file: Option<PathBuf>,
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
        let tls = tls(&raw.tls, report);
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
            tls,
        })
    }
}

fn tls(raw: &RawTls, report: &mut Report) -> Option<ServerTls> {
    let cert_file = report.path("server.tls.cert_file", raw.cert_file.as_deref());
    let key_file = report.path("server.tls.key_file", raw.key_file.as_deref());
    let client_ca_file = report.path("server.tls.client_ca_file", raw.client_ca_file.as_deref());
    let lacks = |this: &str, other: &str| format!("needs `{other}`: TLS wants both, `{this}` too");
    match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => {
            return Some(ServerTls {
                cert_file,
                key_file,
                client_ca_file,
            });
        }
        (Some(_), None) => report.fault("server.tls.cert_file", lacks("cert_file", "key_file")),
        (None, Some(_)) => report.fault("server.tls.key_file", lacks("key_file", "cert_file")),
        (None, None) if client_ca_file.is_some() => report.fault(
            "server.tls.client_ca_file",
            "needs `cert_file` and `key_file`: certificates of clients are asked for in TLS alone",
        ),
        (None, None) => {}
    }
    None
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
