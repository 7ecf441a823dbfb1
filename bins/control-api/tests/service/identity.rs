//! Whose an address is: the nonce of a claim on its way to agents and probers, and to nobody else.
//! And ports that should be closed.

use civ_testkit::addresses;
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

const SITE: &str = "/api/v1/probers/site-1/assignments";

async fn register(service: &Service, agent: Value, prober: Value) {
    for (path, body) in [("agents", agent), ("probers", prober)] {
        let told = service
            .open("POST", &format!("/api/v1/{path}/register"), Some(body))
            .await;
        assert_eq!(told.status, 200, "{told:?}");
    }
}

fn responding() -> Value {
    json!({"validator_id": "v1", "capabilities": ["responder"], "responder_ports": [8080, 80]})
}

fn able() -> Value {
    json!({"site_id": "site-1", "capabilities": ["identity", "closed_ports", "more"]})
}

/// `.1` in `checking` with `v1`, whose agent and prober have said that.
async fn checking(agent: Value, prober: Value) -> (Ground, Service, Value) {
    let ground = Ground::new("").with_fips(&addresses(1));
    let service = ground.start().await;
    register(&service, agent, prober).await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    (ground, service, work)
}

async fn site_list(service: &Service) -> Value {
    service.open("GET", SITE, None).await.json()
}

async fn report(service: &Service, work: &Value, rows: &[(&str, bool)]) {
    let row = |(n, (name, ok)): (usize, &(&str, bool))| {
        json!({"ip_id": work["ip_id"], "check_type": name, "success": ok, "fence": work["fence"],
            "detail": "seen", "checked_at": "2026-08-21T09:00:01Z",
            "complete": n + 1 == rows.len(), "revision": 0})
    };
    let rows: Vec<_> = rows.iter().enumerate().map(row).collect();
    let path = "/api/v1/probers/site-1/results";
    let told = service
        .agent("POST", path, Some(json!({"results": rows})))
        .await;
    assert_eq!(told.json(), json!({"ok": true}));
}

async fn result(service: &Service) -> Value {
    service.reached("203.0.113.1", "done").await["OverallResult"].take()
}

#[tokio::test]
async fn agent_and_prober_get_the_nonce_and_the_answer_counts() {
    for (ok, expected) in [(true, "pass"), (false, "partial")] {
        let (_ground, service, work) = checking(responding(), able()).await;
        let nonce = work["nonce"].as_str().unwrap().to_owned();
        assert_eq!(nonce.len(), 32);
        let list = site_list(&service).await;
        let identity = json!({"validator_id": "v1", "nonce": nonce, "ports": [80, 8080]});
        assert_eq!(list[0]["identity"], identity);
        service.egress("v1", &work, true).await;
        // Through with its checks, the agent has the nonce to serve and nothing else to do.
        let path = "/api/v1/agents/v1/assignment";
        let after = service.open("GET", path, None).await.json();
        assert_eq!(
            (&after["nonce"], &after["check_config"]),
            (&json!(nonce), &json!([]))
        );
        let rows = [("tcp-22", true), ("ssh", true), ("identity", ok)];
        report(&service, &work, &rows).await;
        assert_eq!(result(&service).await, expected);
        assert_eq!(service.open("GET", path, None).await.status, 204);
        for path in [
            "/ips",
            "/ips/203.0.113.1",
            "/validators",
            "/registry/203.0.113.1",
        ] {
            let told = service.admin("GET", path, None).await;
            assert!(!told.body.contains(&nonce), "{path} tells the nonce");
        }
        service.end().await;
    }
}

#[tokio::test]
async fn every_claim_has_its_own_nonce() {
    let (_ground, service, first) = checking(responding(), able()).await;
    service.egress("v1", &first, true).await;
    report(
        &service,
        &first,
        &[("tcp-22", true), ("ssh", true), ("identity", true)],
    )
    .await;
    result(&service).await;
    service.enqueue(&["203.0.113.1"]).await;
    let second = service.assignment("v1").await;
    assert_ne!(first["nonce"], second["nonce"]);
    service.end().await;
}

#[tokio::test]
async fn clients_of_the_contract_see_nothing_of_it_and_lose_nothing() {
    let plain = json!({"site_id": "site-1"});
    for (agent, prober) in [
        (responding(), plain.clone()),
        (json!({"validator_id": "v1"}), able()),
        (
            json!({"validator_id": "v1", "responder_ports": [80]}),
            able(),
        ),
        (
            json!({"validator_id": "v1", "capabilities": ["responder"], "responder_ports": []}),
            able(),
        ),
    ] {
        let (_ground, service, work) = checking(agent, prober).await;
        assert_eq!(site_list(&service).await[0].get("identity"), None);
        service.egress("v1", &work, true).await;
        report(&service, &work, &[("tcp-22", true), ("ssh", true)]).await;
        assert_eq!(result(&service).await, "pass");
        service.end().await;
    }
    let (_ground, service, _) = checking(json!({"validator_id": "v1"}), plain).await;
    let work = service
        .open("GET", "/api/v1/agents/v1/assignment", None)
        .await;
    assert_eq!(work.json().get("nonce"), None);
    service.end().await;
}

#[tokio::test]
async fn the_ports_of_a_responder_are_looked_at() {
    let service = Ground::new("").start().await;
    let many: Vec<u16> = (1..=17).collect();
    for bad in [json!([0]), json!([65_536]), json!(many), json!("80")] {
        let body = json!({"validator_id": "v1", "capabilities": ["responder"],
            "responder_ports": bad});
        let told = service.open("POST", "/api/v1/agents/register", Some(body));
        assert!(told.await.error(400).contains("responder_ports"), "{bad}");
    }
    service.end().await;
}

async fn set(service: &Service, body: Value) -> crate::http::Answer {
    service
        .admin("PUT", "/config/inbound-checks", Some(body))
        .await
}

#[tokio::test]
async fn a_port_that_should_be_closed_is_handed_out_and_counts() {
    let (_ground, service, work) = checking(json!({"validator_id": "v1"}), able()).await;
    let told = set(
        &service,
        json!({"ports": [22], "icmp": false, "closed_ports": [23]}),
    )
    .await;
    assert_eq!(told.status, 200);
    let list = site_list(&service).await;
    assert_eq!(
        (&list[0]["closed_ports"], &list[0]["revision"]),
        (&json!([23]), &json!(1))
    );
    service.egress("v1", &work, true).await;
    // The list that it was through with did not have the port yet.
    report(&service, &work, &[("tcp-22", true), ("ssh", true)]).await;
    assert_eq!(service.state("203.0.113.1").await, "checking");
    report(
        &service,
        &work,
        &[("tcp-22", true), ("ssh", true), ("closed-23", false)],
    )
    .await;
    assert_eq!(result(&service).await, "partial");
    service.end().await;
}

#[tokio::test]
async fn closed_ports_stay_when_they_are_left_out_and_are_never_open_ones() {
    let service = Ground::new("").start().await;
    let shown = || service.admin("GET", "/config/inbound-checks", None);
    assert_eq!(shown().await.json(), json!({"ports": [22], "icmp": false}));
    let full = json!({"ports": [22], "icmp": false, "closed_ports": [23, 25]});
    assert_eq!(set(&service, full.clone()).await.status, 200);
    assert_eq!(
        set(&service, json!({"ports": [22], "icmp": false}))
            .await
            .status,
        200
    );
    assert_eq!(shown().await.json(), full);
    for (ports, closed) in [
        (json!([23]), Value::Null),
        (json!([22]), json!([22])),
        (json!([22]), json!([0])),
        (json!([22]), json!([24, 24])),
    ] {
        let body = json!({"ports": ports, "icmp": false, "closed_ports": closed});
        assert!(
            set(&service, body)
                .await
                .error(400)
                .contains("closed_ports")
        );
    }
    assert_eq!(shown().await.json(), full);
    let none = json!({"ports": [22], "icmp": false, "closed_ports": []});
    assert_eq!(set(&service, none).await.status, 200);
    assert_eq!(shown().await.json(), json!({"ports": [22], "icmp": false}));
    service.end().await;
}
