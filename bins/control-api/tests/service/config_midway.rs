//! Changes of the configuration while addresses are being checked: effective at once, for those
//! who wait too, and never to the harm of a healthy address.

use std::time::{Duration, Instant};

use civ_testkit::{addresses, eventually};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn put(service: &Service, path: &str, body: Value) {
    let told = service
        .admin("PUT", &format!("/config{path}"), Some(body))
        .await;
    assert_eq!(told.status, 200, "{told:?}");
}

async fn delete(service: &Service, path: &str) {
    let told = service
        .admin("DELETE", &format!("/config{path}"), None)
        .await;
    assert_eq!(told.status, 200, "{told:?}");
}

/// `.1` in `checking` with `v1`.
async fn checking(yaml: &str) -> (Ground, Service, Value) {
    let ground = Ground::new(yaml).with_fips(&addresses(2));
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    (ground, service, work)
}

async fn passed(service: &Service) {
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "pass");
}

/// A long poll that the client holds until there is news.
async fn held(service: &Service, path: &str, known: &str) -> (u16, Value) {
    let path = format!("/api/v1/{path}?wait=30");
    let headers = [("if-none-match", known)];
    let begun = Instant::now();
    let told = service.client.send("GET", &path, &headers, None).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "nobody woke it");
    let body = if told.body.is_empty() {
        Value::Null
    } else {
        told.json()
    };
    (told.status, body)
}

/// The last sign of life of `v1` and of slot 1: every poll is one.
async fn signs(service: &Service) -> Value {
    let validators = service.admin("GET", "/validators", None).await.json();
    let sites = service.admin("GET", "/config/sites", None).await.json();
    json!([
        validators[0]["LastHeartbeatAt"],
        sites[0]["last_heartbeat_at"]
    ])
}

/// Makes the change once another poll than those before has come.
async fn once_polled(service: &Service, before: Value, change: impl Future<Output = ()>) {
    eventually("the poll is held", async || {
        (signs(service).await != before).then_some(())
    })
    .await;
    change.await;
}

/// Holds a long poll on what the client knows already, makes the change, and gives what the poll
/// was answered.
async fn woken(service: &Service, path: &str, change: impl Future<Output = ()>) -> (u16, Value) {
    let now = service.open("GET", &format!("/api/v1/{path}"), None).await;
    let known = now.header("etag").to_owned();
    let before = signs(service).await;
    let change = once_polled(service, before, change);
    let (told, ()) = tokio::join!(held(service, path, &known), change);
    told
}

#[tokio::test]
async fn a_shorter_settle_pause_wakes_who_waits_already() {
    let ground = Ground::new("").with_fips(&addresses(1));
    let service = ground.start().await;
    put(&service, "/orchestrator", json!({"fip_settle_seconds": 80})).await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    service.reached("203.0.113.1", "awaiting_self_check").await;
    let path = "agents/v1/assignment";
    let told = service.open("GET", &format!("/api/v1/{path}"), None).await;
    assert_eq!(told.status, 204, "it settles");
    let begun = Instant::now();
    let change = put(&service, "/orchestrator", json!({"fip_settle_seconds": 0}));
    let change = once_polled(&service, signs(&service).await, change);
    let (work, ()) = tokio::join!(service.assignment("v1"), change);
    assert_eq!(work["phase"], "awaiting_self_check");
    assert!(begun.elapsed() < Duration::from_secs(15));
    // And a longer one holds back what was handed out before.
    put(&service, "/orchestrator", json!({"fip_settle_seconds": 80})).await;
    let told = service.open("GET", &format!("/api/v1/{path}"), None).await;
    assert_eq!(told.status, 204);
    service.end().await;
}

#[tokio::test]
async fn sites_are_told_of_new_ports_at_once() {
    let (_ground, service, work) = checking("").await;
    let list = "probers/site-1/assignments";
    let change = put(
        &service,
        "/inbound-checks",
        json!({"ports": [443], "icmp": true}),
    );
    let (status, told) = woken(&service, list, change).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&told[0]["ports"], &told[0]["icmp"]),
        (&json!([443]), &json!(true))
    );
    // What was handed out counts: `tcp-443`, `tls-443`, `icmp`, and no longer port 22.
    service.egress("v1", &work, true).await;
    let row = |check: &str, success: bool, complete: bool| {
        json!({"ip_id": work["ip_id"], "check_type": check, "success": success,
            "complete": complete})
    };
    let rows = json!({"results": [row("tcp-22", false, false), row("ssh", false, false),
        row("tcp-443", true, false), row("tls-443", true, false), row("icmp", true, true)]});
    service
        .agent("POST", "/api/v1/probers/site-1/results", Some(rows))
        .await;
    passed(&service).await;
    service.end().await;
}

#[tokio::test]
async fn agents_are_told_of_new_targets_at_once() {
    let (_ground, service, _work) = checking("").await;
    let path = "agents/v1/assignment";
    let change = put(
        &service,
        "/targets/web",
        json!({"targets": ["https://c.example"]}),
    );
    let (status, told) = woken(&service, path, change).await;
    assert_eq!(status, 200);
    let expected = json!([{"type": "https", "targets": ["https://c.example"]}]);
    assert_eq!(told["check_config"], expected);
    let change = delete(&service, "/check-types/https");
    let (_, told) = woken(&service, path, change).await;
    assert_eq!(told["check_config"], json!([]));
    service.end().await;
}

#[tokio::test]
async fn polls_of_what_is_gone_end_with_404() {
    for (poll, gone) in [
        ("agents/v1/assignment", "/validators/v1"),
        ("probers/site-1/assignments", "/sites/1"),
    ] {
        let service = Ground::new("").start().await;
        service.register("v1").await;
        let change = once_polled(&service, signs(&service).await, delete(&service, gone));
        let path = format!("/api/v1/{poll}?wait=30");
        let begun = Instant::now();
        let (told, ()) = tokio::join!(service.open("GET", &path, None), change);
        told.error(404);
        assert!(begun.elapsed() < Duration::from_secs(15), "nobody woke it");
        service.end().await;
    }
}

#[tokio::test]
async fn removed_checks_no_longer_count() {
    for (path, body) in [
        ("/sites/1", Value::Null),
        ("/inbound-checks", json!({"ports": [], "icmp": false})),
    ] {
        let (_ground, service, work) = checking("").await;
        service.egress("v1", &work, true).await;
        assert_eq!(
            service.state("203.0.113.1").await,
            "checking",
            "the site is open"
        );
        if body.is_null() {
            delete(&service, path).await;
        } else {
            put(&service, path, body).await;
        }
        passed(&service).await;
        service.end().await;
    }
    // A failed check that is switched off is forgiven.
    let (_ground, service, work) = checking("").await;
    service.egress("v1", &work, false).await;
    let off = json!({"enabled": false, "targets": ["web"]});
    put(&service, "/check-types/https", off).await;
    service.inbound(&work, true).await;
    passed(&service).await;
    service.end().await;
}

#[tokio::test]
async fn added_checks_count_only_once_they_are_handed_out() {
    let (_ground, service, work) = checking("").await;
    service.egress("v1", &work, true).await;
    // The agent has said `complete`: it gets nothing more, and this is no fault of the address.
    put(
        &service,
        "/targets/more",
        json!({"targets": ["https://c.example"]}),
    )
    .await;
    put(
        &service,
        "/check-types/http",
        json!({"enabled": true, "targets": ["more"]}),
    )
    .await;
    put(&service, "/sites/2", json!({"site_id": "site-2"})).await;
    service.inbound(&work, true).await;
    passed(&service).await;
    service.end().await;
    // Handed out, they count.
    let (_ground, service, work) = checking("").await;
    put(&service, "/sites/2", json!({"site_id": "site-2"})).await;
    let path = "/api/v1/probers/site-2/assignments";
    let list = service.open("GET", path, None).await.json();
    assert_eq!(list[0]["ip_address"], "203.0.113.1");
    service.egress("v1", &work, true).await;
    service.inbound(&work, true).await;
    let row = service.details("203.0.113.1").await["ip"].take();
    assert_eq!(row["State"], "checking", "site-2 is waited for");
    assert_eq!(
        row["SitesComplete"],
        json!({"site-1": true, "site-2": false})
    );
    let result = |check: &str, success: bool, complete: bool| {
        json!({"ip_id": work["ip_id"], "check_type": check, "success": success,
            "complete": complete})
    };
    let rows = json!({"results": [result("tcp-22", true, false), result("ssh", false, true)]});
    let told = service
        .agent("POST", "/api/v1/probers/site-2/results", Some(rows))
        .await;
    assert_eq!(told.status, 200);
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "partial");
    service.end().await;
}

#[tokio::test]
async fn a_slot_that_is_set_anew_makes_no_healthy_address_partial() {
    for name in ["site-1", "other"] {
        let (_ground, service, work) = checking("").await;
        service.egress("v1", &work, true).await;
        put(&service, "/sites/1", json!({"site_id": name})).await;
        passed(&service).await;
        service.end().await;
    }
}

#[tokio::test]
async fn a_new_validator_claims_at_once() {
    let ground = Ground::of("orchestrator: { poll_interval_seconds: 60 }").with_fips(&addresses(1));
    let service = ground.start().await;
    service.enqueue(&["203.0.113.1"]).await;
    let new = json!({"validator_id": "late", "os_port_id": "port-1"});
    let told = service.admin("POST", "/config/validators", Some(new)).await;
    assert_eq!(told.status, 201);
    service.register("late").await;
    let work = service.assignment("late").await;
    assert_eq!(work["ip_address"], "203.0.113.1");
    service.end().await;
}

#[tokio::test]
async fn what_hangs_on_the_port_of_a_new_validator_is_released_first() {
    let ground = Ground::of("orchestrator: { poll_interval_seconds: 60 }").with_fips(&addresses(2));
    let port = civ_types::PortId::parse("port-1").unwrap();
    let orphan = civ_testkit::fip(civ_testkit::address(2));
    ground.cloud.rebind(&orphan, Some(port.clone()));
    let service = ground.start().await;
    let new = json!({"validator_id": "late", "os_port_id": "port-1"});
    service.admin("POST", "/config/validators", Some(new)).await;
    eventually("the orphan is released", async || {
        ground.cloud.port_of(&orphan).is_none().then_some(())
    })
    .await;
    service.end().await;
}
