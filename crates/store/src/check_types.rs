//! Check types as they are configured: which are on, and which target groups they refer to.

use civ_types::CheckName;
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{named, readable, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::queue;
use crate::settings::{json, to_json};

/// A check type as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTypeRow {
    /// Its name.
    pub name: CheckName,
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of target groups.
    pub groups: Vec<String>,
    /// A JSON object, if any options are set.
    pub options: Option<String>,
}

pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<CheckTypeRow> {
    let key: String = row.get("name")?;
    Ok(CheckTypeRow {
        name: named("check_types", &key, text(row, "name", CheckName::parse))?,
        enabled: row.get("enabled")?,
        groups: named("check_types", &key, json(row, "groups"))?,
        options: row.get("options")?,
    })
}

/// All check types, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(conn: &ReadConn<'_>) -> Result<Vec<CheckTypeRow>, StoreError> {
    const SQL: &str = "SELECT name, enabled, \"groups\", options FROM check_types ORDER BY name";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], read)?;
    Ok(readable(rows)?)
}

/// One check type.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn by_name(conn: &ReadConn<'_>, name: &CheckName) -> Result<Option<CheckTypeRow>, StoreError> {
    const SQL: &str = "SELECT name, enabled, \"groups\", options FROM check_types WHERE name = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([name.as_str()], read).optional()?)
}

/// Adds a check type or replaces it. Every group must exist.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn put(tx: &mut WriteTx<'_>, row: &CheckTypeRow) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO check_types (name, enabled, \"groups\", options) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE SET \
         enabled = excluded.enabled, \"groups\" = excluded.\"groups\", options = excluded.options";
    let groups = to_json(&row.groups)?;
    let parameters = params![row.name.as_str(), row.enabled, groups, row.options];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    queue::reconfigured(tx)
}

/// Removes a check type.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delete(tx: &mut WriteTx<'_>, name: &CheckName) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached("DELETE FROM check_types WHERE name = ?1")?
        .execute([name.as_str()])?;
    queue::reconfigured(tx)
}
