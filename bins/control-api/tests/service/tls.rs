//! TLS of the listener: certificates of both sides, their exchange, and who is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use civ_control_api::config::ServerTls;
use civ_control_api::http::Tls;
use civ_testkit::eventually;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ground::{ADMIN, AGENT, Ground, Service};
use crate::matrix::{Access, TABLE, path_of};

/// An authority, and the folder where its certificates are.
struct Authority {
    ca: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, as files.
type Pair = (PathBuf, PathBuf);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        Self { ca, folder }
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn issue(&self, file: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        change(&mut params);
        let leaf = params.signed_by(&key, &self.ca).unwrap();
        let path = |end: &str| self.folder.path().join(format!("{file}.{end}"));
        let pair = (path("pem"), path("key"));
        std::fs::write(&pair.0, leaf.pem()).unwrap();
        std::fs::write(&pair.1, key.serialize_pem()).unwrap();
        pair
    }

    fn named(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let of = CertificateParams::new(names.clone()).unwrap();
        self.issue(&names.join("+"), |params| *params = of)
    }

    fn expired(&self, name: &str) -> Pair {
        let of = CertificateParams::new(vec![name.to_owned()]).unwrap();
        self.issue("expired", |params| {
            *params = of;
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 2);
        })
    }

    /// Without alternative names: the common name counts.
    fn common(&self, name: &str) -> Pair {
        self.issue("common", |params| {
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }

    /// control-api with the certificate `server`, asking clients for ours if `mutual`.
    async fn serve(&self, server: &Pair, mutual: bool) -> (Ground, Service) {
        let client_ca = if mutual {
            format!(", client_ca_file: {}", self.ca_file().display())
        } else {
            String::new()
        };
        let yaml = format!(
            "server:\n  listen_addr: 127.0.0.1:0\n  tls: {{ cert_file: {}, key_file: {}{client_ca} }}\n{}",
            server.0.display(),
            server.1.display(),
            crate::ground::YAML,
        );
        let ground = Ground::whole(&yaml).with_tokens();
        let service = ground.start().await;
        (ground, service)
    }

    /// A client that trusts this authority and shows `pair`.
    fn client(&self, pair: Option<&Pair>) -> reqwest::Client {
        let read = |path: &Path| std::fs::read(path).unwrap();
        let ca = reqwest::Certificate::from_pem(&read(&self.ca_file())).unwrap();
        let mut builder = reqwest::Client::builder()
            .tls_certs_only([ca])
            .pool_max_idle_per_host(0);
        if let Some((cert, key)) = pair {
            let both = [read(key), read(cert)].concat();
            builder = builder.identity(reqwest::Identity::from_pem(&both).unwrap());
        }
        builder.build().unwrap()
    }
}

fn provider() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The status, or `None` if the handshake failed.
async fn ask(
    client: &reqwest::Client,
    service: &Service,
    line: (&str, &str),
    token: Option<&str>,
    body: Value,
) -> Option<u16> {
    let url = format!("https://localhost:{}{}", service.client.addr.port(), line.1);
    let request = client
        .request(line.0.parse().unwrap(), url)
        .body(body.to_string());
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    Some(request.send().await.ok()?.status().as_u16())
}

#[tokio::test]
async fn each_certificate_opens_its_own_id_alone() {
    provider();
    let (ours, foreign) = (Authority::new(), Authority::new());
    let (_ground, service) = ours.serve(&ours.named(&["localhost"]), true).await;
    let heartbeat = ("POST", "/api/v1/agents/v1/heartbeat");
    let events = ("POST", "/api/v1/agents/v1/events");
    let site = ("POST", "/api/v1/probers/site-1/heartbeat");
    let register = ("POST", "/api/v1/agents/register");
    let status = ("GET", "/api/v1/admin/status");
    let health = ("GET", "/healthz");
    let passes = [200; 6].map(Some);
    let others = [401, 401, 401, 401, 200, 200].map(Some);
    let no_site = [200, 200, 401, 200, 200, 200].map(Some);
    for (name, pair, expected) in [
        ("none", None, others),
        ("v1", Some(ours.named(&["v1"])), no_site),
        ("v1 by common name", Some(ours.common("v1")), no_site),
        ("both", Some(ours.named(&["v1", "site-1"])), passes),
        ("another's", Some(ours.named(&["v2"])), others),
        ("expired", Some(ours.expired("v1")), [None; 6]),
        ("foreign", Some(foreign.named(&["v1"])), [None; 6]),
    ] {
        let client = ours.client(pair.as_ref());
        let body = || json!({"validator_id": "v1", "event_type": "note"});
        let mut told = Vec::new();
        for (line, token) in [
            (heartbeat, None),
            (events, Some(AGENT)),
            (site, None),
            (register, None),
            (status, Some(ADMIN)),
            (health, None),
        ] {
            let body = if line.1.contains("/agents/") {
                body()
            } else {
                json!({})
            };
            told.push(ask(&client, &service, line, token, body).await);
        }
        assert_eq!(told, expected, "{name}");
    }
    let right = ours.client(Some(&ours.named(&["v1"])));
    let told = ask(
        &right,
        &service,
        events,
        None,
        json!({"event_type": "note"}),
    )
    .await;
    assert_eq!(told, Some(401), "a certificate stands in for no token");
    service.end().await;
}

#[tokio::test]
async fn the_table_holds_for_certificates_too() {
    provider();
    let ours = Authority::new();
    let (_ground, service) = ours.serve(&ours.named(&["localhost"]), true).await;
    let (right, other) = (ours.named(&["v1", "site-1"]), ours.named(&["v2", "site-2"]));
    for (name, pair) in [
        ("none", None),
        ("right", Some(right)),
        ("other", Some(other)),
        ("expired", Some(ours.expired("v1"))),
    ] {
        let client = ours.client(pair.as_ref());
        for (method, path, access) in TABLE {
            let (token, passes) = match access {
                Access::Everybody => (None, true),
                Access::Open => (None, name == "right"),
                Access::Owner => (Some(AGENT), name == "right"),
                Access::Admin => (Some(ADMIN), true),
                Access::Page => (Some(ADMIN), false),
            };
            let body = json!({"validator_id": "v1", "site_id": "site-1"});
            let path = path_of(path, ["v1", "site-1"]);
            let told = ask(&client, &service, (method, &path), token, body).await;
            let line = format!("{method} {path} {name}: {told:?}");
            match told {
                None => assert_eq!(name, "expired", "{line}"),
                Some(status) => {
                    assert_ne!(name, "expired", "{line}");
                    assert_eq!(status != 401, passes, "{line}");
                }
            }
        }
    }
    service.end().await;
}

#[test]
fn files_that_do_not_fit_are_told_and_change_nothing() {
    let ours = Authority::new();
    let (cert_file, key_file) = ours.named(&["localhost"]);
    let tls = Tls::load(ServerTls {
        cert_file: cert_file.clone(),
        key_file,
        client_ca_file: None,
    });
    let tls = tls.unwrap();
    assert!(tls.reload().is_ok());
    std::fs::copy(ours.named(&["other"]).0, &cert_file).unwrap();
    assert!(tls.reload().is_err());
    std::fs::write(&cert_file, "nothing").unwrap();
    assert!(tls.reload().is_err());
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_a_broken_one_for_none() {
    provider();
    let (old, new) = (Authority::new(), Authority::new());
    let server = old.named(&["localhost"]);
    let (_ground, service) = old.serve(&server, false).await;
    let health = ("GET", "/healthz");
    // Kept open over both changes.
    let kept = old.client(None);
    let hangup = || async {
        let own = std::process::id().to_string();
        let sent = tokio::process::Command::new("kill")
            .args(["-s", "HUP", &own])
            .status();
        assert!(sent.await.unwrap().success());
    };
    let mut stream = open(&old, &service).await;
    assert!(question(&mut stream).await.starts_with("HTTP/1.1 200"));

    let fresh = new.named(&["localhost"]);
    std::fs::copy(&fresh.0, &server.0).unwrap();
    // The key does not fit the certificate: what was in use stays.
    hangup().await;
    assert_eq!(
        ask(&kept, &service, health, None, json!({})).await,
        Some(200)
    );

    std::fs::copy(&fresh.1, &server.1).unwrap();
    hangup().await;
    let follower = new.client(None);
    eventually("the new certificate", async || {
        ask(&follower, &service, health, None, json!({})).await
    })
    .await;
    assert_eq!(ask(&kept, &service, health, None, json!({})).await, None);
    assert!(question(&mut stream).await.starts_with("HTTP/1.1 200"));
    service.end().await;
}

type Stream = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

async fn open(authority: &Authority, service: &Service) -> Stream {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.ca.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = service.client.connect().await;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector
        .connect("localhost".try_into().unwrap(), tcp)
        .await
        .unwrap()
}

async fn question(stream: &mut Stream) -> String {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = vec![0; 4096];
    let n = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(answer.get(..n).unwrap()).into_owned()
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_a_refusal_to_start() {
    provider();
    let ours = Authority::new();
    let (cert, _) = ours.named(&["localhost"]);
    let (_, other_key) = ours.named(&["other"]);
    let yaml = format!(
        "server: {{ listen_addr: \"127.0.0.1:0\", tls: {{ cert_file: {}, key_file: {} }} }}",
        cert.display(),
        other_key.display()
    );
    let ground = Ground::whole(&yaml);
    let cloud = Arc::clone(&ground.cloud);
    assert!(ground.try_start(cloud).await.is_err());
}

#[tokio::test]
async fn silence_in_the_handshake_keeps_nobody_out() {
    provider();
    let ours = Authority::new();
    let (_ground, service) = ours.serve(&ours.named(&["localhost"]), false).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(service.client.connect().await);
    }
    let told = ask(
        &ours.client(None),
        &service,
        ("GET", "/healthz"),
        None,
        json!({}),
    )
    .await;
    assert_eq!(told, Some(200));
    service.end().await;
}
