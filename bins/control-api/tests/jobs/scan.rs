//! The scan: what it finds, what it enqueues, what it survives.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use civ_cloud::fake::PageTrouble;
use civ_cloud::{Auth, Cloud as _, Domain, OpenStack, OpenStackConfig, ReadFault, Scope, User};
use civ_cloudsim::{Action, AnswerBody, FipSetup, Match, NoDataPlane, Rule, Setup, Sim};
use civ_store::scan::{Found, Source};
use civ_store::{StoreError, scan};
use civ_types::PortId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::place::{Place, Service, fip, nth, texts};

const SCAN: &str = "/admin/ips/scan";

async fn ended(service: &Service) -> Value {
    let ended = |status: &Value| status["running"] == false && status["state"] != "idle";
    service.when(SCAN, "ended", ended).await
}

async fn waited(service: &Service) -> (u16, Value) {
    service.ask("POST", "/admin/ips/scan?wait=true", None).await
}

#[tokio::test]
async fn what_is_free_is_enqueued_in_order_of_address() {
    let place = Place::new("", "list_page_size: 7").with_fips(40);
    place
        .cloud
        .rebind(&fip(nth(2)), Some(PortId::parse("port-x").unwrap()));
    place.cloud.forward(&fip(nth(5)));
    let service = place.start().await;
    let idle = service.get(SCAN).await;
    assert_eq!(
        idle,
        json!({"state": "idle", "running": false, "dry_run": false, "pages": 0, "discovered": 0,
            "free": 0, "added": 0, "requeued": 0, "reordered": 0, "skipped_in_progress": 0,
            "started_at": null, "finished_at": null, "error": ""})
    );
    // A body is none of its business, and is ignored.
    let (status, begun) = service.ask("POST", SCAN, Some(json!("anything"))).await;
    assert_eq!((status, &begun["running"]), (202, &json!(true)), "{begun}");
    assert!(begun["started_at"].is_string() && begun["finished_at"].is_null());
    let done = ended(&service).await;
    assert_eq!(
        (&done["state"], &done["error"]),
        (&json!("done"), &json!(""))
    );
    assert_eq!(
        (&done["discovered"], &done["free"]),
        (&json!(40), &json!(38))
    );
    assert_eq!((&done["pages"], &done["added"]), (&json!(6), &json!(38)));
    assert!(done["finished_at"].is_string());
    let expected = texts((1..=40).filter(|n| ![2, 5].contains(n)));
    assert_eq!(service.queue().await, expected);
    let event = service.events("fip_scan").await;
    assert_eq!(event.len(), 1);
    assert_eq!(
        (&event[0]["scanned_free"], &event[0]["source"]),
        (&json!(38), &json!("request"))
    );
    service.end().await;
}

#[tokio::test]
async fn waiting_for_it_answers_the_four_lists() {
    let place = Place::new("", "").with_fips(4);
    let service = place.start().await;
    service
        .post(
            "/admin/ips",
            json!({"addresses": ["10.0.0.3", "10.0.0.1", "10.0.0.4"]}),
        )
        .await;
    service.post("/admin/ips/10.0.0.4/cancel", json!({})).await;
    let (status, lists) = waited(&service).await;
    assert_eq!(status, 200, "{lists}");
    assert_eq!(
        lists,
        json!({"scanned_free": 4, "added": ["10.0.0.2"], "requeued": ["10.0.0.4"],
            "reordered": ["10.0.0.1", "10.0.0.3"], "skipped_in_progress": []})
    );
    assert_eq!(service.queue().await, texts(1..=4));
    service.end().await;
}

#[tokio::test]
async fn what_is_being_checked_is_left_alone() {
    let place = Place::new("", "").with_fips(2);
    let service = place.start().await;
    service
        .post("/agents/register", json!({"validator_id": "v1"}))
        .await;
    service
        .post("/admin/ips", json!({"addresses": ["10.0.0.1"]}))
        .await;
    let checked = |list: &Value| list[0]["State"] == "awaiting_self_check";
    service.when("/admin/ips", "being checked", checked).await;
    let (_, lists) = waited(&service).await;
    // On our own port: not free, so not even skipped.
    assert_eq!(
        (&lists["scanned_free"], &lists["added"]),
        (&json!(1), &json!(["10.0.0.2"]))
    );
    assert_eq!(
        service.get("/admin/ips/10.0.0.1").await["ip"]["AttemptNumber"],
        1
    );
    service.end().await;
}

#[tokio::test]
async fn a_dry_run_only_counts() {
    let place = Place::new("", "").with_fips(3);
    let service = place.start().await;
    let (status, lists) = service
        .ask("POST", "/admin/ips/scan?dry_run=true&wait=true", None)
        .await;
    assert_eq!(
        (status, &lists["scanned_free"], &lists["added"]),
        (200, &json!(3), &json!([]))
    );
    let done = service.get(SCAN).await;
    assert_eq!(
        (&done["dry_run"], &done["free"], &done["added"]),
        (&json!(true), &json!(3), &json!(0))
    );
    assert!(service.queue().await.is_empty());
    assert_eq!(service.events("fip_scan").await[0]["dry_run"], true);
    service.end().await;
}

#[tokio::test]
async fn bad_parameters_are_refused() {
    let place = Place::new("", "");
    let service = place.start().await;
    for query in ["wait=60", "dry_run=maybe"] {
        let (status, body) = service.ask("POST", &format!("{SCAN}?{query}"), None).await;
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(service.get(SCAN).await["state"], "idle");
    service.end().await;
}

#[tokio::test]
async fn a_second_call_joins_the_first() {
    let place = Place::new("", "list_page_size: 2").with_fips(6);
    place.cloud.let_pages(Some(1));
    let service = place.start().await;
    service.post(SCAN, json!({})).await;
    let first = service
        .when(SCAN, "at its first page", |scan| scan["pages"] == 1)
        .await;
    assert_eq!(
        (&first["state"], &first["discovered"]),
        (&json!("listing"), &json!(2))
    );
    let (status, joined) = service
        .ask("POST", "/admin/ips/scan?dry_run=true", None)
        .await;
    assert_eq!(
        (status, &joined["dry_run"]),
        (202, &json!(false)),
        "it is the first one"
    );
    assert_eq!(joined["started_at"], first["started_at"]);
    assert!(
        service.queue().await.is_empty(),
        "nothing before everything was read"
    );
    let (waiting, ()) = tokio::join!(waited(&service), async { place.cloud.let_pages(None) });
    assert_eq!((waiting.0, &waiting.1["scanned_free"]), (200, &json!(6)));
    assert_eq!(service.events("fip_scan").await.len(), 1);
    service.end().await;
}

#[tokio::test]
async fn a_listing_that_fails_leaves_the_queue_as_it_was() {
    let place = Place::new("", "list_page_size: 2, page_retries: 1").with_fips(5);
    let service = place.start().await;
    service
        .post("/admin/ips", json!({"addresses": ["10.0.0.5", "10.0.0.1"]}))
        .await;
    let before = service.get("/admin/ips").await;
    let broken = || Some(PageTrouble::Refused(ReadFault::passing("it is away")));
    for trouble in [None, broken(), None, broken(), broken()] {
        place.cloud.script_page(trouble);
    }
    let (status, body) = waited(&service).await;
    assert_eq!(status, 502, "{body}");
    assert!(body["error"].as_str().unwrap().contains("it is away"));
    let status = service.get(SCAN).await;
    assert_eq!(
        (&status["state"], &status["running"]),
        (&json!("error"), &json!(false))
    );
    assert_eq!((&status["pages"], &status["added"]), (&json!(2), &json!(0)));
    assert!(status["error"].as_str().unwrap().contains("asked 2 times"));
    assert_eq!(service.get("/admin/ips").await, before);
    let event = &service.events("fip_scan").await[0];
    assert!(event["error"].as_str().unwrap().contains("it is away"));
    // The next one is not burdened by it.
    assert_eq!(waited(&service).await.0, 200);
    assert_eq!(service.queue().await, texts(1..=5));
    service.end().await;
}

#[tokio::test]
async fn a_list_that_ended_early_is_read_again() {
    let place = Place::new("", "list_page_size: 7").with_fips(40);
    place.cloud.script_page(None);
    place.cloud.script_page(Some(PageTrouble::EndsEarly));
    let service = place.start().await;
    let (_, lists) = waited(&service).await;
    assert_eq!(lists["scanned_free"], 40, "{lists}");
    assert_eq!(service.get(SCAN).await["pages"], 2 + 6);
    assert!(service.events("fip_scan_unproven").await.is_empty());
    service.end().await;
}

#[tokio::test]
async fn a_cloud_that_counts_nothing_is_read_twice() {
    let place = Place::new("", "list_page_size: 7").with_fips(40);
    place.cloud.say_count(None);
    let service = place.start().await;
    let (_, lists) = waited(&service).await;
    assert_eq!(lists["scanned_free"], 40, "{lists}");
    assert_eq!(service.get(SCAN).await["pages"], 2 * 6);
    assert!(service.events("fip_scan_unproven").await.is_empty());
    service.end().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_proved_is_taken_and_told() {
    let place = Place::new("", "list_page_size: 7").with_fips(40);
    place.cloud.say_count(Some(50));
    let service = place.start().await;
    let (_, lists) = waited(&service).await;
    assert_eq!(lists["scanned_free"], 40, "{lists}");
    let told = service.events("fip_scan_unproven").await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["discovered"], &told[0]["counted"]),
        (&json!(40), &json!(50))
    );
    // More rows than it counts are no sign of an early end: who sees other projects, too.
    place.cloud.say_count(Some(30));
    let (_, lists) = waited(&service).await;
    assert_eq!(lists["scanned_free"], 40, "{lists}");
    assert_eq!(service.events("fip_scan_unproven").await.len(), 1);
    service.end().await;
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let place = Place::new("", "page_retries: 5").with_fips(1);
    let refusal = ReadFault::lasting("you may not list");
    place.cloud.script_page(Some(PageTrouble::Refused(refusal)));
    let service = place.start().await;
    let (status, body) = waited(&service).await;
    assert_eq!(status, 502);
    assert!(
        body["error"].as_str().unwrap().contains("asked 1 times"),
        "{body}"
    );
    service.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_the_wait_and_the_queue_stays() {
    let place = Place::new("", "list_page_size: 2").with_fips(6);
    place.cloud.let_pages(Some(1));
    let service = place.start().await;
    service.post(SCAN, json!({})).await;
    service
        .when(SCAN, "at its first page", |scan| scan["pages"] == 1)
        .await;
    let ((status, body), ()) = tokio::join!(waited(&service), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.shut_down();
    });
    assert_eq!(status, 503, "{body}");
    service.end().await;
    place.cloud.let_pages(None);
    let service = place.start().await;
    assert_eq!(service.get(SCAN).await["state"], "idle");
    assert!(service.queue().await.is_empty());
    assert_eq!(waited(&service).await.0, 200);
    assert_eq!(service.queue().await, texts(1..=6));
    service.end().await;
}

fn found(source: Source, free: u64) -> Found {
    Found {
        source,
        pages: 1,
        discovered: free,
        free,
    }
}

/// The file as an earlier process would have left it.
async fn left_behind(place: &Place, is_planned: bool) {
    let store = place.store();
    let done: Result<(), StoreError> = store
        .write(move |tx| {
            let all: Vec<_> = (1..=1_200).map(nth).collect();
            scan::note(tx, &all)?;
            if is_planned {
                assert!(scan::plan(tx, &found(Source::Request, 1_200))?);
                assert!(!scan::apply(tx, 500)?.is_last);
            }
            Ok(())
        })
        .await;
    done.unwrap();
}

#[tokio::test]
async fn a_scan_that_was_cut_off_while_enqueuing_is_carried_out_to_its_end() {
    let place = Place::new("", "");
    left_behind(&place, true).await;
    let service = place.start().await;
    let all = |counts: &Value| counts["total_ips"] == 1_200;
    service.when("/admin/status", "complete", all).await;
    assert_eq!(service.queue().await, texts(1..=1_200));
    assert_eq!(
        service.get(SCAN).await["state"],
        "idle",
        "its status was in memory"
    );
    let event = &service.events("fip_scan").await[0];
    assert_eq!(
        (&event["added"], &event["scanned_free"]),
        (&json!(1_200), &json!(1_200))
    );
    service.end().await;
}

#[tokio::test]
async fn what_was_only_found_is_forgotten() {
    let place = Place::new("", "").with_fips(1);
    left_behind(&place, false).await;
    let service = place.start().await;
    let (status, lists) = waited(&service).await;
    assert_eq!((status, &lists["added"]), (200, &json!(["10.0.0.1"])));
    assert_eq!(service.queue().await, texts([1]));
    service.end().await;
}

#[tokio::test]
async fn the_periodic_scan_rests_while_anything_is_queued_or_the_cycle_is_on() {
    let place = Place::new("fip_scan_interval_seconds: 1", "").with_fips(2);
    let service = place.start().await;
    let done = ended(&service).await;
    assert_eq!(
        (&done["state"], &done["added"]),
        (&json!("done"), &json!(2))
    );
    assert_eq!(service.events("fip_scan").await[0]["source"], "timer");
    // Both are queued now: it rests, however often its time comes.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(service.events("fip_scan").await.len(), 1);
    for address in texts(1..=2) {
        service
            .post(&format!("/admin/ips/{address}/cancel"), json!({}))
            .await;
    }
    let again = |scan: &Value| scan["requeued"] == 2;
    service.when(SCAN, "made again", again).await;
    service.end().await;
}

/// The simulated cloud over HTTP, with `n` floating IPs from 10.0.0.1 on, every tenth of them on
/// a customer's port or used by port forwardings.
async fn simulated(n: u32) -> (Sim, OpenStack, JoinSet<()>) {
    let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
    let fip = |index| FipSetup {
        address: nth(index).ip(),
        port: (index == 10).then(|| "port-x".to_owned()),
        forwarded: index % 10 == 0 && index != 10,
    };
    let setup = Setup {
        fips: (1..=n).map(fip).collect(),
        ..Setup::default()
    };
    let sim = Sim::new(setup.clone(), Arc::new(NoDataPlane)).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v3", listener.local_addr().unwrap());
    let serving = sim.clone();
    let mut server = JoinSet::new();
    server.spawn(async move { serving.serve(listener).await.unwrap() });
    let domain = || Domain::Id("default".to_owned());
    let config = OpenStackConfig {
        auth: Auth::Password {
            user: User::Name {
                name: setup.username,
                domain: domain(),
            },
            password: setup.password.into(),
            scope: Scope::ProjectName {
                name: setup.project,
                domain: domain(),
            },
        },
        auth_url: url,
        region: None,
        interface: "public".to_owned(),
        ca_file: None,
        floating_network: Some(setup.network_name),
        endpoint_override: None,
        request_timeout: Duration::from_secs(20),
        list_page_size: 200,
    };
    (sim, OpenStack::connect(config).unwrap(), server)
}

fn rule(sim: &Sim, nth: u32, action: Action) {
    let matches = Match {
        nth,
        ..Match::next("GET", "/v2.0/floatingips")
    };
    let name = format!("{action:?}");
    // Pages are told from other reads of the same path by their order: nothing else reads here.
    sim.add_rule(Rule {
        name,
        matches,
        action,
    });
}

#[tokio::test]
async fn ten_thousand_with_a_broken_page_a_429_an_ended_token_and_a_vanished_marker() {
    let (sim, cloud, server) = simulated(10_000).await;
    let cloud = Arc::new(cloud);
    let place = Place::new("reconcile_interval_seconds: 600", "page_retries: 3");
    let service = place.start_on(Arc::<OpenStack>::clone(&cloud)).await;
    // The comparison of cloud and database at the start is over before the rules count.
    service
        .when("/admin/validators", "there", |list| {
            list[0]["ValidatorID"] == "v1"
        })
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    rule(&sim, 5, Action::CutMidBody);
    rule(&sim, 6, Action::CutMidBody);
    let busy = Action::Answer {
        status: 429,
        body: AnswerBody::Empty,
        retry_after: Some(1),
    };
    rule(&sim, 12, busy);
    rule(&sim, 20, Action::ExpireTokens);
    rule(&sim, 30, Action::RemoveMarker);
    let broken = Action::Answer {
        status: 503,
        body: AnswerBody::Html,
        retry_after: None,
    };
    rule(&sim, 40, broken);
    let (status, lists) = waited(&service).await;
    assert_eq!(status, 200, "{}", lists["error"]);
    let mut expected = Vec::new();
    let calls = sim.calls();
    let added: BTreeSet<&str> = lists["added"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for n in (1..=10_000).filter(|n| n % 10 != 0) {
        let text = nth(n).to_string();
        if added.contains(text.as_str()) || cloud.find(nth(n)).await.unwrap().is_some() {
            expected.push(text);
        }
    }
    assert!(
        8_999 <= expected.len(),
        "only the deleted one may be missing"
    );
    assert_eq!(lists["scanned_free"], json!(expected.len()));
    assert_eq!(
        lists["added"],
        json!(expected),
        "complete, ascending, each once"
    );
    assert_eq!(service.queue().await, expected);
    assert_eq!(free_in_peace(&service).await, lists["scanned_free"]);
    let met = |name: &str| {
        calls
            .iter()
            .any(|call| call.rules.iter().any(|rule| rule.contains(name)))
    };
    for name in ["CutMidBody", "429", "ExpireTokens", "RemoveMarker", "503"] {
        assert!(met(name), "{name} was not met");
    }
    let pause = pause_after(&calls, 429);
    assert!(Duration::from_secs(1) <= pause, "Retry-After: {pause:?}");
    assert!(sim.faults().is_empty() && sim.unknown_calls().is_empty());
    service.end().await;
    drop(server);
}

/// What a scan counts that nothing disturbs: one that was deleted meanwhile is not in it.
async fn free_in_peace(service: &Service) -> Value {
    let dry = "/admin/ips/scan?dry_run=true&wait=true";
    let (status, lists) = service.ask("POST", dry, None).await;
    assert_eq!(status, 200, "{lists}");
    lists["scanned_free"].clone()
}

/// How long after the answer with that status the next call came.
fn pause_after(calls: &[civ_cloudsim::Call], status: u16) -> Duration {
    let at = calls.iter().position(|call| call.status == status).unwrap();
    let (refused, next) = (&calls[at], &calls[at + 1]);
    let micros = next.at_micros - refused.at_micros;
    Duration::from_micros(u64::try_from(micros).unwrap())
}

#[tokio::test]
async fn an_occupied_address_of_a_real_listing_is_not_enqueued() {
    let (sim, cloud, server) = simulated(30).await;
    let taken = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
    sim.bind_foreign(taken, "port-1").await.unwrap();
    let place = Place::new("reconcile_interval_seconds: 600", "list_page_size: 4");
    let service = place.start_on(Arc::new(cloud)).await;
    // What hangs on our port without an owner is released meanwhile, or not: neither is a fault.
    let (_, lists) = waited(&service).await;
    let added = lists["added"].as_array().unwrap();
    for not_free in texts([10, 20, 30]) {
        assert!(!added.contains(&json!(not_free)), "{not_free}");
    }
    assert!(added.len() >= 26, "{added:?}");
    service.end().await;
    drop(server);
}
