//! Runs checks: a slot, a budget, the probe of that kind, the outcome.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_types::Family;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::icmp::{IcmpMode, IcmpSockets};
use crate::limits::{Budget, Limits, LimitsError};
use crate::outcome::{Code, Fault, Outcome, Seen, outcome};
use crate::target::{Kind, Target};
use crate::trust::Trust;
use crate::{http, icmp, ssh, tcp, tls};

/// What to check, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// How.
    pub kind: Kind,
    /// Whom.
    pub target: Target,
    /// The address of this host to send from; the kernel chooses if there is none.
    pub source: Option<IpAddr>,
    /// The family of the address under test. A target is never reached over the other one.
    pub family: Family,
}

/// Runs checks within limits. Cheap to clone; all clones share slots and ICMP sockets.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    trust: Trust,
    slots: Semaphore,
    icmp: IcmpSockets,
}

/// No engine can be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of range.
    #[error("limits of the checks: {0}")]
    Limits(#[from] LimitsError),
}

impl Engine {
    /// Checks the limits and finds out which ICMP sockets this process may open.
    ///
    /// # Errors
    /// [`EngineError::Limits`] if a limit is out of range.
    pub fn new(limits: Limits, trust: Trust) -> Result<Self, EngineError> {
        limits.validate()?;
        Ok(Self {
            shared: Arc::new(Shared {
                slots: Semaphore::new(limits.max_concurrent),
                icmp: IcmpSockets::new(),
                limits,
                trust,
            }),
        })
    }

    /// Which ICMP sockets this process may open, found out by opening one: for the log at start.
    #[must_use]
    pub fn icmp_mode(&self) -> IcmpMode {
        self.shared.icmp.mode()
    }

    /// Says in the log which ICMP sockets this process may open; aloud, with the remedy, if none.
    pub fn log_icmp_mode(&self) {
        match self.icmp_mode() {
            mode @ IcmpMode::None { .. } => {
                tracing::warn!(icmp = %mode, "ICMP checks cannot be carried out");
            }
            mode @ (IcmpMode::Datagram | IcmpMode::Raw) => {
                tracing::info!(icmp = %mode, "ICMP checks can be carried out");
            }
        }
    }

    /// Runs one check. What the network does is an [`Outcome`], never an error. Dropping the
    /// future closes its sockets.
    pub async fn run(&self, check: &Check) -> Outcome {
        let asked = Instant::now();
        let Ok(_slot) = self.shared.slots.acquire().await else {
            // The semaphore lives as long as this engine and is never closed.
            let fault = Fault::new(Code::Internal, "the slots of this process are closed");
            return outcome(Err(fault), Duration::ZERO, asked.elapsed());
        };
        let mut waited = asked.elapsed();
        let budget = Budget::start(self.shared.limits.timeout);
        let result = self.probe(check, &budget, &mut waited).await;
        let duration = asked.elapsed().saturating_sub(waited);
        outcome(result, duration, waited)
    }

    async fn probe(
        &self,
        check: &Check,
        budget: &Budget,
        waited: &mut Duration,
    ) -> Result<Seen, Fault> {
        if check.source.is_some_and(|ip| family_of(ip) != check.family) {
            let facts = "the source address is not of the family under test";
            return Err(Fault::new(Code::SourceUnavailable, facts));
        }
        let trust = &self.shared.trust;
        match check.kind {
            Kind::Icmp => {
                let probe = icmp::probe(&self.shared.icmp, check, budget, waited);
                Box::pin(probe).await
            }
            Kind::Tcp => tcp::probe(check, budget).await,
            Kind::Ssh => Box::pin(ssh::probe(check, budget)).await,
            Kind::Tls => Box::pin(tls::probe(check, trust, budget)).await,
            Kind::Https | Kind::Http => Box::pin(http::probe(check, trust, budget)).await,
        }
    }

    /// The roots that certificates are judged by.
    pub(crate) fn trust(&self) -> &Trust {
        &self.shared.trust
    }
}

/// The family of a plain address.
pub(crate) const fn family_of(ip: IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}
