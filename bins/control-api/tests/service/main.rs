//! The contract over real HTTP, against control-api in this process.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test: whatever fails here fails it"
)]

mod access;
mod contract;
mod faults;
mod ground;
mod http;
mod limits;
mod page;
mod polls;
mod queue;
mod restart;
mod soak;
mod walk;
