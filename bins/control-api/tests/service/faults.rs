//! A cloud that is away, says no, or tells lies; a port that is not well; a release that fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use civ_cloud::fake::{FakeCloud, Trouble};
use civ_cloud::{Cloud, Fault, FloatingIp, Page, ReadFault, WriteFault};
use civ_testkit::{address, addresses, eventually, fip};
use civ_types::{Address, Family, FipId, PortId};
use serde_json::json;

use crate::ground::{Ground, Service};

fn port(name: &str) -> PortId {
    PortId::parse(name).unwrap()
}

async fn kinds(service: &Service, address: &str) -> Vec<String> {
    let events = service.details(address).await["events"].take();
    let kind = |event: &serde_json::Value| event["EventType"].as_str().unwrap().to_owned();
    events.as_array().unwrap().iter().map(kind).collect()
}

async fn has(service: &Service, address: &str, kind: &str) {
    let what = format!("{address} has the event {kind}");
    eventually(&what, async || {
        kinds(service, address)
            .await
            .contains(&kind.to_owned())
            .then_some(())
    })
    .await;
}

async fn page(service: &Service) -> String {
    service.open("GET", "/", None).await.body
}

#[tokio::test]
async fn rule_12_an_outage_costs_no_retries_and_claims_resume_by_themselves() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    let ready = async || (!page(&service).await.contains("Claims pause")).then_some(());
    eventually("cloud and database are compared", ready).await;
    ground
        .cloud
        .set_outage(Some(Fault::cloud("HTTP 503 of the proxy")));
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    has(&service, "203.0.113.1", "requeued").await;
    let shown = page(&service).await;
    assert!(shown.contains("Claims pause") && shown.contains("HTTP 503 of the proxy"));
    let before = ground.cloud.calls();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let n_calls = ground.cloud.calls() - before;
    assert!(
        n_calls < 20,
        "{n_calls} calls in a second to a cloud that is away"
    );
    let told = async |kind: &str| {
        let what = format!("the history has {kind}");
        let look = async || {
            let history = service.admin("GET", "/events", None).await.body;
            history.contains(kind).then_some(())
        };
        eventually(&what, look).await;
    };
    told("cloud_unavailable").await;
    ground.cloud.set_outage(None);
    let row = service.reached("203.0.113.1", "awaiting_self_check").await;
    assert_eq!(row["RetryCount"], 0);
    assert!(!page(&service).await.contains("Claims pause"));
    told("cloud_available").await;
    service.end().await;
}

#[tokio::test]
async fn rule_12_an_outage_at_the_start_is_waited_out() {
    let ground = Ground::new("ip_addresses: [203.0.113.1]").with_fips(&[address(1)]);
    ground
        .cloud
        .set_outage(Some(Fault::cloud("HTTP 401 for everybody")));
    let service = ground.start().await;
    service.register("v1").await;
    eventually("the pause is shown", async || {
        page(&service)
            .await
            .contains("HTTP 401 for everybody")
            .then_some(())
    })
    .await;
    assert_eq!(service.state("203.0.113.1").await, "queued");
    ground.cloud.set_outage(None);
    let row = service.reached("203.0.113.1", "awaiting_self_check").await;
    assert_eq!(row["RetryCount"], 0);
    service.end().await;
}

#[tokio::test]
async fn rule_12_a_port_that_is_not_well_pauses_its_validator() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    ground.cloud.remove_port(&port("port-1"));
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    has(&service, "203.0.113.1", "requeued").await;
    let validators = service.admin("GET", "/validators", None).await.json();
    let why = validators[0]["PausedBecause"].as_str().unwrap();
    assert!(why.contains("PortNotFound"), "{validators}");
    assert_eq!(validators[1]["PausedBecause"], "");
    assert!(page(&service).await.contains("PortNotFound"));
    service.register("v2").await;
    let row = service.reached("203.0.113.1", "awaiting_self_check").await;
    assert_eq!(
        (&row["RetryCount"], &row["ValidatorID"]),
        (&json!(0), &json!("v2"))
    );
    service.end().await;
}

#[tokio::test]
async fn rule_02_somebody_elses_address_is_occupied_and_never_written() {
    let ground = Ground::new("");
    ground
        .cloud
        .add_fip(fip(address(1)), address(1), Some(port("foreign")));
    ground.cloud.add_fip(fip(address(2)), address(2), None);
    ground.cloud.forward(&fip(address(2)));
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    for ip in ["203.0.113.1", "203.0.113.2"] {
        let row = service.reached(ip, "occupied").await;
        assert_eq!(
            (&row["OverallResult"], &row["RetryCount"]),
            (&json!(""), &json!(0))
        );
        has(&service, ip, "fip_occupied").await;
    }
    assert_eq!(ground.cloud.writes(), []);
    // The operator brings it back when the conflict is over.
    ground.cloud.rebind(&fip(address(1)), None);
    assert_eq!(
        service.enqueue(&["203.0.113.1"]).await["requeued"],
        json!(["203.0.113.1"])
    );
    service.reached("203.0.113.1", "awaiting_self_check").await;
    service.end().await;
}

#[tokio::test]
async fn an_address_that_the_project_does_not_have_fails_after_its_retries() {
    let ground = Ground::new("");
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let row = service.reached("203.0.113.1", "failed").await;
    assert_eq!(
        (&row["OverallResult"], &row["RetryCount"]),
        (&json!("fail"), &json!(3))
    );
    assert!(
        row["LastError"].as_str().unwrap().contains("203.0.113.1"),
        "{row}"
    );
    service.end().await;
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_reading() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    ground.cloud.script(Trouble::LostAfter);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    ground.cloud.script(Trouble::LostAfter);
    service.check("v1", &work, true).await;
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(
        (&row["OverallResult"], &row["RetryCount"]),
        (&json!("pass"), &json!(0))
    );
    assert_eq!(ground.cloud.writes().len(), 2);
    service.end().await;
}

#[tokio::test]
async fn rule_05_a_release_that_fails_blocks_the_validator_and_not_the_verdict() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, release_grace_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let ground = Ground::of(yaml).with_fips(&addresses(2));
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    let work = service.assignment("v1").await;
    service.self_check("v1", &work, true).await;
    // Five tries take longer than the grace.
    for _ in 0..4 {
        let text = "409 of its own".to_owned();
        ground
            .cloud
            .script(Trouble::Refused(Fault::Address { text }));
    }
    service.report("v1", "complete", &work, json!({})).await;
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "pass", "nothing was expected: {row}");
    assert_eq!(row["FIPReleasedAt"], json!(null));
    assert_eq!(ground.cloud.port_of(&fip(address(1))), Some(port("port-1")));
    assert_eq!(service.state("203.0.113.2").await, "queued");
    let next = service.assignment("v1").await;
    assert_eq!(next["ip_address"], "203.0.113.2");
    assert_eq!(ground.cloud.port_of(&fip(address(1))), None);
    let row = service.details("203.0.113.1").await["ip"].take();
    assert!(row["FIPReleasedAt"].is_string(), "{row}");
    service.end().await;
}

#[tokio::test]
async fn rule_03_what_hangs_on_our_ports_without_an_owner_is_released_at_the_start() {
    let ground = Ground::new("ip_addresses: [203.0.113.1]").with_fips(&[address(1)]);
    ground
        .cloud
        .add_fip(fip(address(9)), address(9), Some(port("port-1")));
    let service = ground.start().await;
    service.register("v1").await;
    let work = service.assignment("v1").await;
    assert_eq!(work["ip_address"], "203.0.113.1");
    assert_eq!(ground.cloud.port_of(&fip(address(9))), None);
    service.end().await;
}

#[tokio::test]
async fn rule_03_what_the_cloud_no_longer_shows_on_our_port_goes_back_as_a_retry() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, reconcile_interval_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let ground = Ground::of(yaml).with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    ground.cloud.rebind(&fip(address(1)), None);
    has(&service, "203.0.113.1", "reconciled").await;
    let again = service.assignment("v1").await;
    assert_ne!(again["fence"], work["fence"]);
    let row = service.details("203.0.113.1").await["ip"].take();
    assert_eq!(row["RetryCount"], 1);
    service.end().await;
}

#[tokio::test]
async fn rule_04_an_address_that_was_taken_from_us_is_left_to_whoever_has_it() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    service.assignment("v1").await;
    ground.cloud.rebind(&fip(address(1)), Some(port("foreign")));
    let n_writes = ground.cloud.writes().len();
    service.admin("POST", "/ips/203.0.113.1/cancel", None).await;
    has(&service, "203.0.113.1", "fip_conflict").await;
    assert_eq!(
        ground.cloud.port_of(&fip(address(1))),
        Some(port("foreign"))
    );
    assert_eq!(ground.cloud.writes().len(), n_writes);
    service.end().await;
}

#[tokio::test]
async fn a_service_without_work_lets_the_cloud_alone() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    service.assignment("v1").await;
    let before = ground.cloud.calls();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ground.cloud.calls(), before);
    service.end().await;
}

/// A cloud that takes a request and never answers it.
#[derive(Debug)]
struct Deaf {
    inner: Arc<FakeCloud>,
    to_listings: bool,
}

#[async_trait]
impl Cloud for Deaf {
    fn families(&self) -> &[Family] {
        self.inner.families()
    }

    async fn find(&self, _address: Address) -> Result<Option<FloatingIp>, Fault> {
        std::future::pending().await
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        self.inner.get(id).await
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        if self.to_listings {
            return std::future::pending().await;
        }
        self.inner.on_ports(ports).await
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        self.inner.page(after, limit).await
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        self.inner.set_port(id, port, revision).await
    }
}

#[tokio::test]
async fn a_cloud_that_never_answers_does_not_hold_up_the_end() {
    for to_listings in [true, false] {
        let ground = Ground::new("").with_fips(&[address(1)]);
        let inner = Arc::clone(&ground.cloud);
        let service = ground.start_on(Arc::new(Deaf { inner, to_listings })).await;
        service.register("v1").await;
        service.enqueue(&["203.0.113.1"]).await;
        if !to_listings {
            service.reached("203.0.113.1", "assigning_fip").await;
        }
        service.end().await;
        // What was asked for is still in the outbox: the next life finishes it.
        let service = ground.start().await;
        service.reached("203.0.113.1", "awaiting_self_check").await;
        service.end().await;
    }
}
