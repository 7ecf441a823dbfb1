//! The memory of all addresses ever enqueued; gives out cycle ids.

use civ_orch::attempt::{Outcome, StateName};
use civ_types::{Address, CycleId, Utc};
use memchr::memmem::Finder;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, params, params_from_iter};

use crate::blocks::{self, Part, registry::Bounds};
use crate::codec::{address, maybe_utc, maybe_word, utc};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::ips::Window;

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
        "UPDATE OR FAIL registry SET last_result = ?2, last_checked_at = ?3 WHERE address = ?1";
    let parameters = params![address.to_string(), result, tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}

/// An address that was ever enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRow {
    /// The address.
    pub address: Address,
    /// When it was first enqueued.
    pub first_seen_at: Utc,
    /// When it was last enqueued.
    pub last_seen_at: Utc,
    /// How often it was enqueued.
    pub total_cycles: i64,
    /// The latest result there is; `""` before the first.
    pub last_result: String,
    /// When that was.
    pub last_checked_at: Option<Utc>,
    /// Its state in the queue, if it is there.
    pub state: Option<StateName>,
}

/// Which addresses are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// With this in the text of the address.
    pub q: Option<String>,
    /// With this latest result.
    pub last_result: Option<Outcome>,
}

impl Filter {
    fn sql(&self) -> (String, Vec<Value>) {
        let (clauses, values) = self.clauses();
        let clause = if clauses.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", clauses.join(" AND "))
        };
        (clause, values)
    }

    fn clauses(&self) -> (Vec<&'static str>, Vec<Value>) {
        let mut clauses = Vec::new();
        let mut values = Vec::new();
        if let Some(q) = &self.q {
            clauses.push("instr(address, ?) > 0");
            values.push(q.clone().into());
        }
        if let Some(result) = self.last_result {
            clauses.push("last_result = ?");
            values.push(result.as_str().to_owned().into());
        }
        (clauses, values)
    }
}

const COLUMNS: &str = "r.address, r.first_seen_at, r.last_seen_at, r.total_cycles, \
     r.last_result, r.last_checked_at, i.state";

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<RegistryRow> {
    Ok(RegistryRow {
        address: address(row, "address")?,
        first_seen_at: utc(row, "first_seen_at")?,
        last_seen_at: utc(row, "last_seen_at")?,
        total_cycles: row.get("total_cycles")?,
        last_result: row.get("last_result")?,
        last_checked_at: maybe_utc(row, "last_checked_at")?,
        state: maybe_word(row, "state", StateName::parse)?,
    })
}

/// The addresses that `filter` means, in order of their text; all of them, or a window. Filter and
/// window come first: only what is left is looked up in the queue.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(
    conn: &ReadConn<'_>,
    filter: &Filter,
    window: Option<Window>,
) -> Result<Vec<RegistryRow>, StoreError> {
    let (clause, mut values) = filter.sql();
    let mut page = format!("SELECT * FROM registry{clause} ORDER BY address");
    if let Some(window) = window {
        page.push_str(" LIMIT ? OFFSET ?");
        values.push(i64::from(window.limit).into());
        values.push(i64::try_from(window.offset).unwrap_or(i64::MAX).into());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM ({page}) r LEFT JOIN ips i ON i.address = r.address \
         ORDER BY r.address"
    );
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many addresses `filter` means.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn count(conn: &ReadConn<'_>, filter: &Filter) -> Result<u64, StoreError> {
    let (clause, values) = filter.sql();
    let sql = format!("SELECT count(*) FROM registry{clause}");
    let n: i64 = conn
        .sql()
        .prepare_cached(&sql)?
        .query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

/// A window of what `filter` means, and how many addresses that is in all. What it costs depends
/// on the window, not on the length of the registry or on how deep the window lies.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn page(
    conn: &ReadConn<'_>,
    filter: &Filter,
    window: Window,
) -> Result<(Vec<RegistryRow>, u64), StoreError> {
    if blocks::registry::is_behind(conn.sql())? {
        let rows = list(conn, filter, Some(window))?;
        return Ok((rows, count(conn, filter)?));
    }
    let class = filter.last_result.map(Outcome::as_str);
    let parts = blocks::registry::parts(conn.sql(), class, filter.q.as_deref())?;
    let found = InBlocks {
        conn,
        class,
        finder: filter.q.as_ref().filter(|q| !q.is_empty()).map(Finder::new),
        filter,
    };
    let (addresses, total) = blocks::page(&parts, &found, window)?;
    let rows = addresses
        .iter()
        .map(|address| by_text(conn, address))
        .filter_map(Result::transpose);
    Ok((rows.collect::<Result<_, _>>()?, total))
}

/// Looks into blocks of the registry.
struct InBlocks<'a> {
    conn: &'a ReadConn<'a>,
    class: Option<&'static str>,
    finder: Option<Finder<'a>>,
    filter: &'a Filter,
}

impl InBlocks<'_> {
    fn select(&self, what: &str, block: &Bounds, rest: &str) -> (String, Vec<Value>) {
        let (first, next) = block;
        let mut values: Vec<Value> = vec![first.clone().into()];
        let mut clauses = vec!["address >= ?"];
        if let Some(next) = next {
            clauses.push("address < ?");
            values.push(next.clone().into());
        }
        let (more, others) = self.filter.clauses();
        clauses.extend(more);
        values.extend(others);
        let clause = clauses.join(" AND ");
        let sql = format!("SELECT {what} FROM registry WHERE {clause}{rest}");
        (sql, values)
    }
}

impl blocks::Found<Bounds> for InBlocks<'_> {
    type Row = String;

    fn count(&self, part: &Part<Bounds>) -> rusqlite::Result<u64> {
        if let Some(finder) = &self.finder {
            return blocks::registry::count(self.conn.sql(), part, self.class, finder);
        }
        let (sql, values) = self.select("count(*)", &part.key, "");
        let mut statement = self.conn.sql().prepare_cached(&sql)?;
        statement.query_row(params_from_iter(values), |row| row.get(0))
    }

    fn rows(&self, part: &Part<Bounds>, skip: u64, limit: u64) -> rusqlite::Result<Vec<String>> {
        if let Some(finder) = &self.finder {
            let found = blocks::registry::matches(self.conn.sql(), part, self.class, finder)?;
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            return Ok(found.into_iter().skip(skip).take(limit).collect());
        }
        let rest = " ORDER BY address LIMIT ? OFFSET ?";
        let (sql, mut values) = self.select("address", &part.key, rest);
        for n in [limit, skip] {
            values.push(i64::try_from(n).unwrap_or(i64::MAX).into());
        }
        let mut statement = self.conn.sql().prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        rows.collect()
    }
}

/// One address, if it was ever enqueued.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn by_address(
    conn: &ReadConn<'_>,
    address: Address,
) -> Result<Option<RegistryRow>, StoreError> {
    by_text(conn, &address.to_string())
}

fn by_text(conn: &ReadConn<'_>, address: &str) -> Result<Option<RegistryRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM registry r LEFT JOIN ips i ON i.address = r.address \
         WHERE r.address = ?1"
    );
    let mut statement = conn.sql().prepare_cached(&sql)?;
    Ok(statement.query_row([address], read).optional()?)
}
