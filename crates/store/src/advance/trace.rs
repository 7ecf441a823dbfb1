//! Which edges of the machine this thread has taken, and with which effects: counted for runs that
//! must show what they have reached.

use std::cell::RefCell;
use std::collections::BTreeMap;

use civ_orch::attempt::{Attempt, Ctx, Effect, Event, FaultKind, Order, Report, Row, Step};

/// Counts by name. An edge is `event: before > after`, as in the table of edges; an effect is its
/// name.
pub type Counts = BTreeMap<String, u64>;

thread_local! {
    static COUNTS: RefCell<Counts> = const { RefCell::new(Counts::new()) };
}

/// Takes what was counted on this thread since the last call.
#[must_use]
pub fn take() -> Counts {
    COUNTS.with_borrow_mut(std::mem::take)
}

pub(super) fn taken(before: &Row, event: &Event, ctx: &Ctx<'_>, step: &Step) {
    let is_due = before.due_at.is_some_and(|due| due <= ctx.now);
    let after = step.next.as_ref().map(Attempt::name);
    let after = after.map_or("(gone)", |state| state.as_str());
    let edge = format!(
        "{}: {} > {after}",
        name(event, is_due, ctx),
        before.state.as_str()
    );
    COUNTS.with_borrow_mut(|counts| {
        *counts.entry(edge).or_default() += 1;
        for effect in &step.effects {
            let effect = format!("effect {}", effect_name(effect));
            *counts.entry(effect).or_default() += 1;
        }
    });
}

const fn name(event: &Event, is_due: bool, ctx: &Ctx<'_>) -> &'static str {
    match event {
        Event::Order(Order::Claim { .. }) => "claim",
        Event::Order(Order::Tick) if is_due && !ctx.heard => "tick (due, silent)",
        Event::Order(Order::Tick) if is_due => "tick (due)",
        Event::Order(Order::Tick) => "tick",
        Event::Order(Order::Cancel) => "cancel",
        Event::Order(Order::Enqueue { .. }) => "enqueue",
        Event::Order(Order::Delete) => "delete",
        Event::Report(_, Report::Associated { .. }) => "associated",
        Event::Report(_, Report::Occupied { .. }) => "occupied",
        Event::Report(_, Report::Conflict { ours: false, .. }) => "conflict (theirs)",
        Event::Report(_, Report::Conflict { ours: true, .. }) => "conflict (ours)",
        Event::Report(_, Report::CloudFailed { kind, .. }) => match kind {
            FaultKind::Address => "address fault",
            FaultKind::Port => "port fault",
            FaultKind::Cloud => "cloud fault",
        },
        Event::Report(_, Report::Detached { .. }) => "detached",
        Event::Report(_, Report::SelfCheck { passed: true, .. }) => "self-check ok",
        Event::Report(_, Report::SelfCheck { passed: false, .. }) => "self-check bad",
        Event::Report(_, Report::Progress) if ctx.tally.complete => "progress (all in)",
        Event::Report(_, Report::Progress) => "progress",
        Event::Report(_, Report::Released) => "released",
    }
}

const fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Associate { .. } => "associate",
        Effect::Release(_) => "release",
        Effect::Forget(_) => "forget",
        Effect::Record(_) => "record",
        Effect::Silence(_) => "silence",
        Effect::PausePort { .. } => "pause port",
        Effect::WakeValidator(_) => "wake validator",
        Effect::WakeSites => "wake sites",
    }
}
