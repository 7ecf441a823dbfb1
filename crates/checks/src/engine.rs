//! Runs checks: a slot, a budget, the probe of that kind, the outcome.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use civ_types::Family;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use crate::icmp::{IcmpEngine, IcmpMode};
use crate::limits::{Budget, Limits, LimitsError};
use crate::net::Reach;
use crate::options::Options;
use crate::outcome::{Code, Fault, Outcome, Seen, Trail, Verdict, millis, outcome};
use crate::policy::Policy;
use crate::sweep::{self, Sweep, Swept};
use crate::target::{Kind, Target};
use crate::trust::Trust;
use crate::turns::Turns;
use crate::{dns, http, icmp, ssh, tcp, tls};

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
    /// What else is wanted of this kind of check.
    pub options: Options,
}

/// A slot of this process, and a turn at an SSH server.
type Places<'a> = (SemaphorePermit<'a>, Option<OwnedSemaphorePermit>);

/// Before the second try: long enough for a server that was overloaded, or for descriptors to
/// become free.
const PAUSE: Duration = Duration::from_millis(500);
/// Less time than that decides nothing.
const LEFT_MIN: Duration = Duration::from_millis(100);
/// Longest wait for a slot: half of the usual window of an address. What comes later is no use.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Most checks that wait: one each for 256 validators with 256 targets.
const WAITING_MAX: usize = 65_536;
/// Checks of one SSH server at a time: sshd begins to refuse at 10 open log-ins of all its clients.
const SSH_AT_ONCE: usize = 2;
/// How late this process may come to its own timers before silence proves nothing.
const LAG_MAX: Duration = Duration::from_millis(500);
/// How often that is looked at.
const LAG_EVERY: Duration = Duration::from_millis(250);

/// Counts itself among those that wait, until dropped.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn join(count: &'a AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work`; also says by how much this process was late to a timer at worst meanwhile.
async fn with_lag<T>(work: impl Future<Output = T>) -> (T, Duration) {
    tokio::pin!(work);
    let mut worst = Duration::ZERO;
    loop {
        let due = Instant::now() + LAG_EVERY;
        tokio::select! {
            biased;
            done = &mut work => {
                // The timer that ended the work was late, too, if this one is overdue.
                return (done, worst.max(due.elapsed()));
            }
            () = tokio::time::sleep_until(due) => worst = worst.max(due.elapsed()),
        }
    }
}

/// Nobody answered: the only kind of failure that a process which is late can make up.
const fn is_silence(code: Code) -> bool {
    matches!(
        code,
        Code::TimeoutConnect | Code::TimeoutRead | Code::DnsFailed
    )
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
    policy: Policy,
    slots: Semaphore,
    /// Checks that wait for a slot.
    waiting: AtomicUsize,
    /// SSH servers count open log-ins, so each is asked by few at a time.
    ssh: Turns,
    icmp: IcmpEngine,
}

/// No engine can be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of range.
    #[error("limits of the checks: {0}")]
    Limits(#[from] LimitsError),
}

/// A sweep could not be carried out, for a reason of this process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {facts}")]
pub struct SweepError {
    /// Why.
    pub code: Code,
    /// What was seen, and what to do about it.
    pub facts: String,
}

impl SweepError {
    fn new(fault: &Fault) -> Self {
        Self {
            code: fault.code,
            facts: fault.facts.clone(),
        }
    }
}

impl Engine {
    /// Checks the limits and finds out which ICMP sockets this process may open.
    ///
    /// # Errors
    /// [`EngineError::Limits`] if a limit is out of range.
    pub fn new(limits: Limits, trust: Trust, policy: Policy) -> Result<Self, EngineError> {
        limits.validate()?;
        Ok(Self {
            shared: Arc::new(Shared {
                slots: Semaphore::new(limits.max_concurrent),
                waiting: AtomicUsize::new(0),
                ssh: Turns::new(SSH_AT_ONCE),
                icmp: IcmpEngine::new(limits.icmp_packets_per_second),
                limits,
                trust,
                policy,
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
        self.run_within(check, self.shared.limits.timeout).await
    }

    /// Runs one check; if it could not be carried out for a reason that may pass, once more after
    /// half a second, within what is left of its time.
    pub async fn run_settled(&self, check: &Check) -> Outcome {
        let first = self.run(check).await;
        let total = self.shared.limits.timeout;
        let left = total.saturating_sub(first.duration).saturating_sub(PAUSE);
        let may_pass = matches!(
            first.verdict,
            Verdict::Inconclusive(
                Code::ServerBusy | Code::SourceUnavailable | Code::Overloaded | Code::Internal
            )
        );
        if !may_pass || left < LEFT_MIN {
            return first;
        }
        sleep(PAUSE).await;
        let second = self.run_within(check, left).await;
        // A second try with less time must not turn a doubt into a failure by silence.
        match second.verdict {
            Verdict::Failed(Code::TimeoutConnect | Code::TimeoutRead) if left < total / 2 => first,
            _ => second,
        }
    }

    async fn run_within(&self, check: &Check, total: Duration) -> Outcome {
        let asked = Instant::now();
        let mut trail = Trail::default();
        let admitted = self.admit(check).await;
        trail.waited = asked.elapsed();
        let _places = match admitted {
            Ok(places) => places,
            Err(fault) => return outcome(Err(fault), Duration::ZERO, trail),
        };
        // Time begins here: waiting is our business and makes no failure.
        let budget = Budget::start(total);
        let (mut result, lag) = with_lag(self.probe(check, &budget, &mut trail)).await;
        if let Err(fault) = &mut result
            && lag > LAG_MAX.min(total / 2)
            && is_silence(fault.code)
        {
            // We were not there to hear the answer.
            let (late, seen) = (millis(lag), &fault.facts);
            let facts = format!("this process came {late} late: {} {seen}", fault.code);
            *fault = Fault::new(Code::Overloaded, facts);
        }
        let duration = asked.elapsed().saturating_sub(trail.waited);
        outcome(result, duration, trail)
    }

    /// A place for one check, or a word that this process has too much to do.
    async fn admit(&self, check: &Check) -> Result<Places<'_>, Fault> {
        if let Ok(slot) = self.shared.slots.try_acquire()
            && check.kind != Kind::Ssh
        {
            return Ok((slot, None));
        }
        let waiting = Waiting::join(&self.shared.waiting);
        if waiting.before >= WAITING_MAX {
            return Err(self.overloaded(waiting.before, "nothing more is taken on"));
        }
        let places = async {
            let turn = match check.kind {
                Kind::Ssh => Some(self.shared.ssh.take(&check.target.to_string()).await),
                _ => None,
            };
            (self.shared.slots.acquire().await, turn)
        };
        match timeout(WAIT_MAX, places).await {
            Ok((Ok(slot), turn)) => Ok((slot, turn.flatten())),
            // The semaphore lives as long as this engine and is never closed.
            Ok((Err(_closed), _)) => Err(Fault::new(Code::Internal, "the slots are closed")),
            Err(_elapsed) => Err(self.overloaded(waiting.before, "no slot became free in time")),
        }
    }

    fn overloaded(&self, waiting: usize, what: &str) -> Fault {
        let slots = self.shared.limits.max_concurrent;
        let facts = format!("{what}: {waiting} checks wait for one of {slots} slots; deferred");
        tracing::warn!(waiting, slots, "overloaded: {what}; a check is deferred");
        Fault::new(Code::Overloaded, facts)
    }

    async fn probe(
        &self,
        check: &Check,
        budget: &Budget,
        trail: &mut Trail,
    ) -> Result<Seen, Fault> {
        if check.source.is_some_and(|ip| family_of(ip) != check.family) {
            let facts = "the source address is not of the family under test";
            return Err(Fault::new(Code::SourceUnavailable, facts));
        }
        let trust = &self.shared.trust;
        let reach = Reach {
            source: check.source,
            family: check.family,
            policy: &self.shared.policy,
        };
        let target = &check.target;
        match check.kind {
            Kind::Icmp => {
                let probe = icmp::probe(&self.shared.icmp, target, reach, budget, trail);
                Box::pin(probe).await
            }
            Kind::Tcp => tcp::probe(target, reach, budget, trail).await,
            Kind::Closed => tcp::probe_closed(target, reach, budget, trail).await,
            Kind::Dns => Box::pin(dns::probe(target, reach, budget, trail)).await,
            Kind::Ssh => {
                let hostkey = check.options.ssh_hostkey;
                Box::pin(ssh::probe(target, reach, hostkey, budget, trail)).await
            }
            Kind::Tls => Box::pin(tls::probe(target, reach, trust, budget, trail)).await,
            Kind::Https | Kind::Http => {
                Box::pin(http::probe(check, reach, trust, budget, trail)).await
            }
        }
    }

    /// Sends echoes to many addresses, within one slot. What the network does is in the rows.
    ///
    /// # Errors
    /// [`SweepError`] says what keeps this process from it: no ICMP socket, or not that source.
    pub async fn sweep(&self, sweep: &Sweep) -> Result<Vec<Swept>, SweepError> {
        let closed = || Fault::new(Code::Internal, "the slots of this process are closed");
        let slot = self.shared.slots.acquire().await;
        let _slot = slot.map_err(|_closed| SweepError::new(&closed()))?;
        sweep::sweep(&self.shared.icmp, &self.shared.policy, sweep)
            .await
            .map_err(|fault| SweepError::new(&fault))
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

#[cfg(test)]
mod tests {
    use super::{Check, Code, Duration, Engine, Family, Instant, Kind, Limits, Options, Policy};
    use super::{Target, Trust, Verdict, with_lag};

    fn one_slot() -> Engine {
        let names = ["ours.test".to_owned()];
        let cert = rcgen::generate_simple_self_signed(names).unwrap().cert;
        let trust = Trust::of(vec![cert.der().clone()]).unwrap();
        let limits = Limits {
            max_concurrent: 1,
            ..Limits::default()
        };
        Engine::new(limits, trust, Policy::anywhere()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_is_deferred_and_no_failure() {
        let engine = one_slot();
        let _held = engine.shared.slots.acquire().await.unwrap();
        for kind in [Kind::Tcp, Kind::Ssh] {
            let begin = Instant::now();
            let outcome = engine
                .run(&Check {
                    kind,
                    target: Target::parse(kind, "127.0.0.1:9").unwrap(),
                    source: None,
                    family: Family::V4,
                    options: Options::default(),
                })
                .await;
            assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::Overloaded));
            assert!(outcome.detail.contains("deferred"), "{}", outcome.detail);
            assert_eq!(outcome.duration, Duration::ZERO);
            assert!(outcome.waited <= begin.elapsed() && outcome.waited.as_secs() == 60);
        }
        assert_eq!(engine.shared.waiting.load(super::Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_late_to_its_timers_knows() {
        let standing_still = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            tokio::time::advance(Duration::from_secs(2)).await;
        };
        let ((), lag) = with_lag(standing_still).await;
        assert!(lag >= Duration::from_millis(1500), "{lag:?}");
        let ((), lag) = with_lag(tokio::time::sleep(Duration::from_secs(5))).await;
        assert!(lag < Duration::from_millis(100), "{lag:?}");
    }
}
