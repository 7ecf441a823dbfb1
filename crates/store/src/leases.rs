//! Leases and the outbox: what is, or may be, on our ports, and what the cloud is to be asked.

use civ_orch::attempt::{Event, Head, Place, Report, StateName};
use civ_orch::reconcile::{Held, Seen};
use civ_types::{Address, ClaimNo, CycleId, FipId, IpId, PortId, Utc, ValidatorId};
use rusqlite::{OptionalExtension as _, params};
use serde_json::json;

use crate::advance::{NotAdvanced, advance};
use crate::codec::{address, maybe, named, readable, text, utc, word};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};
use crate::hint::Hint;
use crate::runtime;

/// A call to the cloud that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Associate the address with the lease's port.
    Associate,
    /// Disassociate it, if it is still on that port.
    Release,
}

impl Call {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Associate => "associate",
            Self::Release => "release",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Associate, Self::Release]
            .into_iter()
            .find(|call| call.as_str() == word)
    }
}

/// An entry of the outbox with the lease it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The claim that made the lease.
    pub claim: ClaimNo,
    /// What is to be called.
    pub call: Call,
    /// How often it was tried.
    pub tries: u32,
    /// Not to be tried before.
    pub not_before: Utc,
    /// The address.
    pub address: Address,
    /// The address in the queue; `None` for one found without an owner.
    pub ip: Option<IpId>,
    /// The port.
    pub port: PortId,
    /// The floating IP, once known.
    pub fip: Option<FipId>,
}

/// The lease that a validator holds on an address, as its reports need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The claim, which is the fence.
    pub claim: ClaimNo,
    /// The address.
    pub address: Address,
    /// Which enqueueing.
    pub cycle: CycleId,
}

pub(crate) fn insert(
    tx: &WriteTx<'_>,
    head: &Head,
    claim: ClaimNo,
    place: &Place,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO leases (claim_no, ip_id, cycle_id, address, validator_id, \
         port_id, fip_id, made_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)";
    if civ_planted::is!(ClaimsOverLease) {
        let sql = "DELETE FROM leases WHERE validator_id = ?1";
        tx.sql().execute(sql, [place.validator.as_str()])?;
    }
    tx.sql().prepare_cached(SQL)?.execute(params![
        claim.0,
        head.ip.0,
        head.cycle.0,
        head.address.to_string(),
        place.validator.as_str(),
        place.port.as_str(),
        place.fip.as_ref().map(FipId::as_str),
        tx.now().as_micros(),
    ])?;
    Ok(())
}

pub(crate) fn delete(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached("DELETE FROM leases WHERE claim_no = ?1")?
        .execute([claim.0])?;
    Ok(())
}

fn set(tx: &WriteTx<'_>, sql: &str, claim: ClaimNo) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached(sql)?
        .execute(params![claim.0, tx.now().as_micros()])?;
    Ok(())
}

pub(crate) fn attached(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<(), StoreError> {
    set(
        tx,
        "UPDATE leases SET attached = 1, changed_at = ?2 WHERE claim_no = ?1",
        claim,
    )
}

pub(crate) fn releasing(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<(), StoreError> {
    set(
        tx,
        "UPDATE leases SET releasing = 1, changed_at = ?2 WHERE claim_no = ?1",
        claim,
    )
}

/// Notes that the agent has reported something within this claim.
pub(crate) fn hear(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<(), StoreError> {
    let sql = "UPDATE leases SET heard = 1 WHERE claim_no = ?1 AND NOT heard";
    tx.sql().prepare_cached(sql)?.execute([claim.0])?;
    Ok(())
}

pub(crate) fn heard(conn: &ReadConn<'_>, claim: ClaimNo) -> Result<bool, StoreError> {
    let mut statement = conn
        .sql()
        .prepare_cached("SELECT heard FROM leases WHERE claim_no = ?1")?;
    Ok(statement
        .query_row([claim.0], |row| row.get(0))
        .optional()?
        .unwrap_or(false))
}

pub(crate) fn ask(tx: &WriteTx<'_>, claim: ClaimNo, call: Call) -> Result<(), StoreError> {
    const SQL: &str =
        "INSERT OR IGNORE INTO outbox (claim_no, kind, not_before) VALUES (?1, ?2, ?3)";
    let parameters = params![claim.0, call.as_str(), tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}

/// The outbox. In reach of the test that looks at its plan.
pub(crate) const ORDERS: &str = "SELECT o.claim_no, o.kind, o.tries, o.not_before, \
     l.address, l.ip_id, l.port_id, l.fip_id FROM outbox o JOIN leases l USING (claim_no) \
     ORDER BY o.claim_no, o.kind DESC";

/// What the cloud is to be asked for, oldest claim first; of one claim the release first, since
/// it makes an association that was not tried yet pointless.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn orders(conn: &ReadConn<'_>) -> Result<Vec<Order>, StoreError> {
    let mut statement = conn.sql().prepare_cached(ORDERS)?;
    let rows = statement.query_map([], |row| {
        named("leases", row.get::<_, i64>("claim_no")?, order(row))
    })?;
    Ok(readable(rows)?)
}

fn order(row: &rusqlite::Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        claim: ClaimNo(row.get("claim_no")?),
        call: word(row, "kind", Call::parse)?,
        tries: row.get("tries")?,
        not_before: utc(row, "not_before")?,
        address: address(row, "address")?,
        ip: row.get::<_, Option<i64>>("ip_id")?.map(IpId),
        port: text(row, "port_id", PortId::parse)?,
        fip: maybe(row, "fip_id", FipId::parse)?,
    })
}

/// Is an association still wanted, so late that the call is about to be made?
///
/// # Errors
/// [`StoreError`] of the database.
pub fn fip_found(tx: &WriteTx<'_>, claim: ClaimNo, fip: &FipId) -> Result<bool, StoreError> {
    const SQL: &str = "UPDATE leases SET fip_id = ?2 WHERE claim_no = ?1 AND NOT releasing";
    let changed = tx
        .sql()
        .prepare_cached(SQL)?
        .execute(params![claim.0, fip.as_str()])?;
    if civ_planted::is!(OrderRemovedEarly) {
        let sql = "DELETE FROM outbox WHERE claim_no = ?1 AND kind = 'associate'";
        tx.sql().execute(sql, [claim.0])?;
    }
    Ok(changed == 1)
}

/// The cloud has answered an association: the call is done, and the machine hears of it.
///
/// An attempt that is over meanwhile (cancelled, deleted, given up) is not disturbed; its release
/// stands in the outbox already.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn associate_answered(
    tx: &mut WriteTx<'_>,
    claim: ClaimNo,
    ip: IpId,
    report: Report,
) -> Result<(), StoreError> {
    const SQL: &str = "DELETE FROM outbox WHERE claim_no = ?1 AND kind = 'associate'";
    tx.sql().prepare_cached(SQL)?.execute([claim.0])?;
    match advance(tx, ip, &Event::Report(claim, report)) {
        Ok(_) | Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => Ok(()),
        Err(NotAdvanced::Store(error)) => Err(error),
    }
}

/// A release failed and is to be tried again.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn release_failed(
    tx: &WriteTx<'_>,
    claim: ClaimNo,
    not_before: Utc,
    why: &str,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE outbox SET tries = tries + 1, not_before = ?2, last_error = ?3 \
         WHERE claim_no = ?1 AND kind = 'release'";
    let parameters = params![claim.0, not_before.as_micros(), why];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    if civ_planted::is!(FailedReleaseEnds) {
        delete(tx, claim)?;
    }
    Ok(())
}

/// How a release ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseEnd {
    /// It was on our port and is no longer.
    Released,
    /// It was on no port.
    AlreadyFree,
    /// It is on somebody else's port and was left alone (rule 4).
    NotOurs {
        /// What the cloud showed.
        seen: String,
    },
    /// The cloud no longer has it.
    Gone,
}

/// How long a write whose answer was lost may still land, in seconds: far longer than any proxy
/// holds a request, short enough that nobody binds the same floating IP to the same port by hand.
const LANDS_SECS: u32 = 600;

/// Remembers that the association of a lease that is over may still land.
fn may_land(tx: &WriteTx<'_>, fip: &FipId, port: &PortId) -> Result<(), StoreError> {
    const OVER: &str = "DELETE FROM lost_writes WHERE until <= ?1";
    const SQL: &str = "INSERT INTO lost_writes (fip_id, port_id, until) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET until = excluded.until";
    let now = tx.now();
    tx.sql().prepare_cached(OVER)?.execute([now.as_micros()])?;
    let until = now.plus_secs(LANDS_SECS).as_micros();
    let parameters = params![fip.as_str(), port.as_str(), until];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}

/// Floating IPs that a write of an earlier lease may yet bind, each with the port: on it they are
/// ours to free, whosever the port is by now.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn lost_writes(conn: &ReadConn<'_>, now: Utc) -> Result<Vec<(FipId, PortId)>, StoreError> {
    const SQL: &str = "SELECT fip_id, port_id FROM lost_writes WHERE until > ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([now.as_micros()], |row| {
        Ok((
            text(row, "fip_id", FipId::parse)?,
            text(row, "port_id", PortId::parse)?,
        ))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

struct Ending {
    ip: Option<IpId>,
    cycle: Option<CycleId>,
    address: Address,
    validator: Option<ValidatorId>,
    port: PortId,
    fip: Option<FipId>,
    attached: bool,
}

fn ending(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<Option<Ending>, StoreError> {
    const SQL: &str = "SELECT ip_id, cycle_id, address, validator_id, port_id, fip_id, attached \
         FROM leases WHERE claim_no = ?1";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Ending {
            ip: row.get::<_, Option<i64>>("ip_id")?.map(IpId),
            cycle: row.get::<_, Option<i64>>("cycle_id")?.map(CycleId),
            address: address(row, "address")?,
            validator: maybe(row, "validator_id", ValidatorId::parse)?,
            port: text(row, "port_id", PortId::parse)?,
            fip: maybe(row, "fip_id", FipId::parse)?,
            attached: row.get("attached")?,
        })
    };
    Ok(statement.query_row([claim.0], read).optional()?)
}

/// The release went through, one way or another: the lease is over, the validator free.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn released(tx: &mut WriteTx<'_>, claim: ClaimNo, end: &ReleaseEnd) -> Result<(), StoreError> {
    let Some(lease) = ending(tx, claim)? else {
        return Ok(());
    };
    delete(tx, claim)?;
    // Never confirmed, and not there now: it may be yet to come.
    if !lease.attached
        && *end != ReleaseEnd::Released
        && let Some(fip) = &lease.fip
    {
        may_land(tx, fip, &lease.port)?;
    }
    let how = match end {
        ReleaseEnd::Released => json!({"how": "disassociated"}),
        ReleaseEnd::AlreadyFree => json!({"how": "was already free"}),
        ReleaseEnd::Gone => json!({"how": "the floating IP is gone"}),
        ReleaseEnd::NotOurs { seen } => json!({"how": "not ours any more", "seen": seen}),
    };
    let event = NewEvent {
        ip: lease.ip,
        address: Some(lease.address),
        cycle: lease.cycle,
        validator: lease.validator.as_ref(),
        payload: how.to_string(),
        ..NewEvent::new("fip_released")
    };
    match end {
        ReleaseEnd::NotOurs { .. } => {
            let conflict = NewEvent {
                severity: Severity::Error,
                event_type: "fip_conflict",
                ..event.clone()
            };
            events::append(tx, &conflict)?;
        }
        ReleaseEnd::Released | ReleaseEnd::AlreadyFree | ReleaseEnd::Gone => {}
    }
    if lease.attached || *end == ReleaseEnd::Released {
        events::append(tx, &event)?;
    }
    if let Some(ip) = lease.ip {
        stamp_released(tx, ip, claim)?;
    }
    tx.hint(Hint::Schedule);
    Ok(())
}

/// Lets the machine hear of a release; an attempt that ended before gets the time stamp alone.
fn stamp_released(tx: &mut WriteTx<'_>, ip: IpId, claim: ClaimNo) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE ips SET released_at = ?3, updated_at = ?3 \
         WHERE id = ?1 AND claim_no = ?2 AND state IN ('done', 'failed', 'occupied')";
    match advance(tx, ip, &Event::Report(claim, Report::Released)) {
        Ok(_) => return Ok(()),
        Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => {}
        Err(NotAdvanced::Store(error)) => return Err(error),
    }
    let parameters = params![ip.0, claim.0, tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}

/// Who owns what. In reach of the test that looks at its plan.
pub(crate) const OWNERSHIP: &str = "SELECT claim_no, address, cycle_id FROM leases \
     WHERE validator_id = ?1 AND ip_id = ?2 AND NOT releasing";

/// The lease through which `validator` owns the address now, if it does.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn ownership(
    conn: &ReadConn<'_>,
    validator: &ValidatorId,
    ip: IpId,
) -> Result<Option<Ownership>, StoreError> {
    let mut statement = conn.sql().prepare_cached(OWNERSHIP)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Ownership {
            claim: ClaimNo(row.get("claim_no")?),
            address: address(row, "address")?,
            cycle: CycleId(row.get("cycle_id")?),
        })
    };
    Ok(statement
        .query_row(params![validator.as_str(), ip.0], read)
        .optional()?)
}

/// Whoever works on an address looks again at what it is to do.
pub(crate) fn wake_holders(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    const SQL: &str = "SELECT validator_id FROM leases \
         WHERE validator_id IS NOT NULL AND NOT releasing";
    let holders: Vec<ValidatorId> = tx
        .sql()
        .prepare_cached(SQL)?
        .query_map([], |row| text(row, 0, ValidatorId::parse))
        .and_then(readable)?;
    for holder in holders {
        tx.hint(Hint::Validator(holder));
    }
    Ok(())
}

/// The address of the open lease of a validator: the one that it owns, or whose release is
/// pending.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn address_of(
    conn: &ReadConn<'_>,
    validator: &ValidatorId,
) -> Result<Option<Address>, StoreError> {
    const SQL: &str = "SELECT address FROM leases WHERE validator_id = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([validator.as_str()], |row| address(row, 0))
        .optional()?)
}

/// Ports of open leases: they stay ours, whatever happens to the validators' entries.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn ports(conn: &ReadConn<'_>) -> Result<Vec<PortId>, StoreError> {
    const SQL: &str = "SELECT port_id FROM leases UNION SELECT port_id FROM validators";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| text(row, 0, PortId::parse))?;
    Ok(readable(rows)?)
}

/// Whether anything is, or may be, on our ports.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn any(conn: &ReadConn<'_>) -> Result<bool, StoreError> {
    let mut statement = conn
        .sql()
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM leases)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// All open leases, as the reconciler compares them.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn held(conn: &ReadConn<'_>) -> Result<Vec<Held>, StoreError> {
    const SQL: &str = "SELECT claim_no, address, port_id, fip_id, attached AND NOT releasing \
         AS attached, changed_at, \
         EXISTS (SELECT 1 FROM outbox o WHERE o.claim_no = l.claim_no) AS busy FROM leases l";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        named("leases", row.get::<_, i64>("claim_no")?, holding(row))
    })?;
    Ok(readable(rows)?)
}

fn holding(row: &rusqlite::Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held {
        claim: ClaimNo(row.get("claim_no")?),
        address: address(row, "address")?,
        port: text(row, "port_id", PortId::parse)?,
        fip: maybe(row, "fip_id", FipId::parse)?,
        attached: row.get("attached")?,
        busy: row.get("busy")?,
        changed_at: utc(row, "changed_at")?,
    })
}

/// Takes charge of what hangs on our port without an owner: a lease of its own, already to be
/// released. While it is open the address is not claimed, so the release cannot hit a new claim.
///
/// Says whether it did: an address or floating IP that has a lease meanwhile is no orphan.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn adopt_orphan(tx: &mut WriteTx<'_>, seen: &Seen) -> Result<bool, StoreError> {
    const SQL: &str = "INSERT INTO leases (claim_no, address, port_id, fip_id, attached, \
         releasing, made_at, changed_at) VALUES (?1, ?2, ?3, ?4, 1, 1, ?5, ?5) ON CONFLICT DO NOTHING";
    let claim = runtime::mint_claim(tx)?;
    let inserted = tx.sql().prepare_cached(SQL)?.execute(params![
        claim.0,
        seen.address.to_string(),
        seen.port.as_str(),
        seen.fip.as_str(),
        tx.now().as_micros(),
    ])?;
    if inserted == 0 {
        return Ok(false);
    }
    ask(tx, claim, Call::Release)?;
    let payload = json!({
        "found": "on our port without an owner",
        "fip_id": seen.fip.as_str(),
        "port_id": seen.port.as_str(),
    });
    let event = NewEvent {
        address: Some(seen.address),
        severity: Severity::Warning,
        payload: payload.to_string(),
        ..NewEvent::new("reconciled")
    };
    events::append(tx, &event)?;
    tx.hint(Hint::Outbox);
    Ok(true)
}

/// A fresh read has confirmed that the address is not on our port though it should be: back to
/// the queue, unless anything has happened to the lease meanwhile.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn detached(tx: &mut WriteTx<'_>, lease: &Held, seen: &str) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT ip_id, cycle_id FROM leases \
         WHERE claim_no = ?1 AND attached AND NOT releasing AND changed_at = ?2";
    let parameters = params![lease.claim.0, lease.changed_at.as_micros()];
    let of: Option<(Option<i64>, Option<i64>)> = tx
        .sql()
        .prepare_cached(SQL)?
        .query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((Some(ip), cycle)) = of else {
        return Ok(false);
    };
    let ip = IpId(ip);
    let report = Report::Detached {
        seen: seen.to_owned(),
    };
    match advance(tx, ip, &Event::Report(lease.claim, report)) {
        Ok(advanced) => {
            let payload = json!({
                "found": "not on our port, though it should be",
                "seen": seen,
                "state": advanced.after.map(StateName::as_str),
            });
            let event = NewEvent {
                ip: Some(ip),
                address: Some(lease.address),
                cycle: cycle.map(CycleId),
                severity: Severity::Warning,
                payload: payload.to_string(),
                ..NewEvent::new("reconciled")
            };
            events::append(tx, &event)?;
            Ok(true)
        }
        Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => Ok(false),
        Err(NotAdvanced::Store(error)) => Err(error),
    }
}
