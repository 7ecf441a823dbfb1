//! Taking many addresses out of the queue at once.
//!
//! What holds a floating IP goes through the machine one by one, and that is at most one address a
//! validator. Everything else leaves in a few statements that write what the machine would: the
//! event `deleted`, and nothing more. An operator's clear is one transaction, a round of the
//! auto-cycle clears in bounded ones: both take the same way.

use std::collections::BTreeSet;

use civ_orch::attempt::{Event, Order};
use civ_types::{Address, IpId};
use rusqlite::params;

use super::find;
use crate::advance::{NotAdvanced, advance};
use crate::codec::address;
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::hint::Hint;
use crate::notifications;
use crate::retention;
use crate::settings::to_json;

/// What became of each address of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Were in the queue, in list order.
    pub deleted: Vec<Address>,
    /// Were not.
    pub not_found: Vec<Address>,
}

/// States that hold a floating IP, or may.
const HOLDING: &str = "i.state IN ('assigning_fip', 'awaiting_self_check', 'checking')";

/// Addresses in the queue, by their ids in a JSON array; with `null`: all. The array is the first
/// parameter of every statement here.
#[derive(Debug, Clone, Copy)]
enum Which<'a> {
    All,
    Listed(&'a str),
}

impl<'a> Which<'a> {
    const fn sql(self) -> &'static str {
        match self {
            Self::All => "?1 IS NULL",
            Self::Listed(_) => "i.id IN (SELECT value FROM json_each(?1))",
        }
    }

    const fn list(self) -> Option<&'a str> {
        match self {
            Self::All => None,
            Self::Listed(list) => Some(list),
        }
    }
}

fn remove(tx: &mut WriteTx<'_>, which: Which<'_>) -> Result<(), StoreError> {
    let (meant, list) = (which.sql(), which.list());
    let holding =
        format!("SELECT i.id FROM ips i WHERE {meant} AND {HOLDING} ORDER BY i.sequence, i.id");
    let holding: Vec<i64> = tx
        .sql()
        .prepare_cached(&holding)?
        .query_map([list], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in holding {
        match advance(tx, IpId(id), &Event::Order(Order::Delete)) {
            Ok(_) => {}
            Err(NotAdvanced::Store(error)) => return Err(error),
            Err(refused) => return Err(StoreError::corrupt(refused.to_string())),
        }
    }
    let open = format!("{meant} AND i.state IN ('queued', 'aggregating')");
    retention::cycles_ended(tx, &open, list)?;
    let told = format!(
        "INSERT INTO events (ip_id, address, cycle_id, validator_id, event_type, severity, \
         payload, occurred_at) SELECT i.id, i.address, i.cycle_id, \
         CASE WHEN i.port_id IS NOT NULL THEN i.validator_id END, 'deleted', 'info', '{{}}', ?2 \
         FROM ips i WHERE {meant} ORDER BY i.sequence, i.id"
    );
    let now = tx.now().as_micros();
    let n_told = tx.sql().prepare_cached(&told)?.execute((list, now))?;
    notifications::enqueue(tx, n_told)?;
    let gone = format!("DELETE FROM ips AS i WHERE {meant}");
    tx.sql().prepare_cached(&gone)?.execute([list])?;
    tx.hint(Hint::Schedule);
    Ok(())
}

/// Takes everything out of the queue, also what is being checked; floating IPs are released, the
/// history stays. Says what it was, in the order of the queue.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn clear(tx: &mut WriteTx<'_>) -> Result<Vec<Address>, StoreError> {
    let all: Vec<Address> = tx
        .sql()
        .prepare_cached("SELECT address FROM ips ORDER BY sequence, id")?
        .query_map([], |row| address(row, 0))?
        .collect::<Result<_, _>>()?;
    remove(tx, Which::All)?;
    tracing::info!(addresses = all.len(), "the queue was cleared");
    Ok(all)
}

/// The newest address of the queue, if there is any. Ids grow, so whatever is added later has a
/// greater one.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn newest(conn: &ReadConn<'_>) -> Result<Option<IpId>, StoreError> {
    let mut statement = conn.sql().prepare_cached("SELECT MAX(id) FROM ips")?;
    let id: Option<i64> = statement.query_row([], |row| row.get(0))?;
    Ok(id.map(IpId))
}

/// Takes addresses out of the queue as [`clear`] does, those up to `newest` and at most `max` of
/// them. Says how many; fewer than `max`: that was all.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn clear_some(tx: &mut WriteTx<'_>, newest: IpId, max: u32) -> Result<usize, StoreError> {
    let ids: Vec<i64> = tx
        .sql()
        .prepare_cached("SELECT id FROM ips WHERE id <= ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![newest.0, max], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    remove(tx, Which::Listed(&to_json(&ids)?))?;
    Ok(ids.len())
}

/// Takes the addresses of a list out of the queue, whatever their state; those that are not there
/// are told, and are no error.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delete_all(tx: &mut WriteTx<'_>, list: &[Address]) -> Result<Removed, StoreError> {
    let mut removed = Removed::default();
    let mut ids = BTreeSet::new();
    for &one in list {
        match find(tx, one)? {
            Some((ip, _)) if ids.insert(ip.0) => removed.deleted.push(one),
            Some(_) => {}
            None => removed.not_found.push(one),
        }
    }
    let ids = to_json(&ids)?;
    remove(tx, Which::Listed(&ids))?;
    tracing::info!(addresses = removed.deleted.len(), "addresses were deleted");
    Ok(removed)
}
