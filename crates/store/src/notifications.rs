//! The outbox of notifications: filled with the event itself, emptied by whoever sends.
//!
//! A row outlives the event it tells of. Each receiver has its own rows and its own bound; an
//! overflow drops its oldest rows and is told once, by an event.

use std::collections::BTreeMap;
use std::time::Duration;

use civ_types::{NOTIFICATION_DROPPED, SiteId, Utc, ValidatorId};
use rusqlite::{OptionalExtension as _, params};
use serde_json::json;

use crate::codec::{maybe, utc};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};

/// Subscribes to every event.
pub const ALL: &str = "*";

/// Who is to be told of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its name.
    pub name: String,
    /// Event types, or [`ALL`] alone.
    pub events: Vec<String>,
    /// Rows that may wait for it, from 1.
    pub rows_max: u32,
}

/// An event that is still to be sent to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Grows with every row, which is the order of sending.
    pub id: i64,
    /// The event.
    pub event_id: i64,
    /// What happened.
    pub event_type: String,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// The address it is about, if any.
    pub address: Option<String>,
    /// Which validator, if any.
    pub validator: Option<ValidatorId>,
    /// Which site, if any.
    pub site: Option<SiteId>,
    /// Free text.
    pub payload: String,
    /// When it happened.
    pub occurred_at: Utc,
    /// Since when it waits, less the time that the process was down.
    pub queued_at: Utc,
    /// How often sending it has failed.
    pub tries: u32,
}

/// What there is to send to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This one, now.
    Send(Box<Notification>),
    /// Nothing before that moment.
    Later(Utc),
    /// Nothing.
    Nothing,
}

/// Rows that were given up together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// How many.
    pub count: u64,
    /// The first of their events.
    pub first_event: i64,
    /// The last of their events.
    pub last_event: i64,
}

/// Makes the receivers those of the configuration file. Those that stay keep their rows; the
/// others lose them: their names and numbers of rows come back.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn configure(
    tx: &WriteTx<'_>,
    receivers: &[Receiver],
) -> Result<Vec<(String, u64)>, StoreError> {
    let names = json_names(receivers.iter().map(|one| one.name.as_str()))?;
    let mut gone = tx.sql().prepare(
        "DELETE FROM receivers WHERE name NOT IN (SELECT value FROM json_each(?1)) \
         RETURNING name, waiting",
    )?;
    let gone = gone
        .query_map([names], |row| Ok((row.get(0)?, count(row.get(1)?))))?
        .collect::<Result<_, _>>()?;
    tx.sql().execute("DELETE FROM subscriptions", [])?;
    for receiver in receivers {
        tx.sql().execute(
            "INSERT INTO receivers (name, rows_max) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET rows_max = excluded.rows_max",
            params![receiver.name, receiver.rows_max],
        )?;
        for event in &receiver.events {
            tx.sql().execute(
                "INSERT OR IGNORE INTO subscriptions (event_type, receiver) VALUES (?1, ?2)",
                params![event, receiver.name],
            )?;
        }
        shrink(tx, &receiver.name)?;
    }
    Ok(gone)
}

fn json_names<'n>(names: impl Iterator<Item = &'n str>) -> Result<String, StoreError> {
    let names: Vec<&str> = names.collect();
    serde_json::to_string(&names).map_err(|error| StoreError::corrupt(error.to_string()))
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// One row a receiver and event, since `*` stands alone in a configuration.
pub(crate) const ENQUEUE: &str = "INSERT INTO notifications (receiver, event_id, event_type, \
     severity, address, validator_id, site_id, payload, occurred_at, queued_at) \
     SELECT s.receiver, e.id, e.event_type, e.severity, e.address, e.validator_id, e.site_id, \
     e.payload, e.occurred_at, ?3 FROM events e \
     JOIN subscriptions s ON s.event_type IN (e.event_type, '*') \
     WHERE e.id BETWEEN ?1 AND ?2 ORDER BY e.id RETURNING receiver";

/// Queues the `n` events that were written last for everybody who subscribed to them, and wakes
/// those who follow the history. To be called right after they were written: whatever inserts
/// events calls this.
pub(crate) fn enqueue(tx: &WriteTx<'_>, n: usize) -> Result<(), StoreError> {
    if n == 0 {
        return Ok(());
    }
    tx.history_grew();
    let last = tx.sql().last_insert_rowid();
    let first = last.saturating_sub(i64::try_from(n).unwrap_or(i64::MAX)) + 1;
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    let mut statement = tx.sql().prepare_cached(ENQUEUE)?;
    let rows = statement.query_map(params![first, last, tx.now().as_micros()], |row| row.get(0))?;
    for receiver in rows {
        *told.entry(receiver?).or_default() += 1;
    }
    if told.is_empty() {
        return Ok(());
    }
    tx.notified();
    for (receiver, rows) in &told {
        tx.sql()
            .prepare_cached("UPDATE receivers SET waiting = waiting + ?2 WHERE name = ?1")?
            .execute(params![receiver, i64::try_from(*rows).unwrap_or(i64::MAX)])?;
    }
    // Only now: an overflow writes an event, which moves what was written last.
    told.keys().try_for_each(|receiver| shrink(tx, receiver))
}

/// Drops the oldest rows of a receiver that has too many. The first time, an event says so; it is
/// said again only after the receiver has caught up.
fn shrink(tx: &WriteTx<'_>, receiver: &str) -> Result<(), StoreError> {
    const OVER: &str = "SELECT waiting - rows_max, overflowing FROM receivers WHERE name = ?1";
    const DROP: &str = "DELETE FROM notifications WHERE id IN \
         (SELECT id FROM notifications WHERE receiver = ?1 ORDER BY id LIMIT ?2)";
    let (over, told): (i64, bool) = tx
        .sql()
        .prepare_cached(OVER)?
        .query_row([receiver], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if over <= 0 {
        return Ok(());
    }
    let dropped = tx
        .sql()
        .prepare_cached(DROP)?
        .execute(params![receiver, over])?;
    left(tx, receiver, dropped)?;
    if told {
        return Ok(());
    }
    tx.sql()
        .prepare_cached("UPDATE receivers SET overflowing = 1 WHERE name = ?1")?
        .execute([receiver])?;
    tracing::warn!(receiver, "more notifications wait than may: the oldest go");
    let payload = json!({"receiver": receiver, "reason": "too many are waiting: the oldest go"});
    append_dropped(tx, &payload)
}

fn append_dropped(tx: &WriteTx<'_>, payload: &serde_json::Value) -> Result<(), StoreError> {
    let event = NewEvent {
        severity: Severity::Warning,
        payload: payload.to_string(),
        ..NewEvent::new(NOTIFICATION_DROPPED)
    };
    events::append(tx, &event)
}

/// Counts rows out. A receiver with less than half of its room in use has caught up.
fn left(tx: &WriteTx<'_>, receiver: &str, n: usize) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE receivers SET waiting = waiting - ?2, \
         overflowing = overflowing AND (waiting - ?2) * 2 >= rows_max WHERE name = ?1";
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    tx.sql()
        .prepare_cached(SQL)?
        .execute(params![receiver, n])?;
    Ok(())
}

/// The oldest row that is not put aside.
pub(crate) const NEXT: &str = "SELECT id, event_id, event_type, severity, address, validator_id, \
     site_id, payload, occurred_at, queued_at, tries FROM notifications \
     WHERE receiver = ?1 AND not_before <= ?2 ORDER BY id LIMIT 1";

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Notification> {
    Ok(Notification {
        id: row.get("id")?,
        event_id: row.get("event_id")?,
        event_type: row.get("event_type")?,
        severity: row.get("severity")?,
        address: row.get("address")?,
        validator: maybe(row, "validator_id", ValidatorId::parse)?,
        site: maybe(row, "site_id", SiteId::parse)?,
        payload: row.get("payload")?,
        occurred_at: utc(row, "occurred_at")?,
        queued_at: utc(row, "queued_at")?,
        tries: row.get("tries")?,
    })
}

/// The oldest row of a receiver that is not put aside beyond `now`.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn next(conn: &ReadConn<'_>, receiver: &str, now: Utc) -> Result<Next, StoreError> {
    let first = conn
        .sql()
        .prepare_cached(NEXT)?
        .query_row(params![receiver, now.as_micros()], read)
        .optional()?;
    if let Some(first) = first {
        return Ok(Next::Send(Box::new(first)));
    }
    // Nothing is ready, so that every row there is was put aside, which are few.
    let later: Option<i64> = conn
        .sql()
        .prepare_cached("SELECT MIN(not_before) FROM notifications WHERE receiver = ?1")?
        .query_row([receiver], |row| row.get(0))?;
    Ok(later.map_or(Next::Nothing, |at| Next::Later(Utc::from_micros(at))))
}

/// A row was delivered.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn delivered(tx: &WriteTx<'_>, receiver: &str, id: i64) -> Result<(), StoreError> {
    let n = tx
        .sql()
        .prepare_cached("DELETE FROM notifications WHERE id = ?1 AND receiver = ?2")?
        .execute(params![id, receiver])?;
    left(tx, receiver, n)
}

/// A row was not delivered. With `aside_until`, those behind it go first until then.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn failed(tx: &WriteTx<'_>, id: i64, aside_until: Option<Utc>) -> Result<(), StoreError> {
    const SQL: &str =
        "UPDATE notifications SET tries = tries + 1, not_before = COALESCE(?2, 0) WHERE id = ?1";
    tx.sql()
        .prepare_cached(SQL)?
        .execute(params![id, aside_until.map(Utc::as_micros)])?;
    Ok(())
}

/// Drops what has waited for `age` and writes an event that says so, if there was any. Rows that
/// tell of drops themselves go without another event, so that a dead receiver keeps nobody busy.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn give_up(
    tx: &WriteTx<'_>,
    receiver: &str,
    age: Duration,
    last_error: &str,
) -> Result<Option<GivenUp>, StoreError> {
    const SQL: &str = "DELETE FROM notifications WHERE receiver = ?1 AND queued_at <= ?2 \
         RETURNING event_id, event_type";
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    let until = tx.now().as_micros().saturating_sub(age);
    let rows: Vec<(i64, String)> = tx
        .sql()
        .prepare_cached(SQL)?
        .query_map(params![receiver, until], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    left(tx, receiver, rows.len())?;
    let ids = rows.iter().map(|(id, _)| *id);
    let (Some(first_event), Some(last_event)) = (ids.clone().min(), ids.max()) else {
        return Ok(None);
    };
    let count = rows.len() as u64;
    if rows.iter().any(|(_, kind)| kind != NOTIFICATION_DROPPED) {
        let payload = json!({
            "receiver": receiver,
            "reason": "not delivered in time",
            "dropped": count,
            "first_event_id": first_event,
            "last_event_id": last_event,
            "last_error": last_error,
        });
        append_dropped(tx, &payload)?;
    }
    Ok(Some(GivenUp {
        count,
        first_event,
        last_event,
    }))
}

/// How many rows wait for each receiver, in order of name.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn waiting(conn: &ReadConn<'_>) -> Result<Vec<(String, u64)>, StoreError> {
    let mut statement = conn
        .sql()
        .prepare_cached("SELECT name, waiting FROM receivers ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
