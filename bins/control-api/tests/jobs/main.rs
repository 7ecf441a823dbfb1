//! The long jobs of control-api over HTTP: the scan and the auto-cycle, on a cloud in memory and on
//! the simulated one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod auto_cycle;
mod place;
mod readiness;
mod scan;
