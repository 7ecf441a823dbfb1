//! Sites: their entries and signs of life.

use civ_types::{SiteId, Utc};
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{maybe_utc, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::hint::Hint;
use crate::{queue, results};

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

/// What a prober knows beyond the contract.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Knows {
    /// It compares nonces.
    pub identity: bool,
    /// It checks that ports are closed.
    pub closed_ports: bool,
}

/// A prober has started. Says whether there is such a site.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn register(
    tx: &mut WriteTx<'_>,
    id: &SiteId,
    hostname: &str,
    knows: Knows,
) -> Result<bool, StoreError> {
    const BEFORE: &str = "SELECT knows_identity, knows_closed_ports FROM sites WHERE site_id = ?1";
    const SQL: &str = "UPDATE sites SET registered = 1, hostname = ?2, last_seen_at = ?3, \
         knows_identity = ?4, knows_closed_ports = ?5 WHERE site_id = ?1";
    let mut statement = tx.sql().prepare_cached(BEFORE)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Knows {
            identity: row.get("knows_identity")?,
            closed_ports: row.get("knows_closed_ports")?,
        })
    };
    let before = statement.query_row([id.as_str()], read).optional()?;
    drop(statement);
    let Some(before) = before else {
        return Ok(false);
    };
    let Knows {
        identity,
        closed_ports,
    } = knows;
    let now = tx.now().as_micros();
    let parameters = params![id.as_str(), hostname, now, identity, closed_ports];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    if before != knows {
        // What counts in claims under way may have become less.
        queue::reconfigured(tx)?;
    }
    Ok(true)
}

/// Writes down signs of life that memory has gathered.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn seen(tx: &WriteTx<'_>, signs: &[(SiteId, Utc)]) -> Result<(), StoreError> {
    // A sign from before the slot was set anew belongs to another prober.
    const SQL: &str = "UPDATE sites SET last_seen_at = ?2 WHERE site_id = ?1 AND made_at <= ?2";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    for (id, at) in signs {
        statement.execute(params![id.as_str(), at.as_micros()])?;
    }
    Ok(())
}

/// The name in a slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn in_slot(conn: &ReadConn<'_>, slot: i64) -> Result<Option<SiteId>, StoreError> {
    const SQL: &str = "SELECT site_id FROM sites WHERE slot = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([slot], |row| text(row, 0, SiteId::parse))
        .optional()?)
}

/// The slot of a name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn slot_of(conn: &ReadConn<'_>, id: &SiteId) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "SELECT slot FROM sites WHERE site_id = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?)
}

/// What a former identity was to check no longer counts; of the next one it counts once it has
/// been handed out.
fn forget(tx: &mut WriteTx<'_>, id: &SiteId) -> Result<(), StoreError> {
    results::uncount_site(tx, id)?;
    tx.hint(Hint::SiteReset(id.clone()));
    Ok(())
}

/// Puts a site into a slot: always a new identity, even with the same name. The name must not
/// stand in another slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn put(tx: &mut WriteTx<'_>, slot: i64, id: &SiteId) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO sites (slot, site_id, made_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (slot) DO UPDATE SET site_id = excluded.site_id, hostname = '', \
         registered = 0, last_seen_at = NULL, made_at = excluded.made_at, \
         knows_identity = 0, knows_closed_ports = 0";
    if let Some(former) = in_slot(tx, slot)? {
        forget(tx, &former)?;
    }
    let parameters = params![slot, id.as_str(), tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::SiteReset(id.clone()));
    queue::reconfigured(tx)
}

/// Takes the site out of a slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delete(tx: &mut WriteTx<'_>, slot: i64) -> Result<(), StoreError> {
    if let Some(former) = in_slot(tx, slot)? {
        forget(tx, &former)?;
    }
    tx.sql()
        .prepare_cached("DELETE FROM sites WHERE slot = ?1")?
        .execute([slot])?;
    queue::reconfigured(tx)
}
