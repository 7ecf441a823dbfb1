//! State in SQLite: one row for each object, written in the call that changed it.
//!
//! A file belongs to one process at a time; that is held by SQLite's own lock.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use serde_json::Value;

use crate::snapshot::SCHEMA_VERSION;

/// One object: its kind, its id and what it is; `None`: it is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Like `fip`.
    pub kind: String,
    /// Unique within its kind.
    pub id: String,
    /// The object.
    pub document: Option<Value>,
}

/// A file of objects.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, is no such file, or has another version.
    pub fn open(path: &Path, cloud: &str) -> anyhow::Result<Self> {
        let opened = open(path, cloud);
        let connection = opened.with_context(|| format!("state file {}", path.display()))?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// All objects, in order of kind and id. Empty: the file is new.
    ///
    /// # Errors
    /// If the file cannot be read, or an object is not JSON.
    pub fn load(&self) -> anyhow::Result<Vec<Row>> {
        let guard = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut select =
            guard.prepare("SELECT kind, id, document FROM objects ORDER BY kind, id")?;
        let texts = select.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
        })?;
        let mut rows = Vec::new();
        for text in texts {
            let (kind, id, document) = text?;
            let document = Some(serde_json::from_str(&document)?);
            rows.push(Row { kind, id, document });
        }
        Ok(rows)
    }

    /// Writes, and deletes what is gone: all or nothing.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, rows: &[Row]) -> anyhow::Result<()> {
        self.change(rows, false)
    }

    /// Puts these rows in the place of all there are.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn replace(&self, rows: &[Row]) -> anyhow::Result<()> {
        self.change(rows, true)
    }

    fn change(&self, rows: &[Row], is_everything: bool) -> anyhow::Result<()> {
        let mut guard = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let change = guard.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_everything {
            change.execute("DELETE FROM objects", [])?;
        }
        for row in rows {
            let key = params![row.kind, row.id];
            match &row.document {
                Some(document) => change
                    .prepare_cached(
                        "INSERT INTO objects (kind, id, document) VALUES (?1, ?2, ?3)
                     ON CONFLICT (kind, id) DO UPDATE SET document = excluded.document",
                    )?
                    .execute(params![row.kind, row.id, document.to_string()])?,
                None => change
                    .prepare_cached("DELETE FROM objects WHERE kind = ?1 AND id = ?2")?
                    .execute(key)?,
            };
        }
        change.commit()?;
        Ok(())
    }
}

fn open(path: &Path, cloud: &str) -> anyhow::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_millis(100))?;
    // One process: the lock is taken with the first transaction and never given back.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A simulation survives its own end, not that of the machine.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let create = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    create.execute_batch(
        "CREATE TABLE IF NOT EXISTS about (schema_version INTEGER NOT NULL, cloud TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS objects (
             kind TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
             PRIMARY KEY (kind, id)
         ) WITHOUT ROWID;",
    )?;
    create.execute(
        "INSERT INTO about SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM about)",
        params![SCHEMA_VERSION, cloud],
    )?;
    let (version, of): (u32, String) =
        create.query_row("SELECT schema_version, cloud FROM about", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    create.commit()?;
    ensure!(
        version == SCHEMA_VERSION,
        "has schema_version {version}, this program reads {SCHEMA_VERSION}"
    );
    ensure!(of == cloud, "is of cloud {of:?}, not of {cloud:?}");
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(id: &str, document: Option<Value>) -> Row {
        Row {
            kind: "fip".to_owned(),
            id: id.to_owned(),
            document,
        }
    }

    #[test]
    fn rows_survive_and_what_is_gone_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let store = Store::open(&path, "x").unwrap();
        assert!(store.load().unwrap().is_empty());
        let (a, b) = (row("a", Some(json!({"n": 1}))), row("b", Some(json!(2))));
        store.save(&[a, b]).unwrap();
        let a = row("a", Some(json!({"n": 2})));
        store.save(&[a.clone(), row("b", None)]).unwrap();
        drop(store);
        let store = Store::open(&path, "x").unwrap();
        assert_eq!(store.load().unwrap(), [a]);
        store.replace(&[row("c", Some(json!(null)))]).unwrap();
        assert_eq!(store.load().unwrap().len(), 1);
    }

    #[test]
    fn a_file_of_another_cloud_and_a_file_in_use_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let store = Store::open(&path, "x").unwrap();
        assert!(Store::open(&path, "x").is_err(), "in use");
        drop(store);
        let error = format!("{:#}", Store::open(&path, "y").unwrap_err());
        assert!(error.contains("is of cloud \"x\", not of \"y\""), "{error}");
    }
}
