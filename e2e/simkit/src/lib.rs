//! What any simulated cloud is made of: the HTTP shell, the virtual clock, fault rules that count
//! and roll seeded dice, latencies, the audit of calls, what is due later, snapshots, SQLite.
//!
//! It knows no cloud: no path, no shape of an error, no resource. A simulation brings those and
//! says what a call means; the pieces here make it repeatable and let its state be kept.
#![warn(missing_docs)]

mod agenda;
mod audit;
mod clock;
mod dice;
mod latency;
mod reply;
mod shell;
mod snapshot;
mod store;
mod wire;

pub use agenda::Agenda;
pub use audit::Audit;
pub use clock::{Clock, Moment, Pace};
pub use dice::{Counter, Dice, Gate};
pub use latency::{Distribution, Latency, sample};
pub use reply::{Asked, Reply};
pub use shell::{Service, Shell, serve};
pub use snapshot::{SCHEMA_VERSION, Snapshot};
pub use store::{Row, Store};
pub use wire::{Ending, WireFault};
