//! The history: page by page, and as a stream.

use serde_json::Value;

use crate::ground::{Service, until};

const EVENTS: &str = "/api/v1/admin/events";

fn ids(list: &Value) -> Vec<i64> {
    let list = list.as_array().unwrap();
    list.iter()
        .map(|event| event["ID"].as_i64().unwrap())
        .collect()
}

#[tokio::test]
async fn pages_follow_one_another_without_gaps() {
    let service = Service::start().await;
    for n in 0..7 {
        service.report(&format!("told_{n}")).await;
    }
    let all = ids(&service.get(&format!("{EVENTS}?after=0")).await.json());
    assert!(all.len() >= 7 && all.is_sorted(), "{all:?}");
    let mut paged = Vec::new();
    loop {
        let after = paged.last().copied().unwrap_or(0);
        let page = ids(&service
            .get(&format!("{EVENTS}?after={after}&limit=3"))
            .await
            .json());
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let latest = ids(&service.get(&format!("{EVENTS}?limit=3")).await.json());
    assert_eq!(latest, all[all.len() - 3..]);
    service.end().await;
}

#[tokio::test]
async fn filters_leave_what_they_name() {
    let service = Service::start().await;
    service.enqueue("203.0.113.1-203.0.113.2").await;
    service.report("told").await;
    let of = async |filter: &str| {
        let found = service.get(&format!("{EVENTS}?after=0&{filter}")).await;
        found.json().as_array().unwrap().clone()
    };
    let told = of("type=told").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["ValidatorID"], "v1");
    let of_one = of("ip=203.0.113.2").await;
    assert!(!of_one.is_empty());
    assert!(
        of_one
            .iter()
            .all(|event| event["IPAddress"] == "203.0.113.2")
    );
    assert!(of("severity=error&type=told").await.is_empty());
    for wrong in [
        "after=-1",
        "limit=0",
        "limit=1001",
        "severity=loud",
        "ip=x",
        "after=",
    ] {
        let told = service.get(&format!("{EVENTS}?{wrong}")).await;
        assert_eq!(told.status(), 400, "{wrong}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_cut_off_and_ends_with_the_process() {
    let service = Service::start().await;
    service.report("first").await;
    service.report("second").await;
    let first = service
        .get(&format!("{EVENTS}?after=0&type=first"))
        .await
        .json();
    let first = ids(&first)[0];
    let request = format!(
        "GET {EVENTS}/stream?after=999999 HTTP/1.1\r\nhost: test\r\nlast-event-id: {first}\r\n\r\n"
    );
    let mut stream = service.open(&request).await;
    let seen = until(&mut stream, "\"second\"").await;
    assert!(seen.contains("content-type: text/event-stream"), "{seen}");
    assert!(!seen.contains("\"first\""), "{seen}");
    service.report("third").await;
    let seen = until(&mut stream, "\"third\"").await;
    assert!(
        seen.contains("\nid: ") && seen.contains("\ndata: {"),
        "{seen}"
    );

    let request = format!("GET {EVENTS}/stream HTTP/1.1\r\nhost: test\r\n\r\n");
    let mut fresh = service.open(&request).await;
    until(&mut fresh, ": following").await;
    service.report("fourth").await;
    let seen = until(&mut fresh, "\"fourth\"").await;
    assert!(!seen.contains("\"third\""), "{seen}");
    service.end().await;
}

#[tokio::test]
async fn a_last_event_id_that_is_none_is_refused() {
    let service = Service::start().await;
    let request = format!(
        "GET {EVENTS}/stream HTTP/1.1\r\nhost: test\r\nlast-event-id: x\r\n\
         connection: close\r\n\r\n"
    );
    let mut stream = service.open(&request).await;
    until(&mut stream, "400 Bad Request").await;
    service.end().await;
}
