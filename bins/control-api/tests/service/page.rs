//! The status page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use civ_testkit::address;
use serde_json::json;

use crate::ground::{ADMIN, AGENT, Ground};

#[tokio::test]
async fn what_others_say_is_text_and_never_markup() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    let evil = "<script>alert('payload')</script>";
    let event = json!({"event_type": "<script>type", "payload": evil});
    service.report("v1", "events", &work, event).await;
    let failed = json!({"success": false, "detail": "<script>alert(\"detail\")</script>"});
    service.report("v1", "self-check", &work, failed).await;
    let told = service.open("GET", "/", None).await;
    assert_eq!(told.status, 200);
    assert!(
        told.header("content-type").starts_with("text/html"),
        "{told:?}"
    );
    assert!(
        told.header("content-security-policy")
            .contains("default-src 'none'")
    );
    assert!(!told.body.contains("<script"), "{}", told.body);
    for shown in [
        "203.0.113.1",
        "v1",
        "v2",
        "site-1",
        "port-1",
        "script",
        "type",
        "payload",
        "detail",
    ] {
        assert!(told.body.contains(shown), "{shown}");
    }
    service.end().await;
}

#[tokio::test]
async fn it_asks_for_the_admin_token_as_a_password() {
    let service = Ground::new("").with_tokens().start().await;
    let get = async |credentials: Option<String>| {
        let value = credentials.map(|text| format!("Basic {}", BASE64.encode(text)));
        let headers: Vec<_> = value
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        service.client.send("GET", "/", &headers, None).await
    };
    let told = get(None).await;
    told.error(401);
    assert!(
        told.header("www-authenticate").starts_with("Basic realm="),
        "{told:?}"
    );
    for wrong in [
        format!("admin:{AGENT}"),
        "admin:".to_owned(),
        ADMIN.to_owned(),
    ] {
        get(Some(wrong)).await.error(401);
    }
    for user in ["admin", ""] {
        assert_eq!(get(Some(format!("{user}:{ADMIN}"))).await.status, 200);
    }
    // Neither is a Basic password good for the API.
    let value = format!("Basic {}", BASE64.encode(format!("admin:{ADMIN}")));
    let headers = [("authorization", value.as_str())];
    let told = service
        .client
        .send("GET", "/api/v1/admin/status", &headers, None)
        .await;
    told.error(401);
    service.end().await;
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let service = Ground::new("dashboard: { enabled: false }").start().await;
    service.open("GET", "/", None).await.error(404);
    service.end().await;
}
