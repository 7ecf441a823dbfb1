//! The numbers for Prometheus, over the real router.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::ground::{Ground, Service};

/// Name, kind.
type Kinds = BTreeMap<String, String>;

/// Name with its labels, value.
type Samples = BTreeMap<String, f64>;

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !text.is_empty() && text.chars().all(fits)
}

/// Strict: whatever is not known is a fault.
fn parsed(text: &str) -> (Kinds, Samples) {
    let body = text.strip_suffix("# EOF\n").unwrap();
    let (mut kinds, mut samples) = (Kinds::new(), Samples::new());
    let mut current = String::new();
    for line in body.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let (word, rest) = about.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !value.is_empty(), "{line}");
            match word {
                "TYPE" => assert_eq!(kinds.insert(name.into(), value.into()), None, "{line}"),
                "HELP" => name.clone_into(&mut current),
                "UNIT" => assert!(name.ends_with(value), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(is_name(name) && name.starts_with(&current), "{line}");
        assert!(labels.ends_with('}'), "{line}");
        let known = samples.insert(series.to_owned(), value.parse().unwrap());
        assert_eq!(known, None, "twice: {line}");
    }
    (kinds, samples)
}

async fn scraped(service: &Service) -> (Kinds, Samples) {
    let told = service.open("GET", "/metrics", None).await;
    assert_eq!(told.status, 200);
    let kind = told.header("content-type");
    assert_eq!(
        kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    parsed(&told.body)
}

/// Name and kind of each row of the table of the manual.
fn documented() -> BTreeSet<(String, String)> {
    let manual = include_str!("../../../../docs/OPERATIONS.md");
    let rows = manual
        .lines()
        .filter_map(|line| line.strip_prefix("| `civ_"));
    let row = |rest: &str| {
        let (name, rest) = rest.split_once("` | ").unwrap();
        let (kind, _) = rest.split_once(" |").unwrap();
        let name = format!("civ_{name}");
        let family = name.strip_suffix("_total").unwrap_or(&name);
        assert_eq!(kind == "counter", family != name, "{name} is a {kind}");
        (family.to_owned(), kind.to_owned())
    };
    rows.map(row).collect()
}

#[tokio::test]
async fn the_manual_lists_every_metric_and_no_other() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1"]).await;
    service.open("GET", "/healthz", None).await;
    let (kinds, _) = scraped(&service).await;
    let kinds: BTreeSet<_> = kinds.into_iter().collect();
    assert_eq!(kinds, documented());
    service.end().await;
}

#[tokio::test]
async fn answers_are_counted_by_route_and_never_by_path() {
    let service = Ground::new("").with_tokens().start().await;
    service
        .open("GET", "/api/v1/admin/ips/203.0.113.9", None)
        .await;
    service.open("BREW", "/203.0.113.9", None).await;
    service.open("GET", "/203.0.113.8", None).await;
    let told = service.open("GET", "/metrics", None).await;
    assert!(!told.body.contains("203.0.113."), "{}", told.body);
    let (_, samples) = parsed(&told.body);
    let refused = "civ_http_requests_total{method=\"GET\",\
                   route=\"/api/v1/admin/ips/{ip}\",status=\"401\"}";
    assert_eq!(samples.get(refused), Some(&1.0), "{samples:#?}");
    for method in ["GET", "other"] {
        let unknown = format!(
            "civ_http_requests_total{{method=\"{method}\",route=\"other\",status=\"404\"}}"
        );
        assert_eq!(samples.get(&unknown), Some(&1.0), "{samples:#?}");
        let timed = format!(
            "civ_http_request_duration_seconds_count{{method=\"{method}\",route=\"other\"}}"
        );
        assert_eq!(samples.get(&timed), Some(&1.0), "{samples:#?}");
    }
    service.end().await;
}

#[tokio::test]
async fn the_queue_is_counted_by_state() {
    let service = Ground::new("").start().await;
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    let (_, samples) = scraped(&service).await;
    let sum = |begin: &str| -> f64 {
        let of = samples.iter().filter(|(name, _)| name.starts_with(begin));
        of.map(|(_, n)| n).sum()
    };
    assert_eq!(sum("civ_addresses{state="), 2.0);
    assert!(4096.0 <= samples["civ_database_size_bytes"]);
    service.end().await;
}

#[tokio::test]
async fn a_time_of_a_check_that_is_replaced_is_counted() {
    let service = Ground::new("").start().await;
    let count = async || scraped(&service).await.1["civ_checked_at_replaced_total"];
    assert_eq!(count().await, 0.0);
    let row = |at: Option<&str>| {
        json!({
            "ip_id": 1, "check_type": "tcp_443", "success": true, "checked_at": at,
        })
    };
    let rows = [
        row(None),
        row(Some("yesterday")),
        row(Some("2026-01-01T00:00:00Z")),
    ];
    let body = json!({ "validator_id": "v1", "results": rows });
    service
        .agent("POST", "/api/v1/agents/v1/results", Some(body))
        .await;
    assert_eq!(count().await, 2.0);
    service.end().await;
}
