//! Steps that something has to go wrong for: after each of them every address is judged, and
//! nothing is attached.

use std::collections::BTreeMap;
use std::time::Duration;

use civ_cloudsim::{Action, AnswerBody, Match, Rule, WriteKind};
use civ_orch::attempt::StateName;
use civ_store::queue;
use serde_json::{Value, json};

use crate::all;
use crate::place::{Api, Left, Place, nth, texts};

/// Free floating IPs; the first three are in the queue.
const ALL: u32 = 5;

const CASES: &[(&str, Trouble)] = &[
    ("before_release_failed", Trouble::Release),
    ("after_release_failed", Trouble::Release),
    ("before_adopt_orphan", Trouble::Orphan),
    ("after_adopt_orphan", Trouble::Orphan),
    ("before_detached", Trouble::TakenOff),
    ("after_detached", Trouble::TakenOff),
    ("before_tick", Trouble::Silence),
    ("after_tick", Trouble::Silence),
    ("before_lost_time", Trouble::Stop),
    ("after_lost_time", Trouble::Stop),
    ("before_scan_failed", Trouble::Listing),
    ("after_scan_failed", Trouble::Listing),
    ("before_scan_counted", Trouble::Count),
    ("after_scan_counted", Trouble::Count),
    ("before_scan_unproven", Trouble::Doubt),
    ("after_scan_unproven", Trouble::Doubt),
    ("before_outage", Trouble::Outage),
    ("after_outage", Trouble::Outage),
];

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The cloud does not release.
    Release,
    /// Something hangs on our port that nobody knows of.
    Orphan,
    /// Somebody takes off our port what is being checked.
    TakenOff,
    /// The agent says nothing, and its lease ends.
    Silence,
    /// The process stands still for longer than a lease.
    Stop,
    /// A scan may not list.
    Listing,
    /// None: a scan only counts.
    Count,
    /// The cloud counts more than it lists.
    Doubt,
    /// The cloud goes away in the middle.
    Outage,
}

pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.0)
}

#[tokio::test]
async fn killed_at_every_step_that_follows_trouble() {
    all(CASES, |case| play(*case)).await;
}

fn rule(place: &Place, matches: Match, action: Action) {
    place.sim.add_rule(Rule {
        name: "trouble".to_owned(),
        matches,
        action,
    });
}

fn refuse(place: &Place, matches: Match, status: u16) {
    let action = Action::Answer {
        status,
        body: AnswerBody::Empty,
        retry_after: None,
    };
    rule(place, matches, action);
}

fn twist(place: &Place, path_prefix: &str, action: Action) {
    let matches = Match {
        method: Some("GET".to_owned()),
        path_prefix: path_prefix.to_owned(),
        ..Match::default()
    };
    rule(place, matches, action);
}

/// The first page of a listing that the scan makes; other reads name a port or an address.
async fn compared(place: &Place) {
    let listed = async || {
        let calls = place.sim.calls();
        let is_list = |call: &civ_cloudsim::Call| call.path == "/v2.0/floatingips";
        calls.iter().any(is_list).then_some(())
    };
    civ_testkit::eventually("cloud and database are compared", listed).await;
}

async fn drive(place: &Place, trouble: Trouble, api: Api) -> Option<()> {
    match trouble {
        Trouble::Release => {
            let matches = Match {
                write: Some(WriteKind::Release),
                ..Match::default()
            };
            refuse(place, matches, 500);
            api.agent().await
        }
        Trouble::Orphan => Some(()),
        Trouble::TakenOff => {
            let v1 = json!({"validator_id": "v1"});
            api.post("/agents/register", &v1).await?;
            let waits = |list: &Value| list[0]["State"] == "awaiting_self_check";
            api.when("/admin/ips", waits).await?;
            place.sim.unbind(nth(1).ip()).await.unwrap();
            Some(())
        }
        Trouble::Silence => {
            let v1 = json!({"validator_id": "v1"});
            api.post("/agents/register", &v1).await?;
            Some(())
        }
        Trouble::Stop => {
            taken(&api).await?;
            api.stop(STOP).await;
            Some(())
        }
        Trouble::Listing => {
            compared(place).await;
            let matches = Match {
                method: Some("GET".to_owned()),
                path_prefix: "/v2.0/floatingips".to_owned(),
                ..Match::default()
            };
            refuse(place, matches, 403);
            api.post("/admin/ips/scan", &json!({})).await?;
            Some(())
        }
        Trouble::Count => {
            let counts = "/admin/ips/scan?dry_run=true";
            api.post(counts, &json!({})).await?;
            Some(())
        }
        Trouble::Doubt => {
            compared(place).await;
            twist(place, "/v2.0/floatingips", Action::StaleCopy);
            twist(place, "/v2.0/quotas", Action::AddFip);
            api.post("/admin/ips/scan", &json!({})).await?;
            Some(())
        }
        Trouble::Outage => {
            compared(place).await;
            refuse(place, Match::default(), 503);
            let v1 = json!({"validator_id": "v1"});
            api.post("/agents/register", &v1).await?;
            Some(())
        }
    }
}

/// Longer than the lease, and than the pause of which a process takes notice.
const STOP: Duration = Duration::from_secs(6);

const SHORT_LEASE: &str = "lease_ttl_seconds: 4, self_check_timeout_seconds: 1";

/// An agent has fetched an address and not said anything about it yet.
async fn taken(api: &Api) -> Option<Value> {
    let v1 = json!({"validator_id": "v1"});
    api.post("/agents/register", &v1).await?;
    let waits = |list: &Value| list[0]["State"] == "awaiting_self_check";
    api.when("/admin/ips", waits).await?;
    api.get("/agents/v1/assignment").await
}

#[tokio::test]
async fn rule_10_a_stop_for_longer_than_the_lease_costs_nobody_anything() {
    let place = Place::new(1, SHORT_LEASE).await;
    let enqueue = |tx: &mut civ_store::WriteTx<'_>| {
        queue::enqueue(tx, &[nth(1)]).unwrap();
    };
    place.prepare(enqueue).await;
    let (process, api) = place.again().await;
    let work = taken(&api).await.unwrap();
    api.stop(STOP).await;
    // Deadlines were looked at again before the agent had its turn.
    let noticed = |events: &Value| events.to_string().contains("stalled_ms");
    api.when("/admin/events?type=time_lost", noticed)
        .await
        .unwrap();
    let passed = json!({"ip_id": work["ip_id"], "success": true,
        "detected_egress_ip": work["ip_address"], "detail": ""});
    api.post("/agents/v1/self-check", &passed).await.unwrap();
    let complete = json!({"ip_id": work["ip_id"]});
    api.post("/agents/v1/complete", &complete).await.unwrap();
    let judged = |status: &Value| status["results_by_overall"]["pass"] == 1;
    api.when("/admin/status", judged).await.unwrap();
    process.kill().await;
    let left = place.left().await;
    assert_eq!(left.count("time_lost"), 1);
    assert_eq!(left.count("lease_expired") + left.count("requeued"), 0);
}

async fn play((point, trouble): (&'static str, Trouble)) {
    let timers = match trouble {
        Trouble::TakenOff => "reconcile_interval_seconds: 1",
        Trouble::Silence => "lease_ttl_seconds: 2, self_check_timeout_seconds: 1",
        Trouble::Stop => SHORT_LEASE,
        Trouble::Release
        | Trouble::Orphan
        | Trouble::Listing
        | Trouble::Count
        | Trouble::Doubt
        | Trouble::Outage => "",
    };
    let place = Place::new(ALL, timers).await;
    place
        .prepare(|tx| {
            queue::enqueue(tx, &[nth(1), nth(2), nth(3)]).unwrap();
        })
        .await;
    let before = place.left().await;
    if trouble == Trouble::Orphan {
        place.sim.bind_foreign(nth(5).ip(), "port-1").await.unwrap();
    }
    place
        .killed_at(point, |api| drive(&place, trouble, api))
        .await;
    let left = place.left().await;
    demand_left(point, trouble, &before, &left);
    place.sim.clear_rules();

    let (process, api) = place.again().await;
    let judged = |status: &Value| status["results_by_overall"]["pass"] == 3;
    tokio::select! {
        gone = api.agent() => assert_eq!(gone, None, "{point}: the process is gone"),
        status = api.when("/admin/status", judged) => assert!(status.is_some(), "{point}"),
    }
    let free = async || place.sim.attached().is_empty().then_some(());
    civ_testkit::eventually("nothing is attached", free).await;
    process.kill().await;
    let end = place.left().await;
    // What was taken off our port, or whose lease ended, stands behind the others.
    let mut queue = end.queue();
    queue.sort();
    assert_eq!(queue, texts(1..=3), "{point}");
    let done = |row: &civ_store::ips::IpRow| row.attempt.state == StateName::Done;
    assert!(end.rows.iter().all(done), "{point}: {:?}", end.rows);
    let cycles: BTreeMap<String, i64> = texts(1..=3).into_iter().map(|ip| (ip, 1)).collect();
    assert_eq!(end.cycles, cycles, "{point}");
    assert!(place.sim.faults().is_empty() && place.sim.unknown_calls().is_empty());
}

/// A scan that has failed, or that only counts, changes nothing but the history.
fn demand_left(point: &str, trouble: Trouble, before: &Left, left: &Left) {
    let told = match trouble {
        Trouble::Listing | Trouble::Count => "fip_scan",
        Trouble::Doubt => "fip_scan_unproven",
        Trouble::Outage => "cloud_unavailable",
        _ => "",
    };
    if !told.is_empty() {
        let is_told = usize::from(point.starts_with("after"));
        assert_eq!(left.count(told), is_told, "{point}");
    }
    if matches!(trouble, Trouble::Listing | Trouble::Count | Trouble::Doubt) {
        assert_eq!(left.rows, before.rows, "{point}: the queue is as it was");
        assert!(!left.is_planned, "{point}");
    }
}
