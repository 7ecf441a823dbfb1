//! How long texts may be and how far numbers go: what is just allowed, and what is just not.

use civ_testkit::address;
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

/// Large bodies are allowed, so that the limits of single fields can be reached.
const ROOMY: &str = "
server: { listen_addr: \"127.0.0.1:0\", body_limit_bytes: 4194304 }
orchestrator: { poll_interval_seconds: 60, inbound_checks: { ports: [22], icmp: false } }
validators: [{ validator_id: v1, os_port_id: port-1 }]
sites: [{ site_id: site-1 }]
";

/// Two bytes in UTF-8, one character.
const WIDE: &str = "\u{e9}";

async fn checking() -> (Service, Value) {
    let ground = Ground::whole(ROOMY).with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    assert_eq!(service.self_check("v1", &work, true).await.status, 200);
    (service, work)
}

#[tokio::test]
async fn a_target_has_at_most_2048_characters() {
    let (service, work) = checking().await;
    let path = "/api/v1/agents/v1/results";
    let rows = |target: String| {
        let row = json!({"ip_id": work["ip_id"], "check_type": "https", "success": true,
            "target": target});
        json!({"results": [row]})
    };
    let told = service
        .agent("POST", path, Some(rows(WIDE.repeat(2_048))))
        .await;
    assert_eq!(told.status, 200, "{told:?}");
    let told = service
        .agent("POST", path, Some(rows("x".repeat(2_049))))
        .await;
    let text = told.error(400);
    assert!(
        text.contains("results[0].target") && text.contains("2048"),
        "{text}"
    );
    let checks = service.details("203.0.113.1").await["checks"].take();
    assert_eq!(
        checks.as_array().unwrap().len(),
        1,
        "nothing of it was kept"
    );
    assert_eq!(checks[0]["Target"], WIDE.repeat(2_048));
    service.end().await;
}

#[tokio::test]
async fn a_payload_has_at_most_65536_characters() {
    let (service, _) = checking().await;
    for path in ["/api/v1/agents/v1/events", "/api/v1/probers/site-1/events"] {
        let event = |payload: String| json!({"event_type": "dump", "payload": payload});
        let longest = WIDE.repeat(65_536);
        let told = service
            .agent("POST", path, Some(event(longest.clone())))
            .await;
        assert_eq!(told.status, 200, "{path}");
        let told = service
            .agent("POST", path, Some(event("x".repeat(65_537))))
            .await;
        let text = told.error(400);
        assert!(text.contains("payload") && text.contains("65536"), "{text}");
        let kept = service
            .admin("GET", "/events?type=dump&limit=1", None)
            .await
            .json();
        assert_eq!(kept[0]["Payload"], longest, "{path}");
    }
    service.end().await;
}

#[tokio::test]
async fn an_event_type_is_any_text_of_1_to_64_characters_that_can_be_seen() {
    let (service, _) = checking().await;
    for path in ["/api/v1/agents/v1/events", "/api/v1/probers/site-1/events"] {
        for (event_type, status) in [
            ("x".to_owned(), 200),
            ("two words".to_owned(), 200),
            ("\u{1f600}".to_owned(), 200),
            (WIDE.repeat(64), 200),
            (WIDE.repeat(65), 400),
            (String::new(), 400),
            (" \t\n".to_owned(), 400),
            ("\u{0}\u{7f}".to_owned(), 400),
        ] {
            let body = json!({ "event_type": event_type });
            let told = service.agent("POST", path, Some(body)).await;
            assert_eq!(told.status, status, "{event_type:?}: {told:?}");
            if status == 400 {
                assert!(told.error(400).starts_with("event_type: "), "{told:?}");
            }
        }
    }
    service.end().await;
}

#[tokio::test]
async fn a_detail_is_cut_at_4096_bytes_between_characters() {
    let (service, work) = checking().await;
    let long = format!("x{}", WIDE.repeat(4_000));
    let kept = format!("x{}", WIDE.repeat(2_047));
    let row = |check: &str, more: Value| {
        let mut row = json!({"ip_id": work["ip_id"], "check_type": check, "success": true,
            "detail": long});
        if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
            row.extend(more);
        }
        json!({"results": [row]})
    };
    let rows = row("https", json!({"target": "t"}));
    service
        .agent("POST", "/api/v1/agents/v1/results", Some(rows))
        .await;
    let rows = row("tcp-22", json!({}));
    service
        .agent("POST", "/api/v1/probers/site-1/results", Some(rows))
        .await;
    let checks = service.details("203.0.113.1").await["checks"].take();
    for check in checks.as_array().unwrap() {
        assert_eq!(check["Detail"], kept);
    }
    assert_eq!(checks.as_array().unwrap().len(), 2);
    service.end().await;
}

#[tokio::test]
async fn an_offset_goes_as_far_as_the_database_counts() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1"]).await;
    let last = i64::MAX;
    for list in ["/ips", "/registry"] {
        let path = format!("{list}?limit=1&offset={last}");
        let page = service.admin("GET", &path, None).await.json();
        let expected = json!({"items": [], "total": 1, "limit": 1, "offset": last});
        assert_eq!(page, expected, "{path}");
        for beyond in [
            "9223372036854775808",
            "18446744073709551616",
            "1.0",
            "1e3",
            "+ 1",
        ] {
            let path = format!("{list}?limit=1&offset={}", beyond.replace(' ', "%20"));
            let text = service.admin("GET", &path, None).await.error(400);
            assert!(
                text.contains("offset") && text.contains(&last.to_string()),
                "{text}"
            );
        }
    }
    service.end().await;
}

#[tokio::test]
async fn a_text_that_is_searched_for_has_at_most_64_characters() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1"]).await;
    for list in ["/ips", "/registry"] {
        let found = service
            .admin("GET", &format!("{list}?q={}", "x".repeat(64)), None)
            .await;
        assert_eq!(found.json(), json!([]), "{list}");
        let told = service
            .admin("GET", &format!("{list}?q={}", "x".repeat(65)), None)
            .await;
        let text = told.error(400);
        assert!(text.starts_with("q: ") && text.contains("64"), "{text}");
        // Characters that mean something to a pattern are looked for as they are.
        for odd in ["%25", "_", "*", "%5B0-9%5D", "%27", "%22"] {
            let path = format!("{list}?q={odd}");
            let found = service.admin("GET", &path, None).await;
            assert_eq!(found.json(), json!([]), "{path}");
        }
    }
    service.end().await;
}

#[tokio::test]
async fn one_call_names_at_most_65536_addresses() {
    let service = Ground::new("").start().await;
    for method in ["/ips", "/ips/delete"] {
        for list in [
            json!(["198.18.0.0/16", "203.0.113.1"]),
            json!(["198.18.0.0-198.19.0.0"]),
            json!(["198.18.0.0/15"]),
        ] {
            let body = json!({ "addresses": list });
            let text = service.admin("POST", method, Some(body)).await.error(400);
            assert!(text.contains("65536"), "{text}");
        }
    }
    assert_eq!(service.admin("GET", "/ips", None).await.json(), json!([]));
    let told = service.enqueue(&["198.18.0.0/16"]).await;
    let added = told["added"].as_array().unwrap();
    assert_eq!(
        (added.len(), &added[0], &added[65_535]),
        (65_536, &json!("198.18.0.0"), &json!("198.18.255.255"))
    );
    service.end().await;
}
