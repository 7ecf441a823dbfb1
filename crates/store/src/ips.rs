//! Reads of the queue: pages, filters, counts, one address.

use std::collections::BTreeMap;

use civ_orch::attempt::{Outcome, StateName};
use civ_types::{Address, IpId, SiteId};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, params_from_iter};

use crate::codec::text;
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
    fn sql(&self) -> (String, Vec<Value>) {
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
        let clause = if clauses.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", clauses.join(" AND "))
        };
        (clause, values)
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
    Ok(rows.collect::<Result<_, _>>()?)
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
    let grouped = |sql| -> Result<BTreeMap<String, u64>, StoreError> {
        let mut statement = conn.sql().prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            Ok((
                row.get(0)?,
                u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            ))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    let validators: i64 = conn
        .sql()
        .query_row("SELECT count(*) FROM validators", [], |row| row.get(0))?;
    Ok(Counts {
        states: grouped("SELECT state, count(*) FROM ips GROUP BY state")?,
        results: grouped("SELECT result, count(*) FROM ips GROUP BY result")?,
        validators: u64::try_from(validators).unwrap_or(0),
    })
}
