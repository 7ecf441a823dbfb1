//! The configuration that lives in the database: settings, check types, target groups.

use std::collections::BTreeMap;

use civ_orch::expected::{Configured, Site};
use civ_types::{CheckName, SiteId};
use rusqlite::Row;

use crate::codec::{named, readable, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::hint::Hint;
use crate::targets;
use crate::{leases, queue};

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

/// A column that holds JSON.
pub(crate) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<T> {
    text(row, column, |text| serde_json::from_str(text))
}

/// A value as it is stored in such a column.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt(error.to_string()))
}

/// What every site checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// TCP ports that are to answer.
    pub ports: Vec<u16>,
    /// TCP ports on which nothing is to answer.
    pub closed_ports: Vec<u16>,
    /// Whether to send echo requests.
    pub icmp: bool,
}

/// What every site checks.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn inbound(conn: &ReadConn<'_>) -> Result<Inbound, StoreError> {
    const SQL: &str =
        "SELECT inbound_ports, inbound_closed_ports, inbound_icmp FROM settings WHERE id = 1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([], |row| named("settings", 1, read_inbound(row)))?)
}

pub(crate) fn read_inbound(row: &Row<'_>) -> rusqlite::Result<Inbound> {
    Ok(Inbound {
        ports: json(row, "inbound_ports")?,
        closed_ports: json(row, "inbound_closed_ports")?,
        icmp: row.get("inbound_icmp")?,
    })
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
        .query_map([], |row| {
            targets::read(row).map(|group| (group.name, group.targets))
        })
        .and_then(readable)?
        .into_iter()
        .collect();
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        let key: String = row.get("name")?;
        let names: Vec<String> = named("check_types", key, json(row, "groups"))?;
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
    Ok(readable(rows)?)
}

/// Names of sites in order of slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn site_ids(conn: &ReadConn<'_>) -> Result<Vec<SiteId>, StoreError> {
    Ok(sites(conn)?.into_iter().map(|site| site.id).collect())
}

/// Sites in order of slot.
fn sites(conn: &ReadConn<'_>) -> Result<Vec<Site>, StoreError> {
    const SQL: &str = "SELECT site_id, knows_identity, knows_closed_ports FROM sites ORDER BY slot";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        Ok(Site {
            id: text(row, "site_id", SiteId::parse)?,
            identity: row.get("knows_identity")?,
            closed_ports: row.get("knows_closed_ports")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The whole configuration of checks, resolved.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn configured(conn: &ReadConn<'_>) -> Result<Configured, StoreError> {
    let Inbound {
        ports,
        closed_ports,
        icmp,
    } = inbound(conn)?;
    let egress = check_types(conn)?
        .into_iter()
        .map(|kind| (kind.name, kind.targets))
        .collect();
    Ok(Configured {
        egress,
        sites: sites(conn)?,
        ports,
        closed_ports,
        icmp,
    })
}

/// What the orchestrator is told through the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orchestrator {
    /// The pause after association, in seconds.
    pub fip_settle_seconds: u32,
    /// Cycles of an address whose checks and events are kept; 0: all.
    pub history_retention_cycles: i64,
}

/// What the orchestrator is told through the API.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn orchestrator(conn: &ReadConn<'_>) -> Result<Orchestrator, StoreError> {
    const SQL: &str =
        "SELECT fip_settle_seconds, history_retention_cycles FROM settings WHERE id = 1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([], |row| {
        Ok(Orchestrator {
            fip_settle_seconds: row.get("fip_settle_seconds")?,
            history_retention_cycles: row.get("history_retention_cycles")?,
        })
    })?)
}

/// Stores what the orchestrator is told. A new pause counts at once, also for addresses that wait
/// already; with a new depth of the history the cut begins.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn set_orchestrator(tx: &mut WriteTx<'_>, next: Orchestrator) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE settings SET \
         retention_after = CASE WHEN history_retention_cycles = ?2 THEN retention_after \
             WHEN ?2 = 0 THEN NULL ELSE '' END, \
         fip_settle_seconds = ?1, history_retention_cycles = ?2 WHERE id = 1";
    let parameters = (next.fip_settle_seconds, next.history_retention_cycles);
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    leases::wake_holders(tx)?;
    tx.hint(Hint::Retention);
    Ok(())
}

/// Stores what every site checks, from now on and in what is being checked.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn set_inbound(tx: &mut WriteTx<'_>, next: &Inbound) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE settings SET inbound_ports = ?1, inbound_closed_ports = ?2, \
         inbound_icmp = ?3 WHERE id = 1";
    let (ports, closed) = (to_json(&next.ports)?, to_json(&next.closed_ports)?);
    let parameters = (ports, closed, next.icmp);
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    queue::reconfigured(tx)
}
