//! One validator: follows what its seat is assigned and carries out what the lifecycle decides.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use civ_checks::Engine;
use civ_link::{Agent, Claim, Desk, Ended, Report, Seat, Side as _};
use civ_proto::EventReport;
use civ_proto::agent::{self, Assignment};
use civ_types::{Address, Clock};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::checking::Checking;
use crate::config;
use crate::lifecycle::{Effect, Event, State};
use crate::self_check::{Found, self_check};

/// How long reports under way may still take at the stop; the process has 5 s in all.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// One validator of this process.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) seat: Seat<Agent>,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bind_address: Option<IpAddr>,
    pub(crate) self_check: config::SelfCheck,
}

/// A piece of work, with its number when it ends.
type Work<'a> = Pin<Box<dyn Future<Output = (u64, Ended)> + Send + 'a>>;

/// The work that counts now.
#[derive(Debug)]
struct Job {
    number: u64,
    over: CancellationToken,
    newest: watch::Sender<Assignment>,
}

/// A slot in action. Work that was dropped stays in `works` until the request that it had under
/// way is answered; only `job` counts.
struct Desktop<'a> {
    slot: &'a Slot,
    stop: &'a CancellationToken,
    state: State,
    jobs: u64,
    job: Option<Job>,
    works: FuturesUnordered<Work<'a>>,
}

impl Slot {
    /// Serves the validator until `stop`.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        tokio::join!(self.seat.run(stop), self.follow(stop));
    }

    async fn follow(&self, stop: &CancellationToken) {
        let mut assigned = self.seat.assigned();
        let works = FuturesUnordered::new();
        let mut desktop = Desktop {
            slot: self,
            stop,
            state: State::Idle,
            jobs: 0,
            job: None,
            works,
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = assigned.changed() => {
                    let now = assigned.borrow_and_update().first().cloned();
                    desktop.assigned(now);
                }
                Some((number, ended)) = desktop.works.next() => desktop.ended(number, ended),
            }
        }
        let drained = desktop.works.for_each(|_ended| std::future::ready(()));
        if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
            tracing::warn!(id = self.seat.id(), "left a report under way behind");
        }
    }

    /// The self-check of one claim, reported.
    async fn do_self_check(&self, claim: Claim, assignment: Assignment, desk: Desk<Agent>) {
        desk.event(config_received(claim, &assignment)).await;
        loop {
            let found = self.find_out(&assignment).await;
            let (ip, detail) = (&assignment.ip_address, &found.detail);
            tracing::info!(
                id = self.seat.id(),
                ip,
                success = found.success,
                detail,
                "self-check"
            );
            let success = found.success;
            desk.report(Report::SelfCheck(agent::SelfCheck {
                ip_id: claim.ip_id,
                detected_egress_ip: found.detected.map(|ip| ip.to_string()),
                success,
                detail: Some(found.detail),
                fence: claim.fence,
            }))
            .await;
            if success || claim.fence.is_some() {
                return;
            }
            // Without fences the retry of this address looks like what we have: try again while
            // it is assigned.
            tokio::time::sleep(self.seat.poll_interval()).await;
        }
    }

    async fn find_out(&self, assignment: &Assignment) -> Found {
        let wanted = match Address::parse(&assignment.ip_address) {
            Ok(wanted) => wanted,
            Err(error) => {
                let detail = format!("internal: {error}");
                return Found {
                    success: false,
                    detected: None,
                    detail,
                };
            }
        };
        let echo = |url: url::Url, time: Duration| async move {
            let family = wanted.family();
            self.engine
                .echo(url.as_str(), self.bind_address, family, time)
                .await
        };
        let config = &self.self_check;
        self_check(wanted, &config.ip_echo_urls, config.timeout, echo).await
    }
}

impl Desktop<'_> {
    fn assigned(&mut self, now: Option<Assignment>) {
        match now {
            Some(assignment) => {
                let claim = Agent::claim(&assignment);
                let event = Event::Assigned(claim, assignment.phase);
                self.step(event, Some(&assignment));
            }
            None => self.step(Event::Unassigned, None),
        }
    }

    fn ended(&mut self, number: u64, ended: Ended) {
        if self.job.as_ref().is_some_and(|job| job.number == number) {
            self.job = None;
            self.step(Event::Ended(ended), None);
        }
    }

    fn step(&mut self, event: Event, assignment: Option<&Assignment>) {
        let (next, effects) = self.state.step(event);
        if next != self.state {
            let claim = next.claim().or(self.state.claim());
            tracing::info!(
                id = self.slot.seat.id(),
                ip = assignment.map(|a| a.ip_address.as_str()),
                ip_id = claim.map(|claim| claim.ip_id),
                fence = claim.and_then(|claim| claim.fence),
                from = self.state.name(),
                to = next.name(),
                "phase"
            );
            self.slot.seat.set_local_state(next.word());
        }
        self.state = next;
        for effect in effects {
            self.carry_out(effect, assignment);
        }
    }

    fn carry_out(&mut self, effect: Effect, assignment: Option<&Assignment>) {
        match (effect, assignment) {
            (Effect::DropWork, _) => {
                if let Some(job) = self.job.take() {
                    job.over.cancel();
                }
            }
            (Effect::AskAgain, _) => self.slot.seat.ask_again(),
            (Effect::Renew, Some(assignment)) => {
                if let Some(job) = &self.job {
                    job.newest.send_replace(assignment.clone());
                }
            }
            (Effect::SelfCheck, Some(assignment)) => {
                let (slot, claim) = (self.slot, Agent::claim(assignment));
                let assignment = assignment.clone();
                self.begin(&assignment.clone(), move |desk, _newest| {
                    slot.do_self_check(claim, assignment, desk).boxed()
                });
            }
            (Effect::Check { is_first }, Some(assignment)) => {
                self.begin_checks(assignment, is_first);
            }
            // These effects follow from an assignment only.
            (Effect::Renew | Effect::SelfCheck | Effect::Check { .. }, None) => {}
        }
    }

    fn begin_checks(&mut self, assignment: &Assignment, is_first: bool) {
        let claim = Agent::claim(assignment);
        let checking = Checking {
            engine: self.slot.engine.clone(),
            clock: Arc::clone(&self.slot.clock),
            source: self.slot.bind_address,
            claim,
        };
        let greeting = is_first.then(|| config_received(claim, assignment));
        self.begin(assignment, move |desk, newest| {
            async move {
                if let Some(greeting) = greeting {
                    desk.event(greeting).await;
                }
                checking.run(desk, newest).await;
            }
            .boxed()
        });
    }
}

impl<'a> Desktop<'a> {
    /// Starts the work that counts from now on.
    fn begin<P>(&mut self, assignment: &Assignment, produce: P)
    where
        P: FnOnce(
                Desk<Agent>,
                watch::Receiver<Assignment>,
            ) -> futures_util::future::BoxFuture<'a, ()>
            + Send
            + 'a,
    {
        self.jobs += 1;
        let (number, slot, over) = (self.jobs, self.slot, self.stop.child_token());
        let newest = watch::Sender::new(assignment.clone());
        let reader = newest.subscribe();
        self.job = Some(Job {
            number,
            over: over.clone(),
            newest,
        });
        let work = async move {
            let ended = slot.seat.work(&over, |desk| produce(desk, reader)).await;
            (number, ended)
        };
        self.works.push(Box::pin(work));
    }
}

/// The event that says that the assignment has arrived, with the number of its checks.
fn config_received(claim: Claim, assignment: &Assignment) -> EventReport {
    let checks: usize = assignment
        .check_config
        .iter()
        .map(|group| group.targets.len())
        .sum();
    EventReport {
        event_type: "config_received".to_owned(),
        ip_id: Some(claim.ip_id),
        payload: Some(serde_json::json!({ "checks": checks }).to_string()),
        fence: claim.fence,
    }
}
