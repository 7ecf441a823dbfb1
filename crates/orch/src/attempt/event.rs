//! What can happen to an address.

use civ_types::{ClaimNo, CycleId, FipId};

use super::lease::Place;

/// An order means the address as it is now; a report belongs to one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// From the operator, the scheduler or the clock.
    Order(Order),
    /// From the cloud, the agent or the sites, about that claim; of another claim it is refused.
    Report(ClaimNo, Report),
}

/// What the operator, the scheduler and the clock may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Give the address to a validator, under a claim number that was never used.
    Claim {
        /// The new claim.
        claim: ClaimNo,
        /// Who takes it.
        place: Place,
    },
    /// Time has passed.
    Tick,
    /// Break off.
    Cancel,
    /// Check again (or, while waiting, go to the end of the queue).
    Enqueue {
        /// The cycle that begins, if one does.
        cycle: CycleId,
    },
    /// Take out of the queue.
    Delete,
}

/// Whose fault a failed cloud call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// This address's: counted as a retry.
    Address,
    /// The validator's port: the address goes to another validator.
    Port,
    /// The cloud's: nobody's retry.
    Cloud,
}

/// What the cloud, the agent and the sites may say about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The floating IP is on our port.
    Associated {
        /// Which one it is.
        fip: FipId,
    },
    /// It is not free; nothing was written.
    Occupied {
        /// What the cloud showed.
        seen: String,
    },
    /// We wrote, and somebody else was in between.
    Conflict {
        /// Is it on our port now?
        ours: bool,
        /// What the cloud showed.
        seen: String,
    },
    /// The association did not come about.
    CloudFailed {
        /// Whose fault it is.
        kind: FaultKind,
        /// What the cloud said.
        why: String,
    },
    /// The cloud shows it elsewhere, though it should be on our port.
    Detached {
        /// What the cloud showed.
        seen: String,
    },
    /// The agent has judged whether traffic leaves through the address.
    SelfCheck {
        /// It does.
        passed: bool,
        /// What the agent said.
        detail: String,
    },
    /// Results or completions came in, or the expected checks changed; the tally has the news.
    Progress,
    /// The floating IP is no longer on our port.
    Released,
}
