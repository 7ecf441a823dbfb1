//! Traps that clients of OpenStack have fallen into, one guard each: no test here passes without.
//! What no cloud does by itself, the simulated one does by a rule.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use civ_cloud::guard::{Association, OwnPorts, Release, associate, release};
use civ_cloud::walk::{Endless, Next, Walk};
use civ_cloud::{Budget, Cloud, Fault, OpenStack, OpenStackConfig, WriteFault};
use civ_cloudsim::{Action, AnswerBody, Call, ExternalSetup, FipSetup, Match, Setup};
use civ_types::{FipId, PortId};
use common::canned::Canned;
use common::{Served, address, ip, port};
use futures_util::future::join_all;
use serde_json::{Value, json};

const FIPS: &str = "/v2.0/floatingips";

/// A cloud with so many floating IPs, all free.
async fn with_fips(n: u8) -> Served {
    let fip = |last| FipSetup {
        address: ip(last),
        port: None,
        forwarded: false,
    };
    let fips = (1..=n).map(fip).collect();
    let setup = Setup {
        fips,
        // Statuses count as changes, and are not what is tested here.
        status_delay: None,
        ..Setup::default()
    };
    Served::new(setup).await
}

fn every_list() -> Match {
    Match {
        count: None,
        ..Match::next("GET", FIPS)
    }
}

fn nth_list(nth: u32) -> Match {
    Match {
        nth,
        ..Match::next("GET", FIPS)
    }
}

fn refusal(status: u16, kind: &str) -> Action {
    Action::Answer {
        status,
        body: AnswerBody::NeutronError(kind.to_owned()),
        retry_after: None,
    }
}

fn lists(served: &Served) -> Vec<Call> {
    let mut calls = served.sim.calls();
    calls.retain(|call| call.method == "GET" && call.path == FIPS);
    calls
}

/// Many more than any listing here needs, also with its rows read twice.
const PAGES_MAX: usize = 300;

/// All that is listed, page by page, as the product does it.
async fn listed(cloud: &OpenStack, limit: u32) -> Result<BTreeSet<String>, Endless> {
    let (mut walk, mut all, mut marker) = (Walk::default(), BTreeSet::new(), None::<FipId>);
    for _ in 0..PAGES_MAX {
        let page = cloud.page(marker.as_ref(), limit).await.unwrap();
        let ids: Vec<FipId> = page.rows.into_iter().map(|row| row.id).collect();
        all.extend(ids.iter().map(ToString::to_string));
        match walk.take(ids, page.has_more)? {
            Next::After(id) => marker = id,
            Next::End => {
                all.retain(|id| walk.saw(&FipId::parse(id).unwrap()));
                return Ok(all);
            }
        }
    }
    panic!("no end after {PAGES_MAX} pages");
}

/// A server that caps pages below what is asked for and sends no links at all.
#[tokio::test]
async fn a_page_without_links_is_followed_by_another_look() {
    let served = with_fips(9).await;
    served.rule(every_list(), Action::CapPage { rows: 2 });
    served.rule(every_list(), Action::DropLinks);
    assert_eq!(listed(&served.client(), 5).await.unwrap().len(), 9);
}

/// A server that says "previous" on every page and forgets "next" on full ones.
#[tokio::test]
async fn a_full_page_without_next_is_followed_by_another_look() {
    let served = with_fips(9).await;
    served.rule(every_list(), Action::DropNext);
    assert_eq!(listed(&served.client(), 3).await.unwrap().len(), 9);
}

/// A server that sends the same page whatever it is asked for.
#[tokio::test]
async fn pages_that_repeat_for_ever_end_in_an_error() {
    let served = with_fips(9).await;
    served.rule(every_list(), Action::RepeatPage);
    assert_eq!(listed(&served.client(), 3).await, Err(Endless));
    assert!(lists(&served).len() < 200);
}

/// The same, where the client itself follows the pages.
#[tokio::test]
async fn what_is_on_ports_is_not_listed_for_ever() {
    let mut setup = Setup::default();
    setup.fips[0].port = Some("port-1".to_owned());
    setup.fips[1].port = Some("port-2".to_owned());
    let served = Served::new(setup).await;
    served.rule(every_list(), Action::RepeatPage);
    let mut config = served.config();
    config.list_page_size = 1;
    let cloud = OpenStack::connect(config).unwrap();
    let ports = [port("port-1"), port("port-2")];
    let asked = tokio::time::timeout(Duration::from_secs(10), cloud.on_ports(&ports)).await;
    let fault = asked.unwrap().unwrap_err();
    assert!(
        fault.to_string().contains("does not come to an end"),
        "{fault}"
    );
}

/// A row is deleted behind which the next page was to begin: Neutron sends the first page then.
#[tokio::test]
async fn a_vanished_marker_costs_a_step_back_and_no_row() {
    let served = with_fips(12).await;
    served.rule(nth_list(3), Action::RemoveMarker);
    assert_eq!(listed(&served.client(), 3).await.unwrap().len(), 11);
    assert!(lists(&served).len() <= 8, "and not all from the beginning");
}

/// Other clouds refuse it; nothing may be passed over.
#[tokio::test]
async fn a_refused_marker_costs_a_step_back_and_no_row() {
    let served = with_fips(12).await;
    served.rule(nth_list(3), Action::RemoveMarker);
    served.rule(nth_list(3), refusal(400, "BadRequest"));
    assert_eq!(listed(&served.client(), 3).await.unwrap().len(), 11);
}

/// Other 400s stay what they are, also behind a marker.
#[tokio::test]
async fn a_refusal_that_is_not_about_the_marker_is_told() {
    let served = with_fips(3).await;
    served.rule(every_list(), refusal(400, "BadRequest"));
    let id = FipId::parse("f0001").unwrap();
    let fault = served.client().page(Some(&id), 3).await.unwrap_err();
    assert!(!fault.passes, "{fault}");
}

/// A server that shows rows of other networks although one was asked for.
#[tokio::test]
async fn addresses_of_another_network_are_never_taken() {
    let other = ExternalSetup {
        id: "11111111-2222-4333-8444-555555555555".to_owned(),
        name: "other".to_owned(),
        network: [198, 51, 100, 0].into(),
        bits: 24,
    };
    let served = Served::new(Setup {
        external: vec![other],
        ..Setup::default()
    })
    .await;
    served.rule(every_list(), Action::IgnoreFilters);
    let free = async |network: &str| {
        let mut config = served.config();
        config.floating_network = Some(network.to_owned());
        let cloud = OpenStack::connect(config).unwrap();
        let page = cloud.page(None, 50).await.unwrap();
        let free = page.rows.iter().filter(|row| row.is_free).count();
        (page.rows.len(), free, cloud.find(address(10)).await)
    };
    let (rows, n_free, found) = free("public").await;
    assert_eq!((rows, n_free, found.unwrap().is_some()), (10, 10, true));
    assert_eq!(free("other").await, (10, 0, Ok(None)));
}

/// The keys that we use, and no others: of lists, of single addresses, and of what is on ports.
#[tokio::test]
async fn only_the_keys_that_are_used_are_asked_for() {
    let served = with_fips(1).await;
    let cloud = served.client();
    cloud.page(None, 5).await.unwrap();
    let found = cloud.find(address(1)).await.unwrap().unwrap();
    cloud.get(&found.id).await.unwrap();
    cloud.on_ports(&[port("p")]).await.unwrap();
    let mut calls = served.sim.calls();
    calls.retain(|call| call.path.starts_with(FIPS));
    assert_eq!(calls.len(), 4);
    for call in calls {
        let asked = call.query;
        assert!(
            asked.contains("fields=port_id") && asked.contains("fields=id"),
            "{asked}"
        );
        assert!(!asked.contains("port_details"), "{asked}");
    }
}

/// `Retry-After` as a date (RFC 9110, 10.2.3), an hour ahead at most.
#[tokio::test]
async fn a_date_to_come_back_at_is_understood() {
    let served = with_fips(1).await;
    let busy = Action::AnswerUntil {
        status: 429,
        date: "Fri, 31 Dec 2100 23:59:59 GMT".to_owned(),
    };
    served.rule(every_list(), busy);
    let fault = served.client().page(None, 3).await.unwrap_err();
    assert_eq!(fault.retry_after, Some(Duration::from_secs(3_600)));
    assert!(fault.passes);
}

/// The most calls that were under way at one moment.
fn most_at_once(calls: &[Call]) -> usize {
    let end = |call: &Call| call.at_micros + i64::try_from(call.duration_micros).unwrap();
    let at = |moment: i64| {
        let open = calls.iter();
        open.filter(|call| (call.at_micros..end(call)).contains(&moment))
            .count()
    };
    let most = calls.iter().map(|call| at(call.at_micros)).max();
    most.unwrap_or_default()
}

#[tokio::test]
async fn requests_under_way_together_are_bounded() {
    let served = with_fips(1).await;
    served.rule(every_list(), Action::DelayBefore { ms: 20 });
    let budget = Budget {
        parallel: 3,
        per_second: 1_000,
    };
    let cloud = OpenStack::within(served.config(), budget).unwrap();
    let pages = join_all((0..30).map(|_| cloud.page(None, 5))).await;
    assert!(pages.iter().all(Result::is_ok));
    assert_eq!(most_at_once(&lists(&served)), 3);
}

#[tokio::test]
async fn requests_begun_in_a_second_are_bounded() {
    let served = with_fips(1).await;
    let budget = Budget {
        parallel: 30,
        per_second: 50,
    };
    let cloud = OpenStack::within(served.config(), budget).unwrap();
    cloud.page(None, 5).await.unwrap();
    let pages = join_all((0..30).map(|_| cloud.page(None, 5))).await;
    assert!(pages.iter().all(Result::is_ok));
    let calls = lists(&served);
    let took = calls.last().unwrap().at_micros - calls[0].at_micros;
    assert!(500_000 < took, "31 calls in {took} µs");
}

/// A listing that lasts longer than its token: it is renewed ahead of its end, again and again.
#[tokio::test]
async fn a_listing_outlives_its_token() {
    let served = Served::new(Setup {
        token_ttl: Duration::from_secs(2),
        page_max: Some(1),
        ..Setup::default()
    })
    .await;
    let cloud = served.client();
    let mut marker = None;
    for _ in 0..10 {
        let page = cloud.page(marker.as_ref(), 1).await.unwrap();
        marker = page.rows.last().map(|row| row.id.clone());
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::time::resume();
    }
    let calls = served.sim.calls();
    assert!(
        calls.iter().all(|call| call.status != 401),
        "never too late"
    );
    let n = served.n_calls("POST", "/v3/auth/tokens");
    assert!((5..=6).contains(&n), "{n} logins in ten seconds");
}

/// Neutron lists nothing at all for a token without a project, and reports no error.
#[tokio::test]
async fn a_token_without_a_project_is_no_token() {
    let served = with_fips(3).await;
    let unscoped = Action::DropKey {
        pointer: "/token/project".to_owned(),
    };
    served.rule(Match::next("POST", "/v3/auth/tokens"), unscoped);
    let fault = served.client().page(None, 5).await.unwrap_err();
    assert!(fault.text.contains("names no project"), "{fault}");
    assert!(!fault.passes);
    assert_eq!(lists(&served).len(), 0);
}

/// Taken as null it would look free.
#[tokio::test]
async fn a_row_without_its_port_is_not_taken_for_free() {
    let served = with_fips(3).await;
    let cloud = served.client();
    let seen = cloud.find(address(1)).await.unwrap().unwrap();
    let lacks = |pointer: &str| Action::DropKey {
        pointer: pointer.to_owned(),
    };
    served.rule(every_list(), lacks("/floatingips/0/port_id"));
    let fault = cloud.page(None, 5).await.unwrap_err();
    assert!(fault.text.contains("port_id"), "{fault}");
    assert!(cloud.find(address(1)).await.is_err());
    served.rule(every_list(), lacks("/floatingip/port_id"));
    assert!(cloud.get(&seen.id).await.is_err());
    let write = Match::next("PUT", FIPS);
    served.rule(write, lacks("/floatingip/port_id"));
    let fault = cloud.bind(&seen, Some(&port("port-1"))).await.unwrap_err();
    assert!(matches!(fault, WriteFault::AnswerLost { .. }), "{fault:?}");
}

/// A port that is taken may be taken by this very address: an earlier write has landed since.
#[tokio::test]
async fn what_is_on_the_port_that_refuses_it_is_ours() {
    let served = with_fips(2).await;
    let cloud = served.client();
    let own = OwnPorts::new([port("port-1")]);
    let one = own.own(&port("port-1")).unwrap();
    let taken = "FloatingIPPortAlreadyAssociated".to_owned();
    let carried_out_all_the_same = Action::AnswerAfter {
        status: 409,
        body: AnswerBody::NeutronError(taken),
        retry_after: None,
    };
    served.rule(Match::next("PUT", FIPS), carried_out_all_the_same);
    let seen = cloud.find(address(1)).await.unwrap().unwrap();
    let end = associate(&cloud, seen, &one, &own).await;
    assert!(
        matches!(end, Association::Associated { adopted: true, .. }),
        "{end:?}"
    );
    let other = cloud.find(address(2)).await.unwrap().unwrap();
    let end = associate(&cloud, other, &one, &own).await;
    assert!(
        matches!(end, Association::Failed(Fault::Port { .. })),
        "{end:?}"
    );
}

/// 200 to a release that shows the address on our port still: it is not released.
#[tokio::test]
async fn a_release_that_is_answered_and_not_made_is_made_again() {
    let served = with_fips(1).await;
    let cloud = served.client();
    let own = OwnPorts::new([port("port-1")]);
    let one = own.own(&port("port-1")).unwrap();
    served.sim.bind_foreign(ip(1), "port-1").await.unwrap();
    let id = cloud.find(address(1)).await.unwrap().unwrap().id;
    served.rule(Match::next("PUT", FIPS), Action::IgnoreWrite);
    assert_eq!(release(&cloud, &id, &one).await, Release::Released);
    assert_eq!(served.n_calls("PUT", FIPS), 2);
    assert!(served.sim.attached().is_empty());
}

/// A port that went away is the port's fault, and the address stays free for another.
#[tokio::test]
async fn a_port_that_is_gone_is_told_from_an_address_that_is() {
    let served = with_fips(1).await;
    let cloud = served.client();
    let seen = cloud.find(address(1)).await.unwrap().unwrap();
    let gone = Action::RemovePort {
        port: "port-1".to_owned(),
    };
    served.rule(Match::next("PUT", FIPS), gone);
    let bind = async |port: &PortId| cloud.bind(&seen, Some(port)).await;
    let fault = bind(&port("port-1")).await.unwrap_err();
    assert!(
        matches!(fault, WriteFault::Fault(Fault::Port { .. })),
        "{fault:?}"
    );
    served.sim.remove_fip(ip(1)).await;
    let fault = bind(&port("port-2")).await.unwrap_err();
    assert!(
        matches!(fault, WriteFault::Fault(Fault::Address { .. })),
        "{fault:?}"
    );
}

async fn client(canned: &Canned) -> OpenStack {
    let mut config: OpenStackConfig = with_fips(0).await.config();
    config.auth_url.clone_from(&canned.url);
    config.region = None;
    OpenStack::connect(config).unwrap()
}

/// The description marks what we hold, and nothing that somebody else wrote is lost.
#[tokio::test]
async fn only_an_empty_description_is_used_as_a_mark() {
    let row = json!({"id": "f0001", "floating_ip_address": "203.0.113.1", "port_id": null});
    let canned = Canned::new(move |_asked| (200, String::new(), json!({"floatingip": row}))).await;
    let plain = client(&canned).await;
    let marking = client(&canned).await.marking(true);
    let mut seen = plain
        .get(&FipId::parse("f0001").unwrap())
        .await
        .unwrap()
        .unwrap();
    let port = port("p");
    let mark = "held by cloud-ip-validator";
    let cases = [
        (&plain, Some(""), true, None),
        (&marking, Some(""), true, Some(mark)),
        (&marking, Some("a customer's"), true, None),
        (&marking, None, true, None),
        (&marking, Some(mark), false, Some("")),
        (&marking, Some("a customer's"), false, None),
        (&marking, Some(""), false, None),
    ];
    for (cloud, before, binds, expected) in cases {
        seen.description = before.map(str::to_owned);
        cloud.bind(&seen, binds.then_some(&port)).await.unwrap();
        let asked = canned.seen().pop().unwrap();
        let (_, sent) = asked.split_once('{').unwrap();
        let sent: Value = serde_json::from_str(&format!("{{{sent}")).unwrap();
        let said = sent["floatingip"]
            .get("description")
            .map(|text| text.as_str().unwrap());
        assert_eq!(said, expected, "{before:?} {binds}");
        assert!(
            sent["floatingip"].get("port_id").is_some(),
            "always named: {sent}"
        );
    }
}
