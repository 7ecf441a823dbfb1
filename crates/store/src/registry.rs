//! The memory of all addresses ever enqueued; gives out cycle ids.

use civ_types::{Address, CycleId};
use rusqlite::params;

use crate::conn::WriteTx;
use crate::error::StoreError;

/// Begins a cycle of an address: its number is unique for that address for ever.
pub(crate) fn begin_cycle(tx: &WriteTx<'_>, address: Address) -> Result<CycleId, StoreError> {
    const SQL: &str = "INSERT INTO registry (address, first_seen_at, last_seen_at, total_cycles) \
         VALUES (?1, ?2, ?2, 1) \
         ON CONFLICT (address) DO UPDATE SET \
         last_seen_at = excluded.last_seen_at, total_cycles = total_cycles + 1 \
         RETURNING total_cycles";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    let parameters = params![address.to_string(), tx.now().as_micros()];
    Ok(CycleId(statement.query_row(parameters, |row| row.get(0))?))
}

/// Remembers how a cycle ended.
pub(crate) fn end_cycle(
    tx: &WriteTx<'_>,
    address: Address,
    result: &str,
) -> Result<(), StoreError> {
    const SQL: &str =
        "UPDATE registry SET last_result = ?2, last_checked_at = ?3 WHERE address = ?1";
    let parameters = params![address.to_string(), result, tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}
