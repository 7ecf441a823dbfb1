//! ICMP to loopback, with whatever sockets this process may open.

use std::time::Duration;

use crate::common::{check, engine, patient, run};
use civ_checks::{Code, IcmpMode, Kind, Outcome, Verdict};

/// Where no ICMP socket is allowed the check says so; where one is, it passes.
fn expect_reply(mode: &IcmpMode, outcome: &Outcome) {
    match mode {
        IcmpMode::None { remedy } => {
            assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::Permission));
            assert_eq!(outcome.detail, format!("permission {remedy}"));
        }
        IcmpMode::Datagram | IcmpMode::Raw => {
            assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
            assert!(
                outcome.detail.contains("sent=3 received=3 loss=0%"),
                "{}",
                outcome.detail
            );
            assert!(
                outcome.detail.ends_with(&format!("socket={mode}")),
                "{}",
                outcome.detail
            );
        }
    }
}

#[tokio::test]
async fn loopback_answers_and_the_last_interval_is_not_waited_for() {
    let engine = patient();
    let outcome = run(&engine, Kind::Icmp, "127.0.0.1").await;
    expect_reply(&engine.icmp_mode(), &outcome);
    assert!(
        outcome.duration < Duration::from_millis(300),
        "{:?}",
        outcome.duration
    );
}

#[tokio::test]
async fn a_source_is_bound_or_said_to_be_missing() {
    let engine = patient();
    let mut from = check(Kind::Icmp, "127.0.0.1");
    from.source = Some("127.0.0.9".parse().unwrap());
    expect_reply(&engine.icmp_mode(), &engine.run(&from).await);
    from.source = Some("192.0.2.77".parse().unwrap());
    let outcome = engine.run(&from).await;
    let expected = match engine.icmp_mode() {
        IcmpMode::None { .. } => Code::Permission,
        IcmpMode::Datagram | IcmpMode::Raw => Code::SourceUnavailable,
    };
    assert_eq!(
        outcome.verdict,
        Verdict::Inconclusive(expected),
        "{}",
        outcome.detail
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_to_one_address_and_to_many_all_get_their_replies() {
    let limits = civ_checks::Limits {
        max_concurrent: 1000,
        timeout: Duration::from_secs(5),
        ..civ_checks::Limits::default()
    };
    let trust = crate::common::authority().trust();
    let policy = civ_checks::Policy::anywhere();
    let engine = civ_checks::Engine::new(limits, trust, policy).unwrap();
    let targets = (0..500).map(|index| match index % 2 {
        0 => "127.0.0.1".to_owned(),
        _ => format!("127.0.{}.{}", 1 + index / 200, 1 + index % 200),
    });
    let checks = targets.map(|target| run(&engine, Kind::Icmp, target));
    let outcomes = futures_util::future::join_all(checks).await;
    let mode = engine.icmp_mode();
    for outcome in &outcomes {
        expect_reply(&mode, outcome);
    }
}

#[tokio::test]
async fn an_engine_outlives_many_sockets() {
    let engine = engine(Duration::from_secs(2), crate::common::authority().trust());
    let mode = engine.icmp_mode();
    // More sources than sockets are kept: those of the first half must give way.
    for half in [1..=40, 41..=80] {
        let checks = half.map(|last| {
            let mut from = check(Kind::Icmp, "127.0.0.1");
            from.source = Some(format!("127.0.5.{last}").parse().unwrap());
            let engine = engine.clone();
            async move { engine.run(&from).await }
        });
        for outcome in futures_util::future::join_all(checks).await {
            expect_reply(&mode, &outcome);
        }
    }
}

/// All outcomes of so many checks at once, by an engine of this pace.
async fn paced(per_second: u32, timeout: Duration, checks: usize) -> (IcmpMode, Vec<Outcome>) {
    let limits = civ_checks::Limits {
        timeout,
        icmp_packets_per_second: per_second,
        ..civ_checks::Limits::default()
    };
    let trust = crate::common::authority().trust();
    let policy = civ_checks::Policy::anywhere();
    let engine = civ_checks::Engine::new(limits, trust, policy).unwrap();
    let checks = (0..checks).map(|_| run(&engine, Kind::Icmp, "127.0.0.1"));
    let outcomes = futures_util::future::join_all(checks).await;
    (engine.icmp_mode(), outcomes)
}

#[tokio::test]
async fn echoes_leave_at_the_pace_that_was_set() {
    let start = std::time::Instant::now();
    let (mode, outcomes) = paced(40, Duration::from_secs(10), 20).await;
    for outcome in &outcomes {
        expect_reply(&mode, outcome);
    }
    // 60 echoes, of which one may leave at once; without a pace all is over in 300 ms.
    let least = match mode {
        IcmpMode::None { .. } => Duration::ZERO,
        IcmpMode::Datagram | IcmpMode::Raw => Duration::from_millis(1400),
    };
    assert!(start.elapsed() >= least, "{:?}", start.elapsed());
}
