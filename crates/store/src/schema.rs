//! The schema as the migrations make it, compared with the one that a database has.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::migrate;

/// What differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drift {
    /// Made by a migration, and not there.
    pub(crate) missing: Vec<String>,
    /// There, but in other words.
    pub(crate) changed: Vec<String>,
    /// Made by no migration.
    pub(crate) extra: Vec<String>,
}

/// `table ips` and the like, to the words that make it.
type Objects = BTreeMap<String, String>;

/// The words alone: neither spaces nor quotes, which tools put in at will.
fn plain(sql: &str) -> String {
    let kept = sql.chars().filter(|c| !c.is_whitespace() && *c != '"');
    kept.collect::<String>().to_ascii_lowercase()
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    const SQL: &str = "SELECT type || ' ' || name, sql FROM sqlite_schema \
         WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(SQL)?;
    let rows = statement.query_map([], |row| {
        let sql: String = row.get(1)?;
        Ok((row.get(0)?, plain(&sql)))
    })?;
    rows.collect()
}

/// The version that the database says it has.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether there is anything at all in it.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)";
    connection.query_row(sql, [], |row| row.get(0))
}

/// Compares with what the migrations up to `version` make.
pub(crate) fn drift(connection: &Connection, version: i64) -> rusqlite::Result<Drift> {
    let ours = Connection::open_in_memory()?;
    for (_, sql) in migrate::up_to(version) {
        ours.execute_batch(sql)?;
    }
    let (expected, found) = (objects(&ours)?, objects(connection)?);
    let mut drift = Drift::default();
    for (name, sql) in &expected {
        match found.get(name) {
            None => drift.missing.push(name.clone()),
            Some(other) if other != sql => drift.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    let extra = found
        .into_keys()
        .filter(|name| !expected.contains_key(name));
    drift.extra = extra.collect();
    Ok(drift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_changed_or_new_is_named() {
        let connection = Connection::open_in_memory().unwrap();
        for (_, sql) in migrate::up_to(i64::MAX) {
            connection.execute_batch(sql).unwrap();
        }
        assert_eq!(drift(&connection, i64::MAX).unwrap(), Drift::default());
        connection
            .execute_batch(
                "DROP TABLE notifications; CREATE INDEX mine ON events (severity); \
                 DROP INDEX leases_by_ip; CREATE INDEX leases_by_ip ON leases (ip_id, address)",
            )
            .unwrap();
        let found = drift(&connection, i64::MAX).unwrap();
        assert_eq!(
            found.missing,
            ["index notifications_by_receiver", "table notifications"]
        );
        assert_eq!(found.changed, ["index leases_by_ip"]);
        assert_eq!(found.extra, ["index mine"]);
    }
}
