//! TLS against real handshakes, alerts and things that are no TLS.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::until_closed;
use crate::common::{
    authority, authority_named, engine, impatient, patient, run, server, tls_config, tls_server,
};
use civ_checks::{Code, Kind, Verdict};
use std::time::Duration;

#[tokio::test]
async fn a_valid_certificate_is_reported_as_valid() {
    let authority = authority();
    let config = tls_config(authority.issue("localhost"), &["h2"]);
    let address = tls_server(config, |stream| {
        let _end = stream.read(&mut [0; 1]);
    });
    let engine = engine(Duration::from_secs(5), authority.trust());
    let outcome = run(&engine, Kind::Tls, format!("localhost:{}", address.port())).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    for fact in [
        "TLS1.3",
        "TLS13_",
        "alpn=h2",
        "valid=yes",
        "names=localhost",
        "sha256=",
    ] {
        assert!(
            outcome.detail.contains(fact),
            "{fact} in {}",
            outcome.detail
        );
    }
}

#[tokio::test]
async fn an_invalid_certificate_passes_and_says_why() {
    let ours = authority();
    let foreign = authority_named("foreign");
    let cases = [
        (ours.issue_until("localhost", 2001), "localhost", "xpired"),
        (ours.issue("other.test"), "localhost", "not valid for name"),
        (foreign.issue("localhost"), "localhost", "UnknownIssuer"),
        // A bare address gets no SNI, and the name does not cover it.
        (ours.issue("localhost"), "127.0.0.1", "not valid for"),
    ];
    let engine = engine(Duration::from_secs(5), ours.trust());
    for (identity, host, why) in cases {
        let address = tls_server(tls_config(identity, &[]), |stream| {
            let _end = stream.read(&mut [0; 1]);
        });
        let outcome = run(&engine, Kind::Tls, format!("{host}:{}", address.port())).await;
        assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
        assert!(outcome.detail.contains("valid=no"), "{}", outcome.detail);
        assert!(outcome.detail.contains(why), "{why} in {}", outcome.detail);
    }
}

#[tokio::test]
async fn tls_1_2_is_spoken_too() {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let identity = authority().issue("localhost");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)
        .unwrap();
    let address = tls_server(config, |stream| {
        let _end = stream.read(&mut [0; 1]);
    });
    let outcome = run(&patient(), Kind::Tls, address).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert!(
        outcome.detail.contains("TLS1.2 TLS_ECDHE_"),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn alerts_have_their_names() {
    // A real one: no protocol in common.
    let config = tls_config(authority().issue("localhost"), &["imap"]);
    let address = tls_server(config, |stream| {
        let _end = stream.read(&mut [0; 1]);
    });
    let outcome = run(&patient(), Kind::Tls, address).await;
    let alert = Code::TlsAlert("no_application_protocol");
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(alert),
        "{}",
        outcome.detail
    );
    assert!(
        outcome
            .detail
            .starts_with("tls_alert:no_application_protocol ")
    );
    // What servers without a common version send.
    let address = server(|mut stream: TcpStream| {
        let _hello = stream.read(&mut [0; 4096]);
        let _gone = stream.write_all(&[21, 3, 1, 0, 2, 2, 70]);
        until_closed(&stream);
    });
    let outcome = run(&patient(), Kind::Tls, address).await;
    let alert = Code::TlsAlert("protocol_version");
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(alert),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn what_is_no_tls_is_told_apart() {
    for text in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "220 mail.test ESMTP\r\n",
        "SSH-2.0-x\r\n",
    ] {
        let address = server(move |mut stream: TcpStream| {
            let _hello = stream.read(&mut [0; 4096]);
            let _gone = stream.write_all(text.as_bytes());
            until_closed(&stream);
        });
        let outcome = run(&patient(), Kind::Tls, address).await;
        assert_eq!(
            outcome.verdict,
            Verdict::Failed(Code::NotTls),
            "{}",
            outcome.detail
        );
    }
}

#[tokio::test]
async fn ends_and_silence_are_told_apart() {
    let closes = server(|mut stream: TcpStream| {
        let _hello = stream.read(&mut [0; 4096]);
    });
    let outcome = run(&patient(), Kind::Tls, closes).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::ClosedEarly),
        "{}",
        outcome.detail
    );
    let silent = server(|stream| until_closed(&stream));
    let outcome = run(&impatient(), Kind::Tls, silent).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::TimeoutRead),
        "{}",
        outcome.detail
    );
}
