//! Who may call what.

use serde_json::json;

use crate::ground::{ADMIN, AGENT, Ground};
use crate::http::Answer;

/// Method, path, and the level that it needs.
const METHODS: [(&str, &str, &str); 27] = [
    ("GET", "/metrics", "open"),
    ("GET", "/healthz", "open"),
    ("GET", "/readyz", "open"),
    ("POST", "/api/v1/agents/register", "open"),
    ("POST", "/api/v1/agents/v1/heartbeat", "open"),
    ("GET", "/api/v1/agents/v1/assignment", "open"),
    ("POST", "/api/v1/probers/register", "open"),
    ("POST", "/api/v1/probers/site-1/heartbeat", "open"),
    ("GET", "/api/v1/probers/site-1/assignments", "open"),
    ("POST", "/api/v1/agents/v1/self-check", "agent"),
    ("POST", "/api/v1/agents/v1/events", "agent"),
    ("POST", "/api/v1/agents/v1/results", "agent"),
    ("POST", "/api/v1/agents/v1/complete", "agent"),
    ("POST", "/api/v1/probers/site-1/results", "agent"),
    ("POST", "/api/v1/probers/site-1/events", "agent"),
    ("GET", "/api/v1/admin/status", "admin"),
    ("GET", "/api/v1/admin/ips", "admin"),
    ("POST", "/api/v1/admin/ips", "admin"),
    ("GET", "/api/v1/admin/ips/203.0.113.1", "admin"),
    ("POST", "/api/v1/admin/ips/203.0.113.1/cancel", "admin"),
    ("GET", "/api/v1/admin/validators", "admin"),
    ("GET", "/api/v1/admin/ips/scan", "admin"),
    ("POST", "/api/v1/admin/ips/scan", "admin"),
    ("GET", "/api/v1/admin/auto-cycle", "admin"),
    ("PUT", "/api/v1/admin/auto-cycle", "admin"),
    ("POST", "/api/v1/admin/auto-cycle/start", "admin"),
    ("POST", "/api/v1/admin/auto-cycle/stop", "admin"),
];

fn refused(told: &Answer) -> bool {
    if told.status != 401 {
        return false;
    }
    assert_eq!(told.json(), json!({"error": "unauthorized"}));
    assert_eq!(told.header("www-authenticate"), "Bearer");
    true
}

#[tokio::test]
async fn each_method_asks_for_its_own_token() {
    let service = Ground::new("").with_tokens().start().await;
    for (method, path, level) in METHODS {
        for (token, opens) in [
            (None, ["open", "-"]),
            (Some("wrong"), ["open", "-"]),
            (Some(""), ["open", "-"]),
            (Some(AGENT), ["open", "agent"]),
            (Some(ADMIN), ["open", "admin"]),
        ] {
            let told = service
                .client
                .json(method, path, Some(json!({})), token)
                .await;
            let expected = !opens.contains(&level);
            assert_eq!(
                refused(&told),
                expected,
                "{method} {path} {token:?}: {told:?}"
            );
        }
    }
    service.end().await;
}

#[tokio::test]
async fn without_tokens_every_level_is_open() {
    let service = Ground::new("").start().await;
    for (method, path, _) in METHODS {
        let told = service
            .client
            .json(method, path, Some(json!({})), None)
            .await;
        assert_ne!(told.status, 401, "{method} {path}");
    }
    service.end().await;
}

#[tokio::test]
async fn during_a_rotation_both_tokens_are_accepted() {
    let ground =
        Ground::new("").with_tokens_of("old-admin-0123456789, new-admin-0123456789", AGENT);
    let service = ground.start().await;
    for (token, status) in [
        ("old-admin-0123456789", 200),
        ("new-admin-0123456789", 200),
        ("old-admin-0123456789, new-admin-0123456789", 401),
        ("old-admin-0123456789,new-admin-0123456789", 401),
        (AGENT, 401),
    ] {
        let path = "/api/v1/admin/status";
        let told = service.client.json("GET", path, None, Some(token)).await;
        assert_eq!(told.status, status, "{token}");
    }
    service.end().await;
}

#[tokio::test]
async fn the_scheme_must_be_bearer_in_any_case() {
    let service = Ground::new("").with_tokens().start().await;
    for (value, status) in [
        (format!("Bearer {ADMIN}"), 200),
        (format!("bearer {ADMIN}"), 200),
        (format!("Basic {ADMIN}"), 401),
        (ADMIN.to_owned(), 401),
        (format!("Bearer{ADMIN}"), 401),
    ] {
        let headers = [("authorization", value.as_str())];
        let told = service
            .client
            .send("GET", "/api/v1/admin/status", &headers, None)
            .await;
        assert_eq!(told.status, status, "{value}");
    }
    service.end().await;
}

#[tokio::test]
async fn open_methods_can_be_protected() {
    let ground = Ground::new("auth: { protect_open_methods: true }").with_tokens();
    let service = ground.start().await;
    for (method, path, level) in METHODS {
        let protected = level == "open" && path.starts_with("/api/");
        let told = service
            .client
            .json(method, path, Some(json!({})), None)
            .await;
        assert_eq!(told.status == 401, protected || level != "open", "{path}");
        let told = service
            .client
            .json(method, path, Some(json!({})), Some(AGENT))
            .await;
        assert_eq!(told.status == 401, level == "admin", "{path}");
    }
    service.end().await;
}
