//! The contract over real HTTP, against control-api in this process.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test: whatever fails here fails it"
)]

mod access;
mod audit;
mod bounds;
mod bulk;
mod config_api;
mod config_midway;
mod config_walk;
mod contract;
mod faults;
mod ground;
mod http;
mod identity;
mod limits;
mod matrix;
mod metrics;
mod page;
mod polls;
mod queue;
mod registry;
mod reports;
mod restart;
mod smuggling;
mod soak;
mod strict;
mod timing;
mod tls;
mod walk;
