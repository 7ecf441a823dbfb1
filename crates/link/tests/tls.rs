//! The link over TLS: a private certificate authority is trusted when it is named, and only then.
#![cfg(test)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use civ_link::{Agent, Client, Endpoint, Seat};
use civ_proto::agent;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Certificate and key of `localhost`, and the authority as PEM.
fn certificates() -> (rustls::ServerConfig, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &ca).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (config, ca.pem())
}

/// The same, but clients must show a certificate of the authority; one with its key, as PEM.
fn mutual() -> (rustls::ServerConfig, String, [String; 2]) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (leaf.signed_by(&key, &ca).unwrap(), key)
    };
    let ((server, server_key), (client, client_key)) = (issue("localhost"), issue("v-1"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::clone(&provider),
    );
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![server.der().clone()],
            PrivateKeyDer::try_from(server_key.serialize_der()).unwrap(),
        )
        .unwrap();
    (config, ca.pem(), [client.pem(), client_key.serialize_pem()])
}

#[tokio::test]
async fn the_certificate_of_the_client_is_shown() {
    let (config, ca, [cert, key]) = mutual();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = Some(write("ca.pem", &ca));
    let shown = Some((write("v-1.pem", &cert), write("v-1.key", &key)));
    let mut tasks = JoinSet::new();
    let seen = watch::Sender::new((0, 0));
    let port = serve(config, seen.clone(), &mut tasks).await;
    reaches(ca.clone(), None, port, seen.subscribe(), |(failed, _)| {
        failed > 0
    })
    .await;
    assert_eq!(seen.borrow().1, 0);
    reaches(ca, shown, port, seen.subscribe(), |(_, answered)| {
        answered > 0
    })
    .await;
}

/// Counts handshakes that failed and requests that were answered.
async fn serve(
    config: rustls::ServerConfig,
    seen: watch::Sender<(usize, usize)>,
    tasks: &mut JoinSet<()>,
) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tasks.spawn(async move {
        loop {
            let (tcp, _peer) = listener.accept().await.unwrap();
            let Ok(mut tls) = acceptor.accept(tcp).await else {
                seen.send_modify(|(failed, _)| *failed += 1);
                continue;
            };
            let mut request = [0; 4096];
            let read = tls.read(&mut request).await;
            let body = r#"{"ok":true,"poll_interval_seconds":1}"#;
            let n = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {n}\r\n\r\n{body}"
            );
            if read.is_ok() && tls.write_all(answer.as_bytes()).await.is_ok() {
                seen.send_modify(|(_, answered)| *answered += 1);
            }
        }
    });
    port
}

async fn reaches(
    ca_file: Option<PathBuf>,
    shown: Option<(PathBuf, PathBuf)>,
    port: u16,
    mut level: watch::Receiver<(usize, usize)>,
    wanted: fn((usize, usize)) -> bool,
) {
    let url = format!("https://localhost:{port}").parse().unwrap();
    let (cert_file, key_file) = shown.unzip();
    let client = Client::new(&Endpoint {
        url,
        ca_file,
        cert_file,
        key_file,
    })
    .unwrap();
    let seat: Seat<Agent> = Seat::new(client, "v-1", None, agent::Register::default());
    let stop = CancellationToken::new();
    let reached = async {
        tokio::time::timeout(
            Duration::from_secs(20),
            level.wait_for(|seen| wanted(*seen)),
        )
        .await
        .unwrap()
        .unwrap();
        stop.cancel();
    };
    tokio::join!(seat.run(&stop), reached);
}

#[tokio::test]
async fn an_authority_is_trusted_when_it_is_named_and_only_then() {
    let (config, pem) = certificates();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    let mut tasks = JoinSet::new();
    let seen = watch::Sender::new((0, 0));
    let port = serve(config, seen.clone(), &mut tasks).await;
    reaches(None, None, port, seen.subscribe(), |(failed, _)| failed > 0).await;
    assert_eq!(seen.borrow().1, 0, "nothing is said to a stranger");
    reaches(
        Some(ca_file),
        None,
        port,
        seen.subscribe(),
        |(_, answered)| answered > 0,
    )
    .await;
}

#[test]
fn a_file_without_a_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let client = |ca_file| {
        let url = "https://localhost".parse().unwrap();
        Client::new(&Endpoint {
            url,
            ca_file: Some(ca_file),
            cert_file: None,
            key_file: None,
        })
        .unwrap_err()
        .to_string()
    };
    assert!(client(ca_file.clone()).contains("cannot be read"));
    std::fs::write(&ca_file, "no PEM").unwrap();
    assert!(client(ca_file).contains("holds no certificate"));
}
