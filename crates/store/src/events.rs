//! The history: append-only, by address.

use std::fmt;

use civ_types::{Address, CycleId, IpId, SiteId, Utc, ValidatorId};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::codec::{maybe, utc};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::notifications;

/// How much an operator should care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The ordinary course.
    Info,
    /// Worth a look.
    Warning,
    /// Somebody should act.
    Error,
}

impl Severity {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Error];

    /// The word of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry that is to be written.
#[derive(Debug, Clone)]
pub struct NewEvent<'a> {
    /// Which address in the queue, if any.
    pub ip: Option<IpId>,
    /// Its address, which outlives the queue.
    pub address: Option<Address>,
    /// Which enqueueing.
    pub cycle: Option<CycleId>,
    /// Which validator, if any.
    pub validator: Option<&'a ValidatorId>,
    /// Which site, if any.
    pub site: Option<&'a SiteId>,
    /// What happened.
    pub event_type: &'a str,
    /// How much an operator should care.
    pub severity: Severity,
    /// Free text, by custom a JSON document.
    pub payload: String,
}

impl<'a> NewEvent<'a> {
    /// An event of no address, of severity info.
    #[must_use]
    pub const fn new(event_type: &'a str) -> Self {
        Self {
            ip: None,
            address: None,
            cycle: None,
            validator: None,
            site: None,
            event_type,
            severity: Severity::Info,
            payload: String::new(),
        }
    }
}

/// A stored entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Grows with every entry.
    pub id: i64,
    /// Which address in the queue, if any.
    pub ip: Option<IpId>,
    /// Its address.
    pub address: Option<String>,
    /// Which enqueueing.
    pub cycle: Option<CycleId>,
    /// Which validator, if any.
    pub validator: Option<ValidatorId>,
    /// Which site, if any.
    pub site: Option<SiteId>,
    /// What happened.
    pub event_type: String,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// Free text.
    pub payload: String,
    /// When.
    pub occurred_at: Utc,
}

/// Appends an entry, and what is to be sent of it: both are there or none.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn append(tx: &WriteTx<'_>, event: &NewEvent<'_>) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO events (ip_id, address, cycle_id, validator_id, site_id, \
         event_type, severity, payload, occurred_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    tx.sql().prepare_cached(SQL)?.execute(params![
        event.ip.map(|ip| ip.0),
        event.address.map(|address| address.to_string()),
        event.cycle.map(|cycle| cycle.0),
        event.validator.map(ValidatorId::as_str),
        event.site.map(SiteId::as_str),
        event.event_type,
        event.severity.as_str(),
        event.payload,
        tx.now().as_micros(),
    ])?;
    notifications::enqueue(tx, 1)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        id: row.get("id")?,
        ip: row.get::<_, Option<i64>>("ip_id")?.map(IpId),
        address: row.get("address")?,
        cycle: row.get::<_, Option<i64>>("cycle_id")?.map(CycleId),
        validator: maybe(row, "validator_id", ValidatorId::parse)?,
        site: maybe(row, "site_id", SiteId::parse)?,
        event_type: row.get("event_type")?,
        severity: row.get("severity")?,
        payload: row.get("payload")?,
        occurred_at: utc(row, "occurred_at")?,
    })
}

const COLUMNS: &str = "id, ip_id, address, cycle_id, validator_id, site_id, event_type, severity, \
     payload, occurred_at";

/// Everything that happened to an address, oldest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn of_address(conn: &ReadConn<'_>, address: Address) -> Result<Vec<EventRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM events WHERE address = ?1 ORDER BY id");
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map([address.to_string()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The latest entries of all addresses, newest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn latest(conn: &ReadConn<'_>, limit: u32) -> Result<Vec<EventRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM events ORDER BY id DESC LIMIT ?1");
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map([limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Which entries are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this type.
    pub event_type: Option<String>,
    /// Of this severity.
    pub severity: Option<Severity>,
    /// Of this address.
    pub address: Option<Address>,
}

impl Filter {
    /// Each filter goes through one index: that of the addresses, else of the types, else of the
    /// severities. A `+` keeps a column from being looked up.
    fn clauses(&self) -> (String, Vec<Value>) {
        let mut clauses = String::new();
        let mut values = Vec::new();
        let mut add = |clause: &str, value: String| {
            clauses.push_str(" AND ");
            clauses.push_str(clause);
            values.push(value.into());
        };
        let by_address = self.address.is_some();
        let by_type = self.event_type.is_some() && !by_address;
        if let Some(address) = self.address {
            add("address = ?", address.to_string());
        }
        if let Some(event_type) = &self.event_type {
            let clause = if by_type {
                "event_type = ?"
            } else {
                "+event_type = ?"
            };
            add(clause, event_type.clone());
        }
        if let Some(severity) = self.severity {
            let clause = match severity {
                // The index's own condition, word for word: it is partial.
                Severity::Warning | Severity::Error if !by_address && !by_type => {
                    "severity = ? AND severity <> 'info'"
                }
                Severity::Info | Severity::Warning | Severity::Error => "+severity = ?",
            };
            add(clause, severity.to_string());
        }
        (clauses, values)
    }

    /// Entries above an id, in the order of the ids or against it. In reach of the test that looks
    /// at its plan.
    pub(crate) fn sql(&self, order: &str) -> (String, Vec<Value>) {
        let (clauses, values) = self.clauses();
        let sql = format!(
            "SELECT {COLUMNS} FROM events WHERE id > ?{clauses} ORDER BY id {order} LIMIT ?"
        );
        (sql, values)
    }

    fn rows(
        &self,
        conn: &ReadConn<'_>,
        order: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EventRow>, StoreError> {
        let (sql, values) = self.sql(order);
        let mut statement = conn.sql().prepare_cached(&sql)?;
        let first = std::iter::once(Value::from(after));
        let last = std::iter::once(Value::from(limit));
        let rows = statement.query_map(params_from_iter(first.chain(values).chain(last)), read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Entries with ids above `after`, oldest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn after(
    conn: &ReadConn<'_>,
    filter: &Filter,
    after: i64,
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    filter.rows(conn, "ASC", after, limit)
}

/// The latest entries that `filter` means, oldest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn tail(conn: &ReadConn<'_>, filter: &Filter, limit: u32) -> Result<Vec<EventRow>, StoreError> {
    let mut list = filter.rows(conn, "DESC", 0, limit)?;
    list.reverse();
    Ok(list)
}

/// The id of the latest entry; zero if there is none.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn last_id(conn: &ReadConn<'_>) -> Result<i64, StoreError> {
    const SQL: &str = "SELECT coalesce(max(id), 0) FROM events";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}
