//! What agents and probers may leave out, send in addition or send again, and what becomes of it.

use civ_cloud::Fault;
use civ_cloud::fake::Trouble;
use civ_testkit::{address, addresses, eventually, fip};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn claimed() -> (Service, Value) {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    (service, work)
}

/// Method, the required fields, and those that may be missing or null.
fn bodies() -> [(&'static str, Value, &'static [&'static str]); 9] {
    let inbound: &[&str] = &[
        "ip_address",
        "latency_ms",
        "checked_at",
        "complete",
        "detail",
        "fence",
    ];
    let egress: &[&str] = &[
        "target",
        "latency_ms",
        "checked_at",
        "detail",
        "duration_ms",
        "fence",
    ];
    let event: &[&str] = &["ip_id", "payload", "fence"];
    let row = json!({"ip_id": 1, "check_type": "icmp", "success": true});
    let told = || json!({"event_type": "told"});
    [
        (
            "agents/register",
            json!({"validator_id": "v1"}),
            &["hostname", "agent_version", "capabilities"],
        ),
        ("agents/v1/heartbeat", json!({}), &["local_state"]),
        (
            "agents/v1/self-check",
            json!({"ip_id": 1, "success": true}),
            &["detected_egress_ip", "detail", "fence"],
        ),
        ("agents/v1/events", told(), event),
        ("agents/v1/results", json!({"results": [row]}), egress),
        ("agents/v1/complete", json!({"ip_id": 1}), &["fence"]),
        (
            "probers/register",
            json!({"site_id": "site-1"}),
            &["hostname"],
        ),
        ("probers/site-1/results", json!({"results": [row]}), inbound),
        ("probers/site-1/events", told(), event),
    ]
}

/// The object that has the fields: the one row, or the body itself.
fn fields(body: &mut Value) -> &mut serde_json::Map<String, Value> {
    if body["results"].is_array() {
        return body["results"][0].as_object_mut().unwrap();
    }
    body.as_object_mut().unwrap()
}

#[tokio::test]
async fn only_what_the_contract_names_is_required() {
    for (path, required, optional) in bodies() {
        let (service, work) = claimed().await;
        if path.ends_with("results") || path.ends_with("complete") {
            service.self_check("v1", &work, true).await;
        }
        let path = format!("/api/v1/{path}");
        let mut nulls = required.clone();
        for name in optional {
            fields(&mut nulls).insert((*name).to_owned(), Value::Null);
        }
        // A newer client talks to an older server.
        let mut newer = required.clone();
        newer["later"] = json!({"a": [1]});
        fields(&mut newer).insert("newer".to_owned(), json!("field"));
        for body in [required.clone(), nulls, newer] {
            let told = service.agent("POST", &path, Some(body.clone())).await;
            assert_eq!(told.status, 200, "{path} {body}: {told:?}");
            assert_eq!(told.json()["ok"], true);
        }
        for name in fields(&mut required.clone()).keys() {
            let mut body = required.clone();
            fields(&mut body).remove(name);
            let text = service.agent("POST", &path, Some(body)).await.error(400);
            assert!(text.contains(name), "{path} without {name}: {text}");
            let mut body = required.clone();
            fields(&mut body).insert(name.clone(), Value::Null);
            let text = service.agent("POST", &path, Some(body)).await.error(400);
            assert!(text.contains(name), "{path} with {name} null: {text}");
        }
        service.end().await;
    }
}

#[tokio::test]
async fn a_body_where_there_is_none_is_ignored() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/api/v1/agents/v1/assignment", 204),
        ("POST", "/api/v1/probers/site-1/heartbeat", 200),
        ("GET", "/api/v1/probers/site-1/assignments", 200),
        ("GET", "/api/v1/admin/status", 200),
        ("GET", "/api/v1/admin/validators", 200),
        ("GET", "/api/v1/admin/ips", 200),
        ("GET", "/api/v1/admin/ips/203.0.113.1", 200),
        ("POST", "/api/v1/admin/ips/203.0.113.1/cancel", 200),
        ("DELETE", "/api/v1/admin/ips/203.0.113.1", 200),
        ("GET", "/api/v1/admin/ips/scan", 200),
        ("POST", "/api/v1/admin/ips/scan?wait=true", 200),
        ("POST", "/api/v1/admin/ips/clear", 200),
        ("GET", "/api/v1/admin/auto-cycle", 200),
        ("POST", "/api/v1/admin/auto-cycle/start", 200),
        ("POST", "/api/v1/admin/auto-cycle/stop", 200),
        ("GET", "/api/v1/admin/registry", 200),
        ("GET", "/api/v1/admin/registry/203.0.113.1", 200),
        ("GET", "/api/v1/admin/registry/export", 200),
        ("GET", "/api/v1/admin/checks/export", 200),
        ("GET", "/api/v1/admin/events", 200),
        ("GET", "/api/v1/admin/config/validators", 200),
        ("DELETE", "/api/v1/admin/config/validators/v2", 200),
        ("DELETE", "/api/v1/admin/config/sites/1", 200),
        ("DELETE", "/api/v1/admin/config/check-types/https", 200),
        ("DELETE", "/api/v1/admin/config/targets/web", 200),
    ] {
        let told = service
            .client
            .send(method, path, &[], Some("{no json"))
            .await;
        assert_eq!(told.status, status, "{method} {path}: {told:?}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_heartbeat_is_seen_by_operators() {
    let service = Ground::new("").start().await;
    service.register("v1").await;
    let body = json!({"site_id": "site-1"});
    let path = "/api/v1/probers/register";
    service.open("POST", path, Some(body)).await;
    let last = async || {
        let validators = service.admin("GET", "/validators", None).await.json();
        let sites = service.admin("GET", "/config/sites", None).await.json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (
            text(&validators[0]["LastHeartbeatAt"]),
            text(&sites[0]["last_heartbeat_at"]),
        )
    };
    let validators = service.admin("GET", "/validators", None).await.json();
    let told = [&validators[0]["Hostname"], &validators[0]["AgentVersion"]];
    assert_eq!(told, ["vm", "1"], "what the agent said of itself");
    let before = last().await;
    service
        .open("POST", "/api/v1/agents/v1/heartbeat", None)
        .await;
    let after = last().await;
    assert!(before.0 < after.0, "{before:?} {after:?}");
    assert_eq!(before.1, after.1);
    service
        .open("POST", "/api/v1/probers/site-1/heartbeat", None)
        .await;
    let last = last().await;
    assert!(after.1 < last.1, "{after:?} {last:?}");
    assert_eq!(after.0, last.0);
    service.end().await;
}

#[tokio::test]
async fn silence_makes_unreachable_and_registering_brings_back() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, heartbeat_timeout_seconds: 2 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
sites: [{ site_id: site-1 }]
";
    let service = Ground::of(yaml).start().await;
    let states = async || {
        let validators = service
            .admin("GET", "/config/validators", None)
            .await
            .json();
        let sites = service.admin("GET", "/config/sites", None).await.json();
        json!([validators[0]["state"], sites[0]["state"]])
    };
    let both = |state: &str| json!([state, state]);
    assert_eq!(states().await, both("unregistered"));
    let register = async || {
        service.register("v1").await;
        let body = Some(json!({"site_id": "site-1"}));
        let told = service.open("POST", "/api/v1/probers/register", body).await;
        assert_eq!(told.status, 200);
    };
    let silent = async || (states().await == both("unreachable")).then_some(());
    register().await;
    eventually("silence is noticed", silent).await;
    register().await;
    assert_eq!(states().await, both("idle"));
    eventually("silence is noticed again", silent).await;
    for path in ["agents/v1", "probers/site-1"] {
        let path = format!("/api/v1/{path}/heartbeat");
        assert_eq!(service.open("POST", &path, None).await.status, 200);
    }
    assert_eq!(states().await, both("idle"));
    service.end().await;
}

#[tokio::test]
async fn after_its_retries_a_failed_self_check_fails_the_address() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, max_self_check_retries: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let service = Ground::of(yaml).with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    for _ in 0..2 {
        let work = service.assignment("v1").await;
        assert_eq!(work["attempt_number"], 1);
        let told = json!({"success": false, "detail": "seen 198.51.100.9"});
        let told = service.report("v1", "self-check", &work, told).await;
        assert_eq!(told.json(), json!({"ok": true}));
    }
    let row = service.reached("203.0.113.1", "failed").await;
    assert_eq!(
        (&row["OverallResult"], &row["RetryCount"]),
        (&json!("fail"), &json!(1))
    );
    let why = row["LastError"].as_str().unwrap();
    assert!(why.contains("198.51.100.9"), "{why}");
    let known = service
        .admin("GET", "/registry/203.0.113.1", None)
        .await
        .json();
    assert_eq!(
        (
            &known["registry"]["total_cycles"],
            &known["registry"]["last_result"]
        ),
        (&json!(1), &json!("fail")),
        "retries are no enqueueing"
    );
    // Enqueued again it begins anew.
    let told = service.enqueue(&["203.0.113.1"]).await;
    assert_eq!(told["requeued"], json!(["203.0.113.1"]));
    let row = service.reached("203.0.113.1", "awaiting_self_check").await;
    assert_eq!(
        (
            &row["AttemptNumber"],
            &row["RetryCount"],
            &row["OverallResult"]
        ),
        (&json!(2), &json!(0), &json!(""))
    );
    service.end().await;
}

#[tokio::test]
async fn a_site_has_finished_when_it_says_so() {
    let (service, work) = claimed().await;
    service.self_check("v1", &work, true).await;
    service.egress("v1", &work, true).await;
    let report = async |check: &str, success: bool, complete: Value| {
        let row = json!({"ip_id": work["ip_id"], "check_type": check, "success": success,
            "latency_ms": 7, "detail": "seen", "complete": complete});
        let rows = Some(json!({"results": [row]}));
        let path = "/api/v1/probers/site-1/results";
        assert_eq!(service.agent("POST", path, rows).await.json()["ok"], true);
        service.details("203.0.113.1").await
    };
    report("tcp-22", false, json!(false)).await;
    report("ssh", true, Value::Null).await;
    let known = report("tcp-22", true, json!(false)).await;
    assert_eq!(
        known["ip"]["State"], "checking",
        "all results, no word of the end"
    );
    assert_eq!(known["ip"]["SitesComplete"], json!({"site-1": false}));
    let inbound: Vec<_> = known["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["Source"] == "inbound")
        .map(|check| (&check["CheckType"], &check["Success"], &check["Detail"]))
        .collect();
    let row = |check: &Value| (check.clone(), json!(true), json!("seen"));
    let inbound: Vec<_> = inbound
        .into_iter()
        .map(|(check, success, detail)| (check.clone(), success.clone(), detail.clone()))
        .collect();
    assert_eq!(
        inbound,
        [row(&json!("tcp-22")), row(&json!("ssh"))],
        "the later one replaces the earlier"
    );
    report("tcp-22", true, json!(true)).await;
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "pass");
    assert_eq!(row["SitesComplete"], json!({"site-1": true}));
    service.end().await;
}

#[tokio::test]
async fn what_is_being_bound_or_given_back_can_be_cancelled_and_deleted() {
    for (method, path) in [
        ("POST", "/ips/203.0.113.1/cancel"),
        ("DELETE", "/ips/203.0.113.1"),
    ] {
        for state in ["assigning_fip", "aggregating"] {
            let ground = Ground::new("").with_fips(&addresses(1));
            if state == "assigning_fip" {
                ground.cloud.script(Trouble::LandsAfterReads(2));
            }
            let service = ground.start().await;
            service.register("v1").await;
            service.enqueue(&["203.0.113.1"]).await;
            if state == "aggregating" {
                let work = service.assignment("v1").await;
                let text = "409 of its own".to_owned();
                ground
                    .cloud
                    .script(Trouble::Refused(Fault::Address { text }));
                service.check("v1", &work, true).await;
            }
            service.reached("203.0.113.1", state).await;
            let told = service.admin(method, path, None).await;
            assert_eq!(told.json(), json!({"ok": true}), "{state}");
            if method == "POST" {
                let row = service.details("203.0.113.1").await["ip"].take();
                assert_eq!(
                    (&row["State"], &row["OverallResult"]),
                    (&json!("failed"), &json!("cancelled")),
                    "at once"
                );
            } else {
                service.admin("GET", path, None).await.error(404);
            }
            let known = service.admin("GET", "/registry/203.0.113.1", None).await;
            assert_eq!(known.json()["registry"]["in_queue"], method == "POST");
            eventually("it is released, and its validator is free", async || {
                let validators = service.admin("GET", "/validators", None).await.json();
                let free = ground.cloud.port_of(&fip(address(1))).is_none();
                let idle =
                    validators[0]["CurrentIPID"].is_null() && validators[0]["PausedBecause"] == "";
                (free && idle).then_some(())
            })
            .await;
            service.end().await;
        }
    }
}

#[tokio::test]
async fn reordering_is_no_enqueueing() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    let told = service.enqueue(&["203.0.113.2", "203.0.113.1"]).await;
    assert_eq!(told["reordered"], json!(["203.0.113.2", "203.0.113.1"]));
    let known = service.admin("GET", "/registry", None).await.json();
    for row in known.as_array().unwrap() {
        assert_eq!(row["total_cycles"], 1);
        assert_eq!(row["first_seen_at"], row["last_seen_at"]);
        assert_eq!(row["last_result"], "");
        assert_eq!(row["last_checked_at"], Value::Null);
        assert_eq!(row["current_state"], "queued");
    }
    service.end().await;
}

#[tokio::test]
async fn times_of_any_offset_are_kept_in_utc_to_the_microsecond() {
    let (service, work) = claimed().await;
    service.self_check("v1", &work, true).await;
    for (told, kept) in [
        ("2026-08-21T09:15:00Z", "2026-08-21T09:15:00.000000Z"),
        ("2026-08-21T11:15:01.5+02:00", "2026-08-21T09:15:01.500000Z"),
        ("2026-08-20T23:45:00-09:30", "2026-08-21T09:15:00.000000Z"),
        (
            "2026-08-21T09:15:00.123456999Z",
            "2026-08-21T09:15:00.123456Z",
        ),
        ("2026-08-21t09:15:02z", "2026-08-21T09:15:02.000000Z"),
    ] {
        let rows = |more: Value| {
            let mut row = json!({"ip_id": work["ip_id"], "check_type": "icmp", "success": true,
                "checked_at": told});
            row["target"] = more;
            Some(json!({"results": [row]}))
        };
        for (path, more) in [("agents/v1", json!("t")), ("probers/site-1", Value::Null)] {
            let path = format!("/api/v1/{path}/results");
            let answer = service.agent("POST", &path, rows(more)).await;
            assert_eq!(answer.json(), json!({"ok": true}), "{told}");
        }
        let checks = service.details("203.0.113.1").await["checks"].take();
        let checks = checks.as_array().unwrap();
        assert_eq!(checks.len(), 2);
        for check in checks {
            assert_eq!(check["CheckedAt"], kept, "{told}");
        }
    }
    service.end().await;
}

#[tokio::test]
async fn an_event_says_who_reported_it_and_of_what() {
    let (service, work) = claimed().await;
    let body = |ip: &Value| json!({"event_type": "told", "ip_id": ip, "payload": "as sent"});
    for (path, ip) in [
        ("agents/v1", &work["ip_id"]),
        ("probers/site-1", &work["ip_id"]),
        ("agents/v2", &Value::Null),
        ("probers/site-1", &json!(4_711)),
    ] {
        let path = format!("/api/v1/{path}/events");
        service.agent("POST", &path, Some(body(ip))).await;
    }
    let events = service.admin("GET", "/events?type=told", None).await.json();
    let told: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            json!([
                event["ValidatorID"],
                event["SiteID"],
                event["IPID"],
                event["IPAddress"],
                event["Payload"],
                event["Severity"]
            ])
        })
        .collect();
    let address = "203.0.113.1";
    assert_eq!(
        told,
        [
            json!(["v1", null, work["ip_id"], address, "as sent", "info"]),
            json!([null, "site-1", work["ip_id"], address, "as sent", "info"]),
            json!(["v2", null, null, null, "as sent", "info"]),
            json!([
                null,
                "site-1",
                null,
                null,
                "{\"ip_id\":4711,\"payload\":\"as sent\"}",
                "info"
            ]),
        ]
    );
    service.end().await;
}
