//! What could be taken in two ways, or need not be sent at all, is refused at once.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ground::Ground;
use crate::http::Answer;

/// Path and the name of a parameter that takes one value.
const SINGLE: [(&str, &[&str]); 8] = [
    (
        "/api/v1/admin/ips",
        &["limit", "offset", "q", "result", "order", "state"],
    ),
    (
        "/api/v1/admin/registry",
        &["limit", "offset", "q", "last_result"],
    ),
    (
        "/api/v1/admin/events",
        &["after", "limit", "type", "severity", "ip"],
    ),
    ("/api/v1/admin/events/stream", &["after"]),
    ("/api/v1/admin/registry/export", &["format"]),
    (
        "/api/v1/admin/checks/export",
        &["format", "address", "since", "until"],
    ),
    ("/api/v1/agents/v1/assignment", &["wait"]),
    ("/api/v1/probers/site-1/assignments", &["wait"]),
];

#[tokio::test]
async fn a_parameter_given_twice_is_refused_by_its_name() {
    let service = Ground::new("").start().await;
    for (path, names) in SINGLE {
        for name in names {
            let url = format!("{path}?{name}=&x=1&{name}=1");
            let text = service.open("GET", &url, None).await.error(400);
            let expected = format!("{name}: given more than once: it may be given once");
            assert_eq!(text, expected, "{url}");
        }
    }
    let url = "/api/v1/admin/ips/scan?dry_run=1&dry_run=0";
    let text = service.open("POST", url, None).await.error(400);
    assert!(text.starts_with("dry_run: given more than once"), "{text}");
    service.end().await;
}

#[tokio::test]
async fn an_announced_body_over_the_limit_is_refused_without_being_sent() {
    let service = Ground::new("").start().await;
    for expect in ["expect: 100-continue\r\n", ""] {
        let mut stream = service.client.connect().await;
        let head = format!(
            "POST /api/v1/agents/v1/results HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: 65537\r\n{expect}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::parse(&answer).error(413);
    }
    service.end().await;
}

#[tokio::test]
async fn the_page_of_the_document_is_found_with_a_slash_too() {
    let service = Ground::new("").start().await;
    let told = service.open("GET", "/docs/", None).await;
    assert_eq!(told.status, 308);
    assert_eq!(told.header("location"), "../docs");
    service.end().await;
}

#[tokio::test]
async fn an_empty_type_is_no_filter() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1"]).await;
    let all = service.admin("GET", "/events?type=&limit=1000", None).await;
    let body = all.json();
    let list = body.as_array().or_else(|| body["items"].as_array());
    assert!(!list.unwrap().is_empty(), "{all:?}");
    service.end().await;
}
