//! Reads of the queue: pages, filters, counts, one address.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use civ_orch::attempt::{Outcome, StateName};
use civ_types::{Address, IpId, SiteId};
use memchr::memmem::Finder;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, params_from_iter};

use crate::blocks;
use crate::codec::{readable, text};
use crate::conn::ReadConn;
use crate::error::StoreError;
pub use crate::record::IpRow;
use crate::record::{COLUMNS, read};

/// In which order a list stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// As they are claimed.
    #[default]
    Sequence,
    /// The latest verdicts first; those without one last.
    AggregatedDesc,
}

/// Which addresses are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these states; empty: in any.
    pub states: Vec<StateName>,
    /// With this in the text of the address.
    pub q: Option<String>,
    /// With this result.
    pub result: Option<Outcome>,
}

impl Filter {
    /// Whether rows of this state and result, with a slash between, are meant.
    fn fits(&self, class: &str) -> bool {
        let (state, result) = class.split_once('/').unwrap_or((class, ""));
        let state = StateName::parse(state);
        let asked = self.result.map(Outcome::as_str);
        (self.states.is_empty() || state.is_some_and(|state| self.states.contains(&state)))
            && asked.is_none_or(|asked| asked == result)
    }

    fn sql(&self) -> (String, Vec<Value>) {
        let (clauses, values) = self.clauses();
        let clause = if clauses.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", clauses.join(" AND "))
        };
        (clause, values)
    }

    fn clauses(&self) -> (Vec<String>, Vec<Value>) {
        let mut clauses = Vec::new();
        let mut values = Vec::new();
        if !self.states.is_empty() {
            let marks = vec!["?"; self.states.len()].join(", ");
            clauses.push(format!("state IN ({marks})"));
            values.extend(
                self.states
                    .iter()
                    .map(|name| Value::from(name.as_str().to_owned())),
            );
        }
        if let Some(q) = &self.q {
            clauses.push("instr(address, ?) > 0".to_owned());
            values.push(q.clone().into());
        }
        if let Some(result) = self.result {
            clauses.push("result = ?".to_owned());
            values.push(result.as_str().to_owned().into());
        }
        (clauses, values)
    }
}

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Rows at most.
    pub limit: u32,
    /// Rows passed over.
    pub offset: u64,
}

/// The addresses that `filter` means; all of them, or a window.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(
    conn: &ReadConn<'_>,
    filter: &Filter,
    order: ListOrder,
    window: Option<Window>,
) -> Result<Vec<IpRow>, StoreError> {
    let (clause, mut values) = filter.sql();
    let order = match order {
        ListOrder::Sequence => "sequence, id",
        ListOrder::AggregatedDesc => "aggregated_at DESC NULLS LAST, id",
    };
    let mut sql = format!("SELECT {COLUMNS} FROM ips{clause} ORDER BY {order}");
    if let Some(window) = window {
        sql.push_str(" LIMIT ? OFFSET ?");
        values.push(i64::from(window.limit).into());
        values.push(i64::try_from(window.offset).unwrap_or(i64::MAX).into());
    }
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), read)?;
    Ok(readable(rows)?)
}

/// How many addresses `filter` means.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn count(conn: &ReadConn<'_>, filter: &Filter) -> Result<u64, StoreError> {
    let (clause, values) = filter.sql();
    let sql = format!("SELECT count(*) FROM ips{clause}");
    let n: i64 = conn
        .sql()
        .prepare_cached(&sql)?
        .query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

/// A window of what `filter` means, and how many addresses that is in all. What it costs depends
/// on the window, not on the length of the queue or on how deep the window lies.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn page(
    conn: &ReadConn<'_>,
    filter: &Filter,
    order: ListOrder,
    window: Window,
) -> Result<(Vec<IpRow>, u64), StoreError> {
    if blocks::queue::is_behind(conn.sql())? {
        let rows = list(conn, filter, order, Some(window))?;
        return Ok((rows, count(conn, filter)?));
    }
    let found = InBlocks {
        conn,
        filter,
        finder: filter.q.as_ref().filter(|q| !q.is_empty()).map(Finder::new),
    };
    let fits = |class: &str| filter.fits(class);
    let parts = blocks::queue::parts(conn.sql(), fits, filter.q.as_deref())?;
    match order {
        ListOrder::Sequence => {
            let (ids, total) = blocks::page(&parts, &found, window)?;
            Ok((fetch(conn, &ids)?, total))
        }
        ListOrder::AggregatedDesc => {
            let total = blocks::total(&parts, &found)?;
            if total <= SORTED_MAX.into() {
                let all = Window {
                    limit: SORTED_MAX,
                    offset: 0,
                };
                let (ids, _) = blocks::page(&parts, &found, all)?;
                return Ok((latest_first(fetch(conn, &ids)?, window), total));
            }
            Ok((fetch(conn, &latest(conn, filter, window)?)?, total))
        }
    }
}

/// A window of the latest verdicts, by the index that has them in order.
fn latest(conn: &ReadConn<'_>, filter: &Filter, window: Window) -> Result<Vec<IpId>, StoreError> {
    let (clause, mut values) = filter.sql();
    let sql = format!(
        "SELECT id FROM ips INDEXED BY ips_by_verdict{clause} \
         ORDER BY aggregated_at DESC NULLS LAST, id LIMIT ? OFFSET ?"
    );
    values.push(i64::from(window.limit).into());
    values.push(i64::try_from(window.offset).unwrap_or(i64::MAX).into());
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| Ok(IpId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// So few addresses of a block are rather looked up one by one than found by reading the block.
const FEW: u64 = 40;

/// So many rows are rather sorted here than found by going through a whole index.
const SORTED_MAX: u32 = 512;

fn latest_first(mut rows: Vec<IpRow>, window: Window) -> Vec<IpRow> {
    rows.sort_by_key(|row| {
        let head = &row.attempt.head;
        (Reverse(head.stamps.aggregated), head.ip)
    });
    let skip = usize::try_from(window.offset).unwrap_or(usize::MAX);
    rows.into_iter()
        .skip(skip)
        .take(window.limit as usize)
        .collect()
}

fn fetch(conn: &ReadConn<'_>, ids: &[IpId]) -> Result<Vec<IpRow>, StoreError> {
    let rows = ids.iter().map(|id| crate::record::fetch(conn, *id));
    rows.filter_map(Result::transpose).collect()
}

/// Looks into blocks of the queue.
struct InBlocks<'a> {
    conn: &'a ReadConn<'a>,
    filter: &'a Filter,
    finder: Option<Finder<'a>>,
}

impl InBlocks<'_> {
    fn select(&self, what: &str, block: i64, rest: &str) -> (String, Vec<Value>) {
        let (mut clauses, more) = self.filter.clauses();
        clauses.insert(0, "sequence >= ? AND sequence < ?".to_owned());
        let mut values: Vec<Value> = vec![
            (block << blocks::queue::SHIFT).into(),
            ((block + 1) << blocks::queue::SHIFT).into(),
        ];
        values.extend(more);
        let clause = clauses.join(" AND ");
        let sql = format!("SELECT {what} FROM ips INDEXED BY ips_in_order WHERE {clause}{rest}");
        (sql, values)
    }
}

impl blocks::Found<i64> for InBlocks<'_> {
    type Row = IpId;

    fn count(&self, part: &blocks::Part<i64>) -> rusqlite::Result<u64> {
        if let Some(finder) = self.finder.as_ref().filter(|_| part.is_whole) {
            return blocks::queue::count(self.conn.sql(), part, finder);
        }
        let (sql, values) = self.select("count(*)", part.key, "");
        let mut statement = self.conn.sql().prepare_cached(&sql)?;
        statement.query_row(params_from_iter(values), |row| row.get(0))
    }

    fn rows(&self, part: &blocks::Part<i64>, skip: u64, limit: u64) -> rusqlite::Result<Vec<IpId>> {
        const PLACE: &str = "SELECT sequence, id FROM ips WHERE address = ?1";
        if let Some(finder) = self.finder.as_ref().filter(|_| part.is_whole)
            && part.n.is_none_or(|n| n <= FEW)
        {
            let mut statement = self.conn.sql().prepare_cached(PLACE)?;
            let found = blocks::queue::matches(self.conn.sql(), part, finder)?;
            let mut places: Vec<(i64, i64)> = found
                .iter()
                .map(|address| statement.query_row([address], |row| Ok((row.get(0)?, row.get(1)?))))
                .collect::<Result<_, _>>()?;
            places.sort_unstable();
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let window = places.into_iter().skip(skip).take(limit);
            return Ok(window.map(|(_, id)| IpId(id)).collect());
        }
        let rest = " ORDER BY sequence, id LIMIT ? OFFSET ?";
        let (sql, mut values) = self.select("id", part.key, rest);
        for n in [limit, skip] {
            values.push(i64::try_from(n).unwrap_or(i64::MAX).into());
        }
        let mut statement = self.conn.sql().prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| Ok(IpId(row.get(0)?)))?;
        rows.collect()
    }
}

/// One address, if it is in the queue.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn by_address(conn: &ReadConn<'_>, address: Address) -> Result<Option<IpRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM ips WHERE address = ?1");
    Ok(conn
        .sql()
        .prepare_cached(&sql)?
        .query_row([address.to_string()], read)
        .optional()?)
}

/// One address by its id, if it is in the queue.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn by_id(conn: &ReadConn<'_>, ip: IpId) -> Result<Option<IpRow>, StoreError> {
    crate::record::fetch(conn, ip)
}

/// Sites that have finished with the current claim of each address; `ip`: of that one alone.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn sites_complete(
    conn: &ReadConn<'_>,
    ip: Option<IpId>,
) -> Result<BTreeMap<IpId, Vec<SiteId>>, StoreError> {
    const ALL: &str = "SELECT ip_id, site_id FROM site_progress";
    const ONE: &str = "SELECT ip_id, site_id FROM site_progress WHERE ip_id = ?1";
    let mut statement = conn.sql().prepare_cached(ip.map_or(ALL, |_ip| ONE))?;
    let rows = statement.query_map(params_from_iter(ip.map(|ip| ip.0)), |row| {
        Ok((
            IpId(row.get("ip_id")?),
            text(row, "site_id", SiteId::parse)?,
        ))
    })?;
    let mut all: BTreeMap<IpId, Vec<SiteId>> = BTreeMap::new();
    for row in rows {
        let (ip, site) = row?;
        all.entry(ip).or_default().push(site);
    }
    Ok(all)
}

/// Counts of the whole queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// State to count.
    pub states: BTreeMap<String, u64>,
    /// Result to count, `""` for those without one.
    pub results: BTreeMap<String, u64>,
    /// Validators in the configuration.
    pub validators: u64,
}

/// Counts by state and by result.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn counts(conn: &ReadConn<'_>) -> Result<Counts, StoreError> {
    let validators: i64 = conn
        .sql()
        .query_row("SELECT count(*) FROM validators", [], |row| row.get(0))?;
    let mut counts = Counts {
        validators: u64::try_from(validators).unwrap_or(0),
        ..Counts::default()
    };
    let mut add = |state: &str, result: &str, n: u64| {
        *counts.states.entry(state.to_owned()).or_default() += n;
        *counts.results.entry(result.to_owned()).or_default() += n;
    };
    if blocks::queue::is_behind(conn.sql())? {
        const SQL: &str = "SELECT state, result, count(*) FROM ips GROUP BY state, result";
        let mut statement = conn.sql().prepare_cached(SQL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (state, result): (String, String) = (row.get(0)?, row.get(1)?);
            add(&state, &result, row.get(2)?);
        }
    } else {
        for (class, n) in blocks::queue::classes(conn.sql())? {
            let (state, result) = class.split_once('/').unwrap_or((&class, ""));
            add(state, result, n);
        }
    }
    Ok(counts)
}
