//! A simulated cloud over HTTP: Keystone v3 under `/v3`, Neutron v2.0 under `/v2.0`, a small
//! admin API under `/sim/` ([`admin`]), all on one listener.
//!
//! It holds what a client can see (shapes, statuses, error types, paging, `If-Match`, silent moves
//! of bound addresses, tokens that end) and tells a [`DataPlane`] what to let through. Faults are
//! [`Rule`]s. What it does not know it answers with 501 and remembers. It knows nothing of
//! validators, queues or the product's database.
#![warn(missing_docs)]

pub mod admin;
mod calls;
mod clouds;
mod compute;
mod faults;
mod ids;
mod keystone;
mod neutron;
mod plane;
mod scenario;
mod service;
mod setup;
mod shapes;
mod sim;
mod state;
mod world;

pub use calls::Call;
pub use civ_simkit::{Clock, Distribution, Latency, Moment, Pace, Snapshot};
pub use clouds::clouds_yaml;
pub use faults::{Action, AnswerBody, Match, Rule, WriteKind};
pub use plane::{DataPlane, NoDataPlane, Way};
pub use scenario::Scenario;
pub use setup::{ExternalSetup, FipSetup, OtherProject, PortSetup, Role, Setup, UserSetup};
pub use sim::{Attached, Sim};
