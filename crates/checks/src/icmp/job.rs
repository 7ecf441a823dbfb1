//! What the engine is asked for and what it answers. Plain data.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::meaning::{IcmpError, Refusal};

/// Echoes to a list of addresses, all of one family: each gets `count`, one a round.
#[derive(Debug, Clone)]
pub(crate) struct Echoes {
    /// Whom.
    pub(crate) targets: Vec<IpAddr>,
    /// How many to each.
    pub(crate) count: u16,
    /// Least time between two to the same address.
    pub(crate) interval: Duration,
    /// How long each reply is waited for.
    pub(crate) wait: Duration,
    /// Data bytes, the nonce included.
    pub(crate) data: usize,
    /// Hop limit, if not the system's.
    pub(crate) ttl: Option<u8>,
}

impl Echoes {
    /// How many in all.
    pub(super) fn total(&self) -> usize {
        self.targets.len() * usize::from(self.count)
    }
}

/// What became of one echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its reply came, after that long by the kernel's clock.
    Reply(Duration),
    /// An ICMP error about it came.
    Error(IcmpError, Duration),
    /// Nothing came.
    Silent,
    /// Nothing came, but meanwhile our own full buffer threw packets away: it may have been one.
    Undecided,
    /// It never left this host.
    NotSent(Refusal),
}

/// What became of all.
#[derive(Debug)]
pub(crate) struct Answers {
    /// All to the first address in the order of sending, then all to the second, and so on.
    pub(crate) all: Vec<Answer>,
    /// From asking to the first echo: waiting for others of this process.
    pub(crate) waited: Duration,
    /// The socket is a raw one.
    pub(crate) raw: bool,
}

/// Echoes on their way to a driver.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) echoes: Echoes,
    /// Identifier of its requests on a raw socket.
    pub(super) id: u16,
    pub(super) asked: Instant,
    pub(super) answers: oneshot::Sender<Answers>,
}
