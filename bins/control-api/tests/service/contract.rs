//! The documented errors of agent and prober methods, fences, and what is generous.

use std::time::Duration;

use civ_testkit::{address, eventually};
use civ_types::Utc;
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn claimed() -> (Service, Value) {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    (service, work)
}

#[tokio::test]
async fn an_unknown_id_is_404_on_every_method_whatever_the_body() {
    let service = Ground::new("").start().await;
    for id in ["nobody", "%20", "a%2Fb", "%00", &"x".repeat(200)] {
        for (method, path) in [
            ("POST", format!("agents/{id}/heartbeat")),
            ("GET", format!("agents/{id}/assignment")),
            ("GET", format!("agents/{id}/assignment?wait=9")),
            ("POST", format!("agents/{id}/self-check")),
            ("POST", format!("agents/{id}/events")),
            ("POST", format!("agents/{id}/results")),
            ("POST", format!("agents/{id}/complete")),
            ("POST", format!("probers/{id}/heartbeat")),
            ("GET", format!("probers/{id}/assignments")),
            ("GET", format!("probers/{id}/assignments?wait=9")),
            ("POST", format!("probers/{id}/results")),
            ("POST", format!("probers/{id}/events")),
        ] {
            let full = json!({"ip_id": 1, "success": true, "results": [], "event_type": "x"});
            let full = full.to_string();
            for body in [None, Some(full.as_str()), Some("{}"), Some("no json")] {
                let path = format!("/api/v1/{path}");
                let told = service.client.send(method, &path, &[], body).await;
                let text = told.error(404);
                assert!(text.contains("not configured"), "{path}: {text}");
            }
        }
    }
    service.end().await;
}

#[tokio::test]
async fn a_path_that_is_no_utf_8_is_refused_in_the_shape_of_the_contract() {
    let service = Ground::new("").start().await;
    for path in [
        "/api/v1/agents/%FF/assignment",
        "/api/v1/probers/%FF/assignments",
        "/api/v1/admin/ips/%FF",
    ] {
        let told = service.open("GET", path, None).await;
        assert!([400, 404].contains(&told.status), "{told:?}");
        told.error(told.status);
    }
    service.end().await;
}

#[tokio::test]
async fn registering_names_what_is_not_configured() {
    let service = Ground::new("").start().await;
    let agents = "/api/v1/agents/register";
    let told = service
        .open("POST", agents, Some(json!({"validator_id": "nobody"})))
        .await;
    assert!(told.error(404).contains("nobody"));
    let probers = "/api/v1/probers/register";
    let told = service
        .open("POST", probers, Some(json!({"site_id": "nowhere"})))
        .await;
    assert!(told.error(400).contains("nowhere"));
    for body in [
        json!({}),
        json!({"validator_id": null}),
        json!({"validator_id": 1}),
    ] {
        let told = service.open("POST", agents, Some(body)).await;
        assert!(told.error(400).contains("body") || told.status == 400);
    }
    // What a newer agent sends beyond the contract is ignored; what is not required may be null.
    let body = json!({"validator_id": "v1", "hostname": null, "capabilities": ["responder"],
        "os_port_id": "port-9", "later": {"a": 1}});
    assert_eq!(service.open("POST", agents, Some(body)).await.status, 200);
    let validators = service.admin("GET", "/validators", None).await.json();
    assert_eq!(
        validators[0]["OSPortID"], "port-1",
        "an agent cannot set its port"
    );
    service.end().await;
}

#[tokio::test]
async fn bad_bodies_are_400_with_a_reason() {
    let (service, _) = claimed().await;
    for path in [
        "/api/v1/agents/register",
        "/api/v1/agents/v1/self-check",
        "/api/v1/agents/v1/events",
        "/api/v1/agents/v1/results",
        "/api/v1/agents/v1/complete",
        "/api/v1/probers/register",
        "/api/v1/probers/site-1/results",
        "/api/v1/probers/site-1/events",
        "/api/v1/admin/ips",
    ] {
        for body in [
            None,
            Some(""),
            Some("{"),
            Some("null"),
            Some("\"x\""),
            Some("[]"),
            Some(r#"["v1"]"#),
            Some(r#"{"results": 1, "ip_id": "1"}"#),
        ] {
            let told = service.client.send("POST", path, &[], body).await;
            let text = told.error(400);
            assert!(text.contains("body"), "{path} {body:?}: {text}");
        }
    }
    let events = "/api/v1/agents/v1/events";
    for event_type in ["", " ", &"x".repeat(65)] {
        let told = service
            .open("POST", events, Some(json!({"event_type": event_type})))
            .await;
        assert!(told.error(400).contains("event_type"));
    }
    let row = json!({"results": [{"ip_id": 1, "check_type": "NO CHECK", "success": true}]});
    let told = service
        .open("POST", "/api/v1/agents/v1/results", Some(row))
        .await;
    let text = told.error(400);
    assert!(
        text.contains("results[0].check_type") && text.contains("NO CHECK"),
        "{text}"
    );
    service.end().await;
}

#[tokio::test]
async fn heartbeats_need_no_body() {
    let service = Ground::new("").start().await;
    // Who never registered is told so, which only a newer client reads.
    for path in [
        "/api/v1/agents/v1/heartbeat",
        "/api/v1/probers/site-1/heartbeat",
    ] {
        let told = service.open("POST", path, None).await;
        assert_eq!(told.json(), json!({"ok": true, "registered": false}));
    }
    service.register("v1").await;
    let site = Some(json!({"site_id": "site-1"}));
    service.open("POST", "/api/v1/probers/register", site).await;
    for body in [
        None,
        Some(""),
        Some(" "),
        Some("{}"),
        Some(r#"{"local_state":"idle","x":1}"#),
    ] {
        for path in [
            "/api/v1/agents/v1/heartbeat",
            "/api/v1/probers/site-1/heartbeat",
        ] {
            let told = service.client.send("POST", path, &[], body).await;
            assert_eq!(told.json(), json!({"ok": true}), "{path} {body:?}");
        }
    }
    // The contract has no body there: whatever is sent is ignored.
    let path = "/api/v1/probers/site-1/heartbeat";
    let told = service.client.send("POST", path, &[], Some("alive")).await;
    assert_eq!(told.status, 200, "{told:?}");
    service.end().await;
}

#[tokio::test]
async fn a_stale_report_is_409_and_changes_nothing() {
    let (service, work) = claimed().await;
    service.register("v2").await;
    let of_another_claim = json!({"ip_id": work["ip_id"], "fence": 1});
    let of_nothing = json!({"ip_id": 4711, "fence": null});
    for work in [&of_another_claim, &of_nothing] {
        let told = service.self_check("v1", work, true).await;
        told.error(409);
        service
            .report("v1", "complete", work, json!({}))
            .await
            .error(409);
    }
    service.self_check("v2", &work, true).await.error(409);
    service
        .report("v2", "complete", &work, json!({}))
        .await
        .error(409);
    // Before its time.
    service
        .report("v1", "complete", &work, json!({}))
        .await
        .error(409);
    assert_eq!(service.state("203.0.113.1").await, "awaiting_self_check");
    // Neither missing nor null are a mismatch.
    let unfenced = json!({"ip_id": work["ip_id"]});
    assert_eq!(service.self_check("v1", &unfenced, true).await.status, 200);
    let told = service.self_check("v1", &unfenced, true).await;
    assert_eq!(told.status, 200, "its first answer was lost");
    service.self_check("v1", &work, false).await.error(409);
    assert_eq!(service.state("203.0.113.1").await, "checking");
    service.end().await;
}

#[tokio::test]
async fn stale_rows_are_dropped_and_counted_and_the_rest_is_kept() {
    let (service, work) = claimed().await;
    service.self_check("v1", &work, true).await;
    let row = |ip_id: &Value, target: &str, fence: Value| {
        json!({"ip_id": ip_id, "check_type": "https", "target": target, "success": true,
            "fence": fence, "checked_at": "2026-08-21T09:00:00Z"})
    };
    let rows = json!({"results": [
        row(&work["ip_id"], "https://a.example", work["fence"].clone()),
        row(&work["ip_id"], "https://b.example", json!(7)),
        row(&json!(4711), "https://b.example", Value::Null),
    ]});
    let told = service
        .agent("POST", "/api/v1/agents/v1/results", Some(rows.clone()))
        .await;
    assert_eq!(told.json(), json!({"ok": true, "stale": 2}));
    let told = service
        .agent("POST", "/api/v1/agents/v2/results", Some(rows))
        .await;
    assert_eq!(told.json(), json!({"ok": true, "stale": 3}));
    let checks = service.details("203.0.113.1").await["checks"].take();
    assert_eq!(checks.as_array().unwrap().len(), 1);
    // The fence of the whole batch counts for rows that have none.
    let rows =
        json!({"fence": 7, "results": [row(&work["ip_id"], "https://b.example", Value::Null)]});
    let told = service
        .agent("POST", "/api/v1/agents/v1/results", Some(rows))
        .await;
    assert_eq!(told.json()["stale"], 1);
    // A prober's row of another claim, or of an address that is not in `checking`.
    let mut old = work.clone();
    old["fence"] = json!(7);
    assert_eq!(
        service.inbound(&old, true).await.json(),
        json!({"ok": true, "stale": 2})
    );
    // A list that was never filled: missing, null or empty.
    for none in [json!({"results": []}), json!({"results": null}), json!({})] {
        for path in ["agents/v1", "probers/site-1"] {
            let path = format!("/api/v1/{path}/results");
            let told = service.agent("POST", &path, Some(none.clone())).await;
            assert_eq!(told.json(), json!({"ok": true}));
        }
    }
    service.end().await;
}

#[tokio::test]
async fn a_repeated_result_replaces_the_first_and_a_bad_time_is_replaced() {
    let (service, work) = claimed().await;
    service.self_check("v1", &work, true).await;
    for (success, checked_at) in [(false, json!("yesterday")), (true, Value::Null)] {
        let rows = json!({"results": [{"ip_id": work["ip_id"], "check_type": "https",
            "target": "https://a.example", "success": success, "latency_ms": 0.6,
            "checked_at": checked_at}]});
        let told = service
            .agent("POST", "/api/v1/agents/v1/results", Some(rows))
            .await
            .json();
        assert_eq!(told["ok"], true);
        let warnings = told["warnings"].as_array().unwrap();
        assert!(
            warnings[0].as_str().unwrap().contains("checked_at"),
            "{told}"
        );
    }
    let checks = service.details("203.0.113.1").await["checks"].take();
    let checks = checks.as_array().unwrap();
    assert_eq!(checks.len(), 1);
    assert_eq!(
        (&checks[0]["Success"], &checks[0]["LatencyMs"]),
        (&json!(true), &json!(1))
    );
    let time = |name: &str| Utc::parse(checks[0][name].as_str().unwrap()).unwrap();
    let apart = time("ReceivedAt").since(time("CheckedAt"));
    assert!(
        apart < Duration::from_secs(5),
        "the server's time: {apart:?}"
    );
    service.end().await;
}

#[tokio::test]
async fn events_are_always_recorded() {
    let (service, work) = claimed().await;
    let told = service
        .report(
            "v1",
            "events",
            &work,
            json!({"event_type": "config_received", "payload": "{}"}),
        )
        .await;
    assert_eq!(told.json(), json!({"ok": true}));
    // Also of somebody who does not own it, of an address that is not there, and of none.
    for body in [
        json!({"event_type": "other", "ip_id": work["ip_id"], "fence": 1}),
        json!({"event_type": "other", "ip_id": 4711}),
        json!({"event_type": "other", "ip_id": null, "payload": null}),
    ] {
        for path in ["/api/v1/agents/v2/events", "/api/v1/probers/site-1/events"] {
            let told = service.agent("POST", path, Some(body.clone())).await;
            assert_eq!(told.json(), json!({"ok": true}));
        }
    }
    let events = service.details("203.0.113.1").await["events"].take();
    let kinds: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["EventType"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "other").count(),
        2,
        "{kinds:?}"
    );
    assert!(kinds.contains(&"config_received"));
    service.end().await;
}

#[tokio::test]
async fn a_check_that_could_not_be_made_does_not_make_a_healthy_address_partial() {
    let (service, work) = claimed().await;
    service.self_check("v1", &work, true).await;
    let said = json!({"check_type": "https", "target": "https://b.example", "code": "permission"});
    let event = json!({"event_type": "check_inconclusive", "payload": said.to_string()});
    assert_eq!(
        service.report("v1", "events", &work, event).await.status,
        200
    );
    let rows = json!({"results": [{"ip_id": work["ip_id"], "check_type": "https",
        "target": "https://a.example", "success": true}]});
    service
        .agent("POST", "/api/v1/agents/v1/results", Some(rows))
        .await;
    service.report("v1", "complete", &work, json!({})).await;
    service.inbound(&work, true).await;
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "pass");
    service.end().await;
}

#[tokio::test]
async fn signs_of_life_bring_a_validator_and_a_site_back() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, heartbeat_timeout_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
sites: [{ site_id: site-1 }]
";
    let service = Ground::of(yaml).with_fips(&[address(1)]).start().await;
    let state = async || {
        let validators = service.admin("GET", "/validators", None).await.json();
        validators[0]["State"].as_str().unwrap().to_owned()
    };
    let path = "/api/v1/agents/v1/heartbeat";
    service.open("POST", path, None).await;
    assert_eq!(
        state().await,
        "unregistered",
        "a heartbeat registers nobody"
    );
    service.register("v1").await;
    assert_eq!(state().await, "idle");
    let unreachable = async || (state().await == "unreachable").then_some(());
    eventually("silence is noticed", unreachable).await;
    // Nothing is claimed by whom nobody hears.
    service.enqueue(&["203.0.113.1"]).await;
    assert_eq!(service.state("203.0.113.1").await, "queued");
    service.open("POST", path, None).await;
    assert_ne!(state().await, "unreachable");
    service.reached("203.0.113.1", "awaiting_self_check").await;
    // Silent with an address, it keeps it, and its reports still count.
    eventually("silence is noticed", unreachable).await;
    assert_eq!(service.state("203.0.113.1").await, "awaiting_self_check");
    let work = service.assignment("v1").await;
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    assert_eq!(state().await, "checking");
    service.end().await;
}

#[tokio::test]
async fn registering_again_takes_no_address_away() {
    let (service, work) = claimed().await;
    for checking in [false, true] {
        if checking {
            service.self_check("v1", &work, true).await;
        }
        service.register("v1").await;
        let again = service.assignment("v1").await;
        assert_eq!(
            (&again["fence"], &again["ip_id"]),
            (&work["fence"], &work["ip_id"])
        );
    }
    service.end().await;
}

#[tokio::test]
async fn after_a_silent_lease_a_report_of_any_kind_brings_the_validator_back() {
    let yaml = "
orchestrator:
  { poll_interval_seconds: 60, lease_ttl_seconds: 2, self_check_timeout_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let service = Ground::of(yaml).with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let first = service.assignment("v1").await;
    let row = service.reached("203.0.113.1", "queued").await;
    assert_eq!(row["RetryCount"], 0, "it is the validator's fault");
    let event = json!({"event_type": "hello"});
    let path = "/api/v1/agents/v1/events";
    assert_eq!(service.agent("POST", path, Some(event)).await.status, 200);
    let second = service.assignment("v1").await;
    assert!(first["fence"].as_i64() < second["fence"].as_i64());
    service.end().await;
}
