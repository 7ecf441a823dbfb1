//! What every process of this product does in the same way: command line, configuration, secrets,
//! logging, tasks, signals and the exit code.
//!
//! It knows no setting by name but those that agent and prober share, and nothing of HTTP, the
//! database or the cloud.
#![warn(missing_docs)]

pub mod chain;
mod cli;
pub mod config;
pub mod logging;
mod program;
pub mod secrets;
mod signals;
pub mod tasks;

pub use cli::{Asked, Extra, version};
pub use program::{Context, Program, Refused, main};
