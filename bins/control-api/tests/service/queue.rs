//! The queue as an operator sees it.

use civ_testkit::{address, addresses};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

async fn listed(service: &Service, query: &str) -> Value {
    let told = service.admin("GET", &format!("/ips{query}"), None).await;
    assert_eq!(told.status, 200, "{query}: {told:?}");
    told.json()
}

fn names(list: &Value) -> Vec<&str> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["IPAddress"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn enqueueing_adds_requeues_reorders_and_skips() {
    let service = Ground::new("").with_fips(&addresses(4)).start().await;
    let none = json!([]);
    let told = service
        .enqueue(&["203.0.113.1", " 203.0.113.2", "203.0.113.1"])
        .await;
    assert_eq!(told["added"], json!(["203.0.113.1", "203.0.113.2"]));
    for list in ["requeued", "reordered", "skipped_in_progress"] {
        assert_eq!(told[list], none, "{list}");
    }
    let told = service.enqueue(&["203.0.113.3", "203.0.113.1"]).await;
    assert_eq!(told["added"], json!(["203.0.113.3"]));
    assert_eq!(told["reordered"], json!(["203.0.113.1"]));
    let all = listed(&service, "").await;
    assert_eq!(names(&all), ["203.0.113.2", "203.0.113.3", "203.0.113.1"]);
    service.admin("POST", "/ips/203.0.113.3/cancel", None).await;
    service.register("v1").await;
    service.reached("203.0.113.2", "awaiting_self_check").await;
    let told = service.enqueue(&["203.0.113.2/31"]).await;
    assert_eq!(told["skipped_in_progress"], json!(["203.0.113.2"]));
    assert_eq!(told["requeued"], json!(["203.0.113.3"]));
    let row = service.details("203.0.113.3").await["ip"].take();
    assert_eq!(
        (&row["AttemptNumber"], &row["CycleID"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&row["OverallResult"], &row["RetryCount"]),
        (&json!(""), &json!(0))
    );
    service.end().await;
}

#[tokio::test]
async fn a_bad_list_names_all_that_is_bad_and_applies_nothing() {
    let service = Ground::new("").start().await;
    let body = json!({"addresses": ["203.0.113.1", "nonsense", "203.0.113.0/99", "2001:db8::1"]});
    let text = service.admin("POST", "/ips", Some(body)).await.error(400);
    assert!(
        text.contains("nonsense") && text.contains("203.0.113.0/99"),
        "{text}"
    );
    let text = service
        .admin(
            "POST",
            "/ips",
            Some(json!({"addresses": ["203.0.113.1", "2001:db8::1"]})),
        )
        .await
        .error(400);
    assert!(
        text.contains("2001:db8::1"),
        "OpenStack has no such floating IPs: {text}"
    );
    for body in [
        json!({"addresses": []}),
        json!({"addresses": ["10.0.0.0/8"]}),
        json!({"addresses": ["203.0.113.1"], "order": "first"}),
        json!({"adresses": ["203.0.113.1"]}),
        json!({"addresses": "203.0.113.1"}),
    ] {
        service.admin("POST", "/ips", Some(body)).await.error(400);
    }
    assert_eq!(listed(&service, "").await, json!([]));
    service.end().await;
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1-203.0.113.30"]).await;
    service.admin("POST", "/ips/203.0.113.7/cancel", None).await;
    assert_eq!(listed(&service, "").await.as_array().unwrap().len(), 30);
    let page = listed(&service, "?limit=10&offset=25").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&page["total"], &page["limit"], &page["offset"]),
        (&json!(30), &json!(10), &json!(25))
    );
    let page = listed(&service, "?limit=1&q=113.2&state=queued").await;
    assert_eq!(page["total"], 11);
    let failed = listed(&service, "?state=failed,done").await;
    assert_eq!(names(&failed), ["203.0.113.7"]);
    let cancelled = listed(&service, "?result=cancelled").await;
    assert_eq!(names(&cancelled), ["203.0.113.7"]);
    let newest = listed(&service, "?order=aggregated_at_desc&limit=2").await;
    assert_eq!(names(&newest["items"]), ["203.0.113.7", "203.0.113.1"]);
    for query in [
        "limit=0",
        "limit=1001",
        "limit=ten",
        "offset=1",
        "offset=-1&limit=1",
        "state=gone",
        "result=occupied",
        "order=up",
    ] {
        let told = service.admin("GET", &format!("/ips?{query}"), None).await;
        let field = query.split('=').next().unwrap();
        let text = told.error(400);
        assert!(text.contains(field), "{query}: {text}");
    }
    service.end().await;
}

#[tokio::test]
async fn unknown_addresses_are_404_and_an_end_is_409() {
    let service = Ground::new("").start().await;
    for (method, path) in [
        ("GET", "/ips/203.0.113.9"),
        ("DELETE", "/ips/203.0.113.9"),
        ("POST", "/ips/203.0.113.9/cancel"),
        ("GET", "/ips/nonsense"),
        ("DELETE", "/ips/nonsense"),
        ("POST", "/ips/nonsense/cancel"),
    ] {
        service.admin(method, path, None).await.error(404);
    }
    service.enqueue(&["203.0.113.1"]).await;
    // A body where there is none is ignored.
    let told = service
        .client
        .send(
            "POST",
            "/api/v1/admin/ips/203.0.113.1/cancel",
            &[],
            Some("{"),
        )
        .await;
    assert_eq!(told.json(), json!({"ok": true}));
    let row = service.details("203.0.113.1").await["ip"].take();
    assert_eq!(
        (&row["State"], &row["OverallResult"]),
        (&json!("failed"), &json!("cancelled"))
    );
    let text = service
        .admin("POST", "/ips/203.0.113.1/cancel", None)
        .await
        .error(409);
    assert!(text.contains("203.0.113.1"), "{text}");
    let told = service.admin("DELETE", "/ips/203.0.113.1", None).await;
    assert_eq!(told.json(), json!({"ok": true}));
    service
        .admin("DELETE", "/ips/203.0.113.1", None)
        .await
        .error(404);
    service.end().await;
}

#[tokio::test]
async fn what_is_cancelled_or_deleted_on_its_way_is_released() {
    for (method, path) in [
        ("POST", "/ips/203.0.113.1/cancel"),
        ("DELETE", "/ips/203.0.113.1"),
    ] {
        for checking in [false, true] {
            let ground = Ground::new("").with_fips(&addresses(2));
            let service = ground.start().await;
            service.register("v1").await;
            service.enqueue(&["203.0.113.1"]).await;
            let work = service.assignment("v1").await;
            if checking {
                service.self_check("v1", &work, true).await;
            }
            assert_eq!(
                service.admin(method, path, None).await.json(),
                json!({"ok": true})
            );
            // The validator is free when the release is done: it takes the next one.
            service.enqueue(&["203.0.113.2"]).await;
            let next = service.assignment("v1").await;
            assert_eq!(next["ip_address"], "203.0.113.2");
            assert_eq!(ground.cloud.port_of(&civ_testkit::fip(address(1))), None);
            service.self_check("v1", &work, true).await.error(409);
            let told = service.inbound(&work, true).await.json();
            assert_eq!(told["stale"], 2);
            service.end().await;
        }
    }
}

#[tokio::test]
async fn deleted_and_added_again_it_is_another_one() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1"]).await;
    let first = service.details("203.0.113.1").await;
    service.admin("DELETE", "/ips/203.0.113.1", None).await;
    service.enqueue(&["203.0.113.1"]).await;
    let second = service.details("203.0.113.1").await;
    assert!(first["ip"]["ID"].as_i64() < second["ip"]["ID"].as_i64());
    assert_eq!(
        (&second["ip"]["CycleID"], &second["ip"]["AttemptNumber"]),
        (&json!(2), &json!(1))
    );
    let events = second["events"].as_array().unwrap();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["EventType"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["enqueued", "deleted", "enqueued"],
        "all events of the address"
    );
    service.end().await;
}
