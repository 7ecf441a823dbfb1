//! The row of an address in the queue, to and from the machine's [`Row`].

use civ_orch::attempt::{Attempt, Cause, Head, Place, Retries, Row, Stamps, StateName};
use civ_orch::expected::Verdict;
use civ_types::{AttemptNo, ClaimNo, CycleId, FipId, IpId, PortId, Utc, ValidatorId};
use rusqlite::{OptionalExtension as _, named_params};

use crate::codec::{address, maybe, maybe_utc, maybe_word, micros, named, utc, word};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;

/// The columns that [`read`] reads.
pub(crate) const COLUMNS: &str = "id, address, sequence, state, verdict, cause, cycle_id, \
     attempt_no, claim_no, assign_retries, self_check_retries, silent_leases, avoid_validator, \
     validator_id, port_id, fip_id, due_at, assigned_at, associated_at, checking_at, \
     aggregated_at, released_at, egress_complete, last_error, created_at, updated_at";

/// An address in the queue as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRow {
    /// What the machine knows.
    pub attempt: Row,
    /// The agent has said that it is through with the current claim.
    pub egress_complete: bool,
    /// When it was added.
    pub created_at: Utc,
    /// When anything last changed.
    pub updated_at: Utc,
}

const fn parse_verdict(word: &str) -> Option<Verdict> {
    match word.as_bytes() {
        b"pass" => Some(Verdict::Pass),
        b"partial" => Some(Verdict::Partial),
        b"fail" => Some(Verdict::Fail),
        _ => None,
    }
}

fn place(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Place>> {
    let validator = maybe(row, "validator_id", ValidatorId::parse)?;
    let port = maybe(row, "port_id", PortId::parse)?;
    let fip = maybe(row, "fip_id", FipId::parse)?;
    Ok(validator.zip(port).map(|(validator, port)| Place {
        validator,
        port,
        fip,
    }))
}

fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        ip: IpId(row.get("id")?),
        address: address(row, "address")?,
        attempt: AttemptNo(row.get("attempt_no")?),
        cycle: CycleId(row.get("cycle_id")?),
        claim: ClaimNo(row.get("claim_no")?),
        sequence: row.get("sequence")?,
        retries: Retries {
            assign: row.get("assign_retries")?,
            self_check: row.get("self_check_retries")?,
            silent: row.get("silent_leases")?,
        },
        avoid: maybe(row, "avoid_validator", ValidatorId::parse)?,
        place: place(row)?,
        stamps: Stamps {
            assigned: maybe_utc(row, "assigned_at")?,
            associated: maybe_utc(row, "associated_at")?,
            checking: maybe_utc(row, "checking_at")?,
            aggregated: maybe_utc(row, "aggregated_at")?,
            released: maybe_utc(row, "released_at")?,
        },
        last_error: row.get("last_error")?,
    })
}

/// Whether the machine could have written the row.
pub(crate) fn check(row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
    let stored = read(row)?;
    let id = stored.attempt.head.ip.0;
    let made = Attempt::from_row(stored.attempt);
    let wrong = |why| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(why))
    };
    named("ips", id, made.map(drop).map_err(wrong))
}

pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<IpRow> {
    named("ips", row.get::<_, i64>("id")?, columns(row))
}

fn columns(row: &rusqlite::Row<'_>) -> rusqlite::Result<IpRow> {
    Ok(IpRow {
        attempt: Row {
            head: head(row)?,
            state: word(row, "state", StateName::parse)?,
            due_at: maybe_utc(row, "due_at")?,
            verdict: maybe_word(row, "verdict", parse_verdict)?,
            cause: maybe_word(row, "cause", Cause::parse)?,
        },
        egress_complete: row.get("egress_complete")?,
        created_at: utc(row, "created_at")?,
        updated_at: utc(row, "updated_at")?,
    })
}

pub(crate) fn fetch(conn: &ReadConn<'_>, ip: IpId) -> Result<Option<IpRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM ips WHERE id = ?1");
    Ok(conn
        .sql()
        .prepare_cached(&sql)?
        .query_row([ip.0], read)
        .optional()?)
}

/// Stores the next state over the one that was read; says whether that one was still there.
pub(crate) fn update(
    tx: &WriteTx<'_>,
    before: (StateName, ClaimNo),
    next: &Row,
) -> Result<bool, StoreError> {
    // FAIL: whatever fails undoes the whole job, so the statement need not be able to undo itself,
    // for which it would copy every page that it or its triggers change.
    const SQL: &str = "UPDATE OR FAIL ips SET \
         sequence = :sequence, state = :state, verdict = :verdict, cause = :cause, \
         result = :result, cycle_id = :cycle, attempt_no = :attempt, claim_no = :claim, \
         assign_retries = :assign, self_check_retries = :self_check, silent_leases = :silent, \
         avoid_validator = :avoid, validator_id = :validator, port_id = :port, fip_id = :fip, \
         due_at = :due, assigned_at = :assigned, associated_at = :associated, \
         checking_at = :checking, aggregated_at = :aggregated, released_at = :released, \
         last_error = :last_error, updated_at = :now \
         WHERE id = :id AND state = :before_state AND claim_no = :before_claim";
    let head = &next.head;
    let place = head.place.as_ref();
    let changed = tx.sql().prepare_cached(SQL)?.execute(named_params! {
        ":sequence": head.sequence,
        ":state": next.state.as_str(),
        ":verdict": next.verdict.map(Verdict::as_str),
        ":cause": next.cause.map(Cause::as_str),
        ":result": next.outcome().map_or("", |outcome| outcome.as_str()),
        ":cycle": head.cycle.0,
        ":attempt": head.attempt.0,
        ":claim": head.claim.0,
        ":assign": head.retries.assign,
        ":self_check": head.retries.self_check,
        ":silent": head.retries.silent,
        ":avoid": head.avoid.as_ref().map(ValidatorId::as_str),
        ":validator": place.map(|place| place.validator.as_str()),
        ":port": place.map(|place| place.port.as_str()),
        ":fip": place.and_then(|place| place.fip.as_ref()).map(FipId::as_str),
        ":due": micros(next.due_at),
        ":assigned": micros(head.stamps.assigned),
        ":associated": micros(head.stamps.associated),
        ":checking": micros(head.stamps.checking),
        ":aggregated": micros(head.stamps.aggregated),
        ":released": micros(head.stamps.released),
        ":last_error": head.last_error,
        ":now": tx.now().as_micros(),
        ":id": head.ip.0,
        ":before_state": before.0.as_str(),
        ":before_claim": before.1.0,
    })?;
    Ok(changed == 1)
}

pub(crate) fn delete(tx: &WriteTx<'_>, ip: IpId) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached("DELETE FROM ips WHERE id = ?1")?
        .execute([ip.0])?;
    Ok(())
}
