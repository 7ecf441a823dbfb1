//! A small world around a database: validators that are alive, and a cloud that answers as told.

use std::collections::BTreeMap;

use civ_orch::attempt::{FaultKind, Report, StateName};
use civ_orch::self_check::SelfCheck;
use civ_store::agents::{self, NotAccepted, Reported, ReportedEvent, Reporter};
use civ_store::ips::{self, IpRow};
use civ_store::leases::{self, Call, Order, ReleaseEnd};
use civ_store::queue::{self, Enqueued};
use civ_store::results::{self, NewResult};
use civ_store::{NotAdvanced, Rules, StoreError, events, seed, validators};
use civ_testkit::{
    CHECK_TARGETS, TempStore, check, fip, nonce, rules, seed as seed_of, site, validator,
};
use civ_types::{Address, CheckSpec, ClaimNo, Clock as _, SiteId, Utc, ValidatorId};

pub(crate) struct World {
    pub(crate) db: TempStore,
    n_validators: u8,
}

impl World {
    pub(crate) async fn new(n_validators: u8, n_sites: u8) -> Self {
        Self::with(rules(), n_validators, n_sites).await
    }

    /// Validators are registered; nothing is queued.
    pub(crate) async fn with(rules: Rules, n_validators: u8, n_sites: u8) -> Self {
        let db = TempStore::with(rules);
        let seed = seed_of(n_validators, n_sites);
        let job = move |tx: &mut civ_store::WriteTx<'_>| -> Result<(), StoreError> {
            seed::apply(tx, &seed)?;
            for n in 1..=n_validators {
                assert!(validators::register(tx, &validator(n), "host", "1", None)?);
            }
            Ok(())
        };
        db.write(job).await.unwrap();
        Self { db, n_validators }
    }

    pub(crate) async fn enqueue(&self, list: &[Address]) -> Enqueued {
        let list = list.to_vec();
        self.db
            .write(move |tx| queue::enqueue(tx, &list))
            .await
            .unwrap()
    }

    pub(crate) async fn find(&self, address: Address) -> Option<IpRow> {
        self.db
            .read(move |conn| ips::by_address(conn, address))
            .await
            .unwrap()
    }

    pub(crate) async fn row(&self, address: Address) -> IpRow {
        self.find(address).await.unwrap()
    }

    pub(crate) async fn state(&self, address: Address) -> StateName {
        self.row(address).await.attempt.state
    }

    /// Who holds the address, under which claim.
    pub(crate) async fn holder(&self, address: Address) -> (ValidatorId, ClaimNo) {
        let head = self.row(address).await.attempt.head;
        (head.place.unwrap().validator, head.claim)
    }

    /// All validators are alive: they were seen a moment ago.
    pub(crate) fn fresh(&self) -> BTreeMap<ValidatorId, Utc> {
        let now = self.db.clock.now();
        (1..=self.n_validators)
            .map(|n| (validator(n), now))
            .collect()
    }

    pub(crate) async fn claim(&self) -> usize {
        let fresh = self.fresh();
        self.db
            .write(move |tx| queue::claim(tx, &fresh, usize::MAX, nonce))
            .await
            .unwrap()
    }

    pub(crate) async fn orders(&self) -> Vec<Order> {
        self.db.read(leases::orders).await.unwrap()
    }

    pub(crate) async fn order(&self, address: Address, call: Call) -> Option<Order> {
        let orders = self.orders().await.into_iter();
        orders
            .filter(|order| order.address == address)
            .find(|order| order.call == call)
    }

    /// The cloud answers the association of the current claim.
    pub(crate) async fn answer(&self, address: Address, report: Report) {
        let head = self.row(address).await.attempt.head;
        self.db
            .write(move |tx| leases::associate_answered(tx, head.claim, head.ip, report))
            .await
            .unwrap();
    }

    pub(crate) async fn associated(&self, address: Address) {
        let (_, claim) = self.holder(address).await;
        let found =
            move |tx: &mut civ_store::WriteTx<'_>| leases::fip_found(tx, claim, &fip(address));
        self.db.write(found).await.unwrap();
        let fip = fip(address);
        self.answer(address, Report::Associated { fip }).await;
    }

    pub(crate) async fn cloud_failed(&self, address: Address, kind: FaultKind) {
        let why = "the cloud said no".to_owned();
        self.answer(address, Report::CloudFailed { kind, why })
            .await;
    }

    pub(crate) async fn self_check_as(
        &self,
        by: ValidatorId,
        address: Address,
        fence: Option<ClaimNo>,
        passed: bool,
    ) -> Result<(), NotAccepted> {
        let ip = self.row(address).await.attempt.head.ip;
        let judged = SelfCheck {
            passed,
            detail: "told".to_owned(),
        };
        self.db
            .write(move |tx| agents::self_check(tx, &by, ip, fence, |_| judged))
            .await
    }

    /// Of the validator that holds it.
    pub(crate) async fn self_check(&self, address: Address, passed: bool) {
        let (by, claim) = self.holder(address).await;
        let told = self.self_check_as(by, address, Some(claim), passed).await;
        told.unwrap();
    }

    pub(crate) async fn reported(&self, address: Address, spec: CheckSpec, ok: bool) -> Reported {
        let head = self.row(address).await.attempt.head;
        Reported {
            ip: head.ip,
            fence: Some(head.claim),
            result: NewResult {
                spec,
                success: ok,
                latency_ms: 7,
                duration_ms: Some(9),
                detail: "seen".to_owned(),
                checked_at: self.db.clock.now(),
            },
            complete: false,
            revision: None,
        }
    }

    /// Results of the validator that holds it, for all targets; says how many were stale.
    pub(crate) async fn egress(&self, address: Address, ok: bool) -> u32 {
        let (by, _) = self.holder(address).await;
        let mut rows = Vec::new();
        for target in CHECK_TARGETS {
            let spec = CheckSpec::egress(check("https"), target);
            rows.push(self.reported(address, spec, ok).await);
        }
        self.db
            .write(move |tx| agents::egress_results(tx, &by, &rows))
            .await
            .unwrap()
    }

    pub(crate) async fn complete(&self, address: Address) -> Result<(), NotAccepted> {
        let head = self.row(address).await.attempt.head;
        let by = head.place.unwrap().validator;
        self.db
            .write(move |tx| agents::complete(tx, &by, head.ip, Some(head.claim), None))
            .await
    }

    /// All checks of one site as seeded, the last one `complete`; says how many were stale.
    pub(crate) async fn inbound(&self, address: Address, by: SiteId, ok: bool) -> u32 {
        let mut rows = Vec::new();
        for name in ["tcp-22", "ssh", "icmp"] {
            let spec = CheckSpec::inbound(by.clone(), check(name));
            rows.push(self.reported(address, spec, ok).await);
        }
        rows.last_mut().unwrap().complete = true;
        self.db
            .write(move |tx| agents::inbound_results(tx, &by, &rows))
            .await
            .unwrap()
    }

    pub(crate) async fn event(&self, by: Reporter<'static>, event: ReportedEvent) {
        self.db
            .write(move |tx| agents::event(tx, by, &event))
            .await
            .unwrap();
    }

    /// The cloud has released what the outbox asks for, of this address.
    pub(crate) async fn released(&self, address: Address) {
        let order = self.order(address, Call::Release).await.unwrap();
        self.released_as(order.claim, ReleaseEnd::Released).await;
    }

    pub(crate) async fn released_as(&self, claim: ClaimNo, end: ReleaseEnd) {
        self.db
            .write(move |tx| leases::released(tx, claim, &end))
            .await
            .unwrap();
    }

    /// After a silence its agent says something.
    pub(crate) async fn speaks(&self, by: ValidatorId) {
        self.db
            .write(move |tx| validators::unsilence(tx, &by))
            .await
            .unwrap();
    }

    /// Time passes, and the loop ticks.
    pub(crate) async fn tick_after(&self, secs: u32) -> usize {
        self.db.clock.advance_secs(secs);
        self.db.write(|tx| queue::tick(tx, 256)).await.unwrap()
    }

    pub(crate) async fn cancel(&self, address: Address) -> Result<(), NotAdvanced> {
        self.db.write(move |tx| queue::cancel(tx, address)).await
    }

    pub(crate) async fn delete(&self, address: Address) -> Result<(), NotAdvanced> {
        self.db.write(move |tx| queue::delete(tx, address)).await
    }

    /// Types of all events of an address, oldest first.
    pub(crate) async fn events(&self, address: Address) -> Vec<String> {
        let rows = self
            .db
            .read(move |conn| events::of_address(conn, address))
            .await
            .unwrap();
        rows.into_iter().map(|row| row.event_type).collect()
    }

    pub(crate) async fn checks(&self, address: Address) -> Vec<results::ResultRow> {
        let head = self.row(address).await.attempt.head;
        self.db
            .read(move |conn| results::of_attempt(conn, head.ip, head.attempt))
            .await
            .unwrap()
    }

    /// From the queue into the self-check.
    pub(crate) async fn up_to_self_check(&self, address: Address) {
        self.enqueue(&[address]).await;
        assert_eq!(self.claim().await, 1);
        self.associated(address).await;
        assert_eq!(self.state(address).await, StateName::AwaitingSelfCheck);
    }

    /// From the queue into the checks.
    pub(crate) async fn up_to_checking(&self, address: Address) {
        self.up_to_self_check(address).await;
        self.self_check(address, true).await;
        assert_eq!(self.state(address).await, StateName::Checking);
    }

    /// From the queue to a verdict; `n_sites` sites report too.
    pub(crate) async fn up_to_done(&self, address: Address, n_sites: u8, ok: bool) {
        self.up_to_checking(address).await;
        assert_eq!(self.egress(address, ok).await, 0);
        self.complete(address).await.unwrap();
        for n in 1..=n_sites {
            assert_eq!(self.inbound(address, site(n), ok).await, 0);
        }
        assert_eq!(self.state(address).await, StateName::Aggregating);
        self.released(address).await;
        assert_eq!(self.state(address).await, StateName::Done);
    }

    /// Ends the process, so to speak, and waits until its last connection is closed.
    pub(crate) async fn end(&mut self) {
        self.db.end();
        let mut log = self.db.path().into_os_string();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        // Whoever closes last folds the log in, but a reader cannot.
        civ_testkit::eventually("closed", async || {
            let folded = self
                .sql()
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                    row.get::<_, i64>(0)
                });
            (folded == Ok(0) && !log.exists()).then_some(())
        })
        .await;
    }

    /// A connection of its own, to look at and to tamper with what the store keeps to itself.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = rusqlite::Connection::open_with_flags(self.db.path(), flags).unwrap();
        connection
            .pragma_update(None, "foreign_keys", true)
            .unwrap();
        connection
    }
}
