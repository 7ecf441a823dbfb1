//! A second start on the same file and cloud goes on where the first one was.

use std::sync::Arc;
use std::time::Duration;

use civ_cloud::Fault;
use civ_cloud::fake::{FakeCloud, Trouble};
use civ_testkit::{address, fip};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

const IP: &str = "203.0.113.1";

fn ground() -> Ground {
    Ground::new("").with_fips(&[address(1)])
}

async fn claimed(ground: &Ground) -> (Service, Value) {
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&[IP]).await;
    let work = service.assignment("v1").await;
    (service, work)
}

/// The row without what a restart moves.
fn still(mut row: Value) -> Value {
    row["LeaseExpiresAt"] = Value::Null;
    row["FIPAssociatedAt"] = Value::Null;
    row
}

async fn row(service: &Service) -> Value {
    service.details(IP).await["ip"].take()
}

#[tokio::test]
async fn rule_10_what_is_queued_stays_queued() {
    let ground = ground();
    let service = ground.start().await;
    service.enqueue(&[IP]).await;
    let before = service.details(IP).await;
    service.end().await;
    let service = ground.start().await;
    assert_eq!(service.details(IP).await, before);
    service.register("v1").await;
    let work = service.assignment("v1").await;
    service.check("v1", &work, true).await;
    service.reached(IP, "done").await;
    service.end().await;
}

#[tokio::test]
async fn rule_10_an_association_under_way_is_finished() {
    let ground = ground();
    // Its outcome shows only after 1.75 s: the end comes in between.
    ground.cloud.script(Trouble::LandsAfterReads(3));
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&[IP]).await;
    service.reached(IP, "assigning_fip").await;
    service.end().await;
    let service = ground.start().await;
    let work = service.assignment("v1").await;
    service.check("v1", &work, true).await;
    let row = service.reached(IP, "done").await;
    assert_eq!(
        (&row["OverallResult"], &row["RetryCount"]),
        (&json!("pass"), &json!(0))
    );
    assert_eq!(ground.cloud.port_of(&fip(address(1))), None);
    service.end().await;
}

#[tokio::test]
async fn rule_10_the_agent_goes_on_with_the_same_claim() {
    for checking in [false, true] {
        let ground = ground();
        let (service, work) = claimed(&ground).await;
        if checking {
            service.self_check("v1", &work, true).await;
        }
        let before = row(&service).await;
        service.end().await;
        let service = ground.start().await;
        assert_eq!(still(row(&service).await), still(before));
        // Without registering again: a restart of control-api is not one of the agent.
        let again = service.assignment("v1").await;
        assert_eq!(
            (&again["fence"], &again["ip_id"]),
            (&work["fence"], &work["ip_id"])
        );
        service.check("v1", &work, true).await;
        let row = service.reached(IP, "done").await;
        assert_eq!(row["OverallResult"], "pass");
        assert_eq!(
            ground.cloud.writes().len(),
            2,
            "one association, one release"
        );
        service.end().await;
    }
}

#[tokio::test]
async fn rule_10_reports_from_before_still_count() {
    let ground = ground();
    let (service, work) = claimed(&ground).await;
    service.self_check("v1", &work, true).await;
    service.egress("v1", &work, true).await;
    service.end().await;
    let service = ground.start().await;
    let told = service
        .open("GET", "/api/v1/agents/v1/assignment", None)
        .await;
    assert_eq!(told.status, 204, "it has said complete");
    assert_eq!(
        service.inbound(&work, true).await.json(),
        json!({"ok": true})
    );
    let row = service.reached(IP, "done").await;
    assert_eq!(row["OverallResult"], "pass");
    service.end().await;
}

#[tokio::test]
async fn rule_10_a_release_under_way_is_finished() {
    let ground = ground();
    let (service, work) = claimed(&ground).await;
    for _ in 0..2 {
        let text = "409 of its own".to_owned();
        ground
            .cloud
            .script(Trouble::Refused(Fault::Address { text }));
    }
    service.check("v1", &work, true).await;
    service.reached(IP, "aggregating").await;
    service.end().await;
    let service = ground.start().await;
    let row = service.reached(IP, "done").await;
    assert_eq!(row["OverallResult"], "pass");
    assert_eq!(ground.cloud.port_of(&fip(address(1))), None);
    service.end().await;
}

#[tokio::test]
async fn rule_10_what_has_ended_stays_as_it_is_and_yaml_adds_only_what_is_missing() {
    let ground = Ground::new("ip_addresses: [203.0.113.1, 203.0.113.2]").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    let work = service.assignment("v1").await;
    service.check("v1", &work, true).await;
    service.reached(IP, "done").await;
    service.admin("DELETE", "/ips/203.0.113.2", None).await;
    let before = service.details(IP).await;
    service.end().await;
    let service = ground.start().await;
    assert_eq!(service.details(IP).await, before);
    let list = service.admin("GET", "/ips", None).await.json();
    assert_eq!(
        list.as_array().unwrap().len(),
        2,
        "the deleted one is added again"
    );
    service.end().await;
}

#[tokio::test]
async fn rule_10_the_time_down_counts_against_no_deadline() {
    let yaml = "
orchestrator:
  { poll_interval_seconds: 60, heartbeat_timeout_seconds: 2, lease_ttl_seconds: 3,
    self_check_timeout_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let ground = Ground::of(yaml).with_fips(&[address(1)]);
    let (service, work) = claimed(&ground).await;
    let state = async |service: &Service| {
        let validators = service.admin("GET", "/validators", None).await.json();
        validators[0]["State"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&service).await, "assigned");
    service.end().await;
    // Longer than both deadlines; it is the time itself that is tested.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let service = ground.start().await;
    assert_eq!(state(&service).await, "assigned");
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    service.end().await;
}

#[tokio::test]
async fn a_lease_that_the_stored_settle_pause_uses_up_is_refused_at_the_start() {
    let ground = Ground::of("orchestrator: { fip_settle_seconds: 50 }");
    ground.start().await.end().await;
    let ground = ground.under("orchestrator: { lease_ttl_seconds: 80 }");
    let cloud = Arc::<FakeCloud>::clone(&ground.cloud);
    let Err(refused) = ground.try_start(cloud).await else {
        panic!("50 + 30 seconds are not less than 80");
    };
    assert!(refused.is::<civ_boot::Refused>(), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("fip_settle_seconds (50)"), "{text}");
    let ground = ground.under("orchestrator: { lease_ttl_seconds: 81 }");
    ground.start().await.end().await;
}
