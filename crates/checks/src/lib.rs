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

pub mod by_hand;
mod dns;
mod echo;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http;
mod icmp;
mod limits;
mod net;
mod options;
mod outcome;
mod policy;
mod show;
mod ssh;
mod sweep;
mod tap;
mod target;
mod tcp;
mod tls;
mod trust;
mod turns;

pub use civ_types::Family;
pub use dns::QuestionError;
pub use echo::EchoError;
pub use engine::{Check, Engine, EngineError, SweepError};
pub use http::Signature;
pub use icmp::IcmpMode;
pub use limits::{Limits, LimitsError};
pub use options::{Options, OptionsError, Pattern};
pub use outcome::{Blame, Code, Evidence, Hop, Outcome, Phases, Stage, Tried, Verdict};
pub use policy::{Denied, Policy};
pub use sweep::{Sweep, Swept};
pub use target::{Kind, Target, TargetError};
pub use trust::{Trust, TrustError};

/// How this product names itself to the servers it checks: HTTP User-Agent and SSH software.
pub(crate) const PRODUCT: &str = "cloud-ip-validator";
/// Version of this product, as sent along with [`PRODUCT`].
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
