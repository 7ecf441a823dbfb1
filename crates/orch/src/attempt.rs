//! The machine of one address.
//!
//! One struct per state, edges that consume it, a [`Lease`] that cannot be cloned: an edge that is
//! not written down has no function to take it with. Terminal states have no place for a lease, so
//! ending an attempt forces a decision about it. It knows no cloud, no database, no clock.
#![deny(clippy::wildcard_enum_match_arm)]

mod effect;
mod event;
mod lease;
mod row;
mod state;
mod step;

pub use effect::{Effect, Fact};
pub use event::{Event, FaultKind, Order, Report};
pub use lease::{Lease, Place};
pub use row::{Cause, CorruptRow, Outcome, Row, StateName};
pub use state::{
    Aggregating, AssigningFip, Attempt, AwaitingSelfCheck, Checking, Done, Failed, Head, Occupied,
    Queued, Retries, Stamps,
};
pub use step::{Refused, Step};

use civ_types::Utc;

use crate::expected::Tally;

/// How many silent leases in a row (not a single report of the agent) count as the address's
/// fault: two may be two broken agents, three on (by preference) three validators are not.
pub const SILENT_LEASES_MAX: u32 = 3;

/// The timers and limits that a decision needs, as set now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Seconds from a claim until an association without any answer is given up.
    pub answer_secs: u32,
    /// Seconds from association until the self-check must have passed.
    pub lease_secs: u32,
    /// Seconds from the start of checking until aggregation is forced.
    pub window_secs: u32,
    /// Seconds that `aggregating` waits for the release.
    pub release_grace_secs: u32,
    /// Address-specific cloud errors that are forgiven.
    pub assign_retries_max: u32,
    /// Failed self-checks and expired leases that are forgiven.
    pub self_check_retries_max: u32,
}

/// Everything that a decision may look at besides the state and the event.
#[derive(Debug, Clone, Copy)]
pub struct Ctx<'a> {
    /// The present moment.
    pub now: Utc,
    /// Timers as set now.
    pub policy: &'a Policy,
    /// What was reported of the current claim; only looked at in `checking`.
    pub tally: &'a Tally,
    /// Has the agent reported anything in the current claim?
    pub heard: bool,
    /// A sequence number behind everybody in the queue.
    pub queue_end: i64,
}
