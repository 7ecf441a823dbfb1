//! The auto-cycle: rounds, outcomes, stopping and restarting in every phase.

use civ_cloud::fake::{PageTrouble, Trouble};
use civ_cloud::{Fault, ReadFault};
use civ_orch::cycle::{Event, PhaseName};
use civ_store::scan::{Found, Source};
use civ_store::seed::Seed;
use civ_store::{StoreError, WriteTx, cycle, queue, scan, seed};
use civ_testkit::eventually;
use serde_json::{Value, json};

use crate::place::{Place, Service, nth, texts};

const CYCLE: &str = "/admin/auto-cycle";
const START: &str = "/admin/auto-cycle/start";
const STOP: &str = "/admin/auto-cycle/stop";
const SCAN: &str = "/admin/ips/scan";

async fn when_phase(service: &Service, phase: &str) -> Value {
    service
        .when(CYCLE, phase, |cycle| cycle["phase"] == phase)
        .await
}

async fn after_runs(service: &Service, n: u64) -> Value {
    let done = |cycle: &Value| cycle["runs_total"] == n && cycle["phase"] == "waiting";
    service.when(CYCLE, "completed so often", done).await
}

async fn event_counts(service: &Service) -> Vec<(&'static str, usize)> {
    let mut counts = Vec::new();
    for name in [
        "auto_cycle_started",
        "auto_cycle_completed",
        "auto_cycle_no_free_ips",
        "auto_cycle_timeout",
        "auto_cycle_error",
        "auto_cycle_stopped",
        "queue_cleared",
        "fip_scan",
    ] {
        let n = service.events(name).await.len();
        if n > 0 {
            counts.push((name, n));
        }
    }
    counts
}

/// Ends all checks, as an operator can.
async fn cancel_all(service: &Service, addresses: &[String]) {
    for address in addresses {
        service
            .post(&format!("/admin/ips/{address}/cancel"), json!({}))
            .await;
    }
}

#[tokio::test]
async fn it_is_off_by_default_and_says_so() {
    let place = Place::new("", "");
    let service = place.start().await;
    assert_eq!(
        service.get(CYCLE).await,
        json!({"enabled": false, "interval_seconds": 3600, "max_run_seconds": 0, "phase": "idle",
            "run_started_at": null, "next_run_at": null, "last_run_started_at": null,
            "last_run_finished_at": null, "last_outcome": "", "last_error": "",
            "last_scanned_free": 0, "runs_total": 0})
    );
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(stopped, service.get(CYCLE).await);
    assert_eq!(event_counts(&service).await, []);
    service.end().await;
}

#[tokio::test]
async fn parameters_are_checked_and_applied_together_or_not_at_all() {
    let place = Place::new("", "");
    let service = place.start().await;
    for (body, named) in [
        (json!({"interval_seconds": 59}), "interval_seconds"),
        (json!({"max_run_seconds": -1}), "max_run_seconds"),
        (
            json!({"interval_seconds": 600, "max_run_seconds": -1}),
            "max_run_seconds",
        ),
        (
            json!({"interval_seconds": 59, "max_run_seconds": 5}),
            "interval_seconds",
        ),
        (json!({"interval_seconds": 1_u64 << 32}), "interval_seconds"),
        (json!({"interval_secs": 600}), "interval_secs"),
        (json!({"interval_seconds": "600"}), "body"),
    ] {
        let (status, answer) = service.ask("PUT", CYCLE, Some(body.clone())).await;
        assert_eq!(status, 400, "{body}");
        assert!(
            answer["error"].as_str().unwrap().contains(named),
            "{answer}"
        );
    }
    let unchanged = service.get(CYCLE).await;
    assert_eq!(
        (
            &unchanged["interval_seconds"],
            &unchanged["max_run_seconds"]
        ),
        (&json!(3600), &json!(0))
    );
    let (_, one) = service
        .ask("PUT", CYCLE, Some(json!({"interval_seconds": 60})))
        .await;
    assert_eq!(
        (&one["interval_seconds"], &one["max_run_seconds"]),
        (&json!(60), &json!(0))
    );
    let both = json!({"interval_seconds": null, "max_run_seconds": 1800});
    let (_, other) = service.ask("PUT", CYCLE, Some(both)).await;
    assert_eq!(
        (&other["interval_seconds"], &other["max_run_seconds"]),
        (&json!(60), &json!(1800))
    );
    let (status, same) = service.ask("PUT", CYCLE, Some(json!({}))).await;
    assert_eq!((status, &same), (200, &other));
    service.end().await;
    let service = place.start().await;
    assert_eq!(service.get(CYCLE).await, other, "kept across restarts");
    service.end().await;
}

#[tokio::test]
async fn three_rounds() {
    let place = Place::new("", "").with_fips(3);
    let service = place.start().await;
    let agent = service.agent();
    service
        .ask("PUT", CYCLE, Some(json!({"interval_seconds": 60})))
        .await;
    service
        .post("/admin/ips", json!({"addresses": ["10.0.9.9"]}))
        .await;
    let started = service.post(START, json!({})).await;
    assert_eq!(started["enabled"], true);
    for n in 1..=3 {
        let waiting = after_runs(&service, n).await;
        assert_eq!(waiting["last_outcome"], "completed");
        assert_eq!(
            (&waiting["last_scanned_free"], &waiting["run_started_at"]),
            (&json!(3), &Value::Null)
        );
        assert!(waiting["next_run_at"].as_str() > waiting["last_run_finished_at"].as_str());
        assert!(waiting["last_run_started_at"].is_string());
        let counts = service.get("/admin/status").await;
        assert_eq!(counts["total_ips"], 3, "what was there before is cleared");
        assert_eq!(counts["results_by_overall"]["pass"], 3);
        // On again is no new round.
        assert_eq!(
            service.post(START, json!({})).await,
            service.get(CYCLE).await
        );
        place.clock.on_by(61);
    }
    after_runs(&service, 4).await;
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(
        (&stopped["enabled"], &stopped["phase"]),
        (&json!(false), &json!("idle"))
    );
    assert_eq!(
        stopped["last_outcome"], "completed",
        "no round was under way"
    );
    assert_eq!(stopped["next_run_at"], Value::Null);
    assert_eq!(
        event_counts(&service).await,
        [
            ("auto_cycle_started", 4),
            ("auto_cycle_completed", 4),
            ("auto_cycle_stopped", 1),
            ("queue_cleared", 4),
            ("fip_scan", 4),
        ]
    );
    assert_eq!(service.events("queue_cleared").await[1]["deleted"], 3);
    drop(agent);
    service.end().await;
}

#[tokio::test]
async fn a_round_without_free_addresses_pauses() {
    let place = Place::new("", "");
    let service = place.start().await;
    service.post(START, json!({})).await;
    let waiting = when_phase(&service, "waiting").await;
    assert_eq!(
        (&waiting["last_outcome"], &waiting["runs_total"]),
        (&json!("no_free_ips"), &json!(0))
    );
    assert_eq!(service.events("auto_cycle_no_free_ips").await.len(), 1);
    service.end().await;
}

#[tokio::test]
async fn a_failed_scan_ends_the_round_with_its_reason() {
    let place = Place::new("", "page_retries: 0").with_fips(2);
    let broken = ReadFault::passing("Neutron is away");
    place.cloud.script_page(Some(PageTrouble::Refused(broken)));
    let service = place.start().await;
    service.post(START, json!({})).await;
    let waiting = when_phase(&service, "waiting").await;
    assert_eq!(
        (&waiting["last_outcome"], &waiting["runs_total"]),
        (&json!("error"), &json!(0))
    );
    assert!(
        waiting["last_error"]
            .as_str()
            .unwrap()
            .contains("Neutron is away")
    );
    assert!(service.queue().await.is_empty());
    // The next round is not burdened by it.
    place.clock.on_by(3_601);
    let running = |cycle: &Value| cycle["last_scanned_free"] == 2;
    let cycle = service.when(CYCLE, "scanned", running).await;
    assert_eq!(
        (&cycle["phase"], &cycle["run_started_at"].is_string()),
        (&json!("running"), &true)
    );
    service.end().await;
}

#[tokio::test]
async fn checks_that_take_too_long_end_the_round() {
    let place = Place::new("", "").with_fips(2);
    let service = place.start().await;
    service
        .ask("PUT", CYCLE, Some(json!({"max_run_seconds": 100})))
        .await;
    service.post(START, json!({})).await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 2;
    service.when(CYCLE, "scanned", scanned).await;
    place.clock.on_by(101);
    let waiting = when_phase(&service, "waiting").await;
    assert_eq!(
        (&waiting["last_outcome"], &waiting["runs_total"]),
        (&json!("timeout"), &json!(0))
    );
    assert_eq!(
        service.queue().await,
        texts(1..=2),
        "they are not broken off"
    );
    assert_eq!(service.events("auto_cycle_timeout").await.len(), 1);
    service.end().await;
}

/// A service whose round has come to `phase`: `releasing` (the cloud releases nothing),
/// `scanning` (its second page waits), `checking` (nobody checks), `waiting`.
async fn in_step(place: &Place, step: &str) -> Service {
    if step == "scanning" {
        place.cloud.let_pages(Some(1));
    }
    let service = place.start().await;
    if step == "releasing" {
        service
            .post("/agents/register", json!({"validator_id": "v1"}))
            .await;
        service
            .post("/admin/ips", json!({"addresses": ["10.0.0.1"]}))
            .await;
        let checked = |list: &Value| list[0]["State"] == "awaiting_self_check";
        service.when("/admin/ips", "being checked", checked).await;
        place.cloud.set_outage(Some(Fault::cloud("away")));
    }
    service.post(START, json!({})).await;
    let (path, there): (_, fn(&Value) -> bool) = match step {
        "releasing" => (SCAN, |scan| scan["state"] == "clearing"),
        "scanning" => (SCAN, |scan| scan["pages"] == 1),
        _ => (CYCLE, |cycle| cycle["last_scanned_free"] == 6),
    };
    service.when(path, step, there).await;
    if step == "releasing" {
        let empty = |list: &Value| list == &json!([]);
        service.when("/admin/ips", "clear", empty).await;
    }
    if step == "waiting" {
        cancel_all(&service, &texts(1..=6)).await;
        after_runs(&service, 1).await;
    }
    service
}

fn six() -> Place {
    Place::new("release_grace_seconds: 3600", "list_page_size: 2").with_fips(6)
}

#[tokio::test]
async fn stopping_while_releasing() {
    let place = six();
    let service = in_step(&place, "releasing").await;
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(
        (&stopped["phase"], &stopped["last_outcome"]),
        (&json!("idle"), &json!("stopped"))
    );
    let cancelled = |scan: &Value| scan["state"] == "cancelled" && scan["running"] == false;
    service.when(SCAN, "cancelled", cancelled).await;
    place.cloud.set_outage(None);
    assert!(service.queue().await.is_empty());
    assert_eq!(service.events("auto_cycle_stopped").await.len(), 1);
    // An operator's scan is free to begin.
    let (status, lists) = service.ask("POST", "/admin/ips/scan?wait=true", None).await;
    assert_eq!(status, 200, "{lists}");
    service.end().await;
}

#[tokio::test]
async fn stopping_while_scanning() {
    let place = six();
    let service = in_step(&place, "scanning").await;
    let joined = service.post(SCAN, json!({})).await;
    assert_eq!(joined["state"], "listing");
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(
        (&stopped["phase"], &stopped["last_outcome"]),
        (&json!("idle"), &json!("stopped"))
    );
    let cancelled = |scan: &Value| scan["state"] == "cancelled";
    service.when(SCAN, "cancelled", cancelled).await;
    place.cloud.let_pages(None);
    assert!(service.queue().await.is_empty());
    // Turned on again, it begins a round of its own.
    service.post(START, json!({})).await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 6;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(service.queue().await, texts(1..=6));
    service.end().await;
}

#[tokio::test]
async fn stopping_while_checking_breaks_nothing_off() {
    let place = six();
    let service = in_step(&place, "checking").await;
    let agent = service.agent();
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(
        (&stopped["phase"], &stopped["last_outcome"]),
        (&json!("idle"), &json!("stopped"))
    );
    let passed = |counts: &Value| counts["results_by_overall"]["pass"] == 6;
    let counts = service
        .when("/admin/status", "checked to the end", passed)
        .await;
    assert_eq!(counts["total_ips"], 6);
    assert_eq!(service.get(CYCLE).await["runs_total"], 0);
    drop(agent);
    service.end().await;
}

#[tokio::test]
async fn restarting_while_releasing() {
    let place = six();
    in_step(&place, "releasing").await.end().await;
    let service = place.start().await;
    let clearing = |scan: &Value| scan["state"] == "clearing";
    service.when(SCAN, "clearing again", clearing).await;
    assert_eq!(service.get(CYCLE).await["phase"], "running");
    place.cloud.set_outage(None);
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 6;
    service
        .when(CYCLE, "scanned when the release went through", scanned)
        .await;
    assert_eq!(
        service.queue().await,
        texts(1..=6),
        "none is taken for occupied"
    );
    assert_eq!(
        event_counts(&service).await.first(),
        Some(&("auto_cycle_started", 1))
    );
    service.end().await;
}

#[tokio::test]
async fn a_release_that_does_not_come_is_not_waited_for_for_ever() {
    let place = Place::new("release_grace_seconds: 600", "").with_fips(2);
    let service = place.start().await;
    service
        .post("/agents/register", json!({"validator_id": "v1"}))
        .await;
    service
        .post("/admin/ips", json!({"addresses": ["10.0.0.1"]}))
        .await;
    let checked = |list: &Value| list[0]["State"] == "awaiting_self_check";
    service.when("/admin/ips", "being checked", checked).await;
    // Every release is refused, while the cloud can be read.
    for _ in 0..1_000 {
        place
            .cloud
            .script(Trouble::Refused(Fault::cloud("not now")));
    }
    service.post(START, json!({})).await;
    let clearing = |scan: &Value| scan["state"] == "clearing";
    service.when(SCAN, "clearing", clearing).await;
    // The grace counts from here: before, the clock would be moved for nothing.
    eventually("the queue is cleared", async || {
        (service.events("queue_cleared").await.len() == 1).then_some(())
    })
    .await;
    place.clock.on_by(601);
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 1;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(
        service.queue().await,
        texts([2]),
        "the other one is still on our port"
    );
    service.end().await;
}

/// What an earlier process has left in the file.
async fn left_behind(place: &Place, work: impl FnOnce(&mut WriteTx<'_>) + Send + 'static) {
    let done: Result<(), StoreError> = place
        .store()
        .write(move |tx| {
            work(tx);
            Ok(())
        })
        .await;
    done.unwrap();
}

fn step(tx: &mut WriteTx<'_>, event: &Event, phase: PhaseName) {
    let cycle = cycle::step(tx, event).unwrap().unwrap();
    assert_eq!(cycle.phase.name(), phase);
}

#[tokio::test]
async fn restarting_while_clearing() {
    let place = Place::new("", "").with_fips(3);
    left_behind(&place, |tx| {
        seed::apply(tx, &Seed::default()).unwrap();
        let list: Vec<_> = (2_000..3_300).map(nth).collect();
        queue::enqueue(tx, &list).unwrap();
        step(tx, &Event::Start, PhaseName::Idle);
        step(tx, &Event::Tick, PhaseName::Clearing);
        let newest = queue::newest(tx).unwrap().unwrap();
        assert_eq!(queue::clear_some(tx, newest, 500).unwrap(), 500);
    })
    .await;
    let service = place.start().await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 3;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(service.queue().await, texts(1..=3));
    assert_eq!(
        service.events("queue_cleared").await[0]["deleted"],
        800,
        "the rest"
    );
    service.end().await;
}

#[tokio::test]
async fn restarting_while_enqueuing() {
    let place = Place::new("", "").with_fips(3);
    left_behind(&place, |tx| {
        step(tx, &Event::Start, PhaseName::Idle);
        step(tx, &Event::Tick, PhaseName::Clearing);
        step(tx, &Event::Cleared, PhaseName::Releasing);
        step(tx, &Event::Tick, PhaseName::Scanning);
        scan::note(tx, &(1..=1_200).map(nth).collect::<Vec<_>>()).unwrap();
        let found = Found {
            source: Source::AutoCycle,
            pages: 6,
            discovered: 1_200,
            free: 1_200,
        };
        assert!(scan::plan(tx, &found).unwrap());
        assert!(!scan::apply(tx, 500).unwrap().is_last);
    })
    .await;
    let service = place.start().await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 1_200;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(
        service.queue().await,
        texts(1..=1_200),
        "complete, and listed no second time"
    );
    assert_eq!(service.events("fip_scan").await.len(), 1);
    assert_eq!(service.get(SCAN).await["state"], "idle");
    service.end().await;
}

#[tokio::test]
async fn stopping_while_clearing_says_how_far_it_got() {
    let place = Place::new("", "").with_fips(3);
    left_behind(&place, |tx| {
        let list: Vec<_> = (10_000..20_000).map(nth).collect();
        queue::enqueue(tx, &list).unwrap();
    })
    .await;
    let service = place.start().await;
    service.post(START, json!({})).await;
    let begun = |counts: &Value| counts["total_ips"] != 10_000;
    service.when("/admin/status", "begun", begun).await;
    let stopped = service.post(STOP, json!({})).await;
    assert_eq!(stopped["last_outcome"], "stopped");
    service
        .when(SCAN, "cancelled", |scan| scan["state"] == "cancelled")
        .await;
    let left = service.get("/admin/status").await["total_ips"]
        .as_u64()
        .unwrap();
    let cleared = &service.events("queue_cleared").await[0];
    assert_eq!(cleared["deleted"].as_u64().unwrap() + left, 10_000);
    assert_eq!(cleared["complete"], left == 0);
    service.end().await;
}

#[tokio::test]
async fn restarting_while_scanning() {
    let place = six();
    in_step(&place, "scanning").await.end().await;
    place.cloud.let_pages(None);
    let service = place.start().await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 6;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(service.queue().await, texts(1..=6));
    assert_eq!(
        event_counts(&service).await,
        [
            ("auto_cycle_started", 1),
            ("queue_cleared", 1),
            ("fip_scan", 1),
        ]
    );
    service.end().await;
}

#[tokio::test]
async fn restarting_while_checking() {
    let place = six();
    let service = in_step(&place, "checking").await;
    let before = service.get(CYCLE).await;
    service.end().await;
    let service = place.start().await;
    assert_eq!(service.get(CYCLE).await, before);
    assert_eq!(service.get(SCAN).await["state"], "idle");
    cancel_all(&service, &texts(1..=6)).await;
    after_runs(&service, 1).await;
    service.end().await;
}

#[tokio::test]
async fn time_away_does_not_count_against_the_checks() {
    let place = six();
    let service = in_step(&place, "checking").await;
    service
        .ask("PUT", CYCLE, Some(json!({"max_run_seconds": 500})))
        .await;
    service.end().await;
    place.clock.on_by(5_000);
    let service = place.start().await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    assert_eq!(service.get(CYCLE).await["phase"], "running");
    place.clock.on_by(501);
    assert_eq!(
        when_phase(&service, "waiting").await["last_outcome"],
        "timeout"
    );
    service.end().await;
}

#[tokio::test]
async fn restarting_while_waiting() {
    let place = six();
    let service = in_step(&place, "waiting").await;
    let before = service.get(CYCLE).await;
    service.end().await;
    let service = place.start().await;
    assert_eq!(service.get(CYCLE).await, before);
    place.clock.on_by(3_601);
    let again = |cycle: &Value| cycle["phase"] == "running";
    let running = service.when(CYCLE, "the next round", again).await;
    assert_ne!(
        running["last_run_started_at"],
        before["last_run_started_at"]
    );
    service.end().await;
}

#[tokio::test]
async fn a_large_queue_is_cleared_and_scanned_again() {
    let place = Place::new("", "").with_fips(1_300);
    let service = place.start().await;
    let list: Vec<String> = (2_000..3_200).map(|n| nth(n).to_string()).collect();
    service
        .post("/admin/ips", json!({ "addresses": list }))
        .await;
    service.post(START, json!({})).await;
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == 1_300;
    service.when(CYCLE, "scanned", scanned).await;
    assert_eq!(service.queue().await, texts(1..=1_300));
    let cleared = service.events("queue_cleared").await;
    assert_eq!((cleared.len(), &cleared[0]["deleted"]), (1, &json!(1_200)));
    service.end().await;
}
