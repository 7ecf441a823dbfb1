//! The memory of all addresses ever enqueued, and how much of their history is kept.

use civ_testkit::{addresses, eventually};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn get(service: &Service, path: &str) -> Value {
    let told = service
        .admin("GET", &format!("/registry{path}"), None)
        .await;
    assert_eq!(told.status, 200, "{told:?}");
    told.json()
}

/// One cycle of an address, from being enqueued to its verdict.
async fn cycle(service: &Service, address: &str, success: bool) {
    service.enqueue(&[address]).await;
    let work = service.assignment("v1").await;
    service.check("v1", &work, success).await;
    service.reached(address, "done").await;
}

/// `.1` passed and is in the queue, `.2` failed and is gone, `.3` was cancelled, `.4` waits.
async fn known() -> (Ground, Service) {
    let ground = Ground::new("").with_fips(&addresses(4));
    let service = ground.start().await;
    service.register("v1").await;
    cycle(&service, "203.0.113.1", true).await;
    cycle(&service, "203.0.113.2", false).await;
    service.admin("DELETE", "/ips/203.0.113.2", None).await;
    // Nobody else is there: the validator that is left works on something else.
    service
        .admin(
            "POST",
            "/config/validators",
            Some(json!({"validator_id": "v9",
        "os_port_id": "port-9"})),
        )
        .await;
    service.enqueue(&["203.0.113.3"]).await;
    service.admin("POST", "/ips/203.0.113.3/cancel", None).await;
    (ground, service)
}

#[tokio::test]
async fn every_address_is_remembered_with_its_summary() {
    let (_ground, service) = known().await;
    let all = get(&service, "").await;
    let rows = all.as_array().unwrap();
    let summary: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            assert_eq!(row.as_object().unwrap().len(), 8, "{row}");
            assert!(row["first_seen_at"].is_string() && row["last_seen_at"].is_string());
            let in_queue = row["in_queue"].as_bool().unwrap();
            (
                text("ip_address"),
                text("last_result"),
                text("current_state"),
                in_queue,
            )
        })
        .collect();
    let row = |ip: &str, result: &str, state: &str, queued| {
        (ip.to_owned(), result.to_owned(), state.to_owned(), queued)
    };
    assert_eq!(
        summary,
        [
            row("203.0.113.1", "pass", "done", true),
            row("203.0.113.2", "fail", "", false),
            row("203.0.113.3", "cancelled", "failed", true),
        ]
    );
    service.end().await;
}

#[tokio::test]
async fn pages_and_filters_count_what_they_mean() {
    let (_ground, service) = known().await;
    let page = get(&service, "?limit=2&offset=1").await;
    assert_eq!(
        (&page["total"], &page["limit"], &page["offset"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!(page["items"][0]["ip_address"], "203.0.113.2");
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let page = get(&service, "?limit=10&last_result=fail").await;
    assert_eq!(
        (&page["total"], &page["items"][0]["in_queue"]),
        (&json!(1), &json!(false))
    );
    let page = get(&service, "?limit=1&q=113.3").await;
    assert_eq!(
        (&page["total"], &page["items"][0]["current_state"]),
        (&json!(1), &json!("failed"))
    );
    // Filters without a page give the filtered array.
    let list = get(&service, "?q=203.0.113&last_result=pass").await;
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(get(&service, "?q=198").await, json!([]));
    assert_eq!(
        get(&service, "?limit=5&offset=99").await["items"],
        json!([])
    );
    for (query, parts) in [
        ("limit=0", ["limit", "1 to 1000"]),
        ("limit=1001", ["limit", "1001"]),
        ("limit=x", ["limit", "x"]),
        ("offset=1", ["offset", "limit"]),
        ("limit=1&offset=-1", ["offset", "-1"]),
        (
            "last_result=done",
            ["last_result", "pass, partial, fail, cancelled"],
        ),
    ] {
        let told = service
            .admin("GET", &format!("/registry?{query}"), None)
            .await;
        let text = told.error(400);
        assert!(
            parts.iter().all(|part| text.contains(part)),
            "{query}: {text}"
        );
    }
    service.end().await;
}

#[tokio::test]
async fn rule_09_deleting_and_adding_again_keeps_histories_apart() {
    let ground = Ground::new("").with_fips(&addresses(1));
    let service = ground.start().await;
    service.register("v1").await;
    cycle(&service, "203.0.113.1", true).await;
    service.admin("DELETE", "/ips/203.0.113.1", None).await;
    cycle(&service, "203.0.113.1", false).await;
    cycle(&service, "203.0.113.1", true).await;
    let history = get(&service, "/203.0.113.1").await;
    let known = &history["registry"];
    assert_eq!(
        (&known["total_cycles"], &known["last_result"]),
        (&json!(3), &json!("pass"))
    );
    assert_eq!(known["current_state"], "done");
    let checks = history["checks"].as_array().unwrap();
    let cycles: Vec<_> = checks
        .iter()
        .map(|row| {
            (
                row["CycleID"].as_i64().unwrap(),
                row["Success"].as_bool().unwrap(),
            )
        })
        .collect();
    let expected = [[(3, true); 4], [(2, false); 4], [(1, true); 4]].concat();
    assert_eq!(cycles, expected, "newest cycle first");
    // The queue shows the current attempt alone.
    let details = service.details("203.0.113.1").await;
    assert_eq!(details["checks"].as_array().unwrap().len(), 4);
    assert_eq!(details["ip"]["CycleID"], 3);
    // The ids of a row that was deleted are not used again.
    let ids: Vec<_> = checks
        .iter()
        .map(|row| row["IPID"].as_i64().unwrap())
        .collect();
    assert!(ids[0] > ids[11], "{ids:?}");
    service.end().await;
}

#[tokio::test]
async fn what_was_never_enqueued_is_404() {
    let service = Ground::new("").start().await;
    for ip in ["203.0.113.1", "rubbish", "2001:db8::1"] {
        let told = service.admin("GET", &format!("/registry/{ip}"), None).await;
        let text = told.error(404);
        assert!(
            text.contains(ip) && text.contains("never enqueued"),
            "{text}"
        );
    }
    assert_eq!(get(&service, "").await, json!([]));
    assert_eq!(
        get(&service, "?limit=1").await,
        json!({"items": [], "total": 0, "limit": 1, "offset": 0})
    );
    service.end().await;
}

async fn keep(service: &Service, cycles: i64) {
    let body = json!({"history_retention_cycles": cycles});
    let told = service
        .admin("PUT", "/config/orchestrator", Some(body))
        .await;
    assert_eq!(told.status, 200, "{told:?}");
}

/// Cycles of which there are checks, newest first.
async fn cycles(service: &Service, address: &str) -> Vec<i64> {
    let history = get(service, &format!("/{address}")).await;
    let checks = history["checks"].as_array().unwrap();
    let mut cycles: Vec<_> = checks
        .iter()
        .map(|row| row["CycleID"].as_i64().unwrap())
        .collect();
    cycles.dedup();
    cycles
}

#[tokio::test]
async fn history_is_kept_for_so_many_cycles_and_the_registry_for_ever() {
    let ground = Ground::new("").with_fips(&addresses(2));
    let service = ground.start().await;
    service.register("v1").await;
    for _ in 0..3 {
        cycle(&service, "203.0.113.1", true).await;
    }
    cycle(&service, "203.0.113.2", true).await;
    assert_eq!(cycles(&service, "203.0.113.1").await, [3, 2, 1]);
    keep(&service, 2).await;
    eventually("the history is cut", async || {
        (cycles(&service, "203.0.113.1").await == [3, 2]).then_some(())
    })
    .await;
    assert_eq!(cycles(&service, "203.0.113.2").await, [1]);
    let details = service.details("203.0.113.1").await;
    let oldest = details["events"][0]["CycleID"].as_i64();
    assert_eq!(oldest, Some(2), "events go with their cycle");
    cycle(&service, "203.0.113.1", true).await;
    assert_eq!(
        cycles(&service, "203.0.113.1").await,
        [4, 3],
        "at the end of a cycle"
    );
    let known = get(&service, "/203.0.113.1").await["registry"].take();
    assert_eq!(known["total_cycles"], 4);
    keep(&service, 0).await;
    cycle(&service, "203.0.113.1", true).await;
    assert_eq!(
        cycles(&service, "203.0.113.1").await,
        [5, 4, 3],
        "all again"
    );
    service.end().await;
}
