//! `cloud-sim` as a process: what it prints, its files, and its end.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command as Async};

struct Running {
    child: Child,
    url: String,
    clouds: String,
}

/// Starts it and waits for its whole clouds.yaml: it ends with the application credential's entry.
async fn start(arguments: &[&str]) -> Running {
    let mut child = Async::new(env!("CARGO_BIN_EXE_cloud-sim"))
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut clouds = String::new();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let is_last = clouds.contains("-app\"") && line.contains("identity_api_version");
            clouds.push_str(&line);
            clouds.push('\n');
            if is_last {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .unwrap();
    let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
    let (_, rest) = clouds.split_once("auth_url: ").unwrap();
    let url = rest.split_once("/v3").unwrap().0.to_owned();
    Running { child, url, clouds }
}

impl Running {
    async fn state(&self) -> Value {
        let client = reqwest::Client::builder().build().unwrap();
        let answer = client
            .get(format!("{}/sim/state", self.url))
            .send()
            .await
            .unwrap();
        answer.json().await.unwrap()
    }

    async fn remove(&self, address: &str) {
        let client = reqwest::Client::builder().build().unwrap();
        let path = format!("{}/sim/fips/{address}", self.url);
        assert_eq!(client.delete(path).send().await.unwrap().status(), 204);
    }

    /// SIGTERM: it ends with 0, soon.
    async fn stop(mut self) {
        let id = self.child.id().unwrap().to_string();
        let kill = format!("kill -TERM {id}");
        let killed = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(killed.success());
        let started = Instant::now();
        assert!(self.child.wait().await.unwrap().success());
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn it_prints_how_it_is_reached() {
    let running = start(&[]).await;
    for user in ["validator", "auditor", "admin", "other", "validator-app"] {
        assert!(
            running.clouds.contains(&format!("  \"{user}\":\n")),
            "{}",
            running.clouds
        );
    }
    let state = running.state().await;
    assert_eq!(state["attached"].as_array().unwrap().len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn it_goes_on_from_a_state_file_and_from_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved) = (
        folder.path().join("cloud.db"),
        folder.path().join("cloud.json"),
    );
    let scenario = folder.path().join("s.yaml");
    fs::write(
        &scenario,
        "cloud: {addresses: [192.0.2.0/29], occupied: [192.0.2.3]}\n",
    )
    .unwrap();
    let with = [
        "--scenario",
        text(&scenario),
        "--state",
        text(&file),
        "--save",
        text(&saved),
    ];
    let running = start(&with).await;
    running.remove("192.0.2.5").await;
    let before = running.state().await;
    running.stop().await;

    let running = start(&["--state", text(&file)]).await;
    assert_eq!(running.state().await, before);
    running.stop().await;
    let running = start(&["--restore", text(&saved)]).await;
    assert_eq!(running.state().await, before);
    running.stop().await;
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_cloud-sim"))
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(!status.success(), "{arguments:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn what_it_cannot_use_is_said_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("s.yaml");
    fs::write(&scenario, "seed: 1\ncloud: {prots: 3}\n").unwrap();
    let error = refused(&["--scenario", text(&scenario)]);
    assert!(
        error.contains("s.yaml:2:9: cloud.prots: unknown key"),
        "{error}"
    );
    let error = refused(&["--restore", text(&scenario)]);
    assert!(error.contains("is no snapshot"), "{error}");
    assert!(refused(&["--clock", "0x"]).contains("must be real, stepped, or a number and x"));
    let error = refused(&["--address", "203.0.113.0/33"]);
    assert!(error.contains("--address"), "{error}");
}
