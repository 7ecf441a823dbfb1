//! Target groups: named lists that check types refer to.

use civ_types::CheckName;
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{named, readable, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::queue;
use crate::settings::{json, to_json};

/// A target group as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetGroup {
    /// Its name.
    pub name: String,
    /// Its targets, in the order in which they were given.
    pub targets: Vec<String>,
}

pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<TargetGroup> {
    let name: String = row.get("name")?;
    let targets = named("target_groups", &name, json(row, "targets"))?;
    Ok(TargetGroup { name, targets })
}

/// All groups, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(conn: &ReadConn<'_>) -> Result<Vec<TargetGroup>, StoreError> {
    const SQL: &str = "SELECT name, targets FROM target_groups ORDER BY name";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], read)?;
    Ok(readable(rows)?)
}

/// One group.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn by_name(conn: &ReadConn<'_>, name: &str) -> Result<Option<TargetGroup>, StoreError> {
    const SQL: &str = "SELECT name, targets FROM target_groups WHERE name = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([name], read).optional()?)
}

/// The check types that refer to a group, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn users(conn: &ReadConn<'_>, name: &str) -> Result<Vec<CheckName>, StoreError> {
    const SQL: &str = "SELECT name FROM check_types WHERE EXISTS \
         (SELECT 1 FROM json_each(check_types.\"groups\") g WHERE g.value = ?1) ORDER BY name";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([name], |row| text(row, 0, CheckName::parse))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Adds a group or replaces its targets.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn put(tx: &mut WriteTx<'_>, name: &str, targets: &[String]) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO target_groups (name, targets) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET targets = excluded.targets";
    let parameters = params![name, to_json(&targets)?];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    queue::reconfigured(tx)
}

/// Removes a group; no check type may refer to it.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delete(tx: &mut WriteTx<'_>, name: &str) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached("DELETE FROM target_groups WHERE name = ?1")?
        .execute([name])?;
    queue::reconfigured(tx)
}
