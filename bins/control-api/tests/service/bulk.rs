//! Deleting a list, and clearing the queue, from every state.

use civ_testkit::{address, addresses, eventually, fip};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn delete(service: &Service, list: Value) -> Value {
    let told = service
        .admin("POST", "/ips/delete", Some(json!({"addresses": list})))
        .await;
    assert_eq!(told.status, 200, "{told:?}");
    told.json()
}

async fn n_queued(service: &Service) -> usize {
    let list = service.admin("GET", "/ips", None).await.json();
    list.as_array().unwrap().len()
}

/// One address in each of `checking`, `awaiting_self_check`, `done` and `queued`.
async fn busy(ground: &Ground) -> Service {
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    service.check("v1", &work, true).await;
    service.reached("203.0.113.1", "done").await;
    service.enqueue(&["203.0.113.2"]).await;
    let work = service.assignment("v1").await;
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    service.register("v2").await;
    service.enqueue(&["203.0.113.3"]).await;
    service.assignment("v2").await;
    service.enqueue(&["203.0.113.4"]).await;
    for (n, state) in [
        (1, "done"),
        (2, "checking"),
        (3, "awaiting_self_check"),
        (4, "queued"),
    ] {
        assert_eq!(service.state(&format!("203.0.113.{n}")).await, state);
    }
    service
}

#[tokio::test]
async fn clearing_takes_everything_releases_it_and_keeps_the_history() {
    let ground = Ground::new("").with_fips(&addresses(4));
    let service = busy(&ground).await;
    let told = service.admin("POST", "/ips/clear", None).await;
    let all: Vec<_> = (1..=4).map(|n| format!("203.0.113.{n}")).collect();
    assert_eq!(told.status, 200);
    assert_eq!(told.json(), json!({"deleted": all}));
    assert_eq!(n_queued(&service).await, 0);
    for n in 1..=4 {
        let path = format!("/registry/203.0.113.{n}");
        let history = service.admin("GET", &path, None).await.json();
        assert_eq!(history["registry"]["in_queue"], false);
        assert_eq!(history["registry"]["current_state"], "");
        let known = if n == 1 { 4 } else { 0 };
        assert_eq!(history["checks"].as_array().unwrap().len(), known);
    }
    eventually("everything is released", async || {
        let free = |n: u8| ground.cloud.port_of(&fip(address(n))).is_none();
        (free(2) && free(3)).then_some(())
    })
    .await;
    // The validators are free again, and an address that comes again is a new cycle.
    service.enqueue(&["203.0.113.2"]).await;
    let row = service.reached("203.0.113.2", "awaiting_self_check").await;
    assert_eq!(row["CycleID"], 2);
    assert_eq!(row["AttemptNumber"], 1);
    let told = service
        .admin("POST", "/ips/clear", Some(json!("ignored")))
        .await;
    assert_eq!(told.json(), json!({"deleted": ["203.0.113.2"]}));
    let told = service.admin("POST", "/ips/clear", None).await;
    assert_eq!(told.json(), json!({"deleted": []}), "an empty queue");
    service.end().await;
}

#[tokio::test]
async fn a_list_is_deleted_and_unknown_ones_are_told() {
    let ground = Ground::new("").with_fips(&addresses(4));
    let service = busy(&ground).await;
    let list = json!([
        "203.0.113.2",
        "203.0.113.9",
        "203.0.113.4",
        "203.0.113.2",
        "no address"
    ]);
    assert_eq!(
        delete(&service, list).await,
        json!({"deleted": ["203.0.113.2", "203.0.113.4"],
            "not_found": ["203.0.113.9", "no address"]})
    );
    assert_eq!(n_queued(&service).await, 2);
    eventually("it is released", async || {
        ground
            .cloud
            .port_of(&fip(address(2)))
            .is_none()
            .then_some(())
    })
    .await;
    // Prefixes and ranges, as for adding.
    let list = json!(["203.0.113.0/30", "203.0.113.4-203.0.113.5"]);
    let told = delete(&service, list).await;
    assert_eq!(told["deleted"], json!(["203.0.113.1", "203.0.113.3"]));
    assert_eq!(told["not_found"].as_array().unwrap().len(), 4);
    let told = service.admin("GET", "/ips/203.0.113.1", None).await;
    told.error(404);
    service.end().await;
}

#[tokio::test]
async fn a_bad_list_is_refused() {
    let service = Ground::new("").start().await;
    for (body, parts) in [
        (json!({"addresses": []}), ["addresses", "empty"]),
        (json!({}), ["missing", "addresses"]),
        (
            json!({"addresses": ["203.0.113.1"], "x": 1}),
            ["unknown field", "x"],
        ),
        (
            json!({"addresses": ["10.0.0.0/8"]}),
            ["10.0.0.0/8", "65536"],
        ),
        (
            json!({"addresses": "203.0.113.1"}),
            ["addresses", "sequence"],
        ),
    ] {
        let told = service.admin("POST", "/ips/delete", Some(body)).await;
        let text = told.error(400);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let told = service.admin("POST", "/ips/delete", None).await;
    assert!(told.error(400).contains("empty"));
    service.end().await;
}

#[tokio::test]
async fn a_full_queue_is_cleared_at_once() {
    let service = Ground::new("").start().await;
    let told = service.enqueue(&["198.18.0.0/17"]).await;
    assert_eq!(told["added"].as_array().unwrap().len(), 32_768);
    let told = service.admin("POST", "/ips/clear", None).await.json();
    let cleared = told["deleted"].as_array().unwrap();
    assert_eq!(cleared.len(), 32_768);
    assert_eq!(
        (&cleared[0], &cleared[32_767]),
        (&json!("198.18.0.0"), &json!("198.18.127.255"))
    );
    assert_eq!(n_queued(&service).await, 0);
    service.end().await;
}
