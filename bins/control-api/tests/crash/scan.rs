//! A scan that an operator has asked for: before there is a plan the queue stays as it was, from
//! then on it gets everything, once.

use std::collections::BTreeMap;

use civ_orch::attempt::StateName;
use civ_store::queue;
use serde_json::json;

use crate::all;
use crate::place::{Place, nth, texts};

/// Free floating IPs: three pages, three chunks.
const ALL: u32 = 1_100;

/// Where it dies, whether there is a plan then, and how many addresses are in the queue.
const CASES: &[(&str, bool, usize)] = &[
    ("before_cloud_page", false, 3),
    ("after_cloud_page", false, 3),
    ("before_cloud_page:2", false, 3),
    ("after_cloud_page:3", false, 3),
    ("before_cloud_count", false, 3),
    ("after_cloud_count", false, 3),
    ("before_scan_forget", false, 3),
    ("after_scan_forget", false, 3),
    ("before_scan_note", false, 3),
    ("after_scan_note", false, 3),
    ("before_scan_plan", false, 3),
    ("after_scan_plan", true, 3),
    ("before_scan_chunk", true, 3),
    // 10.0.2.188 is in the second chunk and was in the queue before.
    ("after_scan_chunk", true, 501),
    ("before_scan_chunk:2", true, 501),
    ("after_scan_chunk:2", true, 1_000),
    ("before_scan_chunk:3", true, 1_000),
    ("after_scan_chunk:3", false, 1_100),
];

pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.0)
}

#[tokio::test]
async fn killed_at_every_step_of_a_scan() {
    all(CASES, |case| play(*case)).await;
}

async fn play((point, is_planned, n_rows): (&'static str, bool, usize)) {
    let place = Place::new(ALL, "").await;
    place
        .prepare(|tx| {
            queue::enqueue(tx, &[nth(8), nth(6), nth(700)]).unwrap();
            queue::cancel(tx, nth(700)).unwrap();
        })
        .await;
    let before = place.left().await;
    let drive = |api: crate::place::Api| async move {
        api.post("/admin/ips/scan", &json!({})).await?;
        Some(())
    };
    place.killed_at(point, drive).await;

    let left = place.left().await;
    assert_eq!(left.is_planned, is_planned, "{point}");
    assert_eq!(left.rows.len(), n_rows, "{point}");
    let is_done = n_rows == ALL as usize;
    assert_eq!(left.count("fip_scan"), usize::from(is_done), "{point}");
    if n_rows == before.rows.len() {
        assert_eq!(left.rows, before.rows, "{point}: the queue is as it was");
        assert_eq!(left.cycles, before.cycles, "{point}");
    }

    let (process, api) = place.again().await;
    let scan = api.get("/admin/ips/scan").await.unwrap();
    assert_eq!(scan["state"], "idle", "{point}");
    if !is_planned && !is_done {
        let asked = api.post("/admin/ips/scan?wait=true", &json!({})).await;
        assert_eq!(asked.unwrap()["scanned_free"], ALL, "{point}");
    }
    let complete = |status: &serde_json::Value| status["total_ips"] == ALL;
    api.when("/admin/status", complete).await.unwrap();
    process.kill().await;
    let end = place.left().await;
    assert_eq!(end.queue(), texts(1..=ALL), "{point}");
    let queued = |row: &civ_store::ips::IpRow| row.attempt.state == StateName::Queued;
    assert!(end.rows.iter().all(queued), "{point}");
    assert!(!end.is_planned && end.count("fip_scan") == 1, "{point}");
    let mut cycles: BTreeMap<String, i64> = texts(1..=ALL).into_iter().map(|ip| (ip, 1)).collect();
    cycles.insert(nth(700).to_string(), 2);
    assert_eq!(end.cycles, cycles, "{point}");
    assert!(place.sim.attached().is_empty() && place.sim.unknown_calls().is_empty());
}
