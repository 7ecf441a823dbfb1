//! The history: page by page, and as a stream.

use std::time::Duration;

use civ_testkit::eventually;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::ground::{Service, until};

const EVENTS: &str = "/api/v1/admin/events";

/// No event ever has a larger one.
const LAST_OF_ALL: &str = "9223372036854775807";

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

async fn follow(service: &Service, query: &str, last: &str) -> TcpStream {
    let request = format!("GET {EVENTS}/stream{query} HTTP/1.1\r\nhost: test\r\n{last}\r\n");
    let mut stream = service.open(&request).await;
    until(&mut stream, ": following").await;
    stream
}

#[tokio::test]
async fn a_reader_that_goes_away_is_forgotten_though_nothing_happens() {
    let service = Service::start().await;
    let streams = [
        follow(&service, "", "").await,
        follow(&service, "?after=0", "").await,
    ];
    eventually("two connections", async || {
        (service.connections() == 2).then_some(())
    })
    .await;
    drop(streams);
    eventually("none", async || (service.connections() == 0).then_some(())).await;
    // Whoever comes then is served as before.
    let mut next = follow(&service, "", "").await;
    service.report("told").await;
    until(&mut next, "\"told\"").await;
    service.end().await;
}

#[tokio::test]
async fn a_comment_every_15_seconds_says_that_the_stream_lives() {
    let service = Service::start().await;
    let mut stream = follow(&service, "", "").await;
    // From here on time passes as soon as nothing else is left to do.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    for n in 1..=3 {
        let seen = until(&mut stream, ": alive").await;
        assert!(!seen.contains("data:"), "{seen}");
        let passed = begun.elapsed();
        let due = Duration::from_secs(15 * n);
        assert!(due <= passed, "{passed:?}");
        assert!(passed < due + Duration::from_secs(4), "{passed:?}");
    }
    tokio::time::resume();
    service.report("told").await;
    until(&mut stream, "\"told\"").await;
    service.end().await;
}

#[tokio::test]
async fn a_stream_begins_behind_last_event_id_else_behind_after_else_with_what_comes() {
    let service = Service::start().await;
    for n in 1..=3 {
        service.report(&format!("told_{n}")).await;
    }
    let all = ids(&service.get(&format!("{EVENTS}?after=0")).await.json());
    let (first, second) = (all[0], all[1]);
    let last = format!("last-event-id: {second}\r\n");
    let beyond = format!("last-event-id: {LAST_OF_ALL}\r\n");
    let cases = [
        (String::new(), String::new(), vec![]),
        ("?after=0".to_owned(), String::new(), vec![1, 2, 3]),
        (format!("?after={first}"), String::new(), vec![2, 3]),
        (format!("?after={first}"), last.clone(), vec![3]),
        (String::new(), last, vec![3]),
        // A header without a value is as good as none.
        (
            format!("?after={second}"),
            "last-event-id:\r\n".to_owned(),
            vec![3],
        ),
        ("?after=0".to_owned(), beyond, vec![]),
    ];
    for (n, (query, header, expected)) in cases.into_iter().enumerate() {
        let request = format!("GET {EVENTS}/stream{query} HTTP/1.1\r\nhost: test\r\n{header}\r\n");
        let mut stream = service.open(&request).await;
        let mut seen = until(&mut stream, ": following").await;
        if !header.contains(LAST_OF_ALL) {
            // What is told from here on comes behind everything that there was before.
            service.report(&format!("mark_{n}")).await;
            seen.push_str(&until(&mut stream, &format!("\"mark_{n}\"")).await);
        }
        let told: Vec<_> = (1..=3)
            .filter(|n| seen.contains(&format!("\"told_{n}\"")))
            .collect();
        assert_eq!(told, expected, "{query} {header}");
    }
    for (query, header) in [
        ("?after=x", ""),
        ("?after=-1", ""),
        ("?after=9223372036854775808", ""),
        ("", "last-event-id: 1.5\r\n"),
        ("?after=0", "last-event-id: \u{e9}\r\n"),
    ] {
        let request = format!(
            "GET {EVENTS}/stream{query} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{header}\r\n"
        );
        let mut stream = service.open(&request).await;
        until(&mut stream, "400 Bad Request").await;
    }
    service.end().await;
}

#[tokio::test]
async fn a_long_past_comes_whole_and_in_order() {
    let service = Service::start().await;
    // More than twice what a stream holds at once.
    service.enqueue("198.18.0.0/23").await;
    let mut stream = follow(&service, "?after=0", "").await;
    service.report("the_end").await;
    let seen = until(&mut stream, "\"the_end\"").await;
    let of_stream: Vec<i64> = seen
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.trim().parse().unwrap())
        .collect();
    let mut of_pages = Vec::new();
    while let Some(page) = {
        let after = of_pages.last().copied().unwrap_or(0);
        let page = ids(&service
            .get(&format!("{EVENTS}?after={after}&limit=1000"))
            .await
            .json());
        (!page.is_empty()).then_some(page)
    } {
        of_pages.extend(page);
    }
    assert!(of_pages.len() > 512, "{}", of_pages.len());
    // What came together with `: following` is not in `seen`.
    assert!(of_pages.ends_with(&of_stream), "{of_stream:?}");
    assert!(of_stream.len() > 200, "{}", of_stream.len());
    service.end().await;
}

#[tokio::test]
async fn filters_hold_together_and_pages_have_a_hundred_if_nobody_says() {
    let service = Service::start().await;
    for n in 0..101 {
        service.report(if n == 50 { "rare" } else { "told" }).await;
    }
    service.enqueue("203.0.113.1").await;
    service.enqueue("203.0.113.2").await;
    let count = async |query: &str| {
        let found = service.get(&format!("{EVENTS}?{query}")).await;
        assert_eq!(found.status(), 200, "{query}");
        found.json().as_array().unwrap().len()
    };
    assert_eq!(count("after=0").await, 100);
    assert_eq!(count("").await, 100);
    assert_eq!(count("type=told&limit=1000").await, 100);
    assert_eq!(count("type=rare").await, 1);
    assert_eq!(count("type=rare&severity=info").await, 1);
    assert_eq!(count("type=rare&severity=warning").await, 0);
    assert_eq!(count("type=enqueued").await, 2);
    assert_eq!(count("type=enqueued&ip=203.0.113.2&severity=info").await, 1);
    assert_eq!(count("type=told&ip=203.0.113.2").await, 0);
    assert_eq!(
        count("type=Told").await,
        0,
        "types are compared as they are"
    );
    assert_eq!(count("type=tol%25").await, 0);
    // Pages of what a filter leaves: neither gaps nor repetitions.
    let mut paged = Vec::new();
    loop {
        let after = paged.last().copied().unwrap_or(0);
        let query = format!("{EVENTS}?type=told&after={after}&limit=33");
        let page = ids(&service.get(&query).await.json());
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert!(paged.is_sorted() && paged.len() == 100, "{paged:?}");
    let longest = "%C3%A9".repeat(64);
    assert_eq!(count(&format!("type={longest}")).await, 0);
    let told = service.get(&format!("{EVENTS}?type={longest}x")).await;
    assert_eq!(told.status(), 400);
    assert!(told.body.contains("64 characters"), "{told:?}");
    service.end().await;
}
