//! How much history is kept: `history_retention_cycles` latest cycles of checks and events of each
//! address. The registry's row and its count of cycles are never touched.

use civ_types::Address;
use rusqlite::params;

use crate::conn::WriteTx;
use crate::error::StoreError;
use crate::hint::Hint;
use crate::settings;

/// Addresses that one step of the background cut looks at.
const ADDRESSES_STEP: usize = 2_000;

/// Rows that one step of the background cut removes at most, more or less: it bounds how long the
/// writing thread is held.
const ROWS_STEP: usize = 500;

/// Addresses whose cycles end together and are cut at once; more would hold the writing thread.
const AT_ONCE: usize = 256;

/// Events without a cycle go with those between which they stand: when nothing older is kept.
const STRAY: &str = "cycle_id IS NULL AND id < \
     (SELECT MIN(k.id) FROM events k WHERE k.address = ?1 AND k.cycle_id > ?2)";

/// A cycle of this address has ended: older ones than are to be kept go.
pub(crate) fn cycle_ended(tx: &WriteTx<'_>, address: Address) -> Result<(), StoreError> {
    const TOTAL: &str = "SELECT total_cycles FROM registry WHERE address = ?1";
    let keep = settings::orchestrator(tx)?.history_retention_cycles;
    if keep == 0 {
        return Ok(());
    }
    let address = address.to_string();
    let mut statement = tx.sql().prepare_cached(TOTAL)?;
    let total: i64 = statement.query_row([&address], |row| row.get(0))?;
    cut(tx, &address, total.saturating_sub(keep), usize::MAX)?;
    Ok(())
}

/// Removes what belongs to cycles up to `last`, at most about `max` rows. Says how many it was.
fn cut(tx: &WriteTx<'_>, address: &str, last: i64, max: usize) -> Result<usize, StoreError> {
    if last < 1 {
        return Ok(0);
    }
    let mut n_cut = 0;
    for (table, which) in [
        ("checks", "cycle_id <= ?2"),
        ("events", "cycle_id <= ?2"),
        ("events", STRAY),
    ] {
        let sql = format!(
            "DELETE FROM {table} WHERE id IN \
             (SELECT id FROM {table} WHERE address = ?1 AND {which} LIMIT ?3)"
        );
        let rest = i64::try_from(max - n_cut.min(max)).unwrap_or(i64::MAX);
        let mut statement = tx.sql().prepare_cached(&sql)?;
        n_cut += statement.execute(params![address, last, rest])?;
    }
    Ok(n_cut)
}

/// The cycles of many addresses have ended: of those that `which` says, a condition on `ips i`
/// whose first parameter is `list`. A few are cut at once, more in the background.
pub(crate) fn cycles_ended(
    tx: &mut WriteTx<'_>,
    which: &str,
    list: Option<&str>,
) -> Result<(), StoreError> {
    let keep = settings::orchestrator(tx)?.history_retention_cycles;
    if keep == 0 {
        return Ok(());
    }
    let sql = format!(
        "SELECT i.address, r.total_cycles FROM ips i JOIN registry r ON r.address = i.address \
         WHERE r.total_cycles > ?2 AND {which}"
    );
    let ended: Vec<(String, i64)> = tx
        .sql()
        .prepare_cached(&sql)?
        .query_map(params![list, keep], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    if AT_ONCE < ended.len() {
        let begin = "UPDATE settings SET retention_after = '' WHERE id = 1";
        tx.sql().prepare_cached(begin)?.execute([])?;
        tx.hint(Hint::Retention);
        return Ok(());
    }
    for (address, total) in ended {
        cut(tx, &address, total.saturating_sub(keep), usize::MAX)?;
    }
    Ok(())
}

/// One step of the cut that a new depth of the history asks for. Says whether there is more to do.
///
/// How far it has come stands in the database, so that a restart goes on there.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn step(tx: &WriteTx<'_>) -> Result<bool, StoreError> {
    const AFTER: &str = "SELECT retention_after FROM settings WHERE id = 1";
    const SET: &str = "UPDATE settings SET retention_after = ?1 WHERE id = 1";
    const NEXT: &str = "SELECT address, total_cycles FROM registry WHERE address > ?1 \
         ORDER BY address LIMIT ?2";
    let after: Option<String> = tx
        .sql()
        .prepare_cached(AFTER)?
        .query_row([], |row| row.get(0))?;
    let Some(mut after) = after else {
        return Ok(false);
    };
    let keep = settings::orchestrator(tx)?.history_retention_cycles;
    let limit = i64::try_from(ADDRESSES_STEP).unwrap_or(i64::MAX);
    let next: Vec<(String, i64)> = tx
        .sql()
        .prepare_cached(NEXT)?
        .query_map(params![after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut more = next.len() == ADDRESSES_STEP;
    let mut n_cut = 0;
    for (address, total) in next {
        n_cut += cut(tx, &address, total.saturating_sub(keep), ROWS_STEP - n_cut)?;
        if ROWS_STEP <= n_cut {
            // Perhaps not through with this one: the next step begins with it.
            more = true;
            break;
        }
        after = address;
    }
    let place = more.then_some(after);
    tx.sql().prepare_cached(SET)?.execute([place])?;
    Ok(more)
}
