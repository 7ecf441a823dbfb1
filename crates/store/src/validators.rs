//! Validators: their entries, signs of life, and why one claims nothing.

use civ_orch::attempt::StateName;
use civ_types::{IpId, PortId, Utc, ValidatorId};
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{maybe_utc, maybe_word, named, readable, text, utc};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::hint::Hint;
use crate::queue;
use crate::settings::to_json;

/// How long a validator whose port is not well claims nothing, in seconds: long enough not to
/// hammer a cloud that says no, short enough that a repaired port is back within a minute.
const PORT_PAUSE_SECS: u32 = 60;

/// How long a silent validator claims nothing if its agent neither reports nor registers, in
/// seconds. An agent of the contract that slept through a lease has nothing to report, so its
/// silence must end by itself; one that can ask but not report costs a lease in that time.
pub(crate) const SILENCE_SECS: u32 = 300;

/// A validator as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatorRow {
    /// Its name.
    pub id: ValidatorId,
    /// Its port.
    pub port: PortId,
    /// As the agent told at `register`.
    pub hostname: String,
    /// As the agent told at `register`.
    pub agent_version: String,
    /// Has an agent ever registered?
    pub registered: bool,
    /// The last sign of life that was written down; memory may know a later one.
    pub last_seen_at: Option<Utc>,
    /// The address it owns and the state of that.
    pub owns: Option<(IpId, StateName)>,
    /// Since when it claims nothing for its silence, if it does.
    pub silenced_at: Option<Utc>,
    /// A former address of its, or one found on its port, is still to be released.
    pub releasing: bool,
    /// Why its port is not well, while it claims nothing for that.
    pub paused_why: String,
    /// Until when.
    pub paused_until: Option<Utc>,
    /// When it was added.
    pub created_at: Utc,
    /// When it last changed.
    pub updated_at: Utc,
}

/// All validators, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn list(conn: &ReadConn<'_>) -> Result<Vec<ValidatorRow>, StoreError> {
    const SQL: &str = "SELECT v.*, i.id AS ip_id, i.state AS ip_state, \
         EXISTS (SELECT 1 FROM leases r WHERE r.port_id = v.port_id AND r.releasing) \
             AS is_releasing FROM validators v \
         LEFT JOIN leases l ON l.validator_id = v.validator_id \
         LEFT JOIN ips i ON i.id = l.ip_id AND i.claim_no = l.claim_no \
             AND i.state IN ('assigning_fip', 'awaiting_self_check', 'checking', 'aggregating') \
         ORDER BY v.validator_id";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        let key: String = row.get("validator_id")?;
        named("validators", key, read(row))
    })?;
    Ok(readable(rows)?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<ValidatorRow> {
    let ip = row.get::<_, Option<i64>>("ip_id")?.map(IpId);
    let state = maybe_word(row, "ip_state", StateName::parse)?;
    Ok(ValidatorRow {
        id: text(row, "validator_id", ValidatorId::parse)?,
        port: text(row, "port_id", PortId::parse)?,
        hostname: row.get("hostname")?,
        agent_version: row.get("agent_version")?,
        registered: row.get("registered")?,
        last_seen_at: maybe_utc(row, "last_seen_at")?,
        owns: ip.zip(state),
        silenced_at: maybe_utc(row, "silenced_at")?,
        releasing: row.get("is_releasing")?,
        paused_why: row.get("paused_why")?,
        paused_until: maybe_utc(row, "paused_until")?,
        created_at: utc(row, "created_at")?,
        updated_at: utc(row, "updated_at")?,
    })
}

/// Whether an agent has registered for this validator; `None` if there is no such validator.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn registered(conn: &ReadConn<'_>, id: &ValidatorId) -> Result<Option<bool>, StoreError> {
    const SQL: &str = "SELECT registered FROM validators WHERE validator_id = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?)
}

/// An agent has started; it takes no address away. `responder`: the ports on which it answers with
/// the nonce of its claim, if it runs a responder.
///
/// Says whether there is such a validator.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn register(
    tx: &mut WriteTx<'_>,
    id: &ValidatorId,
    hostname: &str,
    agent_version: &str,
    responder: Option<&[u16]>,
) -> Result<bool, StoreError> {
    const SQL: &str = "UPDATE validators SET registered = 1, hostname = ?2, agent_version = ?3, \
         last_seen_at = ?4, silenced_at = NULL, updated_at = ?4, responder_ports = ?5 \
         WHERE validator_id = ?1";
    const BEFORE: &str = "SELECT responder_ports FROM validators WHERE validator_id = ?1";
    let ports = responder.map(|ports| to_json(&ports)).transpose()?;
    let mut statement = tx.sql().prepare_cached(BEFORE)?;
    let before: Option<Option<String>> = statement
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    drop(statement);
    let Some(before) = before else {
        return Ok(false);
    };
    let now = tx.now().as_micros();
    let parameters = params![id.as_str(), hostname, agent_version, now, ports];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::Schedule);
    if before != ports {
        // What counts in a claim under way may have become less.
        queue::reconfigured(tx)?;
    }
    Ok(true)
}

/// The agent has reported something after a silence: its validator may claim again.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn unsilence(tx: &mut WriteTx<'_>, id: &ValidatorId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE validators SET silenced_at = NULL WHERE validator_id = ?1";
    tx.sql().prepare_cached(SQL)?.execute([id.as_str()])?;
    tx.hint(Hint::Schedule);
    Ok(())
}

/// Writes down signs of life that memory has gathered.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn seen(tx: &WriteTx<'_>, signs: &[(ValidatorId, Utc)]) -> Result<(), StoreError> {
    // A sign from before this entry was made belongs to a former one of the same name.
    const SQL: &str =
        "UPDATE validators SET last_seen_at = ?2 WHERE validator_id = ?1 AND created_at <= ?2";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    for (id, at) in signs {
        statement.execute(params![id.as_str(), at.as_micros()])?;
    }
    Ok(())
}

pub(crate) fn silence(tx: &mut WriteTx<'_>, id: &ValidatorId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE validators SET silenced_at = ?2 WHERE validator_id = ?1";
    let parameters = params![id.as_str(), tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::Silenced(id.clone()));
    Ok(())
}

pub(crate) fn pause(tx: &mut WriteTx<'_>, id: &ValidatorId, why: &str) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE validators SET paused_until = ?2, paused_why = ?3, updated_at = ?4 \
         WHERE validator_id = ?1";
    let until = tx.now().plus_secs(PORT_PAUSE_SECS);
    let parameters = params![id.as_str(), until.as_micros(), why, tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::Schedule);
    Ok(())
}

/// The port of a validator, if there is such a validator.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn port(conn: &ReadConn<'_>, id: &ValidatorId) -> Result<Option<PortId>, StoreError> {
    const SQL: &str = "SELECT port_id FROM validators WHERE validator_id = ?1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement
        .query_row([id.as_str()], |row| text(row, 0, PortId::parse))
        .optional()?)
}

/// Another validator that has this port: by its entry, or by a lease that is still open.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn other_on_port(
    conn: &ReadConn<'_>,
    port: &PortId,
    id: &ValidatorId,
) -> Result<Option<ValidatorId>, StoreError> {
    const SQL: &str = "SELECT validator_id FROM validators \
         WHERE port_id = ?1 AND validator_id <> ?2 \
         UNION ALL SELECT validator_id FROM leases \
         WHERE port_id = ?1 AND validator_id IS NOT NULL AND validator_id <> ?2 LIMIT 1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let read = |row: &rusqlite::Row<'_>| text(row, 0, ValidatorId::parse);
    Ok(statement
        .query_row(params![port.as_str(), id.as_str()], read)
        .optional()?)
}

/// All validators and their ports, in order of name; what cannot be is passed over.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn ports(conn: &ReadConn<'_>) -> Result<Vec<(ValidatorId, PortId)>, StoreError> {
    const SQL: &str = "SELECT validator_id, port_id FROM validators ORDER BY validator_id";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        let id = text(row, "validator_id", ValidatorId::parse)?;
        Ok((id, text(row, "port_id", PortId::parse)?))
    })?;
    Ok(readable(rows)?)
}

/// Adds a validator; neither its name nor its port may be taken.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn insert(tx: &mut WriteTx<'_>, id: &ValidatorId, port: &PortId) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO validators (validator_id, port_id, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?3)";
    let parameters = params![id.as_str(), port.as_str(), tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::ValidatorReset(id.clone()));
    tx.hint(Hint::Schedule);
    Ok(())
}

/// Gives a validator another port, from its next claim on: an open lease keeps its own. A pause
/// because of the former port is over.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn set_port(tx: &mut WriteTx<'_>, id: &ValidatorId, port: &PortId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE validators SET port_id = ?2, paused_until = NULL, paused_why = '', \
         updated_at = ?3 WHERE validator_id = ?1";
    let parameters = params![id.as_str(), port.as_str(), tx.now().as_micros()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    tx.hint(Hint::Schedule);
    Ok(())
}

/// Takes a validator out of the configuration; it must hold no lease.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delete(tx: &mut WriteTx<'_>, id: &ValidatorId) -> Result<(), StoreError> {
    tx.sql()
        .prepare_cached("DELETE FROM validators WHERE validator_id = ?1")?
        .execute([id.as_str()])?;
    tx.hint(Hint::ValidatorReset(id.clone()));
    tx.hint(Hint::Validator(id.clone()));
    Ok(())
}
