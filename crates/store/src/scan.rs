//! What a scan has found, on its way to the queue.
//!
//! All of it is written down first, then the plan is made, and from then on the plan is carried
//! out to its end, after a restart too. So the queue gets all of it or, if the process ends
//! before there is a plan, nothing.

use civ_orch::cycle::{self as machine, PhaseName};
use civ_orch::scan::Tally;
use civ_types::Address;
use rusqlite::{OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use crate::codec::{address, word};
use crate::conn::{ReadConn, WriteTx};
use crate::cycle;
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};
use crate::queue::{self, Enqueued};

/// Who wanted a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An operator.
    Request,
    /// The periodic scan.
    Timer,
    /// A round of the auto-cycle.
    AutoCycle,
}

impl Source {
    /// The word that is stored and shown in the event.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Timer => "timer",
            Self::AutoCycle => "auto_cycle",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Request, Self::Timer, Self::AutoCycle]
            .into_iter()
            .find(|source| source.as_str() == word)
    }
}

/// What a complete listing has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Who wanted it.
    pub source: Source,
    /// Pages that were read.
    pub pages: u64,
    /// Different floating IPs.
    pub discovered: u64,
    /// Of these, free ones.
    pub free: u64,
}

impl Found {
    fn payload(&self, dry_run: bool, tally: Tally) -> Value {
        json!({
            "source": self.source.as_str(),
            "dry_run": dry_run,
            "pages": self.pages,
            "discovered": self.discovered,
            "scanned_free": self.free,
            "added": tally.added,
            "requeued": tally.requeued,
            "reordered": tally.reordered,
            "skipped_in_progress": tally.skipped,
        })
    }
}

/// Some of a plan was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What became of the addresses.
    pub enqueued: Enqueued,
    /// Nothing is left of the plan.
    pub is_last: bool,
}

fn i64_of(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn record(tx: &WriteTx<'_>, severity: Severity, payload: &Value) -> Result<(), StoreError> {
    tracing::info!(%payload, "fip_scan");
    let event = NewEvent {
        severity,
        payload: payload.to_string(),
        ..NewEvent::new("fip_scan")
    };
    events::append(tx, &event)
}

/// Forgets what a scan has written down without coming to a plan.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn forget(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    let sql = "DELETE FROM scan_found WHERE NOT EXISTS (SELECT 1 FROM scan_plan)";
    tx.sql().prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Writes down some of what was found, behind what was written before.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn note(tx: &mut WriteTx<'_>, found: &[Address]) -> Result<(), StoreError> {
    // The rowid of an INSERT without one is the greatest so far plus one.
    let sql = "INSERT INTO scan_found (address) VALUES (?1)";
    let mut statement = tx.sql().prepare_cached(sql)?;
    for address in found {
        statement.execute([address.to_string()])?;
    }
    Ok(())
}

/// Notes that a listing may have ended early: it has not as many rows as the cloud counts, if that
/// tells, and a second pass saw something else.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn unproven(
    tx: &mut WriteTx<'_>,
    discovered: u64,
    counted: Option<u64>,
) -> Result<(), StoreError> {
    let event = NewEvent {
        severity: Severity::Warning,
        payload: json!({ "discovered": discovered, "counted": counted }).to_string(),
        ..NewEvent::new("fip_scan_unproven")
    };
    events::append(tx, &event)
}

/// Makes what was written down the plan. A round of the auto-cycle that was ended meanwhile does
/// not want it any more: then it is forgotten, and the answer is false.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn plan(tx: &mut WriteTx<'_>, found: &Found) -> Result<bool, StoreError> {
    const SQL: &str = "INSERT INTO scan_plan (id, source, pages, discovered, free) \
         VALUES (1, ?1, ?2, ?3, ?4)";
    let is_wanted =
        found.source != Source::AutoCycle || cycle::load(tx)?.phase.name() == PhaseName::Scanning;
    if !is_wanted {
        forget(tx)?;
        return Ok(false);
    }
    tx.sql().prepare_cached(SQL)?.execute(params![
        found.source.as_str(),
        i64_of(found.pages),
        i64_of(found.discovered),
        i64_of(found.free),
    ])?;
    Ok(true)
}

fn read_plan(conn: &ReadConn<'_>) -> Result<Option<(Found, Tally)>, StoreError> {
    const SQL: &str = "SELECT source, pages, discovered, free, added, requeued, reordered, \
         skipped FROM scan_plan WHERE id = 1";
    let count = |row: &Row<'_>, column: &str| -> rusqlite::Result<u64> {
        Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
    };
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let read = |row: &Row<'_>| {
        let found = Found {
            source: word(row, "source", Source::parse)?,
            pages: count(row, "pages")?,
            discovered: count(row, "discovered")?,
            free: count(row, "free")?,
        };
        let tally = Tally {
            added: count(row, "added")?,
            requeued: count(row, "requeued")?,
            reordered: count(row, "reordered")?,
            skipped: count(row, "skipped")?,
        };
        Ok((found, tally))
    };
    Ok(statement.query_row([], read).optional()?)
}

/// Whether there is a plan that was not carried out to its end.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn is_planned(conn: &ReadConn<'_>) -> Result<bool, StoreError> {
    Ok(read_plan(conn)?.is_some())
}

fn take_found(tx: &WriteTx<'_>, max: u32) -> Result<Vec<Address>, StoreError> {
    const READ: &str = "SELECT position, address FROM scan_found ORDER BY position LIMIT ?1";
    let mut statement = tx.sql().prepare_cached(READ)?;
    let rows = statement.query_map([max], |row| {
        Ok((row.get::<_, i64>("position")?, address(row, "address")?))
    })?;
    let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
    if let Some((last, _)) = rows.last() {
        tx.sql()
            .prepare_cached("DELETE FROM scan_found WHERE position <= ?1")?
            .execute([last])?;
    }
    Ok(rows.into_iter().map(|(_, address)| address).collect())
}

/// Enqueues the next addresses of the plan, at most `max` of them, and with the last of them ends
/// the scan: its event, and the step of the auto-cycle if that wanted it.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn apply(tx: &mut WriteTx<'_>, max: u32) -> Result<Applied, StoreError> {
    const SQL: &str =
        "UPDATE scan_plan SET added = ?1, requeued = ?2, reordered = ?3, skipped = ?4";
    const LEFT: &str = "SELECT EXISTS (SELECT 1 FROM scan_found)";
    let Some((found, before)) = read_plan(tx)? else {
        return Ok(Applied {
            enqueued: Enqueued::default(),
            is_last: true,
        });
    };
    let chunk = take_found(tx, max)?;
    let enqueued = queue::enqueue(tx, &chunk)?;
    let tally = before.plus(tally(&enqueued));
    let is_left: bool = tx
        .sql()
        .prepare_cached(LEFT)?
        .query_row([], |row| row.get(0))?;
    if is_left {
        tx.sql().prepare_cached(SQL)?.execute(params![
            i64_of(tally.added),
            i64_of(tally.requeued),
            i64_of(tally.reordered),
            i64_of(tally.skipped),
        ])?;
    } else {
        tx.sql()
            .prepare_cached("DELETE FROM scan_plan")?
            .execute([])?;
        record(tx, Severity::Info, &found.payload(false, tally))?;
        if found.source == Source::AutoCycle {
            // Refused if the round was ended meanwhile: then nobody waits for the checks.
            cycle::step(tx, &machine::Event::Scanned { free: found.free })?;
        }
    }
    Ok(Applied {
        enqueued,
        is_last: !is_left,
    })
}

/// How many addresses became what.
#[must_use]
pub const fn tally(enqueued: &Enqueued) -> Tally {
    Tally {
        added: enqueued.added.len() as u64,
        requeued: enqueued.requeued.len() as u64,
        reordered: enqueued.reordered.len() as u64,
        skipped: enqueued.skipped.len() as u64,
    }
}

/// A scan that only counts has ended.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn counted(tx: &mut WriteTx<'_>, found: &Found) -> Result<(), StoreError> {
    record(tx, Severity::Info, &found.payload(true, Tally::default()))
}

/// A scan has failed before there was a plan; nothing is enqueued.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn failed(tx: &mut WriteTx<'_>, source: Source, why: &str) -> Result<(), StoreError> {
    forget(tx)?;
    let payload = json!({"source": source.as_str(), "error": why});
    record(tx, Severity::Error, &payload)?;
    if source == Source::AutoCycle {
        cycle::step(tx, &machine::Event::Failed(why.to_owned()))?;
    }
    Ok(())
}
