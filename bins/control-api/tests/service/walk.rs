//! The walk-through of the contract, as somebody with curl would do it.

use std::time::{Duration, Instant};

use civ_testkit::{address, eventually};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};
use crate::http::Answer;

async fn curl(service: &Service, path: &str, data: Option<&str>) -> Answer {
    let method = if data.is_some() { "POST" } else { "GET" };
    let path = format!("/api/v1{path}");
    service.client.send(method, &path, &[], data).await
}

const OK: &str = r#"{"ok":true}"#;

/// Steps 2 to 5: what the agent of `v1` does.
async fn as_agent(service: &Service) {
    let work: Value = eventually("an assignment", async || {
        let told = curl(service, "/agents/v1/assignment", None).await;
        (told.status == 200).then(|| told.json())
    })
    .await;
    assert_eq!(work["ip_id"], 1);
    assert_eq!(work["ip_address"], "203.0.113.10");
    assert_eq!(work["phase"], "awaiting_self_check");
    let targets = json!(["https://a.example", "https://b.example"]);
    let checks = json!([{"type": "https", "targets": targets}]);
    assert_eq!(work["check_config"], checks);
    let data = r#"{"ip_id":1,"detected_egress_ip":"203.0.113.10","success":true,"detail":"ok"}"#;
    let told = curl(service, "/agents/v1/self-check", Some(data)).await;
    assert_eq!(told.body, OK);
    let told = curl(service, "/agents/v1/assignment", None).await;
    assert_eq!(told.json()["phase"], "checking");
    for target in ["https://a.example", "https://b.example"] {
        let data = format!(
            r#"{{"results":[{{"ip_id":1,"check_type":"https","target":"{target}","success":true,
            "latency_ms":80,"checked_at":"2026-08-21T09:00:00Z"}}]}}"#
        );
        let told = curl(service, "/agents/v1/results", Some(&data)).await;
        assert_eq!(told.body, OK);
    }
    let told = curl(service, "/agents/v1/complete", Some(r#"{"ip_id":1}"#)).await;
    assert_eq!(told.body, OK);
    let told = curl(service, "/agents/v1/assignment", None).await;
    assert_eq!(told.status, 204);
}

/// Step 6: what the prober of `site-1` does.
async fn as_prober(service: &Service) {
    let told = curl(
        service,
        "/probers/register",
        Some(r#"{"site_id":"site-1"}"#),
    )
    .await;
    assert_eq!(told.json()["poll_interval_seconds"], 60);
    let told = curl(service, "/probers/site-1/assignments", None).await;
    let work = &told.json()[0];
    assert_eq!((&work["ip_id"], &work["icmp"]), (&json!(1), &json!(false)));
    assert_eq!(work["ports"], json!([22]));
    for (check_type, complete) in [("tcp-22", false), ("ssh", true)] {
        let data = format!(
            r#"{{"results":[{{"ip_id":1,"ip_address":"203.0.113.10","check_type":"{check_type}",
            "success":true,"latency_ms":5,"checked_at":"2026-08-21T09:00:01Z",
            "complete":{complete}}}]}}"#
        );
        let told = curl(service, "/probers/site-1/results", Some(&data)).await;
        assert_eq!(told.body, OK);
    }
}

#[tokio::test]
async fn the_walk_through_of_the_contract() {
    let ground = Ground::new("ip_addresses: [203.0.113.10]").with_fips(&[address(10)]);
    let service = ground.start().await;
    let begun = Instant::now();
    let data = r#"{"validator_id":"v1","hostname":"debug-host","agent_version":"manual"}"#;
    let told = curl(&service, "/agents/register", Some(data)).await;
    let expected = json!({"ok": true, "poll_interval_seconds": 60});
    assert_eq!(told.json(), expected);
    as_agent(&service).await;
    as_prober(&service).await;
    let row = service.reached("203.0.113.10", "done").await;
    assert_eq!(row["OverallResult"], "pass");
    // The loop sleeps for a minute if nobody wakes it.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(ground.cloud.port_of(&civ_testkit::fip(address(10))), None);
    service.end().await;
}

#[tokio::test]
async fn two_validators_check_five_addresses_within_seconds() {
    let list = civ_testkit::addresses(5);
    let ground = Ground::new("").with_fips(&list);
    let service = ground.start().await;
    service.register("v1").await;
    service.register("v2").await;
    let begun = Instant::now();
    service.enqueue(&["203.0.113.1-203.0.113.5"]).await;
    let one = async |validator: &str, n: usize| {
        for _ in 0..n {
            let work = service.assignment(validator).await;
            service.check(validator, &work, true).await;
        }
    };
    // Five in all, whoever takes the fifth.
    tokio::join!(one("v1", 2), one("v2", 2));
    let next = tokio::select! {
        work = service.assignment("v1") => ("v1", work),
        work = service.assignment("v2") => ("v2", work),
    };
    service.check(next.0, &next.1, true).await;
    for address in &list {
        let row = service.reached(&address.to_string(), "done").await;
        assert_eq!(row["OverallResult"], "pass");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    let status = service.admin("GET", "/status", None).await.json();
    assert_eq!(status["total_ips"], 5);
    assert_eq!(status["ips_by_state"], json!({"done": 5}));
    assert_eq!(
        status["results_by_overall"],
        json!({"pass": 5, "partial": 0, "fail": 0, "cancelled": 0})
    );
    assert_eq!(status["total_validators"], 2);
    service.end().await;
}

#[tokio::test]
async fn a_self_check_through_another_address_has_failed() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    let lie = json!({"success": true, "detected_egress_ip": "198.51.100.7"});
    let told = service.report("v1", "self-check", &work, lie).await;
    assert_eq!(told.json(), json!({"ok": true}));
    let again = service.assignment("v1").await;
    assert_ne!(again["fence"], work["fence"]);
    assert_eq!(again["attempt_number"], work["attempt_number"]);
    let details = service.details("203.0.113.1").await;
    assert_eq!(details["ip"]["RetryCount"], 1);
    let events = details["events"].as_array().unwrap();
    let judged = events
        .iter()
        .find(|event| event["EventType"] == "self_check_result")
        .unwrap();
    let payload = judged["Payload"].as_str().unwrap();
    assert!(payload.contains("198.51.100.7"), "{payload}");
    service.end().await;
}

/// The names of the contract, in alphabetical order; `check` and `validator` have one more each.
const IP: &str = "AggregatedAt AssignedAt AttemptNumber CheckingStartedAt CreatedAt CycleID \
    EgressComplete FIPAssociatedAt FIPID FIPReleasedAt ID IPAddress LastError LeaseExpiresAt \
    OverallResult RetryCount Sequence SitesComplete State UpdatedAt ValidatorID";
const CHECK: &str = "AttemptNumber CheckType CheckedAt CycleID Detail DurationMs ID IPID \
    LatencyMs ReceivedAt SiteID Source Success Target";
const EVENT: &str = "CycleID EventType ID IPAddress IPID OccurredAt Payload Severity SiteID \
    ValidatorID";
const VALIDATOR: &str = "AgentVersion CreatedAt CurrentIPID Hostname LastHeartbeatAt OSPortID \
    PausedBecause State UpdatedAt ValidatorID";

fn names(value: &Value) -> String {
    let names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    names.join(" ")
}

#[tokio::test]
async fn read_models_have_the_names_of_the_contract() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    let validators = service.admin("GET", "/validators", None).await.json();
    let states = [&validators[0]["State"], &validators[1]["State"]];
    assert_eq!(states, ["assigned", "unregistered"]);
    let owned = [&validators[0]["CurrentIPID"], &validators[1]["CurrentIPID"]];
    assert_eq!(owned, [&json!(1), &Value::Null]);
    service.self_check("v1", &work, true).await;
    let validators = service.admin("GET", "/validators", None).await.json();
    assert_eq!(validators[0]["State"], "checking");
    service.egress("v1", &work, true).await;
    service.inbound(&work, false).await;
    service.reached("203.0.113.1", "done").await;
    let details = service.details("203.0.113.1").await;
    assert_eq!(names(&details["ip"]), IP);
    assert_eq!(names(&details["checks"][0]), CHECK);
    assert_eq!(names(&details["events"][0]), EVENT);
    assert_eq!(names(&validators[0]), VALIDATOR);
    assert_eq!(details["ip"]["OverallResult"], "partial");
    assert_eq!(details["ip"]["SitesComplete"], json!({"site-1": true}));
    assert_eq!(details["ip"]["EgressComplete"], true);
    let checked_at = &details["checks"][0]["CheckedAt"];
    assert_eq!(checked_at, "2026-08-21T09:00:00.000000Z");
    service.end().await;
}
