//! The queue as a whole: enqueueing, cancelling, deleting, claiming, what is due.

mod batch;
mod remove;

use std::collections::{BTreeMap, HashSet};

use civ_orch::attempt::{Event, Order, StateName};
use civ_orch::plan::{Waiting, plan_claims};
use civ_types::{Address, ClaimNo, CycleId, IpId, Nonce, PortId, Utc, ValidatorId};
use rusqlite::{OptionalExtension as _, params};

use crate::advance::{NotAdvanced, advance};
use crate::codec::{self, maybe, text, word};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::hint::Hint;
use crate::settings::to_json;
use crate::{identity, leases, registry, results, runtime, validators};
use batch::Batch;
pub use remove::{Removed, clear, clear_some, delete_all, newest};

/// How long a row that cannot be is passed over: its error stands in the log once a minute.
const PUT_OFF_SECS: u32 = 60;

/// What became of each address of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Were not in the queue.
    pub added: Vec<Address>,
    /// Were finished; a new attempt begins.
    pub requeued: Vec<Address>,
    /// Were waiting; stand now in the order of the list.
    pub reordered: Vec<Address>,
    /// Are being checked; untouched.
    pub skipped: Vec<Address>,
}

/// A sequence number behind everybody.
pub(crate) fn end(conn: &ReadConn<'_>) -> Result<i64, StoreError> {
    const SQL: &str = "SELECT COALESCE(MAX(sequence), 0) + 1 FROM ips";
    Ok(conn
        .sql()
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))?)
}

fn find(conn: &ReadConn<'_>, address: Address) -> Result<Option<(IpId, StateName)>, StoreError> {
    const SQL: &str = "SELECT id, state FROM ips WHERE address = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let read =
        |row: &rusqlite::Row<'_>| Ok((IpId(row.get("id")?), word(row, "state", StateName::parse)?));
    Ok(statement
        .query_row([address.to_string()], read)
        .optional()?)
}

/// Those of a list that are in the queue.
fn present(conn: &ReadConn<'_>, list: &[Address]) -> Result<HashSet<Address>, StoreError> {
    const SQL: &str = "SELECT address FROM json_each(?1) CROSS JOIN ips ON address = value";
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([to_json(&texts)?], |row| codec::address(row, "address"))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What is in the queue at the beginning of a transaction stays there.
fn gone(address: Address) -> StoreError {
    StoreError::corrupt(format!(
        "{address} is in an index of the queue and not in the queue"
    ))
}

fn order(tx: &mut WriteTx<'_>, ip: IpId, cycle: CycleId) -> Result<(), StoreError> {
    match advance(tx, ip, &Event::Order(Order::Enqueue { cycle })) {
        Ok(_) => Ok(()),
        Err(NotAdvanced::Store(error)) => Err(error),
        Err(refused) => Err(StoreError::corrupt(refused.to_string())),
    }
}

/// Adds what is unknown, starts a new attempt of what is finished, reorders what is waiting, and
/// leaves alone what is being checked; in list order.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn enqueue(tx: &mut WriteTx<'_>, list: &[Address]) -> Result<Enqueued, StoreError> {
    let mut done = Enqueued::default();
    let mut batch = Batch::default();
    let mut present = present(tx, list)?;
    for &address in list {
        if present.insert(address) {
            batch.push(address);
            done.added.push(address);
            continue;
        }
        // Those before it in the list are claimed before it.
        batch.write(tx)?;
        let (ip, state) = find(tx, address)?.ok_or_else(|| gone(address))?;
        match state {
            StateName::Done | StateName::Failed | StateName::Occupied => {
                let cycle = registry::begin_cycle(tx, address)?;
                order(tx, ip, cycle)?;
                done.requeued.push(address);
            }
            StateName::Queued => {
                // The cycle is not looked at while it waits: being reordered begins none.
                order(tx, ip, CycleId(0))?;
                done.reordered.push(address);
            }
            StateName::AssigningFip
            | StateName::AwaitingSelfCheck
            | StateName::Checking
            | StateName::Aggregating => done.skipped.push(address),
        }
    }
    batch.write(tx)?;
    tx.hint(Hint::Schedule);
    Ok(done)
}

/// Adds those that are not in the queue; the others stay as they are.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn add_missing(tx: &mut WriteTx<'_>, list: &[Address]) -> Result<usize, StoreError> {
    let mut n_added = 0;
    let mut batch = Batch::default();
    let mut present = present(tx, list)?;
    for &address in list {
        if present.insert(address) {
            batch.push(address);
            n_added += 1;
        }
    }
    batch.write(tx)?;
    tx.hint(Hint::Schedule);
    Ok(n_added)
}

fn operate(tx: &mut WriteTx<'_>, address: Address, order: Order) -> Result<(), NotAdvanced> {
    let (ip, _) = find(tx, address)?.ok_or(NotAdvanced::Unknown)?;
    advance(tx, ip, &Event::Order(order)).map(|_| ())
}

/// Breaks off an attempt, from any state that is not terminal.
///
/// # Errors
/// [`NotAdvanced`]: unknown, already ended, or the database failed.
pub fn cancel(tx: &mut WriteTx<'_>, address: Address) -> Result<(), NotAdvanced> {
    operate(tx, address, Order::Cancel)
}

/// Takes an address out of the queue, from any state. Its history stays.
///
/// # Errors
/// [`NotAdvanced`]: unknown, or the database failed.
pub fn delete(tx: &mut WriteTx<'_>, address: Address) -> Result<(), NotAdvanced> {
    operate(tx, address, Order::Delete)
}

/// Whether any address waits for a validator.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn has_queued(conn: &ReadConn<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM ips WHERE state = 'queued')";
    Ok(conn
        .sql()
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))?)
}

/// Whether any address has not come to its end.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn has_open(conn: &ReadConn<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM ips WHERE state IN ( \
         'queued', 'assigning_fip', 'awaiting_self_check', 'checking', 'aggregating'))";
    Ok(conn
        .sql()
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))?)
}

/// Who can claim. In reach of the test that looks at its plan.
pub(crate) const FREE: &str = "SELECT validator_id, port_id FROM validators v \
     WHERE registered AND (silenced_at IS NULL OR silenced_at <= ?2) \
     AND (paused_until IS NULL OR paused_until <= ?1) \
     AND NOT EXISTS (SELECT 1 FROM leases l \
         WHERE l.validator_id = v.validator_id OR l.port_id = v.port_id)";

/// Validators that may claim: with a fresh sign of life, registered, without a lease, on a port
/// without one, neither paused nor silent.
fn free(
    tx: &WriteTx<'_>,
    fresh: &BTreeMap<ValidatorId, Utc>,
) -> Result<BTreeMap<ValidatorId, PortId>, StoreError> {
    let mut statement = tx.sql().prepare_cached(FREE)?;
    if civ_planted::is!(ClaimsOverLease) {
        let sql = FREE.replace("NOT EXISTS", "1 OR EXISTS");
        statement = tx.sql().prepare_cached(&sql)?;
    }
    let mut silent_since = tx.now().minus_secs(validators::SILENCE_SECS);
    if civ_planted::is!(SilentClaims) {
        silent_since = tx.now();
    }
    let moments = [tx.now().as_micros(), silent_since.as_micros()];
    let rows = statement.query_map(moments, |row| {
        Ok((
            text(row, "validator_id", ValidatorId::parse)?,
            text(row, "port_id", PortId::parse)?,
        ))
    })?;
    let mut free = BTreeMap::new();
    for (id, port) in codec::readable(rows)? {
        if fresh.contains_key(&id) || civ_planted::is!(UnreachableClaims) {
            free.insert(id, port);
        }
    }
    Ok(free)
}

/// What can be claimed. In reach of the test that looks at its plan.
pub(crate) const WAITING: &str = "SELECT id, avoid_validator FROM ips i WHERE state = 'queued' \
     AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.address = i.address) \
     ORDER BY sequence LIMIT ?1";

/// The head of the queue, without those whose former lease is still open.
fn waiting(tx: &WriteTx<'_>, limit: usize) -> Result<Vec<Waiting>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = tx.sql().prepare_cached(WAITING)?;
    if civ_planted::is!(NewestFirst) {
        let sql = WAITING.replace("ORDER BY sequence", "ORDER BY sequence DESC");
        statement = tx.sql().prepare_cached(&sql)?;
    }
    let rows = statement.query_map([limit], |row| {
        // What cannot be is found when the whole row is read.
        let avoid = maybe(row, "avoid_validator", ValidatorId::parse).unwrap_or_default();
        Ok(Waiting {
            ip: IpId(row.get("id")?),
            avoid,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Gives queued addresses to free validators, at most `max` of them, and says how many it gave.
///
/// `fresh`: the validators with a sign of life within the timeout, and when it was. `nonce` makes a
/// secret that nobody guesses, one for each claim.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn claim(
    tx: &mut WriteTx<'_>,
    fresh: &BTreeMap<ValidatorId, Utc>,
    max: usize,
    nonce: impl Fn() -> Nonce,
) -> Result<usize, StoreError> {
    let free = free(tx, fresh)?;
    if free.is_empty() || max == 0 {
        return Ok(0);
    }
    let waiting = waiting(tx, free.len().min(max))?;
    let claims = plan_claims(&waiting, &free);
    let mut n_made = 0;
    for (ip, place) in &claims {
        let claim = runtime::mint_claim(tx)?;
        let order = Order::Claim {
            claim,
            place: place.clone(),
        };
        match advance(tx, *ip, &Event::Order(order)) {
            Ok(_) => {
                identity::give(tx, claim, &nonce())?;
                n_made += 1;
            }
            // One row that cannot be must not keep others from being claimed.
            Err(NotAdvanced::Store(StoreError::Corrupt { what })) => {
                codec::complain(&what);
                put_behind(tx, *ip)?;
            }
            Err(NotAdvanced::Store(error)) => return Err(error),
            Err(refused) => return Err(StoreError::corrupt(refused.to_string())),
        }
    }
    Ok(n_made)
}

/// What is due. In reach of the test that looks at its plan.
pub(crate) const DUE: &str = "SELECT id FROM ips WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2";

/// Ticks every address whose deadline has come, at most `max` of them. Says how many.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn tick(tx: &mut WriteTx<'_>, max: u32) -> Result<usize, StoreError> {
    let due: Vec<i64> = tx
        .sql()
        .prepare_cached(DUE)?
        .query_map(params![tx.now().as_micros(), max], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in &due {
        match advance(tx, IpId(*id), &Event::Order(Order::Tick)) {
            Ok(_) => {}
            // One row that cannot be must not stop the others.
            Err(NotAdvanced::Store(StoreError::Corrupt { what })) => {
                tracing::error!(
                    ip_id = id,
                    what,
                    "a row of the queue cannot be and is passed over"
                );
                put_off(tx, IpId(*id))?;
            }
            Err(NotAdvanced::Store(error)) => return Err(error),
            Err(refused) => return Err(StoreError::corrupt(refused.to_string())),
        }
    }
    Ok(due.len())
}

/// Lets the others be claimed first; the state of the row is left as it is, for a person to see.
fn put_behind(tx: &WriteTx<'_>, ip: IpId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE ips SET sequence = ?2 WHERE id = ?1";
    tx.sql()
        .prepare_cached(SQL)?
        .execute(params![ip.0, end(tx)?])?;
    Ok(())
}

/// Makes a row due again later; its state is left as it is, for a person to look at.
fn put_off(tx: &WriteTx<'_>, ip: IpId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE ips SET due_at = ?2 WHERE id = ?1";
    let later = tx.now().plus_secs(PUT_OFF_SECS);
    tx.sql()
        .prepare_cached(SQL)?
        .execute(params![ip.0, later.as_micros()])?;
    Ok(())
}

/// Looks again at everything in `checking`, since what is expected of it has changed.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn recheck(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    let checking: Vec<(i64, i64)> = tx
        .sql()
        .prepare_cached("SELECT id, claim_no FROM ips WHERE state = 'checking'")?
        .query_map([], |row| Ok((row.get("id")?, row.get("claim_no")?)))?
        .collect::<Result<_, _>>()?;
    for (id, claim) in checking {
        results::uncount_removed(tx, IpId(id), ClaimNo(claim))?;
        match advance(tx, IpId(id), &Event::Order(Order::Tick)) {
            Err(NotAdvanced::Store(error)) => return Err(error),
            Ok(_) | Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => {}
        }
    }
    Ok(())
}

/// What is checked, or when, has changed: everything in `checking` is looked at again, and so does
/// everybody who waits for work.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn reconfigured(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    leases::wake_holders(tx)?;
    tx.hint(Hint::Sites);
    tx.hint(Hint::Schedule);
    recheck(tx)
}

/// When to look again. In reach of the test that looks at its plan.
pub(crate) const NEXT_DUE: &str = "SELECT MIN(at) FROM ( \
     SELECT (SELECT MIN(due_at) FROM ips WHERE due_at IS NOT NULL) AS at \
     UNION ALL SELECT MIN(paused_until) FROM validators WHERE paused_until > ?1)";

/// The moment of the next deadline of an address, or of the end of a validator's pause.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn next_due(conn: &ReadConn<'_>, now: Utc) -> Result<Option<Utc>, StoreError> {
    let mut statement = conn.sql().prepare_cached(NEXT_DUE)?;
    let at: Option<i64> = statement.query_row([now.as_micros()], |row| row.get(0))?;
    Ok(at.map(Utc::from_micros))
}
