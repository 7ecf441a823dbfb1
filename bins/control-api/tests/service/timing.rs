//! How long a request may take: to come and to be answered, apart from what it asks to wait for.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ground::{Ground, Service};
use crate::http::Answer;

const HASTY: &str = "
server: { listen_addr: \"127.0.0.1:0\", request_timeout_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
sites: [{ site_id: site-1 }]
";

async fn hasty() -> Service {
    Ground::whole(HASTY).start().await
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let service = hasty().await;
    for path in [
        "/api/v1/agents/register",
        "/api/v1/agents/v1/results",
        "/api/v1/admin/ips",
    ] {
        let begun = Instant::now();
        let mut stream = service.client.connect().await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = Answer::parse(&answer);
        let text = answer.error(503);
        assert!(text.contains("longer than 1 s"), "{text}");
        assert_eq!(answer.header("x-request-id").len(), 36);
        assert!(begun.elapsed() >= Duration::from_millis(990));
    }
    service.end().await;
}

#[tokio::test]
async fn what_is_waited_for_comes_on_top() {
    let service = hasty().await;
    for (path, status) in [
        ("/api/v1/agents/v1/assignment?wait=2", 204),
        ("/api/v1/probers/site-1/assignments?wait=2", 200),
    ] {
        let begun = Instant::now();
        let told = service.open("GET", path, None).await;
        assert_eq!(told.status, status, "{told:?}");
        assert!(begun.elapsed() >= Duration::from_millis(1_990), "{path}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_stream_lasts_longer_than_a_request() {
    let service = hasty().await;
    let mut stream = service.client.connect().await;
    let head = b"GET /api/v1/admin/events/stream HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut seen = String::new();
    let mut bytes = [0; 4_096];
    while !seen.contains(": following") {
        let n = stream.read(&mut bytes).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    // It is the time itself that is tested.
    tokio::time::sleep(Duration::from_secs(2)).await;
    service.enqueue(&["203.0.113.1"]).await;
    while !seen.contains("\"enqueued\"") {
        let n = stream.read(&mut bytes).await.unwrap();
        assert_ne!(n, 0, "it has ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    service.end().await;
}
