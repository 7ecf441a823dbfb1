//! Which event takes which edge: exhaustive, no wildcard.

use civ_types::ClaimNo;

use super::Ctx;
use super::effect::{Effect, Fact};
use super::event::{Event, Order, Report};
use super::lease::Lease;
use super::row::{Cause, StateName};
use super::state::{
    Aggregating, AssigningFip, Attempt, AwaitingSelfCheck, Checking, Done, Failed, Head, Occupied,
    Queued, detached, end_lease, enqueue_again, give_up,
};

/// What a decision leads to. A step that is not stored has not happened.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a step that is not stored has not happened"]
pub struct Step {
    /// The next state; `None` when the address leaves the queue.
    pub next: Option<Attempt>,
    /// What is to be done, in order.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Puts a fact before the effects there are.
    pub(super) fn after(mut self, fact: Fact) -> Self {
        self.effects.insert(0, Effect::Record(fact));
        self
    }
}

/// Why an event changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A report of a claim that is over.
    #[error("the report belongs to claim {got}, the current one is {current}")]
    Stale {
        /// The report's claim.
        got: ClaimNo,
        /// The address's claim.
        current: ClaimNo,
    },
    /// The state has no edge for it.
    #[error("this cannot happen to an address that is {0}")]
    NotNow(StateName),
}

pub(super) fn to<const N: usize>(next: impl Into<Attempt>, effects: [Effect; N]) -> Step {
    Step {
        next: Some(next.into()),
        effects: effects.into(),
    }
}

fn gone(lease: Option<Lease>) -> Step {
    let mut effects = vec![Effect::Record(Fact::Deleted)];
    effects.extend(lease.map(end_lease).into_iter().flatten());
    Step {
        next: None,
        effects,
    }
}

fn cancelled(head: Head, lease: Option<Lease>, ctx: &Ctx<'_>) -> Step {
    let lease = lease.filter(|_| !civ_planted::is!(CancelLeavesLease));
    give_up(
        head,
        Cause::Cancelled,
        lease,
        "cancelled by an operator",
        ctx,
    )
}

impl Attempt {
    /// The next state and the effects of an event.
    ///
    /// # Errors
    /// [`Refused`] for a report of another claim and for what the state has no edge for; the
    /// caller goes on from the stored row, which is unchanged.
    pub fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        if let Event::Report(got, _) = event {
            let current = self.head().claim;
            if *got != current {
                return Err(Refused::Stale { got: *got, current });
            }
        }
        match self {
            Self::Queued(state) => state.step(event, ctx),
            Self::AssigningFip(state) => state.step(event, ctx),
            Self::AwaitingSelfCheck(state) => state.step(event, ctx),
            Self::Checking(state) => state.step(event, ctx),
            Self::Aggregating(state) => state.step(event, ctx),
            Self::Done(state) => state.step(event, ctx),
            Self::Failed(state) => state.step(event, ctx),
            Self::Occupied(state) => state.step(event, ctx),
        }
    }
}

impl Queued {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        Ok(match event {
            Event::Order(Order::Claim { claim, place }) => {
                let (next, effects) = self.claim(*claim, place, ctx);
                to(next, effects)
            }
            Event::Order(Order::Tick) => to(self, []),
            Event::Order(Order::Cancel) => cancelled(self.head, None, ctx),
            Event::Order(Order::Enqueue { .. }) => to(self.move_to_end(ctx), []),
            Event::Order(Order::Delete) => gone(None),
            Event::Report(_, _) => return Err(Refused::NotNow(StateName::Queued)),
        })
    }
}

impl AssigningFip {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        Ok(match event {
            Event::Report(_, Report::Associated { fip }) => {
                let (next, effects) = self.associated(fip, ctx);
                to(next, effects)
            }
            Event::Report(_, Report::Occupied { seen }) => {
                let (next, effects) = self.occupied(seen);
                to(next, effects)
            }
            Event::Report(_, Report::Conflict { ours, seen }) => {
                let (next, effects) = self.conflict(*ours, seen);
                to(next, effects)
            }
            Event::Report(_, Report::CloudFailed { kind, why }) => self.failed(*kind, why, ctx),
            Event::Order(Order::Tick) if self.answer_due <= ctx.now => {
                // The worker's own time limit is shorter, and it always answers: what gets here
                // was never called, behind too many slow calls, which is nobody's retry.
                self.failed(super::FaultKind::Cloud, "no answer to the association", ctx)
            }
            Event::Order(Order::Tick) => to(self, []),
            Event::Order(Order::Cancel) => cancelled(self.head, Some(self.lease), ctx),
            Event::Order(Order::Delete) => gone(Some(self.lease)),
            Event::Order(Order::Claim { .. } | Order::Enqueue { .. })
            | Event::Report(
                _,
                Report::SelfCheck { .. }
                | Report::Detached { .. }
                | Report::Progress
                | Report::Released,
            ) => return Err(Refused::NotNow(StateName::AssigningFip)),
        })
    }
}

impl AwaitingSelfCheck {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        Ok(match event {
            Event::Report(
                _,
                Report::SelfCheck {
                    passed: true,
                    detail,
                },
            ) => {
                let (next, effects) = self.passed(detail, ctx);
                to(next, effects)
            }
            Event::Report(
                _,
                Report::SelfCheck {
                    passed: false,
                    detail,
                },
            ) => self.not_passed(detail, ctx),
            Event::Report(_, Report::Detached { seen }) => {
                detached(self.head, self.lease, seen, ctx)
            }
            // Results may come before the self-check's answer: they are kept, nothing moves.
            Event::Report(_, Report::Progress) => to(self, []),
            Event::Order(Order::Tick) if civ_planted::is!(LeaseForgotten) => to(self, []),
            Event::Order(Order::Tick) if self.lease_ends <= ctx.now => self.expired(ctx),
            Event::Order(Order::Tick) => to(self, []),
            Event::Order(Order::Cancel) => cancelled(self.head, Some(self.lease), ctx),
            Event::Order(Order::Delete) => gone(Some(self.lease)),
            Event::Order(Order::Claim { .. } | Order::Enqueue { .. })
            | Event::Report(
                _,
                Report::Associated { .. }
                | Report::Occupied { .. }
                | Report::Conflict { .. }
                | Report::CloudFailed { .. }
                | Report::Released,
            ) => return Err(Refused::NotNow(StateName::AwaitingSelfCheck)),
        })
    }
}

impl Checking {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        Ok(match event {
            Event::Report(_, Report::Progress) if ctx.tally.complete => {
                let (next, effects) = self.finish(ctx);
                to(next, effects)
            }
            // A repeated report of a self-check that has passed: its first answer was lost.
            Event::Report(_, Report::Progress | Report::SelfCheck { passed: true, .. }) => {
                to(self, [])
            }
            Event::Report(_, Report::Detached { seen }) => {
                detached(self.head, self.lease, seen, ctx)
            }
            Event::Order(Order::Tick) if civ_planted::is!(WindowForgotten) => to(self, []),
            Event::Order(Order::Tick) if self.window_ends <= ctx.now || ctx.tally.complete => {
                let (next, effects) = self.finish(ctx);
                to(next, effects)
            }
            Event::Order(Order::Tick) => to(self, []),
            Event::Order(Order::Cancel) => cancelled(self.head, Some(self.lease), ctx),
            Event::Order(Order::Delete) => gone(Some(self.lease)),
            Event::Order(Order::Claim { .. } | Order::Enqueue { .. })
            | Event::Report(
                _,
                Report::Associated { .. }
                | Report::Occupied { .. }
                | Report::Conflict { .. }
                | Report::CloudFailed { .. }
                | Report::SelfCheck { passed: false, .. }
                | Report::Released,
            ) => return Err(Refused::NotNow(StateName::Checking)),
        })
    }
}

impl Aggregating {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        Ok(match event {
            Event::Report(_, Report::Released) => to(self.released(ctx).end(), []),
            Event::Order(Order::Tick) if civ_planted::is!(GraceForgotten) => to(self, []),
            Event::Order(Order::Tick) if self.grace_ends <= ctx.now => to(self.end(), []),
            Event::Order(Order::Tick) => to(self, []),
            Event::Order(Order::Cancel) => cancelled(self.head, None, ctx),
            Event::Order(Order::Delete) => gone(None),
            Event::Order(Order::Claim { .. } | Order::Enqueue { .. })
            | Event::Report(
                _,
                Report::Associated { .. }
                | Report::Occupied { .. }
                | Report::Conflict { .. }
                | Report::CloudFailed { .. }
                | Report::SelfCheck { .. }
                | Report::Detached { .. }
                | Report::Progress,
            ) => return Err(Refused::NotNow(StateName::Aggregating)),
        })
    }
}

/// The three terminal states move only by the operator.
fn terminal(attempt: Attempt, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
    match event {
        Event::Order(Order::Enqueue { cycle }) => {
            let (next, effects) = enqueue_again(attempt.into_head(), *cycle, ctx);
            Ok(to(next, effects))
        }
        Event::Order(Order::Tick) => Ok(to(attempt, [])),
        Event::Order(Order::Delete) => Ok(gone(None)),
        Event::Order(Order::Claim { .. } | Order::Cancel) | Event::Report(_, _) => {
            Err(Refused::NotNow(attempt.name()))
        }
    }
}

impl Done {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        terminal(self.into(), event, ctx)
    }
}

impl Failed {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        terminal(self.into(), event, ctx)
    }
}

impl Occupied {
    fn step(self, event: &Event, ctx: &Ctx<'_>) -> Result<Step, Refused> {
        terminal(self.into(), event, ctx)
    }
}
