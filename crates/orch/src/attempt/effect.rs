//! What a decision asks for, as values.

use civ_types::{ClaimNo, ValidatorId};

use super::lease::{Lease, Place};
use crate::expected::Judgement;

/// Something to be done because of a step.
///
/// Three families with three executors: the cloud (from the outbox, at least once, each safe to
/// repeat), the database (in the same transaction), hints (after the commit, may be lost).
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Cloud: associate; refuse what is not free; answer with a report of `claim`.
    Associate {
        /// The claim to answer to.
        claim: ClaimNo,
        /// The validator and its port.
        place: Place,
    },
    /// Cloud: disassociate, only if still on our port; then the lease row goes.
    Release(Lease),
    /// Database: the lease row goes at once.
    Forget(Lease),
    /// Database: append to the history.
    Record(Fact),
    /// Database: this validator claims nothing until its next report.
    Silence(ValidatorId),
    /// Database: the validator's port is not well; it claims nothing for a while, and says why.
    PausePort {
        /// Whose port.
        validator: ValidatorId,
        /// What the cloud said.
        why: String,
    },
    /// Hint: this validator's assignment has changed.
    WakeValidator(ValidatorId),
    /// Hint: the list of addresses in `checking` has changed.
    WakeSites,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Taken by a validator.
    Claimed(Place),
    /// On our port. `adopted`: it already was, from a call whose answer was lost.
    FipAssociated,
    /// Refused, since somebody else has it.
    FipOccupied {
        /// What the cloud showed.
        seen: String,
    },
    /// Somebody else was there between our read and our write.
    FipConflict {
        /// What the cloud showed.
        seen: String,
    },
    /// The agent has judged.
    SelfCheck {
        /// Did traffic leave through the address?
        passed: bool,
        /// What the agent said.
        detail: String,
    },
    /// The checks may begin.
    CheckingStarted,
    /// Judged.
    Aggregated(Judgement),
    /// The lease ended before the self-check had passed.
    LeaseExpired {
        /// Not a single report of the agent was seen.
        silent: bool,
    },
    /// Back into the queue, behind those who wait.
    Requeued {
        /// Why.
        why: String,
    },
    /// Ended without a verdict of checks.
    Failed {
        /// Why.
        why: String,
    },
    /// Broken off by an operator.
    Cancelled,
    /// Taken out of the queue by an operator.
    Deleted,
    /// Put into the queue by an operator.
    Enqueued,
}
