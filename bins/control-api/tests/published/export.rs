//! Exports: whole, in order, in both forms.

use civ_testkit::eventually;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::ground::{Service, until};

#[tokio::test]
async fn the_registry_comes_whole_however_many_pages_it_takes() {
    let service = Service::start().await;
    // More than two pages of 500.
    service.enqueue("198.18.0.0/22").await;
    service.enqueue("203.0.113.7").await;
    let told = service
        .send("DELETE", "/api/v1/admin/ips/203.0.113.7", "")
        .await;
    assert_eq!(told.status(), 200, "{told:?}");

    let csv = service.get("/api/v1/admin/registry/export").await;
    assert_eq!(
        csv.header("content-type"),
        "text/csv; charset=utf-8; header=present"
    );
    assert_eq!(
        csv.header("content-disposition"),
        "attachment; filename=\"registry.csv\""
    );
    let rows: Vec<_> = csv.body.split_terminator("\r\n").collect();
    assert!(
        rows[0].starts_with("ip_address,first_seen_at,"),
        "{}",
        rows[0]
    );
    assert_eq!(rows.len(), 1 + 1_024 + 1);
    assert!(rows[1..].is_sorted());
    assert!(rows[1].ends_with(",1,,,true,queued"), "{}", rows[1]);
    let deleted = rows.last().unwrap();
    assert!(
        deleted.starts_with("203.0.113.7,") && deleted.ends_with(",false,"),
        "{deleted}"
    );

    let lines = service
        .get("/api/v1/admin/registry/export?format=jsonl")
        .await;
    assert_eq!(lines.header("content-type"), "application/jsonl");
    let lines: Vec<Value> = lines
        .body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1_025);
    assert_eq!(lines[1_024]["in_queue"], false);
    assert_eq!(lines[1_024]["last_checked_at"], Value::Null);
    service.end().await;
}

#[tokio::test]
async fn an_export_of_nothing_has_its_names_and_bad_values_are_refused() {
    let service = Service::start().await;
    let path = "/api/v1/admin/checks/export";
    let empty = service.get(path).await;
    assert!(empty.body.starts_with("id,ip_id,ip_address,"), "{empty:?}");
    assert_eq!(empty.body.lines().count(), 1);
    let since = "since=2026-01-02T03:04:05Z&until=2026-01-03T00:00:00%2B02:00";
    let told = service.get(&format!("{path}?format=jsonl&{since}")).await;
    assert_eq!((told.status(), told.body.as_str()), (200, ""));
    for wrong in [
        "format=xml",
        "format=",
        "address=x",
        "since=yesterday",
        "until=1",
    ] {
        let told = service.get(&format!("{path}?{wrong}")).await;
        assert_eq!(told.status(), 400, "{wrong}");
        assert!(told.json()["error"].is_string());
    }
    service.end().await;
}

/// As many rows as one call may add: far more than the buffers of a connection hold.
async fn large(service: &Service) {
    service.enqueue("198.18.0.0/16").await;
}

const REGISTRY: &str =
    "GET /api/v1/admin/registry/export?format=jsonl HTTP/1.1\r\nhost: test\r\n\r\n";

#[tokio::test]
async fn a_client_that_goes_away_midway_ends_the_work() {
    let service = Service::start().await;
    large(&service).await;
    for path in ["registry/export", "registry/export?format=jsonl"] {
        let request = format!("GET /api/v1/admin/{path} HTTP/1.1\r\nhost: test\r\n\r\n");
        let mut stream = service.open(&request).await;
        until(&mut stream, "198.18.").await;
        assert_eq!(service.connections(), 1, "{path}");
        drop(stream);
        eventually("nobody is served any more", async || {
            (service.connections() == 0).then_some(())
        })
        .await;
    }
    // Neither it nor anybody else was harmed.
    let whole = service.get("/api/v1/admin/registry/export").await;
    assert_eq!(whole.body.lines().count(), 1 + 65_536);
    service.end().await;
}

#[tokio::test]
async fn an_export_that_breaks_off_has_no_last_chunk() {
    let service = Service::start().await;
    large(&service).await;
    let mut stream = service.open(REGISTRY).await;
    until(&mut stream, "198.18.").await;
    service.shut_down();
    let mut rest = Vec::new();
    // A connection that is cut off may end with an error, too.
    drop(stream.read_to_end(&mut rest).await);
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.ends_with("0\r\n\r\n"), "{}", rest.len());
    assert!(!rest.contains("198.18.255.255"), "it was whole already");
    service.end().await;
}
