//! The document and its page against the routes that are served.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::ground::Service;

const METHODS: [&str; 8] = [
    "GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY",
];

fn declared(item: &Value) -> BTreeSet<String> {
    let item = item.as_object().unwrap();
    let verbs = item.keys().map(|verb| verb.to_uppercase());
    verbs
        .filter(|verb| METHODS.contains(&verb.as_str()))
        .collect()
}

#[tokio::test]
async fn every_method_of_the_document_is_routed_and_every_other_one_is_405() {
    let service = Service::start().await;
    let document = service.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    for (path, item) in paths {
        let declared = declared(item);
        let concrete = path
            .replace("{id}", "nobody")
            .replace("{site_id}", "nowhere")
            .replace("{ip}", "198.51.100.1");
        for method in METHODS {
            if declared.contains(method) && path.ends_with("/stream") {
                continue;
            }
            let told = service.send(method, &concrete, "").await;
            let name = format!("{method} {path}: {told:?}");
            if declared.contains(method) {
                assert_ne!(told.status(), 405, "{name}");
                assert!(!told.body.contains("no such path"), "{name}");
                continue;
            }
            assert_eq!(told.status(), 405, "{name}");
            assert!(told.json()["error"].is_string(), "{name}");
            let allowed: BTreeSet<_> = told
                .header("allow")
                .split(',')
                .map(|method| method.trim().to_owned())
                .filter(|method| method != "HEAD")
                .collect();
            assert_eq!(allowed, declared, "{name}");
        }
    }
    service.end().await;
}

#[tokio::test]
async fn what_the_schemas_allow_is_accepted() {
    let service = Service::start().await;
    let agent = "/api/v1/agents/v1";
    let name = "\u{e9}".repeat(64);
    for (path, body) in [
        ("heartbeat", "null".to_owned()),
        (
            "events",
            r#"{"event_type":"told","ip_id":7.0,"fence":1e0}"#.to_owned(),
        ),
        ("events", format!(r#"{{"event_type":"{name}"}}"#)),
        ("results", r#"{"results":null}"#.to_owned()),
    ] {
        let told = service
            .send("POST", &format!("{agent}/{path}"), &body)
            .await;
        assert_eq!(told.status(), 200, "{path} {body}: {told:?}");
    }
    let body = format!(r#"{{"event_type":"{name}x"}}"#);
    let told = service
        .send("POST", &format!("{agent}/events"), &body)
        .await;
    assert_eq!(told.status(), 400, "{told:?}");
    service.end().await;
}

#[test]
fn no_route_is_made_beside_the_document() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for way in [".route(", ".route_service(", ".nest_service("] {
                assert!(!text.contains(way), "{}: {way}", path.display());
            }
        }
    }
    assert!(files > 20);
}

#[tokio::test]
async fn the_page_shows_every_method_and_loads_nothing() {
    let service = Service::start().await;
    let document = service.get("/openapi.json").await;
    assert_eq!(document.header("content-type"), "application/json");
    let page = service.get("/docs").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    for absent in ["<script", " src=", "style=\"", "http://", "@import", "url("] {
        assert!(!page.body.contains(absent), "{absent}");
    }
    let document = document.json();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(
                page.body.contains(&format!("<details id=\"{id}\">")),
                "{id}"
            );
        }
    }
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(page.body.contains(&format!("<h3 id=\"{name}\">")), "{name}");
    }
    service.end().await;
}
