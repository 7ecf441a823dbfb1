//! `validator-agent check` as whoever sits at a host uses it.
#![cfg(test)]

use std::net::TcpListener;
use std::process::{Command, Output};

const AGENT: &str = env!("CARGO_BIN_EXE_validator-agent");

fn check(args: &[&str]) -> Output {
    Command::new(AGENT)
        .arg("check")
        .args(args)
        .output()
        .unwrap()
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn exit_codes_tell_how_it_went() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap().to_string();
    let passed = check(&["tcp", &open]);
    assert_eq!(passed.status.code(), Some(0), "{}", shown(&passed));
    let closed = open.rsplit_once(':').unwrap().1.to_owned();
    drop(listener);
    let failed = check(&["tcp", &open]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        shown(&failed).contains("to blame: target"),
        "{}",
        shown(&failed)
    );
    let passed = check(&[&format!("closed-{closed}"), "127.0.0.1"]);
    assert_eq!(passed.status.code(), Some(0), "{}", shown(&passed));
    let elsewhere = check(&["tcp", &open, "--source", "192.0.2.77"]);
    assert_eq!(elsewhere.status.code(), Some(3), "{}", shown(&elsewhere));
    let usage = check(&["telepathy", "somebody"]);
    assert_eq!((usage.status.code(), usage.stdout.len()), (Some(2), 0));
    assert!(!usage.stderr.is_empty());
}

#[test]
fn json_has_verdict_code_blame_and_evidence() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = check(&["tcp", &port.to_string(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = ["verdict", "code", "stage", "blame"].map(|key| json[key].as_str().unwrap());
    assert_eq!(words, ["fail", "refused", "connect", "target"]);
    assert_eq!(json["evidence"]["tried"][0]["address"], port.to_string());
    assert!(json["duration_ms"].as_f64().unwrap() >= 0.0);
}

/// A resolver that cannot open its files says that the name does not exist.
#[test]
fn a_process_without_descriptors_blames_itself() {
    let mut starved = 0;
    for descriptors in 6..=32 {
        let line = format!("ulimit -n {descriptors}; exec {AGENT} check tcp localhost:1 --json");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = shown(&output);
        match output.status.code() {
            // There were enough.
            Some(1) => assert_eq!(json["code"], "refused", "{descriptors}: {text}"),
            Some(3) => {
                assert_eq!(json["code"], "internal", "{descriptors}: {text}");
                starved += 1;
            }
            other => panic!("{descriptors}: exit {other:?}: {text}"),
        }
    }
    assert!(starved > 0, "six descriptors are too few for anything");
}
