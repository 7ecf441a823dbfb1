//! HTTP, HTTPS and the IP-echo request against real servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::{LOCALHOST, authority, closed_port, engine, impatient, patient, request_head};
use crate::common::{check, respond, run, server, tls_config, tls_server, until_closed};
use civ_checks::{Code, EchoError, Family, Kind, Verdict};

fn answers(status: &'static str, headers: &'static str, body: &'static [u8]) -> SocketAddr {
    server(move |mut stream: TcpStream| respond(&mut stream, status, headers, body))
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

#[tokio::test]
async fn a_page_passes_and_the_request_names_us() {
    let (tell, told) = mpsc::channel();
    let address = server(move |mut stream: TcpStream| {
        tell.send(request_head(&mut stream)).unwrap();
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    });
    let outcome = run(&patient(), Kind::Http, format!("http://{address}/a?b=c#d")).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert!(outcome.detail.contains("ok 200 ") && outcome.detail.contains("body=2 "));
    let head = told.recv().unwrap().to_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {address}\r\n")), "{head}");
    assert!(head.contains("user-agent: cloud-ip-validator/"), "{head}");
}

#[tokio::test]
async fn final_statuses_are_judged() {
    let cases: [(&'static str, &'static [u8], Verdict); 6] = [
        ("204 No Content", b"", Verdict::Passed),
        ("304 Not Modified", b"", Verdict::Passed),
        ("404 Not Found", b"", Verdict::Failed(Code::HttpStatus(404))),
        ("503 Busy", b"", Verdict::Failed(Code::HttpStatus(503))),
        ("451 Gone", b"", Verdict::Failed(Code::HttpGeoBlocked)),
        (
            "403 Forbidden",
            b"just no",
            Verdict::Failed(Code::HttpStatus(403)),
        ),
    ];
    for (status, body, verdict) in cases {
        let outcome = run(&patient(), Kind::Http, url(answers(status, "", body))).await;
        assert_eq!(outcome.verdict, verdict, "{}", outcome.detail);
    }
    let body = b"<p>The Amazon CloudFront distribution is configured to block access from your \
        country.</p>";
    let blocked = answers("403 Forbidden", "server: CloudFront\r\n", body);
    let outcome = run(&patient(), Kind::Http, url(blocked)).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::HttpGeoBlocked),
        "{}",
        outcome.detail
    );
    assert!(
        outcome.detail.contains("server=\"CloudFront\""),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn a_body_in_chunks_that_make_no_sense_is_the_servers_fault() {
    let cases: [(&'static [u8], Code); 4] = [
        (b"zz\r\nabc", Code::NotHttp),
        (b"3\r\nabcX", Code::NotHttp),
        (b"fffffffffffffffff\r\nabc", Code::NotHttp),
        (b"3\r\nab", Code::ClosedEarly),
    ];
    for (body, code) in cases {
        let address = server(move |mut stream: TcpStream| {
            request_head(&mut stream);
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let _gone = stream.write_all(&[head, body].concat());
        });
        let outcome = run(&patient(), Kind::Http, url(address)).await;
        assert_eq!(outcome.verdict, Verdict::Failed(code), "{}", outcome.detail);
    }
}

/// A server that redirects this many times before it answers.
fn redirects(times: usize) -> SocketAddr {
    server(move |mut stream: TcpStream| {
        let head = request_head(&mut stream);
        let path = head
            .split(' ')
            .nth(1)
            .unwrap()
            .trim_start_matches('/')
            .to_owned();
        let seen: usize = path.parse().unwrap_or(0);
        let answer = if seen < times {
            format!(
                "HTTP/1.1 302 Found\r\nlocation: /{}\r\ncontent-length: 0\r\n\r\n",
                seen + 1
            )
        } else {
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        let _gone = stream.write_all(answer.as_bytes());
    })
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    let outcome = run(&patient(), Kind::Http, url(redirects(5))).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert_eq!(
        outcome.detail.matches("via 302").count(),
        5,
        "{}",
        outcome.detail
    );
    let outcome = run(&patient(), Kind::Http, url(redirects(6))).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::TooManyRedirects),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn a_redirect_does_not_leave_the_family() {
    let outcome = run(
        &patient(),
        Kind::Http,
        url(answers("302 Found", "location: http://[::1]:9/\r\n", b"")),
    )
    .await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::NoAddressInFamily),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn a_drip_is_cut_off_by_the_total() {
    let drip = server(|mut stream: TcpStream| {
        request_head(&mut stream);
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx");
        until_closed(&stream);
    });
    let begin = Instant::now();
    let outcome = run(&impatient(), Kind::Http, url(drip)).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::TimeoutRead),
        "{}",
        outcome.detail
    );
    assert!(outcome.latency.is_some(), "the first byte had come");
    assert!(
        begin.elapsed() < Duration::from_millis(800),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_its_bound() {
    let endless = server(|mut stream: TcpStream| {
        request_head(&mut stream);
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let outcome = run(&patient(), Kind::Http, url(endless)).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert!(outcome.detail.contains("body=65536+"), "{}", outcome.detail);
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    let says = |text: &'static str| {
        server(move |mut stream: TcpStream| {
            request_head(&mut stream);
            let _gone = stream.write_all(text.as_bytes());
        })
    };
    let cases = [
        ("SSH-2.0-OpenSSH_9.2\r\n", Code::NotHttp),
        ("", Code::ClosedEarly),
        ("HTTP/1.1 200 OK\r\n", Code::ClosedEarly),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
            Code::ClosedEarly,
        ),
    ];
    for (text, code) in cases {
        let outcome = run(&patient(), Kind::Http, url(says(text))).await;
        assert_eq!(
            outcome.verdict,
            Verdict::Failed(code),
            "{text:?}: {}",
            outcome.detail
        );
    }
    let target = format!("http://127.0.0.1:{}/", closed_port());
    let outcome = run(&patient(), Kind::Http, target).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::Refused));
}

#[tokio::test]
async fn https_judges_the_certificate() {
    let ours = authority();
    let engine = engine(Duration::from_secs(5), ours.trust());
    let cases = [
        (ours.issue("localhost"), Verdict::Passed),
        (
            ours.issue_until("localhost", 2001),
            Verdict::Failed(Code::CertInvalid),
        ),
        (ours.issue("other.test"), Verdict::Failed(Code::CertInvalid)),
        (
            authority().issue("localhost"),
            Verdict::Failed(Code::CertInvalid),
        ),
    ];
    for (identity, verdict) in cases {
        let config = tls_config(identity, &["http/1.1"]);
        let address = tls_server(config, |stream| respond(stream, "200 OK", "", b"hi"));
        let target = format!("https://localhost:{}/", address.port());
        let outcome = run(&engine, Kind::Https, target).await;
        assert_eq!(outcome.verdict, verdict, "{}", outcome.detail);
    }
    let plain = server(|mut stream: TcpStream| {
        let _hello = stream.read(&mut [0; 4096]);
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        until_closed(&stream);
    });
    let outcome = run(&engine, Kind::Https, format!("https://{plain}/")).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::NotTls),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn an_end_without_close_notify_is_early_only_where_length_matters() {
    let ours = authority();
    let engine = engine(Duration::from_secs(5), ours.trust());
    let cases = [
        ("", Verdict::Passed),
        ("content-length: 9\r\n", Verdict::Failed(Code::ClosedEarly)),
    ];
    for (header, verdict) in cases {
        let config = tls_config(ours.issue("localhost"), &["http/1.1"]);
        let address = tls_server(config, move |stream| {
            request_head(stream);
            let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\nhi");
            let _gone = stream.write_all(answer.as_bytes());
            let _gone = stream.sock.shutdown(std::net::Shutdown::Both);
        });
        let target = format!("https://localhost:{}/", address.port());
        let outcome = run(&engine, Kind::Https, target).await;
        assert_eq!(outcome.verdict, verdict, "{header:?}: {}", outcome.detail);
    }
}

async fn echo(address: SocketAddr) -> Result<std::net::IpAddr, EchoError> {
    let timeout = Duration::from_millis(500);
    patient()
        .echo(&url(address), None, Family::V4, timeout)
        .await
}

#[tokio::test]
async fn an_echo_is_asked_from_the_source_and_read_strictly() {
    let service = server(|mut stream: TcpStream| {
        let body = stream.peer_addr().unwrap().ip().to_string();
        respond(&mut stream, "200 OK", "", body.as_bytes());
    });
    let source = "127.0.0.8".parse().unwrap();
    let timeout = Duration::from_secs(5);
    let seen = patient()
        .echo(&url(service), Some(source), Family::V4, timeout)
        .await;
    assert_eq!(seen, Ok(source));
    assert_eq!(echo(service).await, Ok(LOCALHOST));
    let json = answers("200 OK", "", br#"{"ip":"203.0.113.9"}"#);
    assert_eq!(echo(json).await, Ok("203.0.113.9".parse().unwrap()));
}

#[tokio::test]
async fn an_echo_that_is_none_says_what_was_seen() {
    let captcha = answers("200 OK", "", b"<html>are you human?</html>");
    let seen = echo(captcha).await;
    assert_eq!(
        seen,
        Err(EchoError::NotAnAddress(
            "<html>are you human?</html>".to_owned()
        ))
    );
    let other_family = answers("200 OK", "", b"2001:db8::1");
    assert!(matches!(
        echo(other_family).await,
        Err(EchoError::NotAnAddress(_))
    ));
    assert!(matches!(
        echo(answers("200 OK", "", &[b'1'; 300])).await,
        Err(EchoError::NotAnAddress(_))
    ));
    let redirect = answers("302 Found", "location: /x\r\n", b"");
    assert!(matches!(
        echo(redirect).await,
        Err(EchoError::Status { status: 302, .. })
    ));
    let silent = server(|stream| until_closed(&stream));
    let seen = echo(silent).await;
    assert!(
        matches!(
            seen,
            Err(EchoError::Unanswered {
                code: Code::TimeoutRead,
                ..
            })
        ),
        "{seen:?}"
    );
    let timeout = Duration::from_secs(1);
    let seen = patient()
        .echo("ftp://a.test/", None, Family::V4, timeout)
        .await;
    assert!(matches!(seen, Err(EchoError::Url(..))), "{seen:?}");
}

/// Runs an HTTP check with these options.
async fn with_options(address: SocketAddr, json: serde_json::Value) -> civ_checks::Outcome {
    let mut wanted = check(Kind::Http, &format!("http://{address}/"));
    wanted.options = civ_checks::Options::parse(&json).unwrap();
    patient().run(&wanted).await
}

#[tokio::test]
async fn a_challenge_is_no_outage_and_no_block() {
    let address = server(|mut stream| {
        let page = b"<html><title>Just a moment...</title></html>";
        respond(
            &mut stream,
            "403 Forbidden",
            "cf-mitigated: challenge\r\n",
            page,
        );
    });
    let outcome = run(&patient(), Kind::Http, format!("http://{address}/")).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::HttpChallenge),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn the_expected_status_passes_and_no_other() {
    let address = server(|mut stream| respond(&mut stream, "404 Not Found", "", b"gone"));
    let outcome = with_options(address, serde_json::json!({"expect_status": 404})).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    let outcome = with_options(address, serde_json::json!({"expect_status": 200})).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::HttpStatus(404)));
}

#[tokio::test]
async fn an_expected_redirect_is_not_followed() {
    let outcome = with_options(redirects(3), serde_json::json!({"expect_status": 302})).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(outcome.evidence.hops.is_empty());
}

#[tokio::test]
async fn the_expected_body_is_looked_for() {
    let address = server(|mut stream| respond(&mut stream, "200 OK", "", b"status: fine\n"));
    let outcome = with_options(address, serde_json::json!({"expect_body": "fi.e"})).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    let outcome = with_options(address, serde_json::json!({"expect_body": "^fine"})).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::BodyMismatch),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn redirects_are_kept_as_evidence() {
    let outcome = run(&patient(), Kind::Http, format!("http://{}/", redirects(2))).await;
    let statuses: Vec<u16> = outcome.evidence.hops.iter().map(|hop| hop.status).collect();
    assert_eq!(statuses, [302, 302]);
}

#[tokio::test]
async fn a_redirect_into_a_denied_network_is_not_followed() {
    let address = server(|mut stream| {
        let to = "location: http://169.254.169.254/latest/meta-data/\r\n";
        respond(&mut stream, "302 Found", to, b"");
    });
    let allow = vec!["127.0.0.0/8".parse().unwrap()];
    let policy = civ_checks::Policy::from_inside(allow, Vec::new());
    let limits = civ_checks::Limits::default();
    let engine = civ_checks::Engine::new(limits, authority().trust(), policy).unwrap();
    let outcome = run(&engine, Kind::Http, format!("http://{address}/")).await;
    let denied = Verdict::Inconclusive(Code::TargetDenied);
    assert_eq!(outcome.verdict, denied, "{}", outcome.detail);
    assert_eq!(
        outcome.evidence.tried.len(),
        1,
        "{:?}",
        outcome.evidence.tried
    );
}
