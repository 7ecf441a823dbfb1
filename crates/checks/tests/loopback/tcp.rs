//! TCP, names, sources, slots, budgets: against real sockets on loopback.

use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{
    LOCALHOST, authority, check, closed_port, engine, impatient, patient, run, server, silent_port,
};
use civ_checks::{Blame, Code, Engine, Family, Kind, Limits, LimitsError, Policy, Stage, Verdict};

#[tokio::test]
async fn an_open_port_passes_and_is_closed_with_reset() {
    let (tell, told) = mpsc::channel();
    let address = server(move |mut stream| {
        let read = stream.read(&mut [0; 1]).map_err(|e| e.kind());
        tell.send(read).unwrap();
    });
    let outcome = run(&patient(), Kind::Tcp, address).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert!(
        outcome
            .detail
            .starts_with(&format!("ok {address} connect="))
    );
    assert!(outcome.latency.unwrap() <= outcome.duration);
    let seen = tokio::task::spawn_blocking(move || told.recv())
        .await
        .unwrap();
    assert_eq!(seen.unwrap(), Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_closed_port_is_refused() {
    let target = format!("127.0.0.1:{}", closed_port());
    let outcome = run(&patient(), Kind::Tcp, &target).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::Refused));
    assert!(
        outcome.detail.starts_with(&format!("refused {target}")),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn a_silent_port_is_tried_twice_within_the_budget() {
    let port = silent_port();
    let outcome = run(&impatient(), Kind::Tcp, port.address).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::TimeoutConnect));
    assert_eq!(
        outcome.detail.matches("no answer after").count(),
        2,
        "{}",
        outcome.detail
    );
    assert!(
        outcome.duration < Duration::from_millis(800),
        "{:?}",
        outcome.duration
    );
}

#[tokio::test]
async fn the_other_family_is_never_used() {
    let address = server(drop);
    let mut wrong = check(Kind::Tcp, &address.to_string());
    wrong.family = Family::V6;
    let outcome = patient().run(&wrong).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::NoAddressInFamily));
}

#[tokio::test]
async fn a_name_is_resolved_and_the_address_that_answered_is_named() {
    let address = server(drop);
    let target = format!("localhost:{}", address.port());
    let outcome = run(&patient(), Kind::Tcp, target).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    assert!(outcome.detail.contains("127.0.0.1") && outcome.detail.contains("dns="));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_dns_failed() {
    let outcome = run(&patient(), Kind::Tcp, "no-such-host.invalid:80").await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::DnsFailed),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn the_source_is_bound() {
    let listener = std::net::TcpListener::bind((LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut from = check(Kind::Tcp, &address.to_string());
    from.source = Some("127.0.0.7".parse().unwrap());
    let outcome = patient().run(&from).await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    // The connection is over, but the kernel remembers who it was.
    let (_stream, peer) = listener.accept().unwrap();
    assert_eq!(Some(peer.ip()), from.source);
}

#[tokio::test]
async fn a_source_that_is_not_here_is_inconclusive() {
    let address = server(drop);
    // TEST-NET-1 is on no host.
    for kind in [Kind::Tcp, Kind::Ssh, Kind::Tls, Kind::Http] {
        let mut from = check(kind, &address.to_string());
        from.source = Some("192.0.2.77".parse().unwrap());
        let outcome = patient().run(&from).await;
        assert_eq!(
            outcome.verdict,
            Verdict::Inconclusive(Code::SourceUnavailable),
            "{kind}"
        );
    }
    let mut other_family = check(Kind::Tcp, &address.to_string());
    other_family.source = Some("::1".parse().unwrap());
    let outcome = patient().run(&other_family).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Inconclusive(Code::SourceUnavailable)
    );
}

#[tokio::test]
async fn waiting_for_a_slot_is_counted_apart_and_fails_nothing() {
    let limits = Limits {
        max_concurrent: 1,
        timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let one_slot = Engine::new(limits, authority().trust(), Policy::anywhere()).unwrap();
    let silent = silent_port();
    let open = server(drop);
    // The first holds the only slot for its whole budget; the second waits as long.
    let (slow, fast) = tokio::join!(
        biased;
        run(&one_slot, Kind::Tcp, silent.address),
        run(&one_slot, Kind::Tcp, open),
    );
    assert_eq!(slow.verdict, Verdict::Failed(Code::TimeoutConnect));
    assert!(
        slow.waited < Duration::from_millis(100),
        "{:?}",
        slow.waited
    );
    assert_eq!(fast.verdict, Verdict::Passed, "{}", fast.detail);
    assert!(
        fast.waited >= Duration::from_millis(250),
        "{:?}",
        fast.waited
    );
    assert!(
        fast.duration < Duration::from_millis(200),
        "{:?}",
        fast.duration
    );
}

#[test]
fn limits_are_checked() {
    let refused = |max_concurrent, millis| {
        let timeout = Duration::from_millis(millis);
        Limits {
            max_concurrent,
            timeout,
            ..Limits::default()
        }
        .validate()
        .unwrap_err()
    };
    assert_eq!(refused(0, 1000), LimitsError::Concurrent(0));
    assert!(matches!(refused(1, 99), LimitsError::Timeout(_)));
    assert!(matches!(refused(1, 300_001), LimitsError::Timeout(_)));
    for (pace, right) in [(0, false), (1, true), (1_000_000, true), (1_000_001, false)] {
        let limits = Limits {
            icmp_packets_per_second: pace,
            ..Limits::default()
        };
        let wrong = Err(LimitsError::IcmpPackets(pace));
        assert_eq!(limits.validate(), if right { Ok(()) } else { wrong });
    }
    let trust = authority().trust();
    assert!(Engine::new(Limits::default(), trust, Policy::anywhere()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_at_once_all_pass() {
    let address = server(drop);
    let engine = engine(Duration::from_secs(10), authority().trust());
    let checks = (0..300).map(|_| run(&engine, Kind::Tcp, address));
    let outcomes = futures_util::future::join_all(checks).await;
    let failed = outcomes
        .iter()
        .filter(|outcome| !outcome.verdict.passed())
        .count();
    assert_eq!(failed, 0);
}

#[tokio::test]
async fn a_failure_says_how_far_it_came_who_is_to_blame_and_whom_it_tried() {
    let silent = silent_port();
    let outcome = run(&impatient(), Kind::Tcp, silent.address).await;
    assert_eq!(outcome.stage, Stage::Connect);
    assert_eq!(outcome.blame, Some(Blame::Path));
    let tried = &outcome.evidence.tried;
    assert_eq!(tried.len(), 2, "{tried:?}");
    assert!(tried.iter().all(|t| t.address == silent.address));
    assert!(
        tried
            .iter()
            .all(|t| t.code == Some(Code::TimeoutConnect) && t.took >= Duration::from_millis(100))
    );
    assert_eq!(outcome.evidence.phases.connect, None);
}

#[tokio::test]
async fn the_policy_holds_for_addresses_and_for_names() {
    let address = server(drop);
    let policy = Policy::from_inside(Vec::new(), Vec::new());
    let engine = Engine::new(Limits::default(), authority().trust(), policy).unwrap();
    let by_name = format!("localhost:{}", address.port());
    for target in [address.to_string(), by_name] {
        let outcome = run(&engine, Kind::Tcp, target).await;
        let denied = Verdict::Inconclusive(Code::TargetDenied);
        assert_eq!(outcome.verdict, denied, "{}", outcome.detail);
        assert_eq!(outcome.blame, Some(Blame::Ourselves));
        assert!(outcome.evidence.tried.is_empty(), "nothing was sent");
        assert!(outcome.detail.contains("127.0.0.0/8"), "{}", outcome.detail);
    }
}

#[tokio::test]
async fn what_must_be_closed_passes_when_refused_and_when_silent() {
    let refused = format!("127.0.0.1:{}", closed_port());
    let outcome = run(&patient(), Kind::Closed, refused).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(outcome.detail.contains("refused"), "{}", outcome.detail);
    let silent = silent_port();
    let outcome = run(&impatient(), Kind::Closed, silent.address).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(
        outcome.detail.contains("timeout_connect"),
        "{}",
        outcome.detail
    );
    let open = run(&patient(), Kind::Closed, server(drop)).await;
    assert_eq!(open.verdict, Verdict::Failed(Code::UnexpectedlyOpen));
}

#[tokio::test]
async fn a_doubtful_check_is_run_once_more_and_a_clear_one_is_not() {
    let engine = patient();
    let mut from = check(Kind::Tcp, &server(drop).to_string());
    from.source = Some("192.0.2.77".parse().unwrap());
    let begin = std::time::Instant::now();
    let outcome = engine.run_settled(&from).await;
    let doubtful = Verdict::Inconclusive(Code::SourceUnavailable);
    assert_eq!(outcome.verdict, doubtful);
    assert!(
        begin.elapsed() >= Duration::from_millis(500),
        "a second try"
    );
    let begin = std::time::Instant::now();
    let refused = check(Kind::Tcp, &format!("127.0.0.1:{}", closed_port()));
    let outcome = engine.run_settled(&refused).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::Refused));
    assert!(
        begin.elapsed() < Duration::from_millis(500),
        "no second try"
    );
}
