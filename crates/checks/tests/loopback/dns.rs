//! DNS against small servers on loopback: datagrams that get lost, lie, or are cut.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

use crate::common::{LOCALHOST, closed_port, impatient, patient, run};
use civ_checks::{Blame, Code, Kind, Stage, Verdict};

/// The query turned into an answer with these flags and, without an error, one A record.
fn answer(query: &[u8], flags: u16) -> Vec<u8> {
    let mut bytes = query.to_vec();
    bytes[2..4].copy_from_slice(&flags.to_be_bytes());
    if flags & 0xf == 0 {
        bytes[7] = 1;
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    }
    bytes
}

/// Answers the n-th datagram, from 0, with what `reply` makes of it.
fn udp(socket: UdpSocket, reply: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) {
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        for n in 0.. {
            let Ok((got, from)) = socket.recv_from(&mut buffer) else {
                return;
            };
            for bytes in reply(n, &buffer[..got]) {
                socket.send_to(&bytes, from).unwrap();
            }
        }
    });
}

fn server(reply: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    udp(socket, reply);
    address
}

async fn ask(server: SocketAddr) -> civ_checks::Outcome {
    run(&patient(), Kind::Dns, format!("{server}/example.org")).await
}

#[tokio::test]
async fn an_answer_passes_and_is_shown() {
    let server = server(|_, query| vec![answer(query, 0x8580)]);
    let outcome = ask(server).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    let parts = [
        "example.org?type=A",
        "over=udp",
        "answers=1",
        "192.0.2.7",
        "authoritative",
    ];
    assert!(
        parts.iter().all(|part| outcome.detail.contains(part)),
        "{}",
        outcome.detail
    );
    assert!(outcome.evidence.bytes_received > 12);
}

#[tokio::test]
async fn a_lost_datagram_is_no_verdict() {
    let server = server(|n, query| match n {
        0 => Vec::new(),
        _ => vec![answer(query, 0x8180)],
    });
    assert!(ask(server).await.verdict.passed());
}

#[tokio::test]
async fn an_answer_with_another_id_is_passed_over() {
    let server = server(|_, query| {
        let mut forged = answer(query, 0x8180);
        forged[0] ^= 0xff;
        vec![forged, answer(query, 0x8180)]
    });
    assert!(ask(server).await.verdict.passed());
}

#[tokio::test]
async fn errors_of_the_server_have_their_names() {
    for (flags, name) in [
        (0x8182, "servfail"),
        (0x8183, "nxdomain"),
        (0x8185, "refused"),
    ] {
        let server = server(move |_, query| vec![answer(query, flags)]);
        let outcome = ask(server).await;
        assert_eq!(outcome.verdict, Verdict::Failed(Code::DnsAnswer(name)));
        assert_eq!(outcome.blame, Some(Blame::Target));
    }
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_over_tcp() {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    udp(UdpSocket::bind(address).unwrap(), |_, query| {
        vec![answer(query, 0x8380)]
    });
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query).unwrap();
        let bytes = answer(&query, 0x8180);
        let length = u16::try_from(bytes.len()).unwrap();
        stream.write_all(&length.to_be_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let outcome = ask(address).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(
        outcome.detail.contains("over=udp,tcp"),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn noise_is_no_dns() {
    let server = server(|_, query| vec![[&query[..2], b"hello"].concat()]);
    assert_eq!(ask(server).await.verdict, Verdict::Failed(Code::NotDns));
}

#[tokio::test]
async fn a_closed_port_is_refused_and_silence_is_the_paths_fault() {
    let closed = SocketAddr::new(LOCALHOST, closed_port());
    assert_eq!(ask(closed).await.verdict, Verdict::Failed(Code::Refused));
    let silent = server(|_, _| Vec::new());
    let target = format!("{silent}/example.org");
    let outcome = run(&impatient(), Kind::Dns, target).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::TimeoutRead),
        "{}",
        outcome.detail
    );
    assert_eq!(
        (outcome.stage, outcome.blame),
        (Stage::Probe, Some(Blame::Path))
    );
}
