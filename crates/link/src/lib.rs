//! What validator-agent and prober share: the link to control-api.
//!
//! A [`Client`] speaks HTTP; a [`Seat`] is one registered identity (a validator or a site) that
//! registers, shows signs of life and knows what it is assigned to; [`Seat::work`] runs one piece
//! of work on a claim and delivers its reports in order until they are acknowledged, or until the
//! claim is over. Nothing here knows how a check is carried out, and nothing spawns a task: every
//! loop is a future that its caller drives and may drop.
#![warn(missing_docs)]

mod backoff;
mod client;
mod courier;
mod error;
mod heartbeat;
mod hostname;
mod poll;
mod report;
mod seat;
mod side;
mod tls;

pub use backoff::Backoff;
pub use client::{Client, Endpoint};
pub use courier::{Desk, Ended, Report};
pub use error::{ClientError, LinkError};
pub use hostname::hostname;
pub use report::{inconclusive, whole_ms};
pub use seat::Seat;
pub use side::{Agent, Claim, Prober, RowFacts, Side};
