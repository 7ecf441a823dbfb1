//! Whole tables in pages by key, for exports: each page is a short read of its own, so that no
//! reader stands in the way of a checkpoint, however long the export takes.

use civ_types::{Address, Utc};
use rusqlite::{Row, params};

use crate::codec::{maybe_utc, utc};
use crate::conn::ReadConn;
use crate::error::StoreError;

/// An address that was ever enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryLine {
    /// The address.
    pub address: String,
    /// When it was first enqueued.
    pub first_seen_at: Utc,
    /// When it was last enqueued.
    pub last_seen_at: Utc,
    /// How often it was enqueued.
    pub total_cycles: i64,
    /// The latest result there is, `""` before.
    pub last_result: String,
    /// When that was.
    pub last_checked_at: Option<Utc>,
    /// Its state in the queue, if it is in it.
    pub state: Option<String>,
}

/// A stored result, of whatever cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// Grows with every first report of a check.
    pub id: i64,
    /// The address in the queue at that time.
    pub ip: i64,
    /// The address.
    pub address: String,
    /// Which enqueueing.
    pub cycle: i64,
    /// Which attempt.
    pub attempt: i64,
    /// `egress` or `inbound`.
    pub source: String,
    /// The site; empty for egress.
    pub site: String,
    /// The check type.
    pub name: String,
    /// The target; empty for inbound.
    pub target: String,
    /// Passed or failed.
    pub success: bool,
    /// Milliseconds of the step that the check is about.
    pub latency_ms: i64,
    /// Milliseconds of the whole check, if told.
    pub duration_ms: Option<i64>,
    /// What was seen.
    pub detail: String,
    /// When, by the reporter's clock.
    pub checked_at: Utc,
    /// When it came in, by our clock.
    pub received_at: Utc,
}

/// The addresses whose text comes after `after`, in the order of the text.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn registry(
    conn: &ReadConn<'_>,
    after: &str,
    limit: u32,
) -> Result<Vec<RegistryLine>, StoreError> {
    const SQL: &str = "SELECT r.address, r.first_seen_at, r.last_seen_at, r.total_cycles, \
         r.last_result, r.last_checked_at, i.state FROM registry r \
         LEFT JOIN ips i ON i.address = r.address \
         WHERE r.address > ?1 ORDER BY r.address LIMIT ?2";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map(params![after, limit], |row| {
        Ok(RegistryLine {
            address: row.get("address")?,
            first_seen_at: utc(row, "first_seen_at")?,
            last_seen_at: utc(row, "last_seen_at")?,
            total_cycles: row.get("total_cycles")?,
            last_result: row.get("last_result")?,
            last_checked_at: maybe_utc(row, "last_checked_at")?,
            state: row.get("state")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn check(row: &Row<'_>) -> rusqlite::Result<CheckLine> {
    Ok(CheckLine {
        id: row.get("id")?,
        ip: row.get("ip_id")?,
        address: row.get("address")?,
        cycle: row.get("cycle_id")?,
        attempt: row.get("attempt_no")?,
        source: row.get("source")?,
        site: row.get("site_id")?,
        name: row.get("check_type")?,
        target: row.get("target")?,
        success: row.get("success")?,
        latency_ms: row.get("latency_ms")?,
        duration_ms: row.get("duration_ms")?,
        detail: row.get("detail")?,
        checked_at: utc(row, "checked_at")?,
        received_at: utc(row, "received_at")?,
    })
}

/// Results with ids above `after`, in the order of their ids; of one address or of all.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn checks(
    conn: &ReadConn<'_>,
    address: Option<Address>,
    after: i64,
    limit: u32,
) -> Result<Vec<CheckLine>, StoreError> {
    const ALL: &str = "SELECT * FROM checks WHERE id > ?1 ORDER BY id LIMIT ?2";
    const ONE: &str = "SELECT * FROM checks WHERE id > ?1 AND address = ?3 ORDER BY id LIMIT ?2";
    let Some(address) = address else {
        let mut statement = conn.sql().prepare_cached(ALL)?;
        let rows = statement.query_map(params![after, limit], check)?;
        return Ok(rows.collect::<Result<_, _>>()?);
    };
    let mut statement = conn.sql().prepare_cached(ONE)?;
    let rows = statement.query_map(params![after, limit, address.to_string()], check)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
