//! The eight states and the edges between them. An edge is a function that consumes its state.

use civ_types::{Address, AttemptNo, ClaimNo, CycleId, FipId, IpId, Utc, ValidatorId};

use super::effect::{Effect, Fact};
use super::event::FaultKind;
use super::lease::{Lease, Place};
use super::row::{Cause, StateName};
use super::step::{Step, to};
use super::{Ctx, SILENT_LEASES_MAX};
use crate::expected::{Judgement, Verdict};

/// Retries used up so far in this attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    /// Address-specific cloud errors.
    pub assign: u32,
    /// Failed self-checks and expired leases.
    pub self_check: u32,
    /// Silent leases in a row; not a retry until [`SILENT_LEASES_MAX`].
    pub silent: u32,
}

/// When things happened in the current claim; cleared by a requeue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The claim.
    pub assigned: Option<Utc>,
    /// The association was confirmed.
    pub associated: Option<Utc>,
    /// The self-check had passed.
    pub checking: Option<Utc>,
    /// The verdict was made.
    pub aggregated: Option<Utc>,
    /// The release was confirmed.
    pub released: Option<Utc>,
}

/// What every state knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Names the address in the protocol.
    pub ip: IpId,
    /// The address.
    pub address: Address,
    /// From 1; raised by an operator's enqueueing.
    pub attempt: AttemptNo,
    /// The enqueueing that this attempt belongs to.
    pub cycle: CycleId,
    /// The last claim; 0 before the first.
    pub claim: ClaimNo,
    /// Place in the queue.
    pub sequence: i64,
    /// Used up so far.
    pub retries: Retries,
    /// The validator to pass over if another is free.
    pub avoid: Option<ValidatorId>,
    /// Who holds, or held last, in this attempt.
    pub place: Option<Place>,
    /// When things happened.
    pub stamps: Stamps,
    /// What went wrong last; empty if nothing did.
    pub last_error: String,
}

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, PartialEq, Eq)]
            pub struct $name {
                pub(super) head: Head,
                $(pub(super) $field: $type),*
            }

            impl From<$name> for Attempt {
                fn from(state: $name) -> Self {
                    Self::$name(state)
                }
            }
        )*

        /// An address in one of its eight states.
        #[derive(Debug, PartialEq, Eq)]
        #[must_use]
        pub enum Attempt {
            $($(#[$doc])* $name($name),)*
        }

        impl Attempt {
            /// What every state knows.
            #[must_use]
            pub const fn head(&self) -> &Head {
                match self {
                    $(Self::$name(state) => &state.head,)*
                }
            }

            /// Which state it is.
            #[must_use]
            pub const fn name(&self) -> StateName {
                match self {
                    $(Self::$name(_) => StateName::$name,)*
                }
            }
        }
    };
}

states! {
    /// Waiting for a validator.
    Queued {}
    /// Claimed; the outcome in the cloud is unknown until it is reported.
    AssigningFip { lease: Lease, answer_due: Utc }
    /// On our port; the agent is to prove that its traffic leaves through it.
    AwaitingSelfCheck { lease: Lease, associated_at: Utc, lease_ends: Utc }
    /// The self-check has passed; agent and sites check.
    Checking { lease: Lease, window_ends: Utc }
    /// Judged; the lease is on its way back.
    Aggregating { verdict: Verdict, grace_ends: Utc }
    /// Ended with a verdict.
    Done { verdict: Verdict }
    /// Ended without one of checks: cancelled, or the retries are used up.
    Failed { cause: Cause }
    /// Somebody else has it.
    Occupied {}
}

impl Attempt {
    /// The lease, in the states that hold one.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        match self {
            Self::AssigningFip(state) => Some(&state.lease),
            Self::AwaitingSelfCheck(state) => Some(&state.lease),
            Self::Checking(state) => Some(&state.lease),
            Self::Queued(_)
            | Self::Aggregating(_)
            | Self::Done(_)
            | Self::Failed(_)
            | Self::Occupied(_) => None,
        }
    }
}

impl Queued {
    pub(super) fn claim(
        mut self,
        claim: ClaimNo,
        place: &Place,
        ctx: &Ctx<'_>,
    ) -> (AssigningFip, [Effect; 2]) {
        self.head.claim = claim;
        self.head.avoid = None;
        self.head.place = Some(place.clone());
        self.head.stamps = Stamps {
            assigned: Some(ctx.now),
            ..Stamps::default()
        };
        let lease = Lease::new(claim, place.clone());
        let answer_due = ctx.now.plus_secs(ctx.policy.answer_secs);
        let effects = [
            Effect::Record(Fact::Claimed(place.clone())),
            Effect::Associate {
                claim,
                place: place.clone(),
            },
        ];
        (
            AssigningFip {
                head: self.head,
                lease,
                answer_due,
            },
            effects,
        )
    }

    pub(super) const fn move_to_end(mut self, ctx: &Ctx<'_>) -> Self {
        self.head.sequence = ctx.queue_end;
        self
    }
}

impl AssigningFip {
    pub(super) fn associated(self, fip: &FipId, ctx: &Ctx<'_>) -> (AwaitingSelfCheck, [Effect; 2]) {
        let Self {
            mut head,
            mut lease,
            ..
        } = self;
        lease.learn(fip);
        head.place = Some(lease.place().clone());
        head.stamps.associated = Some(ctx.now);
        let wake = Effect::WakeValidator(lease.place().validator.clone());
        let lease_ends = ctx.now.plus_secs(ctx.policy.lease_secs);
        let next = AwaitingSelfCheck {
            head,
            lease,
            associated_at: ctx.now,
            lease_ends,
        };
        (next, [Effect::Record(Fact::FipAssociated), wake])
    }

    pub(super) fn occupied(self, seen: &str) -> (Occupied, [Effect; 2]) {
        let Self {
            mut head, lease, ..
        } = self;
        seen.clone_into(&mut head.last_error);
        let fact = Fact::FipOccupied {
            seen: seen.to_owned(),
        };
        (Occupied { head }, [lease.forget(), Effect::Record(fact)])
    }

    pub(super) fn conflict(self, ours: bool, seen: &str) -> (Occupied, [Effect; 2]) {
        let Self {
            mut head, lease, ..
        } = self;
        seen.clone_into(&mut head.last_error);
        let end = if ours {
            lease.release()
        } else {
            lease.forget()
        };
        let fact = Fact::FipConflict {
            seen: seen.to_owned(),
        };
        (Occupied { head }, [end, Effect::Record(fact)])
    }

    pub(super) fn failed(self, kind: FaultKind, why: &str, ctx: &Ctx<'_>) -> Step {
        let Self {
            mut head, lease, ..
        } = self;
        match kind {
            FaultKind::Cloud if civ_planted::is!(CloudFaultIsRetry) => {
                retry_assign(head, lease, why, ctx)
            }
            FaultKind::Port if civ_planted::is!(PortFaultIsRetry) => {
                retry_assign(head, lease, why, ctx)
            }
            FaultKind::Cloud => requeue(head, lease, why, ctx),
            FaultKind::Port => {
                let validator = lease.place().validator.clone();
                head.avoid = Some(validator.clone());
                let mut step = requeue(head, lease, why, ctx);
                step.effects.push(Effect::PausePort {
                    validator,
                    why: why.to_owned(),
                });
                step
            }
            FaultKind::Address => retry_assign(head, lease, why, ctx),
        }
    }
}

impl AwaitingSelfCheck {
    pub(super) fn passed(mut self, detail: &str, ctx: &Ctx<'_>) -> (Checking, [Effect; 4]) {
        self.head.retries.silent = 0;
        self.head.stamps.checking = Some(ctx.now);
        let validator = self.lease.place().validator.clone();
        let window_ends = ctx.now.plus_secs(ctx.policy.window_secs);
        let next = Checking {
            head: self.head,
            lease: self.lease,
            window_ends,
        };
        let effects = [
            Effect::Record(Fact::SelfCheck {
                passed: true,
                detail: detail.to_owned(),
            }),
            Effect::Record(Fact::CheckingStarted),
            Effect::WakeValidator(validator),
            Effect::WakeSites,
        ];
        (next, effects)
    }

    pub(super) fn not_passed(mut self, detail: &str, ctx: &Ctx<'_>) -> Step {
        self.head.retries.silent = 0;
        let fact = Fact::SelfCheck {
            passed: false,
            detail: detail.to_owned(),
        };
        let why = format!("self-check failed: {detail}");
        retry_self_check(self.head, self.lease, &why, ctx).after(fact)
    }

    pub(super) fn expired(self, ctx: &Ctx<'_>) -> Step {
        let Self {
            mut head, lease, ..
        } = self;
        if ctx.heard || civ_planted::is!(SilenceIsRetry) {
            head.retries.silent = 0;
            let why = "the lease ended before the self-check had passed";
            let fact = Fact::LeaseExpired { silent: false };
            return retry_self_check(head, lease, why, ctx).after(fact);
        }
        let validator = lease.place().validator.clone();
        let why = format!("the lease ended without a single report of {validator}");
        head.retries.silent += 1;
        head.avoid = Some(validator.clone());
        let mut step = if head.retries.silent < SILENT_LEASES_MAX {
            requeue(head, lease, &why, ctx)
        } else {
            head.retries.silent = 0;
            retry_self_check(head, lease, &why, ctx)
        };
        step.effects.push(Effect::Silence(validator));
        step.after(Fact::LeaseExpired { silent: true })
    }
}

impl Checking {
    /// Judges and gives the lease back.
    pub(super) fn finish(self, ctx: &Ctx<'_>) -> (Aggregating, [Effect; 4]) {
        let Self {
            mut head, lease, ..
        } = self;
        let judgement: Judgement = ctx.tally.judgement.clone();
        head.stamps.aggregated = Some(ctx.now);
        let verdict = judgement.verdict;
        let validator = lease.place().validator.clone();
        let grace_ends = ctx.now.plus_secs(ctx.policy.release_grace_secs);
        let effects = [
            Effect::Record(Fact::Aggregated(judgement)),
            lease.release(),
            Effect::WakeValidator(validator),
            Effect::WakeSites,
        ];
        (
            Aggregating {
                head,
                verdict,
                grace_ends,
            },
            effects,
        )
    }
}

impl Aggregating {
    pub(super) fn end(self) -> Done {
        Done {
            head: self.head,
            verdict: self.verdict,
        }
    }

    pub(super) const fn released(mut self, ctx: &Ctx<'_>) -> Self {
        self.head.stamps.released = Some(ctx.now);
        self
    }
}

/// What is left of a head for a new attempt, which begins at the end of the queue.
pub(super) fn enqueue_again(
    mut head: Head,
    cycle: CycleId,
    ctx: &Ctx<'_>,
) -> (Queued, [Effect; 1]) {
    head.attempt.0 += 1;
    head.cycle = cycle;
    head.sequence = ctx.queue_end;
    head.retries = Retries::default();
    head.avoid = None;
    head.place = None;
    head.stamps = Stamps::default();
    head.last_error = String::new();
    (Queued { head }, [Effect::Record(Fact::Enqueued)])
}

fn retry_assign(mut head: Head, lease: Lease, why: &str, ctx: &Ctx<'_>) -> Step {
    if ctx.policy.assign_retries_max <= head.retries.assign {
        return give_up(head, Cause::AssignRetries, Some(lease), why, ctx);
    }
    head.retries.assign += 1;
    requeue(head, lease, why, ctx)
}

fn retry_self_check(mut head: Head, lease: Lease, why: &str, ctx: &Ctx<'_>) -> Step {
    if ctx.policy.self_check_retries_max <= head.retries.self_check {
        return give_up(head, Cause::SelfCheckRetries, Some(lease), why, ctx);
    }
    if !civ_planted::is!(RetryNotCounted) {
        head.retries.self_check += 1;
    }
    requeue(head, lease, why, ctx)
}

/// Somewhere else than on our port, though nobody asked for it: a retry, like a failed assignment.
pub(super) fn detached(head: Head, lease: Lease, seen: &str, ctx: &Ctx<'_>) -> Step {
    let validator = lease.place().validator.clone();
    let why = format!("the cloud no longer shows the address on our port: {seen}");
    let mut step = retry_assign(head, lease, &why, ctx);
    step.effects
        .extend([Effect::WakeValidator(validator), Effect::WakeSites]);
    step
}

/// Behind everybody who waits (rule 11).
fn requeue(mut head: Head, lease: Lease, why: &str, ctx: &Ctx<'_>) -> Step {
    if !civ_planted::is!(RequeueKeepsPlace) {
        head.sequence = ctx.queue_end;
    }
    head.place = None;
    head.stamps = Stamps::default();
    why.clone_into(&mut head.last_error);
    let wake = Effect::WakeValidator(lease.place().validator.clone());
    let fact = Fact::Requeued {
        why: why.to_owned(),
    };
    let end = if civ_planted::is!(RequeueForgets) {
        lease.forget()
    } else {
        lease.release()
    };
    to(Queued { head }, [end, Effect::Record(fact), wake])
}

pub(super) fn give_up(
    mut head: Head,
    cause: Cause,
    lease: Option<Lease>,
    why: &str,
    ctx: &Ctx<'_>,
) -> Step {
    why.clone_into(&mut head.last_error);
    head.stamps.aggregated = Some(ctx.now);
    let fact = match cause {
        Cause::Cancelled => Fact::Cancelled,
        Cause::AssignRetries | Cause::SelfCheckRetries => Fact::Failed {
            why: why.to_owned(),
        },
    };
    let mut step = to(Failed { head, cause }, [Effect::Record(fact)]);
    step.effects
        .extend(lease.map(end_lease).into_iter().flatten());
    step
}

/// Gives a lease back and lets everybody who worked on it know.
pub(super) fn end_lease(lease: Lease) -> [Effect; 3] {
    let wake = Effect::WakeValidator(lease.place().validator.clone());
    [lease.release(), wake, Effect::WakeSites]
}
