//! What agents and probers report, fenced: a report about an address that the validator does not
//! own now, or of another claim, changes nothing (rule 7).

use std::collections::BTreeSet;

use civ_orch::attempt::{Event, Report, StateName};
use civ_types::{
    Address, AttemptNo, CheckName, CheckSpec, ClaimNo, IpId, SiteId, Utc, ValidatorId,
};
use rusqlite::OptionalExtension as _;
use serde_json::json;

use crate::advance::{NotAdvanced, advance};
use crate::codec::{address, word};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};
use crate::identity::{self, Proof};
use crate::record::{self, IpRow};
use crate::results::{self, NewResult};
use crate::{leases, settings};

/// What a validator is to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The address in the queue.
    pub ip: IpId,
    /// The address.
    pub address: Address,
    /// `awaiting_self_check` or `checking`.
    pub state: StateName,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// Which claim; the fence.
    pub claim: ClaimNo,
    /// Not to be handed out before, since a fresh association settles.
    pub settles_at: Option<Utc>,
    /// The enabled check types with their targets.
    pub check_types: Vec<settings::CheckType>,
    /// Checks that are about to be handed out and do not count yet.
    pub uncounted: BTreeSet<CheckSpec>,
    /// Which revision of the list of checks this is, without `uncounted`.
    pub revision: i64,
    /// What the validator is to serve meanwhile, if it runs a responder.
    pub proof: Option<Proof>,
}

/// The work of one validator. In reach of the test that looks at its plan.
pub(crate) const WORK: &str = "SELECT i.id, i.address, i.state, i.attempt_no, i.claim_no, \
     i.associated_at, i.egress_complete \
     FROM leases l JOIN ips i ON i.id = l.ip_id AND i.claim_no = l.claim_no \
     WHERE l.validator_id = ?1 AND NOT l.releasing \
     AND i.state IN ('awaiting_self_check', 'checking')";

/// What a validator is to do now; `None`: nothing, also once the agent has said `complete`. One
/// that runs a responder then still has its nonce to serve, while sites may be at work, and nothing
/// to check.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn work(conn: &ReadConn<'_>, validator: &ValidatorId) -> Result<Option<Work>, StoreError> {
    let settle = settings::settle_seconds(conn)?;
    let mut statement = conn.sql().prepare_cached(WORK)?;
    let read = |row: &rusqlite::Row<'_>| {
        let state = word(row, "state", StateName::parse)?;
        let associated: Option<i64> = row.get("associated_at")?;
        let settles_at = associated
            .filter(|_| state == StateName::AwaitingSelfCheck && !civ_planted::is!(PauseIgnored))
            .map(|at| Utc::from_micros(at).plus_secs(settle));
        let complete: bool = row.get("egress_complete")?;
        let work = Work {
            ip: IpId(row.get("id")?),
            address: address(row, "address")?,
            state,
            attempt: AttemptNo(row.get("attempt_no")?),
            claim: ClaimNo(row.get("claim_no")?),
            settles_at,
            check_types: Vec::new(),
            uncounted: BTreeSet::new(),
            revision: 0,
            proof: None,
        };
        Ok((work, complete))
    };
    let found = statement.query_row([validator.as_str()], read).optional()?;
    let Some((mut work, complete)) = found else {
        return Ok(None);
    };
    work.proof = identity::of_claim(conn, work.claim)?;
    let counted = results::expected(conn, work.ip)?;
    work.revision = results::revision(conn, work.ip, None)?;
    if complete {
        return Ok(work.proof.is_some().then_some(work));
    }
    work.check_types = settings::check_types(conn)?;
    if work.state == StateName::Checking {
        work.uncounted = settings::configured(conn)?.egress_specs();
        work.uncounted.retain(|spec| !counted.contains_key(spec));
    }
    Ok(Some(work))
}

/// An address that every site is to check now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteWork {
    /// The address in the queue.
    pub ip: IpId,
    /// The address.
    pub address: Address,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// Which claim; the fence.
    pub claim: ClaimNo,
    /// Checks that are about to be handed out and do not count yet.
    pub uncounted: BTreeSet<CheckSpec>,
    /// Which revision of the site's list of checks this is, without `uncounted`.
    pub revision: i64,
    /// What to compare, if the validator serves it and the prober knows how.
    pub proof: Option<Proof>,
}

/// Everything in `checking`, with the ports and the ICMP flag as configured now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteList {
    /// In order of claiming.
    pub work: Vec<SiteWork>,
    /// TCP ports to check.
    pub ports: Vec<u16>,
    /// TCP ports on which nothing is to answer; none for a prober that does not know how.
    pub closed_ports: Vec<u16>,
    /// Whether to send echo requests.
    pub icmp: bool,
}

/// The work of the sites. In reach of the test that looks at its plan.
pub(crate) const SITE_WORK: &str = "SELECT id, address, attempt_no, claim_no FROM ips \
     WHERE state = 'checking' ORDER BY sequence";

/// What a site is to check now.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn site_list(conn: &ReadConn<'_>, site: &SiteId) -> Result<SiteList, StoreError> {
    let configured = settings::configured(conn)?;
    let own = configured.sites.iter().find(|one| one.id == *site);
    let mut statement = conn.sql().prepare_cached(SITE_WORK)?;
    let rows = statement.query_map([], |row| {
        Ok(SiteWork {
            ip: IpId(row.get("id")?),
            address: address(row, "address")?,
            attempt: AttemptNo(row.get("attempt_no")?),
            claim: ClaimNo(row.get("claim_no")?),
            uncounted: BTreeSet::new(),
            revision: 0,
            proof: None,
        })
    })?;
    let mut work: Vec<SiteWork> = rows.collect::<Result<_, _>>()?;
    for one in &mut work {
        let Some(own) = own else { continue };
        let counted = results::expected(conn, one.ip)?;
        one.revision = results::revision(conn, one.ip, Some(site))?;
        let proof = identity::to_compare(conn, one.claim)?;
        one.uncounted = configured.site_specs(own, proof.is_some());
        one.uncounted.retain(|spec| !counted.contains_key(spec));
        one.proof = proof.filter(|_| own.identity);
    }
    let knows_closed = own.is_some_and(|own| own.closed_ports);
    Ok(SiteList {
        work,
        ports: configured.ports,
        closed_ports: if knows_closed {
            configured.closed_ports
        } else {
            Vec::new()
        },
        icmp: configured.icmp,
    })
}

/// Why a report was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// The reporter does not own the address now, or the report is of another claim.
    #[error("{0}")]
    Stale(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn stale(validator: &ValidatorId, ip: IpId) -> NotAccepted {
    let text = format!("validator {validator} does not own ip_id {ip} now: nothing was changed");
    NotAccepted::Stale(text)
}

/// The claim that a report of `validator` about `ip` belongs to.
fn owned(
    tx: &WriteTx<'_>,
    validator: &ValidatorId,
    ip: IpId,
    fence: Option<ClaimNo>,
) -> Result<leases::Ownership, NotAccepted> {
    let lease = leases::ownership(tx, validator, ip)?.ok_or_else(|| stale(validator, ip))?;
    let fence = fence.filter(|_| !civ_planted::is!(FenceIgnored));
    if let Some(fence) = fence.filter(|fence| *fence != lease.claim) {
        let text = format!(
            "fence {fence} of ip_id {ip} is over, the current one is {}: nothing was changed",
            lease.claim
        );
        return Err(NotAccepted::Stale(text));
    }
    Ok(lease)
}

fn report(tx: &mut WriteTx<'_>, ip: IpId, claim: ClaimNo, what: Report) -> Result<(), NotAccepted> {
    match advance(tx, ip, &Event::Report(claim, what)) {
        Ok(_) => Ok(()),
        Err(NotAdvanced::Store(error)) => Err(error.into()),
        Err(refused) => Err(NotAccepted::Stale(format!("ip_id {ip}: {refused}"))),
    }
}

/// A judged self-check of the agent.
///
/// # Errors
/// [`NotAccepted`]: not the owner, another claim, not the time for it, or the database failed.
pub fn self_check(
    tx: &mut WriteTx<'_>,
    validator: &ValidatorId,
    ip: IpId,
    fence: Option<ClaimNo>,
    judge: impl FnOnce(Address) -> civ_orch::self_check::SelfCheck,
) -> Result<(), NotAccepted> {
    let lease = owned(tx, validator, ip, fence)?;
    leases::hear(tx, lease.claim)?;
    let judged = judge(lease.address);
    let what = Report::SelfCheck {
        passed: judged.passed,
        detail: judged.detail,
    };
    report(tx, ip, lease.claim, what)
}

/// The agent is through with all its checks. `seen`: the revision of its assignment, if it names
/// one; it asks no more, so what it was handed out later and has not done does not count.
///
/// # Errors
/// [`NotAccepted`]: not the owner, another claim, or the database failed.
pub fn complete(
    tx: &mut WriteTx<'_>,
    validator: &ValidatorId,
    ip: IpId,
    fence: Option<ClaimNo>,
    seen: Option<i64>,
) -> Result<(), NotAccepted> {
    let lease = owned(tx, validator, ip, fence)?;
    leases::hear(tx, lease.claim)?;
    let stored = record::fetch(tx, ip)?.ok_or_else(|| stale(validator, ip))?;
    if stored.attempt.state != StateName::Checking {
        let text = format!(
            "ip_id {ip} is {}: its checks cannot be complete before the self-check has passed",
            stored.attempt.state
        );
        return Err(NotAccepted::Stale(text));
    }
    // Said once more, perhaps by an agent that was started anew, it takes nothing back.
    if let Some(seen) = seen.filter(|_| !stored.egress_complete) {
        let unseen = results::unseen(tx, &stored, None, seen)?;
        results::uncount(tx, ip, &unseen)?;
    }
    if results::egress_complete(tx, ip)? {
        let event = NewEvent {
            ip: Some(ip),
            address: Some(lease.address),
            cycle: Some(lease.cycle),
            validator: Some(validator),
            ..NewEvent::new("egress_complete")
        };
        events::append(tx, &event)?;
    }
    report(tx, ip, lease.claim, Report::Progress)
}

/// A result with the address and claim that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The address in the queue.
    pub ip: IpId,
    /// The claim, if the reporter names one.
    pub fence: Option<ClaimNo>,
    /// The result.
    pub result: NewResult,
    /// On a prober's result: the site is through with this address.
    pub complete: bool,
    /// With `complete`: the revision of the assignment that the site worked from, if it names one.
    pub revision: Option<i64>,
}

/// Nothing of a claim is handed out before its association: what comes without a fence by then is
/// of an earlier one (rule 7).
fn is_handed_out(row: &IpRow) -> bool {
    row.attempt.state != StateName::AssigningFip
}

/// Results of an agent. Says how many were dropped, being of an address that is not the
/// validator's or of another claim.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn egress_results(
    tx: &mut WriteTx<'_>,
    validator: &ValidatorId,
    reported: &[Reported],
) -> Result<u32, StoreError> {
    let mut n_stale = 0;
    let mut touched = BTreeSet::new();
    for row in reported {
        let lease = match owned(tx, validator, row.ip, row.fence) {
            Ok(lease) => lease,
            Err(NotAccepted::Stale(_)) => {
                n_stale += 1;
                continue;
            }
            Err(NotAccepted::Store(error)) => return Err(error),
        };
        let Some(ip) = record::fetch(tx, row.ip)?.filter(is_handed_out) else {
            n_stale += 1;
            continue;
        };
        leases::hear(tx, lease.claim)?;
        if civ_planted::is!(EarlyResultsDropped) && ip.attempt.state != StateName::Checking {
            continue;
        }
        results::upsert(tx, &ip, &row.result)?;
        touched.insert((row.ip, lease.claim));
    }
    progress(tx, touched)?;
    Ok(n_stale)
}

/// The address, if it is in `checking` under that claim.
fn in_checking(
    tx: &WriteTx<'_>,
    ip: IpId,
    fence: Option<ClaimNo>,
) -> Result<Option<IpRow>, StoreError> {
    let current = |row: &IpRow| {
        row.attempt.state == StateName::Checking
            && fence.is_none_or(|fence| fence == row.attempt.head.claim)
    };
    Ok(record::fetch(tx, ip)?.filter(current))
}

/// Was the site handed out more than the assignment had that it says it is through with? Then it
/// has begun anew, and is waited for.
fn begins_anew(
    tx: &WriteTx<'_>,
    ip: &IpRow,
    site: &SiteId,
    seen: Option<i64>,
) -> Result<bool, StoreError> {
    let Some(seen) = seen else { return Ok(false) };
    let unseen = results::unseen(tx, ip, Some(site), seen)?;
    if unseen.is_empty() {
        return Ok(false);
    }
    let proves = identity::to_compare(tx, ip.attempt.head.claim)?.is_some();
    Ok(!unseen.is_disjoint(&settings::configured(tx)?.specs(proves)))
}

/// Results of a site. Says how many were dropped, being of an address that is not in `checking`
/// or of another claim.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn inbound_results(
    tx: &mut WriteTx<'_>,
    site: &SiteId,
    reported: &[Reported],
) -> Result<u32, StoreError> {
    let mut n_stale = 0;
    let mut touched = BTreeSet::new();
    for row in reported {
        let Some(ip) = in_checking(tx, row.ip, row.fence)? else {
            n_stale += 1;
            continue;
        };
        results::upsert(tx, &ip, &row.result)?;
        let head = &ip.attempt.head;
        let through = row.complete && !begins_anew(tx, &ip, site, row.revision)?;
        if through && results::site_complete(tx, row.ip, site)? {
            let event = NewEvent {
                ip: Some(row.ip),
                address: Some(head.address),
                cycle: Some(head.cycle),
                site: Some(site),
                ..NewEvent::new("site_complete")
            };
            events::append(tx, &event)?;
        }
        touched.insert((row.ip, head.claim));
    }
    progress(tx, touched)?;
    Ok(n_stale)
}

fn progress(tx: &mut WriteTx<'_>, touched: BTreeSet<(IpId, ClaimNo)>) -> Result<(), StoreError> {
    for (ip, claim) in touched {
        match report(tx, ip, claim, Report::Progress) {
            Ok(()) | Err(NotAccepted::Stale(_)) => {}
            Err(NotAccepted::Store(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Who sends an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporter<'a> {
    /// An agent.
    Validator(&'a ValidatorId),
    /// A prober.
    Site(&'a SiteId),
}

/// An event of an agent or a prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedEvent {
    /// What happened.
    pub event_type: String,
    /// The address in the queue, if it is about one.
    pub ip: Option<IpId>,
    /// The claim, if the reporter names one.
    pub fence: Option<ClaimNo>,
    /// Free text.
    pub payload: String,
    /// For `check_inconclusive`: which check type, target and reason.
    pub inconclusive: Option<(CheckName, String, String)>,
}

/// Records an event, always; one that says that a check could not be carried out also takes that
/// check out of the count, if it belongs to the current claim.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn event(
    tx: &mut WriteTx<'_>,
    from: Reporter<'_>,
    reported: &ReportedEvent,
) -> Result<(), StoreError> {
    let row = match reported.ip {
        Some(ip) => record::fetch(tx, ip)?,
        None => None,
    };
    let current = claim_of(tx, from, reported)?.filter(|_| row.as_ref().is_some_and(is_handed_out));
    let payload = match (&row, reported.ip) {
        (None, Some(ip)) => json!({"ip_id": ip.0, "payload": reported.payload}).to_string(),
        _ => reported.payload.clone(),
    };
    let (validator, site) = match from {
        Reporter::Validator(validator) => (Some(validator), None),
        Reporter::Site(site) => (None, Some(site)),
    };
    let noteworthy = reported.inconclusive.is_some();
    let event = NewEvent {
        ip: row.as_ref().map(|row| row.attempt.head.ip),
        address: row.as_ref().map(|row| row.attempt.head.address),
        cycle: row.as_ref().map(|row| row.attempt.head.cycle),
        validator,
        site,
        severity: if noteworthy {
            Severity::Warning
        } else {
            Severity::Info
        },
        payload,
        ..NewEvent::new(&reported.event_type)
    };
    events::append(tx, &event)?;
    let (Some(ip), Some(claim)) = (reported.ip, current) else {
        return Ok(());
    };
    if let Reporter::Validator(_) = from {
        leases::hear(tx, claim)?;
    }
    let Some((name, target, code)) = &reported.inconclusive else {
        return Ok(());
    };
    let spec = match from {
        Reporter::Validator(_) => CheckSpec::egress(name.clone(), target),
        Reporter::Site(site) => CheckSpec::inbound(site.clone(), name.clone()),
    };
    results::inconclusive(tx, ip, &spec, code)?;
    progress(tx, BTreeSet::from([(ip, claim)]))
}

/// The claim that an event belongs to, if it is the current one of its reporter.
fn claim_of(
    tx: &WriteTx<'_>,
    from: Reporter<'_>,
    reported: &ReportedEvent,
) -> Result<Option<ClaimNo>, StoreError> {
    let Some(ip) = reported.ip else {
        return Ok(None);
    };
    match from {
        Reporter::Validator(validator) => match owned(tx, validator, ip, reported.fence) {
            Ok(lease) => Ok(Some(lease.claim)),
            Err(NotAccepted::Stale(_)) => Ok(None),
            Err(NotAccepted::Store(error)) => Err(error),
        },
        Reporter::Site(_) => {
            let row = in_checking(tx, ip, reported.fence)?;
            Ok(row.map(|row| row.attempt.head.claim))
        }
    }
}
