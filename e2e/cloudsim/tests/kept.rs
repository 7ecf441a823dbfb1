//! Clock, snapshots and state files: the whole of a cloud goes on where it was.

mod common;

use std::sync::Arc;
use std::time::Duration;

use civ_cloudsim::{Action, DataPlane, Match, Pace, Scenario, Setup, Sim, Snapshot};
use common::{FIPS, Stage, Witness, eventually};
use reqwest::Method;
use serde_json::{Value, json};

fn stepped() -> Setup {
    Setup {
        pace: Pace::Stepped,
        status_delay: Some(Duration::from_secs(10)),
        ..Setup::default()
    }
}

async fn status(stage: &Stage, path: &str) -> Value {
    stage.get(path).await.body["floatingip"]["status"].clone()
}

#[tokio::test]
async fn status_and_data_plane_wait_for_the_steps_of_the_clock() {
    let stage = Stage::new(stepped()).await;
    let path = stage.path(10).await;
    stage.rule(Match::next("PUT", FIPS), Action::PlaneDelay { ms: 5_000 });
    stage.put(&path, json!({"port_id": "port-1"})).await;
    let step = async |ms: u64| stage.post("/sim/clock/advance", json!({ "ms": ms })).await;
    step(4_999).await;
    assert!(stage.plane.told().is_empty());
    step(1).await;
    eventually(async || stage.plane.told().len() == 1).await;
    assert_eq!(status(&stage, &path).await, "DOWN");
    step(5_000).await;
    eventually(async || status(&stage, &path).await == "ACTIVE").await;
    let clock = stage.get("/sim/clock").await.body;
    assert_eq!(clock["pace"], "stepped");
    let pace = Some(json!({"pace": {"scaled": 1_000_000}}));
    assert_eq!(
        stage.send(Method::PUT, "/sim/clock", pace).await.status,
        204
    );
    stage.put(&path, json!({"port_id": null})).await;
    eventually(async || status(&stage, &path).await == "DOWN").await;
    let never = Some(json!({"pace": {"scaled": 0}}));
    assert_eq!(
        stage.send(Method::PUT, "/sim/clock", never).await.status,
        409
    );
}

/// Something of everything: bound, tagged, forwarded, made, a rule that was met once, a report that
/// is to come.
async fn lived_in() -> (Stage, String) {
    let stage = Stage::new(stepped()).await;
    let (path, other) = (stage.path(10).await, stage.path(11).await);
    let rule = Match {
        nth: 2,
        ..Match::next("GET", "/v2.0/routers")
    };
    stage.rule(rule, Action::ExpireTokens);
    assert_eq!(stage.get("/v2.0/routers").await.status, 200);
    let network = Setup::default().network_id;
    let new = json!({"floatingip": {"floating_network_id": network, "description": "kept"}});
    assert_eq!(stage.post(FIPS, new).await.status, 201);
    let tags = Some(json!({"tags": ["a"]}));
    stage.send(Method::PUT, &format!("{path}/tags"), tags).await;
    let forwarding = json!({"port_forwarding": {"protocol": "tcp", "internal_port": 22,
        "internal_ip_address": "10.77.0.2", "internal_port_id": "port-2", "external_port": 22}});
    let forwarded = stage
        .post(&format!("{other}/port_forwardings"), forwarding)
        .await;
    assert_eq!(forwarded.status, 201, "{}", forwarded.text);
    stage.put(&path, json!({"port_id": "port-1"})).await;
    (stage, path)
}

/// What of a cloud must be the same: as an administrator of the simulation sees it.
async fn seen(stage: &Stage) -> Value {
    stage.get("/sim/state").await.body
}

/// The token, the rule's count and the report that is to come have survived.
async fn goes_on(stage: &mut Stage, token: &str, path: &str) {
    token.clone_into(&mut stage.token);
    assert_eq!(status(stage, path).await, "DOWN");
    stage.sim.clock().advance(Duration::from_secs(10));
    eventually(async || status(stage, path).await == "ACTIVE").await;
    assert_eq!(
        stage.get("/v2.0/routers").await.status,
        401,
        "the rule's second call"
    );
}

#[tokio::test]
async fn a_snapshot_brings_back_everything() {
    let (stage, path) = lived_in().await;
    let (before, token) = (seen(&stage).await, stage.token.clone());
    let taken = stage.get("/sim/snapshot").await;
    assert_eq!(
        (taken.status, &taken.body["schema_version"]),
        (200, &json!(1))
    );

    let mut other = Stage::new(Scenario::standard().setup).await;
    let put = other
        .send(Method::PUT, "/sim/snapshot", Some(taken.body.clone()))
        .await;
    assert_eq!(put.status, 204, "{}", put.text);
    assert_eq!(seen(&other).await, before);
    let told = other.plane.told();
    assert_eq!(told.last().unwrap(), "+ 203.0.113.10 10.77.0.1");
    assert_eq!(
        told.iter().filter(|line| line.starts_with('-')).count(),
        3,
        "{told:?}"
    );
    goes_on(&mut other, &token, &path).await;

    let mut broken = taken.body;
    broken["schema_version"] = json!(2);
    let put = other
        .send(Method::PUT, "/sim/snapshot", Some(broken.clone()))
        .await;
    assert!(
        put.status == 409 && put.text.contains("schema_version 2"),
        "{}",
        put.text
    );
    broken["schema_version"] = json!(1);
    broken["state"]["world"]["fips"] = json!([]);
    let put = other.send(Method::PUT, "/sim/snapshot", Some(broken)).await;
    assert!(
        put.status == 409 && put.text.contains("world.fips"),
        "{}",
        put.text
    );
}

#[tokio::test]
async fn a_snapshot_goes_through_a_file() {
    let (stage, path) = lived_in().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    stage
        .sim
        .snapshot()
        .await
        .unwrap()
        .write(file.path())
        .unwrap();
    let (before, token) = (seen(&stage).await, stage.token.clone());
    let mut other = Stage::new(Setup::default()).await;
    let snapshot = Snapshot::read(file.path()).unwrap();
    other.sim.restore(snapshot).await.unwrap();
    assert_eq!(seen(&other).await, before);
    goes_on(&mut other, &token, &path).await;
}

#[tokio::test]
async fn a_state_file_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.db");
    let opened = || {
        let plane = Arc::new(Witness::default());
        let told: Arc<dyn DataPlane> = Arc::<Witness>::clone(&plane);
        Sim::with_file(Setup::default(), told, &file).map(|sim| (sim, plane))
    };
    let (sim, plane) = opened().unwrap();
    assert!(opened().is_err(), "in use");
    // What is restored is kept too.
    let (lived, path) = lived_in().await;
    sim.restore(lived.sim.snapshot().await.unwrap())
        .await
        .unwrap();
    let mut stage = Stage::of(sim, plane).await;
    stage.token.clone_from(&lived.token);
    let bound = stage.bind(12, json!("port-2")).await;
    assert_eq!(bound.status, 200, "{}", bound.text);
    stage.delete(&stage.path(13).await).await;
    let (before, token) = (seen(&stage).await, stage.token.clone());
    drop(stage);
    let reopened = async || loop {
        // The listener's task lets go of the file a moment later.
        match opened() {
            Ok(found) => return found,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let (sim, plane) = tokio::time::timeout(Duration::from_secs(10), reopened())
        .await
        .unwrap();
    let mut stage = Stage::of(sim, plane).await;
    assert_eq!(seen(&stage).await, before);
    let flows = ["+ 203.0.113.10 10.77.0.1", "+ 203.0.113.12 10.77.0.2"];
    assert_eq!(stage.plane.told(), flows);
    goes_on(&mut stage, &token, &path).await;
}

#[tokio::test]
async fn the_report_counts_calls_and_names_the_unsupported() {
    let stage = Stage::new(Setup::default()).await;
    let path = stage.path(10).await;
    stage.get(&path).await;
    stage.get(&path).await;
    stage.get("/v2.0/agents?x=1").await;
    let report = stage.get("/sim/report").await.body;
    assert_eq!(report["calls"]["GET /v2.0/floatingips/{id}"]["200"], 2);
    assert_eq!(report["calls"]["GET /v2.0/agents"]["501"], 1);
    assert_eq!(report["unsupported"], json!({"GET /v2.0/agents?x=1": 1}));
}
