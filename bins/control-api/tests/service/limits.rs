//! What is refused before any method sees it, always in the shape of the contract.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ground::Ground;
use crate::http::Answer;

#[tokio::test]
async fn an_unknown_path_is_404_and_a_wrong_method_405_with_what_is_allowed() {
    let service = Ground::new("").start().await;
    for path in [
        "/nothing",
        "/api/v1",
        "/api/v1/nothing",
        "/api/v2/admin/status",
        "/healthz/",
    ] {
        service.open("GET", path, None).await.error(404);
    }
    for (method, path, allow) in [
        ("POST", "/healthz", "GET"),
        ("DELETE", "/api/v1/agents/register", "POST"),
        ("GET", "/api/v1/agents/v1/heartbeat", "POST"),
        ("POST", "/api/v1/agents/v1/assignment", "GET"),
        ("PUT", "/api/v1/probers/site-1/results", "POST"),
        ("PATCH", "/api/v1/admin/ips", "GET"),
        ("PATCH", "/api/v1/admin/ips", "POST"),
        ("POST", "/api/v1/admin/ips/203.0.113.1", "DELETE"),
        ("GET", "/api/v1/admin/ips/203.0.113.1/cancel", "POST"),
        ("POST", "/", "GET"),
    ] {
        let told = service.open(method, path, None).await;
        told.error(405);
        assert!(
            told.header("allow").contains(allow),
            "{method} {path}: {told:?}"
        );
    }
    service.end().await;
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let service = Ground::new("").start().await;
    for (path, status) in [
        ("/healthz", 200),
        ("/nothing", 404),
        ("/api/v1/agents/v1/assignment", 204),
    ] {
        let headers = [("x-request-id", "abc-123")];
        let told = service.client.send("GET", path, &headers, None).await;
        assert_eq!(
            (told.status, told.header("x-request-id")),
            (status, "abc-123")
        );
        let first = service.open("GET", path, None).await;
        let second = service.open("GET", path, None).await;
        assert_eq!(first.header("x-request-id").len(), 36, "{first:?}");
        assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    }
    let long = "x".repeat(129);
    for insane in ["", "two words", long.as_str()] {
        let headers = [("x-request-id", insane)];
        let told = service.client.send("GET", "/healthz", &headers, None).await;
        assert_eq!(told.header("x-request-id").len(), 36, "{insane:?}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_its_sender_gets_to_read_it() {
    let service = Ground::new("").start().await;
    let path = "/api/v1/agents/v1/results";
    // As large as allowed: refused for what it says, not for its size.
    let body = " ".repeat(65_536);
    service
        .client
        .send("POST", path, &[], Some(&body))
        .await
        .error(400);
    let body = " ".repeat(65_537);
    let text = service
        .client
        .send("POST", path, &[], Some(&body))
        .await
        .error(413);
    assert!(text.contains("65536"), "{text}");
    // Sent to the end before the answer is looked at, by length and in chunks.
    for chunked in [false, true] {
        let mut stream = service.client.connect().await;
        let n = 400_000;
        let framing = if chunked {
            "transfer-encoding: chunked".to_owned()
        } else {
            format!("content-length: {n}")
        };
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let part = vec![b' '; 1_000];
        for _ in 0..n / 1_000 {
            if chunked {
                stream.write_all(b"3e8\r\n").await.unwrap();
            }
            stream.write_all(&part).await.unwrap();
            if chunked {
                stream.write_all(b"\r\n").await.unwrap();
            }
        }
        if chunked {
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::parse(&answer).error(413);
    }
    service.end().await;
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_when_to_come_again() {
    let yaml = "
server: { listen_addr: \"127.0.0.1:0\", open_requests_per_second: 2 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let service = Ground::whole(yaml).start().await;
    let path = "/api/v1/agents/v1/heartbeat";
    let mut refused = None;
    for _ in 0..50 {
        let told = service.open("POST", path, None).await;
        if told.status != 200 {
            refused = Some(told);
            break;
        }
    }
    let refused = refused.unwrap();
    refused.error(429);
    assert_eq!(refused.header("retry-after"), "1");
    // Other methods are not held to it.
    assert_eq!(
        service.open("GET", "/healthz", None).await.json(),
        json!({"ok": true})
    );
    service.end().await;
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_counted_each_for_itself() {
    for (proxies, own) in [("[127.0.0.0/8]", true), ("[]", false)] {
        let yaml = format!(
            "server: {{ listen_addr: \"127.0.0.1:0\", open_requests_per_second: 1, \
             trusted_proxies: {proxies} }}\n\
             validators: [{{ validator_id: v1, os_port_id: port-1 }}]\n"
        );
        let service = Ground::whole(&yaml).start().await;
        let beat = async |client: &str| {
            let headers = [("x-forwarded-for", client)];
            let path = "/api/v1/agents/v1/heartbeat";
            let told = service.client.send("POST", path, &headers, None).await;
            told.status
        };
        let mut status = 200;
        for _ in 0..50 {
            status = beat("198.51.100.1").await;
            if status != 200 {
                break;
            }
        }
        assert_eq!(status, 429);
        // Ten others in a row: at one a second they cannot all share what one client has.
        let mut statuses = Vec::new();
        for n in 10..20 {
            statuses.push(beat(&format!("198.51.100.{n}")).await);
        }
        let all_served = statuses.iter().all(|status| *status == 200);
        assert_eq!(all_served, own, "{proxies}: {statuses:?}");
        service.end().await;
    }
}

#[tokio::test]
async fn it_is_ready_until_it_is_told_to_end() {
    let service = Ground::new("").start().await;
    assert_eq!(
        service.open("GET", "/healthz", None).await.json(),
        json!({"ok": true})
    );
    assert_eq!(
        service.open("GET", "/readyz", None).await.json(),
        json!({"ok": true})
    );
    // A request under way at the shutdown is still answered.
    let mut stream = service.client.connect().await;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n")
        .await
        .unwrap();
    let tasks = service.context.tasks.clone();
    civ_testkit::eventually("the connection", async || {
        tasks
            .running()
            .iter()
            .any(|(name, _)| *name == "connection")
            .then_some(())
    })
    .await;
    service.context.shutdown.cancel();
    drop(stream.write_all(b"\r\n").await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    if !answer.is_empty() {
        Answer::parse(&answer).error(503);
    }
    service.end().await;
}
