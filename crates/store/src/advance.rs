//! Load, step, save: the one writer of the queue's `state`.
//!
//! Row, lease, outbox and history change in one transaction, so that a step happens whole or not
//! at all.

use civ_orch::attempt::{
    Attempt, Ctx, Effect, Event, Fact, Lease, Place, Refused, Row, StateName, Step,
};
use civ_orch::expected::{self, Judgement, Tally};
use civ_types::{CheckSpec, ClaimNo, IpId};
use serde_json::json;

use crate::conn::WriteTx;
use crate::error::StoreError;
use crate::events::{self, NewEvent, Severity};
use crate::hint::Hint;
use crate::record::{self, IpRow};
use crate::{identity, leases, queue, registry, results, retention, settings, validators};

#[cfg(feature = "inline")]
pub mod trace;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// The state before.
    pub before: StateName,
    /// The state after; `None` when the address left the queue.
    pub after: Option<StateName>,
}

/// Why a step was not taken; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum NotAdvanced {
    /// The address is not in the queue.
    #[error("the address is not in the queue")]
    Unknown,
    /// The machine has no edge for it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes one step of the machine of one address.
///
/// # Errors
/// [`NotAdvanced`]: unknown, refused, or the database failed.
pub fn advance(tx: &mut WriteTx<'_>, ip: IpId, event: &Event) -> Result<Advanced, NotAdvanced> {
    let stored = record::fetch(tx, ip)?.ok_or(NotAdvanced::Unknown)?;
    let tally = tally(tx, &stored)?;
    let heard = leases::heard(tx, stored.attempt.head.claim)?;
    let rules = tx.rules();
    let ctx = Ctx {
        now: tx.now(),
        policy: &rules.policy,
        tally: &tally,
        heard,
        queue_end: queue::end(tx)?,
    };
    let before = stored.attempt.clone();
    let attempt = Attempt::from_row(stored.attempt)
        .map_err(|error| StoreError::corrupt(error.to_string()))?;
    let step = attempt.step(event, &ctx)?;
    #[cfg(feature = "inline")]
    trace::taken(&before, event, &ctx, &step);
    Ok(save(tx, &before, step)?)
}

fn tally(tx: &WriteTx<'_>, stored: &IpRow) -> Result<Tally, StoreError> {
    if stored.attempt.state != StateName::Checking {
        return Ok(Tally::default());
    }
    let progress = results::progress(tx, stored)?;
    let configured = settings::configured(tx)?;
    Ok(expected::tally(
        &progress,
        &configured,
        tx.rules().missing_counts,
    ))
}

fn save(tx: &mut WriteTx<'_>, before: &Row, step: Step) -> Result<Advanced, StoreError> {
    let Step { next, effects } = step;
    let after = next.as_ref().map(Attempt::name);
    match &next {
        Some(next) => {
            let next = next.to_row();
            if next != *before && !record::update(tx, (before.state, before.head.claim), &next)? {
                return Err(StoreError::corrupt(
                    "the row changed within its own transaction",
                ));
            }
            on_entry(tx, before, &next)?;
        }
        None => {
            record::delete(tx, before.head.ip)?;
            if civ_planted::is!(HistoryDeleted) {
                let sql = "DELETE FROM events WHERE ip_id = ?1";
                tx.sql().execute(sql, [before.head.ip.0])?;
            }
        }
    }
    // History names the attempt that the fact is about: a new enqueueing is already the next one.
    let subject = next.map_or_else(|| before.clone(), |next| next.to_row());
    for effect in effects {
        carry_out(tx, before, &subject, effect)?;
    }
    if after.is_none() {
        tx.hint(Hint::Schedule);
    }
    if !before.state.is_terminal() && after.is_none_or(StateName::is_terminal) {
        retention::cycle_ended(tx, before.head.address)?;
    }
    Ok(Advanced {
        before: before.state,
        after,
    })
}

/// What a state needs when it begins, and what the registry is told when an attempt ends.
fn on_entry(tx: &mut WriteTx<'_>, before: &Row, next: &Row) -> Result<(), StoreError> {
    if before.state == next.state {
        return Ok(());
    }
    tx.hint(Hint::Schedule);
    match next.state {
        // A new claim begins with nothing of the last one; neither does what waits for one show it.
        StateName::Queued | StateName::AssigningFip => results::forget_claim(tx, next.head.ip)?,
        StateName::AwaitingSelfCheck => leases::attached(tx, next.head.claim)?,
        StateName::Checking => {
            let proves = identity::begin(tx, next.head.claim)?;
            let specs = settings::configured(tx)?.specs(proves);
            results::expect(tx, next.head.ip, &specs, 0)?;
        }
        StateName::Aggregating | StateName::Done | StateName::Failed | StateName::Occupied => {}
    }
    if let Some(outcome) = next.outcome().filter(|_| before.outcome().is_none()) {
        registry::end_cycle(tx, next.head.address, outcome.as_str())?;
    }
    Ok(())
}

fn carry_out(
    tx: &mut WriteTx<'_>,
    before: &Row,
    subject: &Row,
    effect: Effect,
) -> Result<(), StoreError> {
    match effect {
        Effect::Associate { claim, place } => associate(tx, subject, claim, &place)?,
        Effect::Release(lease) => release(tx, lease)?,
        Effect::Forget(lease) => {
            leases::delete(tx, lease.claim())?;
            tx.hint(Hint::Schedule);
        }
        Effect::Record(fact) => record_fact(tx, before, subject, fact)?,
        Effect::Silence(validator) => validators::silence(tx, &validator)?,
        Effect::PausePort { validator, why } => validators::pause(tx, &validator, &why)?,
        Effect::WakeValidator(validator) => tx.hint(Hint::Validator(validator)),
        Effect::WakeSites => tx.hint(Hint::Sites),
    }
    Ok(())
}

fn associate(
    tx: &mut WriteTx<'_>,
    subject: &Row,
    claim: ClaimNo,
    place: &Place,
) -> Result<(), StoreError> {
    leases::insert(tx, &subject.head, claim, place)?;
    leases::ask(tx, claim, leases::Call::Associate)?;
    tx.hint(Hint::Outbox);
    Ok(())
}

fn release(tx: &mut WriteTx<'_>, lease: Lease) -> Result<(), StoreError> {
    let claim = lease.claim();
    drop(lease);
    leases::releasing(tx, claim)?;
    leases::ask(tx, claim, leases::Call::Release)?;
    tx.hint(Hint::Outbox);
    Ok(())
}

/// Lists are cut here: an event is for people, the results themselves are in `checks`.
const LISTED_MAX: usize = 50;

fn listed(specs: &[CheckSpec]) -> Vec<String> {
    specs
        .iter()
        .take(LISTED_MAX)
        .map(ToString::to_string)
        .collect()
}

fn judgement_payload(judgement: &Judgement) -> serde_json::Value {
    json!({
        "result": judgement.verdict.as_str(),
        "passed": judgement.n_passed,
        "failed": listed(&judgement.failed),
        "missing": listed(&judgement.missing),
        "not_checked": listed(&judgement.not_checked),
    })
}

fn record_fact(
    tx: &WriteTx<'_>,
    before: &Row,
    subject: &Row,
    fact: Fact,
) -> Result<(), StoreError> {
    let place = match fact {
        Fact::Enqueued => None,
        _ => before.head.place.as_ref().or(subject.head.place.as_ref()),
    };
    let (event_type, severity, payload) = describe(fact, subject);
    tracing::info!(
        ip = %subject.head.address,
        attempt = subject.head.attempt.0,
        claim = subject.head.claim.0,
        validator = place.map(|place| place.validator.as_str()),
        %payload,
        "{event_type}"
    );
    let event = NewEvent {
        ip: Some(subject.head.ip),
        address: Some(subject.head.address),
        cycle: Some(subject.head.cycle),
        validator: place.map(|place| &place.validator),
        severity,
        payload: payload.to_string(),
        ..NewEvent::new(event_type)
    };
    events::append(tx, &event)
}

fn describe(fact: Fact, subject: &Row) -> (&'static str, Severity, serde_json::Value) {
    let head = &subject.head;
    match fact {
        Fact::Claimed(place) => (
            "claimed",
            Severity::Info,
            json!({
                "validator_id": place.validator.as_str(),
                "port_id": place.port.as_str(),
                "fence": head.claim.0,
                "attempt_number": head.attempt.0,
            }),
        ),
        Fact::FipAssociated => {
            let fip = head.place.as_ref().and_then(|place| place.fip.as_ref());
            (
                "fip_associated",
                Severity::Info,
                json!({"fip_id": fip.map(|fip| fip.as_str())}),
            )
        }
        Fact::FipOccupied { seen } => ("fip_occupied", Severity::Warning, json!({"seen": seen})),
        Fact::FipConflict { seen } => ("fip_conflict", Severity::Error, json!({"seen": seen})),
        Fact::SelfCheck { passed, detail } => {
            let severity = if passed {
                Severity::Info
            } else {
                Severity::Warning
            };
            (
                "self_check_result",
                severity,
                json!({"success": passed, "detail": detail}),
            )
        }
        Fact::CheckingStarted => ("checking_started", Severity::Info, json!({})),
        Fact::Aggregated(judgement) => {
            ("aggregated", Severity::Info, judgement_payload(&judgement))
        }
        Fact::LeaseExpired { silent } => (
            "lease_expired",
            Severity::Warning,
            json!({"silent": silent}),
        ),
        Fact::Requeued { why } => ("requeued", Severity::Warning, json!({"reason": why})),
        Fact::Failed { why } => ("failed", Severity::Warning, json!({"reason": why})),
        Fact::Cancelled => ("cancelled", Severity::Info, json!({})),
        Fact::Deleted => ("deleted", Severity::Info, json!({})),
        Fact::Enqueued => (
            "enqueued",
            Severity::Info,
            json!({"attempt_number": head.attempt.0}),
        ),
    }
}
