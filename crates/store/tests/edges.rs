//! Reports that come at the wrong moment, and a start that was refused.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use civ_orch::attempt::{Report, StateName};
use civ_orch::self_check::SelfCheck;
use civ_store::agents::{self, Reported, ReportedEvent, Reporter};
use civ_store::results::NewResult;
use civ_store::{StoreError, ips, leases, queue, results, runtime, seed, validators};
use civ_testkit::{CHECK_TARGETS, TempStore, address, check, fip, nonce, seed, site, validator};
use civ_types::{CheckName, CheckSpec, ClaimNo, IpId};

const IP: IpId = IpId(1);

async fn world(sites: u8) -> TempStore {
    let store = TempStore::new();
    let ready = store.write(move |tx| -> Result<_, StoreError> {
        seed::apply(tx, &seed(1, sites))?;
        validators::register(tx, &validator(1), "", "", None)?;
        queue::enqueue(tx, &[address(1)])
    });
    ready.await.unwrap();
    store
}

/// Claims the address for the one validator; the claim's number.
async fn claimed(store: &TempStore) -> ClaimNo {
    let now = civ_types::Clock::now(store.clock.as_ref());
    let fresh = [(validator(1), now)].into();
    let claim = store.write(move |tx| -> Result<_, StoreError> {
        assert_eq!(queue::claim(tx, &fresh, 1, nonce)?, 1);
        Ok(leases::ownership(tx, &validator(1), IP)?.unwrap().claim)
    });
    claim.await.unwrap()
}

async fn associated(store: &TempStore, claim: ClaimNo) {
    let report = Report::Associated {
        fip: fip(address(1)),
    };
    let job = store.write(move |tx| leases::associate_answered(tx, claim, IP, report));
    job.await.unwrap();
}

async fn self_checked(store: &TempStore, claim: ClaimNo) {
    let judged = |_| SelfCheck {
        passed: true,
        detail: String::new(),
    };
    let job = store.write(move |tx| agents::self_check(tx, &validator(1), IP, Some(claim), judged));
    job.await.unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "what an operator changes: the store's own methods for it are not what is tested"
)]
fn configure(store: &TempStore, sql: &str) {
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
}

/// An address in `checking`.
async fn checking(sites: u8) -> (TempStore, ClaimNo) {
    let store = world(sites).await;
    let claim = claimed(&store).await;
    associated(&store, claim).await;
    self_checked(&store, claim).await;
    (store, claim)
}

fn row(fence: Option<ClaimNo>, spec: CheckSpec, success: bool, complete: bool) -> Reported {
    Reported {
        ip: IP,
        fence,
        result: NewResult {
            spec,
            success,
            latency_ms: 1,
            duration_ms: None,
            detail: String::new(),
            checked_at: civ_testkit::START,
        },
        complete,
        revision: None,
    }
}

async fn state(store: &TempStore) -> (StateName, Option<String>) {
    let found = store.read(|conn| ips::by_address(conn, address(1))).await;
    let row: ips::IpRow = found.map_err(|error: StoreError| error).unwrap().unwrap();
    let verdict = row.attempt.verdict.map(|verdict| verdict.to_string());
    (row.attempt.state, verdict)
}

async fn complete(store: &TempStore, claim: ClaimNo) {
    let job = store.write(move |tx| agents::complete(tx, &validator(1), IP, Some(claim), None));
    job.await.unwrap();
}

async fn inbound(store: &TempStore, claim: ClaimNo, names: &[CheckName]) {
    let last = names.len();
    let rows: Vec<_> = (1..)
        .zip(names)
        .map(|(n, name)| {
            let spec = CheckSpec::inbound(site(1), name.clone());
            row(Some(claim), spec, true, n == last)
        })
        .collect();
    let job = store.write(move |tx| agents::inbound_results(tx, &site(1), &rows));
    assert_eq!(job.await.unwrap(), 0);
}

async fn egress(store: &TempStore, fence: Option<ClaimNo>, success: bool) -> u32 {
    let rows = CHECK_TARGETS.map(|target| {
        let spec = CheckSpec::egress(check("https"), target);
        row(fence, spec, success, false)
    });
    let job = store.write(move |tx| agents::egress_results(tx, &validator(1), &rows));
    job.await.unwrap()
}

/// An agent of the contract without fences is late with results of the last claim, while the same
/// validator is about to get the same address again: nothing was handed out in the new claim yet.
#[tokio::test]
async fn rule_07_results_before_the_association_are_of_an_earlier_claim() {
    let store = world(0).await;
    let claim = claimed(&store).await;
    assert_eq!(egress(&store, None, true).await, 2, "both are stale");
    let event = ReportedEvent {
        event_type: "check_inconclusive".to_owned(),
        ip: Some(IP),
        fence: None,
        payload: String::new(),
        inconclusive: Some((
            check("https"),
            CHECK_TARGETS[0].to_owned(),
            "late".to_owned(),
        )),
    };
    let job = move |tx: &mut civ_store::WriteTx<'_>| {
        agents::event(tx, Reporter::Validator(&validator(1)), &event)
    };
    store.write(job).await.unwrap();
    associated(&store, claim).await;
    self_checked(&store, claim).await;
    complete(&store, claim).await;
    let (state, verdict) = state(&store).await;
    assert_eq!(state, StateName::Aggregating);
    assert_eq!(verdict.as_deref(), Some("fail"), "nothing was reported");
}

/// A site has said that it is through; then a check is added and handed out to it.
#[tokio::test]
async fn a_site_that_was_handed_another_check_is_waited_for_again() {
    let (store, claim) = checking(1).await;
    inbound(
        &store,
        claim,
        &[CheckName::tcp(22), CheckName::ssh(), CheckName::icmp()],
    )
    .await;
    configure(&store, "UPDATE settings SET inbound_ports = '[22, 8080]'");
    let handed = store.write(move |tx| -> Result<_, StoreError> {
        let list = agents::site_list(tx, &site(1))?;
        results::hand_out(tx, IP, claim, &list.work[0].uncounted, 0)
    });
    handed.await.unwrap();
    egress(&store, Some(claim), true).await;
    complete(&store, claim).await;
    assert_eq!(state(&store).await, (StateName::Checking, None));
    inbound(&store, claim, &[CheckName::tcp(8080)]).await;
    let judged = (StateName::Aggregating, Some("pass".to_owned()));
    assert_eq!(state(&store).await, judged);
}

/// The list was read, then the agent said `complete`, then what was read is noted as handed out.
#[tokio::test]
async fn a_check_that_is_handed_out_too_late_does_not_count() {
    let (store, claim) = checking(1).await;
    egress(&store, Some(claim), true).await;
    configure(
        &store,
        r#"UPDATE target_groups SET targets =
           '["https://a.example", "https://b.example", "https://c.example"]'"#,
    );
    let read = store.read(|conn| agents::work(conn, &validator(1))).await;
    let work: Option<agents::Work> = read.map_err(|error: StoreError| error).unwrap();
    complete(&store, claim).await;
    let specs = work.unwrap().uncounted;
    assert_eq!(specs.len(), 1);
    let noted = store
        .write(move |tx| results::hand_out(tx, IP, claim, &specs, 0))
        .await;
    noted.unwrap();
    inbound(
        &store,
        claim,
        &[CheckName::tcp(22), CheckName::ssh(), CheckName::icmp()],
    )
    .await;
    let judged = (StateName::Aggregating, Some("pass".to_owned()));
    assert_eq!(state(&store).await, judged);
}

/// The list of a site was read, then an address of it was deleted: the others are handed out.
#[tokio::test]
async fn handing_out_survives_a_delete_meanwhile() {
    let (store, claim) = checking(1).await;
    let deleted = store.write(|tx| queue::delete(tx, address(1)));
    deleted.await.unwrap();
    let spec = CheckSpec::inbound(site(1), CheckName::tcp(8080));
    let noted = store.write(move |tx| results::hand_out(tx, IP, claim, &[spec].into(), 0));
    noted.await.unwrap();
}

/// A start that is refused (a setting that does not fit the database) is no sign of life.
#[tokio::test]
async fn rule_10_a_refused_start_counts_against_no_deadline() {
    let (mut store, _claim) = checking(0).await;
    store.clock.advance_secs(600);
    let refused = store.write(|tx| -> Result<(), StoreError> {
        runtime::resume(tx)?;
        Err(StoreError::Corrupt {
            what: "the settings".to_owned(),
        })
    });
    refused.await.unwrap_err();
    store.restart(Duration::from_secs(5)).await;
    let ticked = store.write(|tx| queue::tick(tx, 9)).await;
    assert_eq!(ticked.map_err(|error: StoreError| error).unwrap(), 0);
    assert_eq!(state(&store).await.0, StateName::Checking);
}
