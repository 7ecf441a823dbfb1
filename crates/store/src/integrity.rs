//! Whether a database is as it was left: pages, foreign keys, schema, rows, and the last writes.
//!
//! At the start the whole look has a limit of time, with the tables first that decide what is done
//! to addresses; how long the history is does not delay a start for long.

use std::path::Path;
use std::time::{Duration, Instant};

use civ_types::{Address, FipId, PortId, SiteId, Utc, ValidatorId};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row};

use crate::codec::{address, maybe, text};
use crate::error::OpenError;
use crate::lock::Lock;
use crate::schema::{self, Drift};
use crate::{check_types, cycle, migrate, record, settings, targets};

/// How long a start may look at pages and rows, with the tables of 100,000 addresses well within.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// Steps of SQLite's machine between two looks at the clock: well below a millisecond.
const STEPS: i32 = 10_000;

/// Faults of pages that are told of; there may be one for each page.
const TOLD_MAX: usize = 3;

/// The tables that decide what is done to addresses, before those that only remember.
const FIRST: [&str; 20] = [
    "runtime",
    "leases",
    "outbox",
    "validators",
    "sites",
    "settings",
    "auto_cycle",
    "target_groups",
    "check_types",
    "seeded",
    "scan_plan",
    "receivers",
    "subscriptions",
    "ips",
    "site_progress",
    "expected_checks",
    "registry",
    "registry_blocks",
    "registry_counts",
    "events",
];

/// A row that does not say what a row of its table can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRow {
    /// Which table.
    pub(crate) table: &'static str,
    /// Its key.
    pub(crate) key: String,
    /// What of it cannot be.
    pub(crate) what: String,
}

/// Everything that is looked at before the first write of a start.
pub(crate) fn at_start(path: &Path, connection: &Connection, lock: &Lock) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let known = migrate::known();
    let found = schema::version(connection).map_err(failed)?;
    if known < found {
        return Err(OpenError::Newer { found, known });
    }
    if found == 0 && schema::is_empty(connection).map_err(failed)? {
        // New, or all that it had was in its log.
        return ended_before(path, None, lock);
    }
    if found == 0 {
        let path = path.to_owned();
        return Err(OpenError::Foreign { path });
    }
    check_schema(path, &schema::drift(connection, found).map_err(failed)?)?;
    check_end(path, connection, lock)?;
    let until = Instant::now() + LOOK_MAX;
    let damaged = |what| OpenError::Damaged {
        path: path.to_owned(),
        what,
    };
    let pages = pages(connection, Some(until)).map_err(failed)?;
    if !pages.faults.is_empty() {
        return Err(damaged(pages.faults.join("; ")));
    }
    if !pages.unseen.is_empty() {
        let unseen = pages.unseen.join(", ");
        tracing::info!(
            unseen,
            "the database is large: these tables were not looked at; control-api doctor does"
        );
    }
    // Rows are read as the latest version knows them.
    if found == known {
        check_rows(connection, until)
            .map_err(failed)?
            .map_err(damaged)?;
    }
    Ok(())
}

fn check_schema(path: &Path, drift: &Drift) -> Result<(), OpenError> {
    if !drift.missing.is_empty() {
        let what = format!("its schema lacks {}", drift.missing.join(", "));
        return Err(OpenError::Damaged {
            path: path.to_owned(),
            what,
        });
    }
    for (how, names) in [("changed", &drift.changed), ("added", &drift.extra)] {
        if !names.is_empty() {
            let names = names.join(", ");
            tracing::warn!(names, "somebody has {how} parts of the database's schema");
        }
    }
    Ok(())
}

/// Whether the last write that was answered is there.
fn check_end(path: &Path, connection: &Connection, lock: &Lock) -> Result<(), OpenError> {
    let ends = last_write(connection).map_err(|source| OpenError::of(path, source))?;
    ended_before(path, ends, lock)
}

fn ended_before(path: &Path, ends: Option<Utc>, lock: &Lock) -> Result<(), OpenError> {
    match lock.noted() {
        Some(noted) if ends.is_none_or(|ends| ends < noted) => Err(OpenError::LostWrites {
            path: path.to_owned(),
            ends: ends.map_or_else(|| "nothing".to_owned(), |ends| ends.to_string()),
            noted,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The moment of the last commit.
pub(crate) fn last_write(connection: &Connection) -> rusqlite::Result<Option<Utc>> {
    let sql = "SELECT alive_at FROM runtime WHERE id = 1";
    let at: Option<Option<i64>> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(at.flatten().map(Utc::from_micros))
}

fn check_rows(connection: &Connection, until: Instant) -> rusqlite::Result<Result<(), String>> {
    for violation in foreign_keys(connection)? {
        tracing::error!(
            violation,
            "a row of the database speaks of one that is not there"
        );
    }
    for bad in rows(connection, Some(until))? {
        let BadRow { table, key, what } = &bad;
        // There is one row of each of these, and nothing goes on without it.
        if ["runtime", "settings", "auto_cycle"].contains(table) {
            return Ok(Err(format!("table {table}, row {key}: {what}")));
        }
        tracing::error!(
            table,
            key,
            what,
            "a row of the database cannot be and is passed over: see control-api doctor"
        );
    }
    Ok(Ok(()))
}

/// What a look at pages has found.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Faults, in SQLite's words.
    pub(crate) faults: Vec<String>,
    /// Tables for which there was no time.
    pub(crate) unseen: Vec<String>,
}

/// Tables of the database, those first that decide.
pub(crate) fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    const SQL: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut statement = connection.prepare(SQL)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut names: Vec<String> = names.collect::<Result<_, _>>()?;
    let place = |name: &str| FIRST.iter().position(|first| *first == name);
    names.sort_by_key(|name| place(name).unwrap_or(FIRST.len()));
    Ok(names)
}

/// Looks at every page of table after table, until the time is over.
pub(crate) fn pages(connection: &Connection, until: Option<Instant>) -> rusqlite::Result<Pages> {
    let mut seen = Pages::default();
    if let Some(until) = until {
        connection.progress_handler(STEPS, Some(move || until <= Instant::now()))?;
    }
    for table in tables(connection)? {
        let sql = format!("PRAGMA quick_check('{table}')");
        match told(connection, &sql) {
            Ok(faults) => seen.faults.extend(faults),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                seen.unseen.push(table);
            }
            Err(error) if crate::error::is_damage(&error) => {
                seen.faults.push(format!("table {table}: {error}"));
            }
            Err(error) => return Err(error),
        }
        if seen.faults.len() >= TOLD_MAX {
            break;
        }
    }
    connection.progress_handler(STEPS, None::<fn() -> bool>)?;
    seen.faults.truncate(TOLD_MAX);
    Ok(seen)
}

/// Looks at every page and every entry of every index, however long it takes.
pub(crate) fn everything(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    told(connection, "PRAGMA integrity_check(3)")
}

fn told(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let rows: Vec<String> = rows.collect::<Result<_, _>>()?;
    // One text may hold several lines.
    Ok(rows
        .into_iter()
        .filter(|row| row != "ok")
        .map(|row| row.lines().collect::<Vec<_>>().join(", "))
        .collect())
}

/// Rows that speak of rows that are not there: `outbox 17 speaks of a row of leases`.
pub(crate) fn foreign_keys(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let rows = statement.query_map([], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        Ok(match row.get::<_, Option<i64>>(1)? {
            Some(id) => format!("{table} {id} speaks of a row of {parent} that is not there"),
            None => format!("{table} speaks of a row of {parent} that is not there"),
        })
    })?;
    rows.collect()
}

type Reader = fn(&Row<'_>) -> rusqlite::Result<()>;

/// Table, what its key is, and how a row of it is read. `ips` first among those that may be long.
const READERS: &[(&str, &str, Reader)] = &[
    ("leases", "claim_no", |row| {
        address(row, "address")?;
        maybe(row, "validator_id", ValidatorId::parse)?;
        text(row, "port_id", PortId::parse)?;
        maybe(row, "fip_id", FipId::parse).map(drop)
    }),
    ("validators", "validator_id", |row| {
        text(row, "validator_id", ValidatorId::parse)?;
        text(row, "port_id", PortId::parse).map(drop)
    }),
    ("sites", "slot", |row| {
        text(row, "site_id", SiteId::parse).map(drop)
    }),
    ("settings", "id", |row| {
        settings::read_inbound(row).map(drop)
    }),
    ("auto_cycle", "id", |row| cycle::read(row).map(drop)),
    ("target_groups", "name", |row| targets::read(row).map(drop)),
    ("check_types", "name", |row| {
        check_types::read(row).map(drop)
    }),
    ("ips", "id", record::check),
    ("scan_found", "position", |row| {
        text(row, "address", Address::parse).map(drop)
    }),
];

/// Rows that no version of this program could have written.
pub(crate) fn rows(
    connection: &Connection,
    until: Option<Instant>,
) -> rusqlite::Result<Vec<BadRow>> {
    let mut bad = Vec::new();
    for (table, key, read) in READERS {
        // Text, whatever the type of the key is.
        let sql = format!("SELECT CAST({key} AS TEXT) AS row_key, * FROM {table}");
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(bad);
            }
            match read(row) {
                Ok(()) => {}
                Err(rusqlite::Error::FromSqlConversionFailure(_, _, what)) => {
                    let (key, what): (String, _) = (row.get("row_key")?, what.to_string());
                    let place = format!("table {table}, row {key}: ");
                    let what = what.strip_prefix(&place).unwrap_or(&what).to_owned();
                    bad.push(BadRow { table, key, what });
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bad)
}
