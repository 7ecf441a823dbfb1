//! The contract's example: everything is configured through the API, nothing by YAML.

use civ_testkit::address;
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

/// As `curl -s -X METHOD "$BASE…" -d BODY` does.
async fn curl(service: &Service, method: &str, path: &str, data: &str) -> (u16, Value) {
    let data = Some(data).filter(|data| !data.is_empty());
    let path = format!("/api/v1{path}");
    let told = service.client.send(method, &path, &[], data).await;
    let body = if told.body.is_empty() {
        Value::Null
    } else {
        told.json()
    };
    (told.status, body)
}

/// Validator, targets, check type and site, by API.
async fn configure(service: &Service) {
    let ok = json!({"ok": true});
    for (method, path, data, status) in [
        (
            "POST",
            "/admin/config/validators",
            r#"{"validator_id":"validator_01","os_port_id":"port-abc123"}"#,
            201,
        ),
        (
            "PUT",
            "/admin/config/targets/web",
            r#"{"targets":["https://hub.docker.com","https://github.com"]}"#,
            200,
        ),
        (
            "PUT",
            "/admin/config/check-types/https",
            r#"{"enabled":true,"targets":["web"]}"#,
            200,
        ),
        (
            "PUT",
            "/admin/config/sites/1",
            r#"{"site_id":"site-1"}"#,
            200,
        ),
    ] {
        let told = curl(service, method, path, data).await;
        assert_eq!(told, (status, ok.clone()), "{path}");
    }
}

const ONE: &str = r#"{"addresses":["203.0.113.10"]}"#;

/// The four lists of an answer, all empty but this.
fn only(name: &str) -> (u16, Value) {
    let mut told = json!({"added": [], "requeued": [], "reordered": [],
        "skipped_in_progress": []});
    told[name] = json!(["203.0.113.10"]);
    (200, told)
}

#[tokio::test]
async fn configured_by_the_api_alone() {
    let ground = Ground::of("").with_fips(&[address(10)]);
    ground
        .cloud
        .add_port(civ_types::PortId::parse("port-abc123").unwrap());
    let service = ground.start().await;
    configure(&service).await;
    let told = curl(&service, "POST", "/admin/ips", ONE).await;
    assert_eq!(told, only("added"));
    let told = curl(&service, "POST", "/admin/ips", ONE).await;
    assert_eq!(told, only("reordered"));
    let told = curl(&service, "POST", "/admin/ips/203.0.113.10/cancel", "").await;
    assert_eq!(told, (200, json!({"ok": true})));
    let told = curl(&service, "POST", "/admin/ips", ONE).await;
    assert_eq!(told, only("requeued"), "a forced check");
    // What was configured is what agent and prober get.
    let register = r#"{"validator_id":"validator_01","hostname":"debug-host"}"#;
    assert_eq!(
        curl(&service, "POST", "/agents/register", register).await.0,
        200
    );
    let work = service.assignment("validator_01").await;
    assert_eq!(
        work["check_config"],
        json!([{"type": "https", "targets": ["https://hub.docker.com", "https://github.com"]}])
    );
    assert_eq!(
        service.self_check("validator_01", &work, true).await.status,
        200
    );
    let register = r#"{"site_id":"site-1"}"#;
    assert_eq!(
        curl(&service, "POST", "/probers/register", register)
            .await
            .0,
        200
    );
    let (_, list) = curl(&service, "GET", "/probers/site-1/assignments", "").await;
    assert_eq!(list[0]["ip_address"], "203.0.113.10");
    assert_eq!(list[0]["ports"], json!([22, 80, 443, 8080]));
    let told = curl(&service, "POST", "/admin/ips", ONE).await;
    assert_eq!(told, only("skipped_in_progress"));
    let told = curl(
        &service,
        "POST",
        "/admin/ips/delete",
        r#"{"addresses":["203.0.113.10","203.0.113.11"]}"#,
    )
    .await;
    assert_eq!(
        told,
        (
            200,
            json!({"deleted": ["203.0.113.10"], "not_found": ["203.0.113.11"]})
        )
    );
    let told = curl(&service, "POST", "/admin/ips/clear", "").await;
    assert_eq!(told, (200, json!({"deleted": []})));
    service.end().await;
    // Kept, without a line of YAML.
    let service = ground.start().await;
    let (_, list) = curl(&service, "GET", "/admin/config/validators", "").await;
    assert_eq!(list[0]["validator_id"], "validator_01");
    let (_, list) = curl(&service, "GET", "/admin/config/check-types", "").await;
    assert_eq!(
        list,
        json!([{"name": "https", "enabled": true, "targets": ["web"]}])
    );
    service.end().await;
}
