//! Reachability checks over real sockets: ICMP echo, TCP connect, SSH identification, TLS
//! handshake, HTTP(S) request.
//!
//! Owns: sockets, the bytes that go over them, and the judgement of one check. Given a kind, a
//! target, a source address and a time budget it returns a typed [`Outcome`]. Knows nothing of
//! control-api, of configuration files, or of which checks an attempt expects.
//!
//! Nothing is reused between checks: every check opens fresh sockets, resolves afresh and resumes
//! no TLS session, because a connection from before an association keeps its old NAT mapping.
#![warn(missing_docs)]

mod echo;
mod engine;
mod http;
mod icmp;
mod limits;
mod net;
mod outcome;
mod ssh;
mod target;
mod tcp;
mod tls;
mod trust;

pub use civ_types::Family;
pub use echo::EchoError;
pub use engine::{Check, Engine, EngineError};
pub use icmp::IcmpMode;
pub use limits::{Limits, LimitsError};
pub use outcome::{Code, Outcome, Verdict};
pub use target::{Kind, Target, TargetError};
pub use trust::{Trust, TrustError};

/// How this product names itself to the servers it checks: HTTP User-Agent and SSH software.
pub(crate) const PRODUCT: &str = "cloud-ip-validator";
/// Version of this product, as sent along with [`PRODUCT`].
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
