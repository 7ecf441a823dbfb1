//! OpenStack behind TLS, with a certificate of a private authority.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::sync::Arc;

use civ_cloud::{Cloud, Fault, OpenStack};
use civ_cloudsim::Setup;
use common::{Served, address};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Takes TLS off every connection and passes the rest on to `plain`.
async fn terminate(listener: TcpListener, acceptor: TlsAcceptor, plain: String) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, plain) = (acceptor.clone(), plain.clone());
        connections.spawn(async move {
            // A client that does not trust us hangs up here.
            let Ok(mut outside) = acceptor.accept(stream).await else {
                return;
            };
            let mut inside = TcpStream::connect(&plain).await.unwrap();
            // How a connection ends is the client's business.
            let _bytes = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_it_is_named_and_only_then() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let served = Served::new(Setup {
        public_url: Some(url.clone()),
        ..Setup::default()
    })
    .await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let plain = served.url.trim_start_matches("http://").to_owned();
    let mut tasks = JoinSet::new();
    tasks.spawn(terminate(listener, TlsAcceptor::from(Arc::new(tls)), plain));

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.cert.pem()).unwrap();
    let mut config = served.config();
    config.auth_url = url;
    let outcome = OpenStack::connect(config.clone())
        .unwrap()
        .find(address(10))
        .await;
    assert!(
        matches!(&outcome, Err(Fault::Cloud { text, .. }) if text.contains("certificate")),
        "{outcome:?}"
    );
    config.ca_file = Some(file.path().to_owned());
    let outcome = OpenStack::connect(config).unwrap().find(address(10)).await;
    assert!(matches!(outcome, Ok(Some(_))), "{outcome:?}");
}
