//! The auto-cycle: its one row, and its steps with their entries in the history.

use civ_orch::cycle::{Ctx, Cycle, Event, Fact, Outcome, Phase, PhaseName};
use civ_types::Utc;
use rusqlite::{Row, named_params};
use serde_json::json;

use crate::codec::{maybe_utc, maybe_word, micros, named, word};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};
use crate::hint::Hint;
use crate::{leases, queue};

fn phase(row: &Row<'_>) -> rusqlite::Result<Phase> {
    // The table holds a time wherever the phase has one.
    let at = maybe_utc(row, "phase_at")?.unwrap_or(Utc::EPOCH);
    Ok(match word(row, "phase", PhaseName::parse)? {
        PhaseName::Idle => Phase::Idle,
        PhaseName::Clearing => Phase::Clearing,
        PhaseName::Releasing => Phase::Releasing { until: at },
        PhaseName::Scanning => Phase::Scanning,
        PhaseName::Checking => Phase::Checking { since: at },
        PhaseName::Waiting => Phase::Waiting { until: at },
    })
}

const fn phase_at(phase: Phase) -> Option<Utc> {
    match phase {
        Phase::Idle | Phase::Clearing | Phase::Scanning => None,
        Phase::Releasing { until } | Phase::Waiting { until } => Some(until),
        Phase::Checking { since } => Some(since),
    }
}

fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// The auto-cycle as it stands.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn load(conn: &ReadConn<'_>) -> Result<Cycle, StoreError> {
    const SQL: &str = "SELECT enabled, interval_seconds, max_run_seconds, phase, phase_at, \
         run_started_at, last_started_at, last_finished_at, last_outcome, last_error, \
         last_scanned_free, runs_total FROM auto_cycle WHERE id = 1";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row([], |row| named("auto_cycle", 1, read(row)))?)
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Cycle> {
    Ok(Cycle {
        enabled: row.get("enabled")?,
        interval_secs: row.get("interval_seconds")?,
        max_run_secs: row.get("max_run_seconds")?,
        phase: phase(row)?,
        run_started_at: maybe_utc(row, "run_started_at")?,
        last_started_at: maybe_utc(row, "last_started_at")?,
        last_finished_at: maybe_utc(row, "last_finished_at")?,
        last_outcome: maybe_word(row, "last_outcome", Outcome::parse)?,
        last_error: row.get("last_error")?,
        last_scanned_free: count(row, "last_scanned_free")?,
        runs_total: count(row, "runs_total")?,
    })
}

/// The auto-cycle, and what a decision about it needs to know.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn look(
    conn: &ReadConn<'_>,
    now: Utc,
    release_grace_secs: u32,
) -> Result<(Cycle, Ctx), StoreError> {
    let ctx = Ctx {
        now,
        release_grace_secs,
        has_leases: leases::any(conn)?,
        has_open: queue::has_open(conn)?,
    };
    Ok((load(conn)?, ctx))
}

fn save(tx: &WriteTx<'_>, cycle: &Cycle) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE auto_cycle SET enabled = :enabled, interval_seconds = :interval, \
         max_run_seconds = :max_run, phase = :phase, phase_at = :phase_at, \
         run_started_at = :run_started, last_started_at = :last_started, \
         last_finished_at = :last_finished, last_outcome = :outcome, last_error = :error, \
         last_scanned_free = :free, runs_total = :runs WHERE id = 1";
    tx.sql().prepare_cached(SQL)?.execute(named_params! {
        ":enabled": cycle.enabled,
        ":interval": cycle.interval_secs,
        ":max_run": cycle.max_run_secs,
        ":phase": cycle.phase.name().as_str(),
        ":phase_at": micros(phase_at(cycle.phase)),
        ":run_started": micros(cycle.run_started_at),
        ":last_started": micros(cycle.last_started_at),
        ":last_finished": micros(cycle.last_finished_at),
        ":outcome": cycle.last_outcome.map(Outcome::as_str),
        ":error": cycle.last_error,
        ":free": i64::try_from(cycle.last_scanned_free).unwrap_or(i64::MAX),
        ":runs": i64::try_from(cycle.runs_total).unwrap_or(i64::MAX),
    })?;
    Ok(())
}

fn record(tx: &WriteTx<'_>, fact: Fact, cycle: &Cycle) -> Result<(), StoreError> {
    let (event_type, severity) = match fact {
        Fact::Started => ("auto_cycle_started", Severity::Info),
        Fact::Ended(Outcome::Completed) => ("auto_cycle_completed", Severity::Info),
        Fact::Ended(Outcome::NoFreeIps) => ("auto_cycle_no_free_ips", Severity::Warning),
        Fact::Ended(Outcome::Timeout) => ("auto_cycle_timeout", Severity::Warning),
        Fact::Ended(Outcome::Error) => ("auto_cycle_error", Severity::Error),
        Fact::Ended(Outcome::Stopped) | Fact::TurnedOff => ("auto_cycle_stopped", Severity::Info),
    };
    let payload = match fact {
        Fact::Started => json!({"runs_total": cycle.runs_total}),
        Fact::TurnedOff => json!({"phase": "between two rounds"}),
        Fact::Ended(outcome) => json!({
            "outcome": outcome.as_str(),
            "scanned_free": cycle.last_scanned_free,
            "error": cycle.last_error,
            "next_run_at": cycle.next_run_at().map(|at| at.to_string()),
        }),
    };
    tracing::info!(%payload, "{event_type}");
    let event = NewEvent {
        severity,
        payload: payload.to_string(),
        ..NewEvent::new(event_type)
    };
    events::append(tx, &event)
}

/// Takes one step; `None` if the phase has no such step (any more), and then nothing has changed.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn step(tx: &mut WriteTx<'_>, event: &Event) -> Result<Option<Cycle>, StoreError> {
    let (before, ctx) = look(tx, tx.now(), tx.rules().policy.release_grace_secs)?;
    let Ok((next, fact)) = before.step(event, &ctx) else {
        return Ok(None);
    };
    if next != before {
        save(tx, &next)?;
        tx.hint(Hint::Schedule);
    }
    if let Some(fact) = fact {
        record(tx, fact, &next)?;
    }
    Ok(Some(next))
}

/// Changes the parameters that are given, in seconds; both are in range.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn configure(
    tx: &mut WriteTx<'_>,
    interval_secs: Option<u32>,
    max_run_secs: Option<u32>,
) -> Result<Cycle, StoreError> {
    let before = load(tx)?;
    let next = Cycle {
        interval_secs: interval_secs.unwrap_or(before.interval_secs),
        max_run_secs: max_run_secs.unwrap_or(before.max_run_secs),
        ..before.clone()
    };
    if next != before {
        save(tx, &next)?;
        tx.hint(Hint::Schedule);
    }
    Ok(next)
}

fn record_cleared(tx: &WriteTx<'_>, n_deleted: usize, is_complete: bool) -> Result<(), StoreError> {
    let payload = json!({
        "deleted": n_deleted,
        "source": "auto_cycle",
        "complete": is_complete,
    });
    let event = NewEvent {
        payload: payload.to_string(),
        ..NewEvent::new("queue_cleared")
    };
    events::append(tx, &event)
}

/// The queue was cleared for a round: `n_deleted` addresses were taken out of it.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn cleared(tx: &mut WriteTx<'_>, n_deleted: usize) -> Result<(), StoreError> {
    record_cleared(tx, n_deleted, true)?;
    step(tx, &Event::Cleared)?;
    Ok(())
}

/// The round was ended while its queue was being cleared: the history says how far that got.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn clearing_ended_early(tx: &mut WriteTx<'_>, n_deleted: usize) -> Result<(), StoreError> {
    if n_deleted == 0 {
        return Ok(());
    }
    record_cleared(tx, n_deleted, false)
}
