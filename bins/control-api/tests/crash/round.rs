//! A round of the auto-cycle: whatever step is cut off, the next process goes on with it.

use std::collections::BTreeMap;

use civ_orch::attempt::StateName;
use civ_orch::cycle::{Event, Outcome, PhaseName};
use civ_store::ips::IpRow;
use civ_store::scan::{Found, Source};
use civ_store::{WriteTx, cycle, queue, scan, validators};
use civ_testkit::nonce;
use civ_types::ValidatorId;
use serde_json::{Value, json};

use crate::all;
use crate::place::{Api, Left, Place, nth, texts};

const CYCLE: &str = "/admin/auto-cycle";

/// Free floating IPs: three pages, three chunks.
const ALL: u32 = 1_100;

/// Addresses of the round before: three chunks to clear, and 550 that come again.
const FORMER: std::ops::RangeInclusive<u32> = 551..=1_600;

/// Where it dies, the phase that is stored then, how many addresses are in the queue, and whether
/// there is a plan.
const LARGE: &[(&str, PhaseName, usize, bool)] = &[
    ("before_cycle_tick", PhaseName::Waiting, 1_050, false),
    ("after_cycle_tick", PhaseName::Clearing, 1_050, false),
    ("before_clear_chunk", PhaseName::Clearing, 1_050, false),
    ("after_clear_chunk", PhaseName::Clearing, 550, false),
    ("before_clear_chunk:2", PhaseName::Clearing, 550, false),
    ("after_clear_chunk:2", PhaseName::Clearing, 50, false),
    ("before_clear_chunk:3", PhaseName::Clearing, 50, false),
    ("after_clear_chunk:3", PhaseName::Releasing, 0, false),
    ("before_cycle_tick:2", PhaseName::Releasing, 0, false),
    ("after_cycle_tick:2", PhaseName::Scanning, 0, false),
    ("before_cloud_page", PhaseName::Scanning, 0, false),
    ("after_cloud_page:2", PhaseName::Scanning, 0, false),
    ("after_cloud_page:3", PhaseName::Scanning, 0, false),
    ("after_scan_forget", PhaseName::Scanning, 0, false),
    ("after_scan_note", PhaseName::Scanning, 0, false),
    ("before_scan_plan", PhaseName::Scanning, 0, false),
    ("after_scan_plan", PhaseName::Scanning, 0, true),
    ("after_scan_chunk", PhaseName::Scanning, 500, true),
    ("before_scan_chunk:2", PhaseName::Scanning, 500, true),
    ("after_scan_chunk:2", PhaseName::Scanning, 1_000, true),
    ("before_scan_chunk:3", PhaseName::Scanning, 1_000, true),
    ("after_scan_chunk:3", PhaseName::Checking, 1_100, false),
    ("before_cycle_tick:3", PhaseName::Checking, 0, false),
    ("after_cycle_tick:3", PhaseName::Waiting, 0, false),
];

/// Where it dies in a round whose addresses are really checked.
const SMALL: &[&str] = &[
    "before_resume",
    "after_resume",
    "before_scan_recover",
    "after_scan_recover",
    "before_retention",
    "after_retention",
    "before_signs",
    "after_signs",
    "before_cloud_on_ports",
    "after_cloud_on_ports",
    // The release of what was being checked.
    "before_cycle_tick",
    "after_cycle_tick",
    "before_clear_chunk",
    "after_clear_chunk",
    "before_released",
    "after_released",
    "before_cycle_tick:2",
    "after_cycle_tick:2",
    // The round's own addresses.
    "before_claim",
    "after_claim",
    "after_claim:4",
    "before_cloud_find",
    "after_cloud_find",
    "before_fip_found",
    "after_fip_found",
    "before_cloud_set_port",
    "after_cloud_set_port",
    "before_cloud_set_port:2",
    "after_cloud_set_port:2",
    "before_cloud_set_port:3",
    "after_cloud_set_port:3",
    "before_cloud_get",
    "after_cloud_get",
    "after_cloud_get:3",
    "before_associate_answered",
    "after_associate_answered",
    "before_associate_answered:3",
    "before_released:3",
    "after_released:3",
    "before_cycle_tick:3",
    "after_cycle_tick:3",
];

pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    LARGE.iter().map(|case| case.0).chain(SMALL.iter().copied())
}

#[tokio::test]
async fn killed_at_every_step_of_a_large_round() {
    all(LARGE, |case| large(*case)).await;
}

#[tokio::test]
async fn killed_at_every_step_of_a_round_that_checks() {
    all(SMALL, |point| small(point)).await;
}

fn step(tx: &mut WriteTx<'_>, event: &Event, from: PhaseName) {
    assert_eq!(cycle::load(tx).unwrap().phase.name(), from);
    cycle::step(tx, event).unwrap().unwrap();
}

/// The first round, of these addresses, all of which an operator has cancelled; then the pause,
/// which is over when the next process looks.
fn first_round(tx: &mut WriteTx<'_>, addresses: impl Iterator<Item = u32>) {
    let addresses: Vec<_> = addresses.map(nth).collect();
    cycle::configure(tx, Some(60), None).unwrap();
    step(tx, &Event::Start, PhaseName::Idle);
    step(tx, &Event::Tick, PhaseName::Idle);
    cycle::cleared(tx, 0).unwrap();
    step(tx, &Event::Tick, PhaseName::Releasing);
    scan::note(tx, &addresses).unwrap();
    let n = addresses.len();
    let found = Found {
        source: Source::AutoCycle,
        pages: 1,
        discovered: n as u64,
        free: n as u64,
    };
    assert!(scan::plan(tx, &found).unwrap());
    assert!(scan::apply(tx, u32::MAX).unwrap().is_last);
    for address in addresses {
        queue::cancel(tx, address).unwrap();
    }
    step(tx, &Event::Tick, PhaseName::Checking);
    assert_eq!(cycle::load(tx).unwrap().runs_total, 1);
}

/// Both rounds stand in the history, each with one of everything.
fn demand_two_rounds(point: &str, end: &Left, n_free: u64) {
    for name in [
        "auto_cycle_started",
        "auto_cycle_completed",
        "queue_cleared",
        "fip_scan",
    ] {
        assert_eq!(end.count(name), 2, "{point}: {name}");
    }
    let cycle = &end.cycle;
    assert_eq!(cycle.phase.name(), PhaseName::Waiting, "{point}");
    assert_eq!(cycle.runs_total, 2, "{point}");
    assert_eq!(cycle.last_outcome, Some(Outcome::Completed), "{point}");
    assert_eq!(cycle.last_scanned_free, n_free, "{point}");
}

async fn second_round_ended(api: &Api) -> Option<()> {
    let ended = |cycle: &Value| cycle["runs_total"] == 2 && cycle["phase"] == "waiting";
    api.when(CYCLE, ended).await.map(|_| ())
}

/// When the scan has enqueued everything, takes it all out again: the round has nothing to wait
/// for any more.
async fn take_out(api: Api) -> Option<()> {
    let scanned = |cycle: &Value| cycle["last_scanned_free"] == ALL;
    api.when(CYCLE, scanned).await?;
    let all = json!({"addresses": ["10.0.0.0/20"]});
    api.post("/admin/ips/delete", &all).await?;
    Some(())
}

async fn large((point, phase, n_rows, is_planned): (&'static str, PhaseName, usize, bool)) {
    let place = Place::new(ALL, "").await;
    place.prepare(|tx| first_round(tx, FORMER)).await;
    place.killed_at(point, take_out).await;

    let left = place.left().await;
    assert_eq!(left.cycle.phase.name(), phase, "{point}");
    assert_eq!(left.rows.len(), n_rows, "{point}");
    assert_eq!(left.is_planned, is_planned, "{point}");

    let (process, api) = place.again().await;
    // From here on nothing but the pause may come.
    let is_over = n_rows == 0 && left.cycle.last_scanned_free == u64::from(ALL);
    if !is_over {
        let scanned = |cycle: &Value| cycle["last_scanned_free"] == ALL;
        api.when(CYCLE, scanned).await.unwrap();
        process.kill().await;
        let scanned = place.left().await;
        assert_eq!(
            scanned.queue(),
            texts(1..=ALL),
            "{point}: complete, each once"
        );
        let (process, api) = place.again().await;
        take_out(api.clone()).await.unwrap();
        second_round_ended(&api).await.unwrap();
        process.kill().await;
    } else {
        second_round_ended(&api).await.unwrap();
        process.kill().await;
    }
    let end = place.left().await;
    demand_two_rounds(point, &end, ALL.into());
    if phase == PhaseName::Waiting && is_over {
        assert_eq!(end.cycle, left.cycle, "{point}: the pause goes on");
    }
    let mut cycles: BTreeMap<String, i64> = texts(FORMER).into_iter().map(|ip| (ip, 1)).collect();
    for address in texts(1..=ALL) {
        *cycles.entry(address).or_default() += 1;
    }
    assert_eq!(end.cycles, cycles, "{point}: exactly one more each");
    assert!(place.sim.attached().is_empty() && place.sim.unknown_calls().is_empty());
}

async fn small(point: &'static str) {
    let place = Place::new(6, "").await;
    place
        .prepare(|tx| {
            first_round(tx, 1..=6);
            // Between the rounds somebody wants one checked: it still is when the next begins.
            queue::enqueue(tx, &[nth(3)]).unwrap();
            let v1 = ValidatorId::parse("v1").unwrap();
            assert!(validators::register(tx, &v1, "", "", None).unwrap());
            let fresh = BTreeMap::from([(v1, tx.now())]);
            assert_eq!(queue::claim(tx, &fresh, 1, nonce).unwrap(), 1);
        })
        .await;
    place.sim.bind_foreign(nth(3).ip(), "port-1").await.unwrap();
    place
        .killed_at(point, |api: Api| async move { api.agent().await })
        .await;

    let (process, api) = place.again().await;
    let ended = async {
        second_round_ended(&api).await.unwrap();
        None
    };
    // The agent goes on for as long as anything has to be checked.
    tokio::select! {
        gone = api.agent() => assert_eq!(gone, None, "{point}: the process is gone"),
        over = ended => assert_eq!(over, None::<()>),
    }
    process.kill().await;
    let end = place.left().await;
    demand_two_rounds(point, &end, 6);
    assert_eq!(end.queue(), texts(1..=6), "{point}");
    let passed = |row: &IpRow| {
        row.attempt.state == StateName::Done
            && row.attempt.verdict == Some(civ_orch::expected::Verdict::Pass)
    };
    assert!(end.rows.iter().all(passed), "{point}: {:?}", end.rows);
    let mut cycles: BTreeMap<String, i64> = texts(1..=6).into_iter().map(|ip| (ip, 2)).collect();
    cycles.insert(nth(3).to_string(), 3);
    assert_eq!(end.cycles, cycles, "{point}: exactly one more each");
    let sim = &place.sim;
    assert!(sim.attached().is_empty(), "{point}: {:?}", sim.attached());
    assert!(sim.faults().is_empty() && sim.unknown_calls().is_empty());
}
