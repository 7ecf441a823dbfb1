//! Sites: their entries and signs of life.

use civ_types::{SiteId, Utc};
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{maybe_utc, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;

/// A site as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRow {
    /// Its slot, from 1.
    pub slot: i64,
    /// Its name.
    pub id: SiteId,
    /// As the prober told at `register`.
    pub hostname: String,
    /// Has a prober ever registered?
    pub registered: bool,
    /// The last sign of life that was written down; memory may know a later one.
    pub last_seen_at: Option<Utc>,
}

/// All sites, in order of slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(conn: &ReadConn<'_>) -> Result<Vec<SiteRow>, StoreError> {
    const SQL: &str = "SELECT slot, site_id, hostname, registered, last_seen_at FROM sites \
         ORDER BY slot";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        Ok(SiteRow {
            slot: row.get("slot")?,
            id: text(row, "site_id", SiteId::parse)?,
            hostname: row.get("hostname")?,
            registered: row.get("registered")?,
            last_seen_at: maybe_utc(row, "last_seen_at")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a prober has registered for this site; `None` if there is no such site.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn registered(conn: &ReadConn<'_>, id: &SiteId) -> Result<Option<bool>, StoreError> {
    const SQL: &str = "SELECT registered FROM sites WHERE site_id = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?)
}

/// A prober has started. Says whether there is such a site.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn register(tx: &WriteTx<'_>, id: &SiteId, hostname: &str) -> Result<bool, StoreError> {
    const SQL: &str =
        "UPDATE sites SET registered = 1, hostname = ?2, last_seen_at = ?3 WHERE site_id = ?1";
    let parameters = params![id.as_str(), hostname, tx.now().as_micros()];
    Ok(tx.sql().prepare_cached(SQL)?.execute(parameters)? == 1)
}

/// Writes down signs of life that memory has gathered.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn seen(tx: &WriteTx<'_>, signs: &[(SiteId, Utc)]) -> Result<(), StoreError> {
    let mut statement = tx
        .sql()
        .prepare_cached("UPDATE sites SET last_seen_at = ?2 WHERE site_id = ?1")?;
    for (id, at) in signs {
        statement.execute(params![id.as_str(), at.as_micros()])?;
    }
    Ok(())
}
