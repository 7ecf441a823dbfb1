//! SSH against servers that behave and that do not.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{drip, impatient, patient, run, server, until_closed};
use civ_checks::{Code, Kind, Outcome, Verdict};

/// A KEXINIT that offers two host-key algorithms.
fn kexinit() -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend([9; 16]);
    for list in [
        "curve25519-sha256",
        "ssh-ed25519,rsa-sha2-256",
        "aes128-ctr",
    ] {
        payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
        payload.extend(list.as_bytes());
    }
    let mut packet = u32::try_from(payload.len() + 5)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    packet.push(4);
    packet.extend(payload);
    packet.extend([0; 4]);
    packet
}

/// A server that writes this byte by byte and waits for our end.
fn says(bytes: Vec<u8>) -> SocketAddr {
    server(move |stream| {
        drip(&stream, &bytes);
        until_closed(&stream);
    })
}

async fn probe(address: SocketAddr) -> Outcome {
    run(&patient(), Kind::Ssh, address).await
}

#[tokio::test]
async fn single_bytes_with_lines_before_the_banner_pass() {
    let mut bytes = b"Welcome\r\nto this host\nSSH-2.0-OpenSSH_9.2p1 Debian-2\r\n".to_vec();
    bytes.extend(kexinit());
    let outcome = probe(says(bytes)).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    for fact in [
        "SSH-2.0-OpenSSH_9.2p1 Debian-2",
        "host_keys=ssh-ed25519,rsa-sha2-256",
        "prelude_lines=2",
    ] {
        assert!(
            outcome.detail.contains(fact),
            "{fact} in {}",
            outcome.detail
        );
    }
}

#[tokio::test]
async fn we_say_who_we_are() {
    let (tell, told) = mpsc::channel();
    let address = server(move |stream| {
        drip(&stream, b"SSH-2.0-x\r\n");
        drip(&stream, &kexinit());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut line).unwrap();
        tell.send(line).unwrap();
    });
    assert!(probe(address).await.verdict.passed());
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("SSH-2.0-cloud-ip-validator_{version}\r\n");
    assert_eq!(told.recv().unwrap(), expected);
}

#[tokio::test]
async fn an_old_server_is_ssh_v1_only() {
    let outcome = probe(says(b"SSH-1.5-1.2.27\n".to_vec())).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::SshV1Only));
    assert!(outcome.detail.contains("SSH-1.5-1.2.27"));
}

#[tokio::test]
async fn other_services_are_not_ssh() {
    let web = server(|mut stream: TcpStream| {
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let outcome = probe(web).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::NotSsh),
        "{}",
        outcome.detail
    );
    assert!(
        outcome.detail.contains("HTTP/1.1 400"),
        "{}",
        outcome.detail
    );
    // Mail waits for us after its greeting: only the budget ends it.
    let mail = says(b"220 mail.test ESMTP\r\n".to_vec());
    let outcome = run(&impatient(), Kind::Ssh, mail).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::NotSsh),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn an_endless_prelude_is_cut_off() {
    let tarpit = server(
        |mut stream: TcpStream| {
            while stream.write_all(b"come in\r\n").is_ok() {}
        },
    );
    let outcome = probe(tarpit).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::NotSsh),
        "{}",
        outcome.detail
    );
    assert!(outcome.detail.contains("tarpit"), "{}", outcome.detail);
}

#[tokio::test]
async fn silence_and_early_ends_are_told_apart() {
    let silent = server(|stream| until_closed(&stream));
    let outcome = run(&impatient(), Kind::Ssh, silent).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::TimeoutRead),
        "{}",
        outcome.detail
    );
    assert!(
        outcome.duration < Duration::from_millis(700),
        "{:?}",
        outcome.duration
    );

    // Half-closed, since closing with our line unread would send RST.
    let closes = server(|stream| {
        let _half = stream.shutdown(std::net::Shutdown::Write);
        until_closed(&stream);
    });
    let outcome = probe(closes).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::ClosedEarly),
        "{}",
        outcome.detail
    );

    let half = server(|stream| {
        drip(&stream, b"SSH-2.0-half\r\n");
        let _half = stream.shutdown(std::net::Shutdown::Write);
        until_closed(&stream);
    });
    let outcome = probe(half).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::ClosedEarly),
        "{}",
        outcome.detail
    );
    assert!(outcome.latency.is_some() && outcome.detail.contains("SSH-2.0-half"));
}

#[tokio::test]
async fn a_busy_server_is_inconclusive() {
    let outcome = probe(says(b"Exceeded MaxStartups\r\n".to_vec())).await;
    assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::ServerBusy));
}

#[tokio::test]
async fn a_banner_cannot_smuggle_control_characters() {
    let mut bytes = b"SSH-2.0-\x1b[31mred\x07\r\n".to_vec();
    bytes.extend(kexinit());
    let outcome = probe(says(bytes)).await;
    assert!(outcome.verdict.passed());
    assert!(
        !outcome.detail.chars().any(char::is_control),
        "{:?}",
        outcome.detail
    );
}
