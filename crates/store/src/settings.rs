//! The configuration that lives in the database: settings, check types, target groups.

use std::collections::BTreeMap;

use civ_orch::expected::Configured;
use civ_types::{CheckName, SiteId};
use rusqlite::Row;

use crate::codec::text;
use crate::conn::ReadConn;
use crate::error::StoreError;

/// An enabled check type as it is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckType {
    /// Its name.
    pub name: CheckName,
    /// Its targets, groups resolved, each once, in order.
    pub targets: Vec<String>,
    /// A JSON object, if any options are set.
    pub options: Option<String>,
}

/// The pause after association, in seconds.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn settle_seconds(conn: &ReadConn<'_>) -> Result<u32, StoreError> {
    const SQL: &str = "SELECT fip_settle_seconds FROM settings WHERE id = 1";
    Ok(conn
        .sql()
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))?)
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    text(row, column, |text| serde_json::from_str(text))
}

/// Ports and ICMP flag of inbound checks.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn inbound(conn: &ReadConn<'_>) -> Result<(Vec<u16>, bool), StoreError> {
    const SQL: &str = "SELECT inbound_ports, inbound_icmp FROM settings WHERE id = 1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([], |row| {
        Ok((json(row, "inbound_ports")?, row.get("inbound_icmp")?))
    })?)
}

/// The enabled check types with their targets, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn check_types(conn: &ReadConn<'_>) -> Result<Vec<CheckType>, StoreError> {
    const SQL: &str =
        "SELECT name, \"groups\", options FROM check_types WHERE enabled ORDER BY name";
    let groups: BTreeMap<String, Vec<String>> = conn
        .sql()
        .prepare_cached("SELECT name, targets FROM target_groups")?
        .query_map([], |row| Ok((row.get("name")?, json(row, "targets")?)))?
        .collect::<Result<_, _>>()?;
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        let names: Vec<String> = json(row, "groups")?;
        let mut targets = Vec::new();
        for target in names.iter().filter_map(|name| groups.get(name)).flatten() {
            if !targets.contains(target) {
                targets.push(target.clone());
            }
        }
        let name = text(row, "name", CheckName::parse)?;
        Ok(CheckType {
            name,
            targets,
            options: row.get("options")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Sites in order of slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn site_ids(conn: &ReadConn<'_>) -> Result<Vec<SiteId>, StoreError> {
    let mut statement = conn
        .sql()
        .prepare_cached("SELECT site_id FROM sites ORDER BY slot")?;
    let rows = statement.query_map([], |row| text(row, 0, SiteId::parse))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The whole configuration of checks, resolved.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn configured(conn: &ReadConn<'_>) -> Result<Configured, StoreError> {
    let (ports, icmp) = inbound(conn)?;
    let egress = check_types(conn)?
        .into_iter()
        .map(|kind| (kind.name, kind.targets))
        .collect();
    Ok(Configured {
        egress,
        sites: site_ids(conn)?,
        ports,
        icmp,
    })
}
