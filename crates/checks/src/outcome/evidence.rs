//! What a check leaves behind beside its verdict: where it came to, whom it tried, how long each
//! phase took. Bounded; what did not fit is counted.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::Code;
use crate::tap::Tape;

/// Most addresses that are kept.
const TRIED_MAX: usize = 16;
/// Most redirects that are kept.
const HOPS_MAX: usize = 8;

/// How far a check came. In the order in which a check goes through them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing has been sent: waiting, reading the target, opening sockets.
    #[default]
    Prepare,
    /// A name was being resolved.
    Resolve,
    /// A connection was being opened.
    Connect,
    /// TLS was shaking hands.
    Handshake,
    /// Connected (and shaken hands); the peer's answer was being read.
    Exchange,
    /// Packets without a connection were under way: echo requests, datagrams.
    Probe,
}

impl Stage {
    /// The word in texts and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Probe => "probe",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who is to blame that a check did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// What is at the other end.
    Target,
    /// What lies in between.
    Path,
    /// The resolver of this host, or whom it asked.
    Resolver,
    /// This process or this host.
    Ourselves,
}

impl Blame {
    /// The word in texts and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Path => "path",
            Self::Resolver => "resolver",
            Self::Ourselves => "ourselves",
        }
    }

    /// Of `code` that was met in `stage`: a packet without a connection that nobody answers may
    /// have been lost on the way, while a peer that accepted a connection is there.
    #[must_use]
    pub(super) const fn of(code: Code, stage: Stage) -> Self {
        match (code, stage) {
            (Code::TimeoutRead, Stage::Probe) => Self::Path,
            _ => code.usual_blame(),
        }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long the phases took, as far as the check came; of the last connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// The resolver's answer; `None` for a target that is an address.
    pub resolve: Option<Duration>,
    /// From SYN to SYN-ACK.
    pub connect: Option<Duration>,
    /// TLS.
    pub handshake: Option<Duration>,
    /// From the request, or from the connection where the server speaks first, to the first byte.
    pub first_byte: Option<Duration>,
}

/// One address, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The address; port 0 where the check has none.
    pub address: SocketAddr,
    /// `None`: it answered.
    pub code: Option<Code>,
    /// Until it was known.
    pub took: Duration,
}

/// One redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The status that redirected.
    pub status: u16,
    /// From where, printable, at most 200 bytes.
    pub url: String,
    /// Who answered.
    pub address: SocketAddr,
}

/// What was seen on the way to the verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Addresses in the order in which they were tried, at most 16.
    pub tried: Vec<Tried>,
    /// Redirects, at most 8.
    pub hops: Vec<Hop>,
    /// Entries of both lists that did not fit.
    pub omitted: usize,
    /// Timings.
    pub phases: Phases,
    /// Bytes that went out on the last connection, below TLS.
    pub bytes_sent: u64,
    /// Bytes that came in on the last connection, below TLS.
    pub bytes_received: u64,
    /// The first of the bytes that came in, at most 256.
    pub head: Vec<u8>,
}

/// What a probe writes down while it runs.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// How far it came.
    pub(crate) stage: Stage,
    /// Time spent waiting for something of this process; takes nothing from the budget.
    pub(crate) waited: Duration,
    /// The rest.
    pub(crate) evidence: Evidence,
    /// What went over the last connection.
    tape: Tape,
}

impl Trail {
    /// An address was tried.
    pub(crate) fn tried(&mut self, address: SocketAddr, code: Option<Code>, took: Duration) {
        let entry = Tried {
            address,
            code,
            took,
        };
        push(
            &mut self.evidence.tried,
            entry,
            TRIED_MAX,
            &mut self.evidence.omitted,
        );
    }

    /// A new connection keeps its own account, in place of the last one's.
    pub(crate) fn new_tape(&mut self) -> Tape {
        self.tape = Tape::default();
        self.tape.clone()
    }

    /// All that was seen.
    pub(crate) fn into_evidence(self) -> Evidence {
        let account = self.tape.account();
        Evidence {
            bytes_sent: account.sent,
            bytes_received: account.received,
            head: account.head,
            ..self.evidence
        }
    }

    /// A redirect was met.
    pub(crate) fn hop(&mut self, hop: Hop) {
        push(
            &mut self.evidence.hops,
            hop,
            HOPS_MAX,
            &mut self.evidence.omitted,
        );
    }

    /// The timings, to be filled in.
    pub(crate) const fn phases(&mut self) -> &mut Phases {
        &mut self.evidence.phases
    }
}

fn push<T>(list: &mut Vec<T>, entry: T, max: usize, omitted: &mut usize) {
    if list.len() < max {
        list.push(entry);
    } else {
        *omitted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Blame, Code, Duration, Stage, TRIED_MAX, Trail};

    #[test]
    fn lists_are_bounded_and_say_so() {
        let mut trail = Trail::default();
        let address = "192.0.2.1:22".parse().unwrap();
        for _ in 0..TRIED_MAX + 3 {
            trail.tried(address, Some(Code::Refused), Duration::ZERO);
        }
        assert_eq!(trail.evidence.tried.len(), TRIED_MAX);
        assert_eq!(trail.evidence.omitted, 3);
    }

    #[test]
    fn silence_is_the_paths_fault_until_somebody_has_answered() {
        assert_eq!(Blame::of(Code::TimeoutRead, Stage::Probe), Blame::Path);
        assert_eq!(Blame::of(Code::TimeoutRead, Stage::Exchange), Blame::Target);
        assert_eq!(Blame::of(Code::TimeoutConnect, Stage::Connect), Blame::Path);
    }
}
