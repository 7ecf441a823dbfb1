//! Decisions: what happens to an address, which validator takes which, what counts, what is
//! repaired.
//!
//! Pure: state and input go in, the next state and a list of effects come out. There is no clock,
//! no I/O, no random number and no hash order in here; whoever calls brings the time, the timers
//! and what was reported, stores the outcome and carries out the effects.
#![warn(missing_docs)]

pub mod attempt;
pub mod backoff;
pub mod cycle;
pub mod delivery;
pub mod expected;
pub mod plan;
pub mod presence;
pub mod reconcile;
pub mod scan;
pub mod self_check;
