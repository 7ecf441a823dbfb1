//! What the process keeps about itself: claim numbers, and when it was last alive.

use std::time::Duration;

use civ_types::{ClaimNo, Utc};
use rusqlite::{Connection, params};
use serde_json::json;

use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};

/// A claim number that was never used.
///
/// It follows the clock (milliseconds since 1970), so that a database restored from a backup does
/// not give out again what agents still remember from after it.
pub(crate) fn mint_claim(tx: &WriteTx<'_>) -> Result<ClaimNo, StoreError> {
    const SQL: &str =
        "UPDATE runtime SET last_claim = MAX(last_claim + 1, ?1) WHERE id = 1 RETURNING last_claim";
    let millis = tx.now().as_micros() / 1000;
    let mut statement = tx.sql().prepare_cached(SQL)?;
    Ok(ClaimNo(statement.query_row([millis], |row| row.get(0))?))
}

/// Notes the sign of life that every commit is.
pub(crate) fn touch(connection: &Connection, now: Utc) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("UPDATE runtime SET alive_at = ?1")?;
    statement.execute([now.as_micros()])?;
    Ok(())
}

/// Notes that the cloud does not answer, or refuses everybody.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn cloud_unavailable(tx: &mut WriteTx<'_>, why: &str) -> Result<(), StoreError> {
    let event = NewEvent {
        severity: Severity::Error,
        payload: json!({ "error": why }).to_string(),
        ..NewEvent::new("cloud_unavailable")
    };
    events::append(tx, &event)
}

/// Notes that the cloud answers again after `lasted`.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn cloud_available(tx: &mut WriteTx<'_>, lasted: Duration) -> Result<(), StoreError> {
    let event = NewEvent {
        payload: json!({ "outage_seconds": lasted.as_secs() }).to_string(),
        ..NewEvent::new("cloud_available")
    };
    events::append(tx, &event)
}

/// Moves every deadline by the time that the process was down, and says how long that was.
///
/// It counts against no deadline (rule 10). They move backwards if the clock shows an earlier time
/// than at the last sign of life.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn resume(tx: &WriteTx<'_>) -> Result<Duration, StoreError> {
    let alive_at: Option<i64> =
        tx.sql()
            .query_row("SELECT alive_at FROM runtime WHERE id = 1", [], |row| {
                row.get(0)
            })?;
    let Some(alive_at) = alive_at.map(Utc::from_micros) else {
        return Ok(Duration::ZERO);
    };
    let down = tx.now().since(alive_at);
    if civ_planted::is!(DownTimeCounts) {
        return Ok(down);
    }
    if civ_planted::is!(RestartDropsOrders) {
        tx.sql()
            .execute("DELETE FROM outbox WHERE kind = 'associate'", [])?;
    }
    let moved = tx.now().as_micros().saturating_sub(alive_at.as_micros());
    shift(tx, moved, tx.now(), down)?;
    Ok(down)
}

/// The clock was set by `jump` microseconds, and for `stalled` the process could hear nobody:
/// neither counts against a deadline (rule 10).
///
/// # Errors
/// [`StoreError`] of the database.
pub fn lost_time(tx: &mut WriteTx<'_>, jump: i64, stalled: Duration) -> Result<(), StoreError> {
    let stalled_micros = i64::try_from(stalled.as_micros()).unwrap_or(i64::MAX);
    let now = Utc::from_micros(tx.now().as_micros().saturating_add(jump));
    shift(tx, jump.saturating_add(stalled_micros), now, stalled)?;
    let event = NewEvent {
        severity: Severity::Warning,
        payload: json!({
            "clock_set_by_ms": jump / 1000,
            "stalled_ms": stalled_micros / 1000,
        })
        .to_string(),
        ..NewEvent::new("time_lost")
    };
    events::append(tx, &event)
}

/// The longest pause that agents and probers make between two tries, and what a try takes.
const RETURN_MAX: Duration = Duration::from_secs(10);
const RETURN_TRY: Duration = Duration::from_secs(2);

/// Moves whatever is to happen at a certain time. `now` is the time after that, `away` how long
/// nobody was heard: whoever has something to tell has a pause behind it that grew with it, and
/// what is left of a deadline must at least last until it comes back.
fn shift(tx: &WriteTx<'_>, micros: i64, now: Utc, away: Duration) -> Result<(), StoreError> {
    let mut back = i64::MIN;
    if !away.is_zero() {
        back = now.plus(away.min(RETURN_MAX) + RETURN_TRY).as_micros();
    }
    tx.sql().execute(
        "UPDATE ips SET due_at = MAX(due_at + ?1, ?2) \
         WHERE state IN ('awaiting_self_check', 'checking') AND due_at IS NOT NULL",
        params![micros, back],
    )?;
    for sql in [
        "UPDATE ips SET due_at = due_at + ?1 \
         WHERE state NOT IN ('awaiting_self_check', 'checking') AND due_at IS NOT NULL",
        "UPDATE ips SET associated_at = associated_at + ?1 WHERE state = 'awaiting_self_check'",
        "UPDATE validators SET last_seen_at = last_seen_at + ?1, \
         silenced_at = silenced_at + ?1, paused_until = paused_until + ?1",
        "UPDATE sites SET last_seen_at = last_seen_at + ?1",
        // A pause between two rounds goes on by the clock: only what is waited for is moved.
        "UPDATE auto_cycle SET phase_at = phase_at + ?1 WHERE phase IN ('releasing', 'checking')",
        "UPDATE outbox SET not_before = not_before + ?1",
        "UPDATE lost_writes SET until = until + ?1",
        "UPDATE notifications SET queued_at = queued_at + ?1",
    ] {
        tx.sql().execute(sql, params![micros])?;
    }
    Ok(())
}

/// How much disk the database takes, in bytes; answers only if the database can be read.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn size_bytes(conn: &ReadConn<'_>) -> Result<u64, StoreError> {
    let pages: i64 = conn
        .sql()
        .pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: i64 = conn
        .sql()
        .pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(u64::try_from(pages.saturating_mul(page)).unwrap_or(0))
}
