//! What an agent asks and reports.

use std::time::Duration;

use civ_orch::attempt::StateName;
use civ_orch::self_check;
use civ_store::agents::{self, ReportedEvent, Reporter};
use civ_store::results::NewResult;
use civ_store::{results, validators};
use civ_types::{Address, AttemptNo, CheckName, CheckSpec, ClaimNo, IpId, Nonce, Utc, ValidatorId};

use super::{App, AppError};

/// What a validator is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Names the address in reports.
    pub ip: IpId,
    /// The address.
    pub address: Address,
    /// The self-check has passed: run the checks.
    pub checking: bool,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// Which claim.
    pub fence: ClaimNo,
    /// Check types with their targets and, as JSON text, options.
    pub checks: Vec<(CheckName, Vec<String>, Option<String>)>,
    /// Which list of checks this is.
    pub revision: i64,
    /// What its responder is to serve, if it runs one.
    pub nonce: Option<Nonce>,
}

/// An agent as it introduces itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Name of its host.
    pub hostname: String,
    /// Its version.
    pub version: String,
    /// The ports on which its responder answers over HTTP, if it runs one.
    pub responder: Option<Vec<u16>>,
}

/// What there is to say to an agent that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing to do; look again when woken.
    Nothing,
    /// A fresh association settles: nothing to do before that.
    Settling(Duration),
    /// This.
    Work(Assignment),
}

/// A check result as an agent or a prober reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The address.
    pub ip: IpId,
    /// The claim, if named.
    pub fence: Option<ClaimNo>,
    /// The check type.
    pub name: CheckName,
    /// The target; empty for inbound checks.
    pub target: String,
    /// Passed or failed.
    pub success: bool,
    /// Milliseconds of the step that the check is about.
    pub latency_ms: i64,
    /// Milliseconds of the whole check.
    pub duration_ms: Option<i64>,
    /// What was seen.
    pub detail: String,
    /// When; `None`: now.
    pub checked_at: Option<Utc>,
    /// On a prober's result: the site is through with the address.
    pub complete: bool,
    /// With `complete`: the list of checks that it worked from, if named.
    pub revision: Option<i64>,
}

impl CheckReport {
    pub(super) fn into_reported(
        self,
        now: Utc,
        spec: impl FnOnce(CheckName, &str) -> CheckSpec,
    ) -> agents::Reported {
        agents::Reported {
            ip: self.ip,
            fence: self.fence,
            result: NewResult {
                spec: spec(self.name, &self.target),
                success: self.success,
                latency_ms: self.latency_ms,
                duration_ms: self.duration_ms,
                detail: self.detail,
                checked_at: self.checked_at.unwrap_or(now),
            },
            complete: self.complete,
            revision: self.revision,
        }
    }
}

/// A self-check as the agent reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfCheckReport {
    /// The address.
    pub ip: IpId,
    /// The claim, if named.
    pub fence: Option<ClaimNo>,
    /// The agent's own judgement.
    pub success: bool,
    /// What the IP-echo service saw, if told.
    pub detected: Option<String>,
    /// For people.
    pub detail: String,
}

/// An event of an agent or a prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub event_type: String,
    /// The address, if it is about one.
    pub ip: Option<IpId>,
    /// The claim, if named.
    pub fence: Option<ClaimNo>,
    /// Free text.
    pub payload: String,
    /// Which check could not be carried out (type, target, reason), if that is what it says.
    pub inconclusive: Option<(CheckName, String, String)>,
}

impl From<Event> for ReportedEvent {
    fn from(event: Event) -> Self {
        let Event {
            event_type,
            ip,
            fence,
            payload,
            inconclusive,
        } = event;
        Self {
            event_type,
            ip,
            fence,
            payload,
            inconclusive,
        }
    }
}

fn unknown(id: &ValidatorId) -> AppError {
    AppError::NotFound(format!("validator {id} is not configured"))
}

impl App {
    fn agent_lives(&self, id: &ValidatorId) {
        let timeout = self.timers().heartbeat_timeout_seconds;
        if self.presence().validator(id, self.now(), timeout) {
            self.hub().schedule.notify_one();
        }
    }

    /// An agent has started.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the validator is not configured.
    pub async fn agent_register(
        &self,
        id: &ValidatorId,
        agent: Introduction,
    ) -> Result<(), AppError> {
        let of = id.clone();
        let known = self
            .write(move |tx| {
                let responder = agent.responder.as_deref();
                validators::register(tx, &of, &agent.hostname, &agent.version, responder)
            })
            .await
            .map_err(AppError::Store)?;
        if !known {
            return Err(unknown(id));
        }
        self.presence().reported(id);
        self.agent_lives(id);
        Ok(())
    }

    /// An agent is alive, whatever it asks. Says whether one has registered.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the validator is not configured.
    pub async fn agent_seen(&self, id: &ValidatorId) -> Result<bool, AppError> {
        let of = id.clone();
        let found = self
            .read(move |conn| validators::registered(conn, &of))
            .await;
        let registered = found.map_err(AppError::Store)?.ok_or_else(|| unknown(id))?;
        self.agent_lives(id);
        Ok(registered)
    }

    /// An agent reports something, whatever becomes of it: a silence of its validator is over.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the validator is not configured.
    pub async fn agent_reports(&self, id: &ValidatorId) -> Result<(), AppError> {
        self.agent_seen(id).await?;
        self.lift_silence(id).await
    }

    /// To be asked again behind what was reported: a silence may have begun in between, and
    /// whoever has reported just then may have nothing more to report.
    async fn lift_silence(&self, id: &ValidatorId) -> Result<(), AppError> {
        if self.presence().reported(id) {
            let of = id.clone();
            let lifted = self.write(move |tx| validators::unsilence(tx, &of)).await;
            lifted.map_err(AppError::Store)?;
        }
        Ok(())
    }

    /// What the validator is to do now. Checks that are handed out here count from now on.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if the validator is not configured any more.
    pub async fn agent_assignment(&self, id: &ValidatorId) -> Result<Answer, AppError> {
        let of = id.clone();
        // A long poll may have outlived the validator's entry.
        let work = self
            .read(move |conn| match validators::registered(conn, &of)? {
                Some(_) => Ok(agents::work(conn, &of)?),
                None => Err(unknown(&of)),
            })
            .await?;
        let Some(work) = work else {
            return Ok(Answer::Nothing);
        };
        let now = self.now();
        if let Some(settles_at) = work.settles_at.filter(|at| now < *at) {
            return Ok(Answer::Settling(settles_at.since(now)));
        }
        let mut revision = work.revision;
        if !work.uncounted.is_empty() {
            let (ip, claim, specs) = (work.ip, work.claim, work.uncounted);
            revision = self
                .write(move |tx| results::hand_out(tx, ip, claim, &specs, revision))
                .await
                .map_err(AppError::Store)?;
        }
        let checks = work
            .check_types
            .into_iter()
            .map(|kind| (kind.name, kind.targets, kind.options));
        Ok(Answer::Work(Assignment {
            ip: work.ip,
            address: work.address,
            checking: work.state == StateName::Checking,
            attempt: work.attempt,
            fence: work.claim,
            checks: checks.collect(),
            revision,
            nonce: work.proof.map(|proof| proof.nonce),
        }))
    }

    /// A self-check, judged here once more: a success through another address is none.
    ///
    /// # Errors
    /// [`AppError::Conflict`] if the report is of another claim or comes too late.
    pub async fn agent_self_check(
        &self,
        id: &ValidatorId,
        report: SelfCheckReport,
    ) -> Result<(), AppError> {
        let of = id.clone();
        let SelfCheckReport {
            ip,
            fence,
            success,
            detected,
            detail,
        } = report;
        let taken = self.write(move |tx| {
            let judge = |address| self_check::judge(address, success, detected.as_deref(), &detail);
            agents::self_check(tx, &of, ip, fence, judge).map_err(AppError::from)
        });
        let taken = taken.await;
        self.lift_silence(id).await?;
        taken
    }

    /// Results of an agent. Says how many were dropped as stale.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn agent_results(
        &self,
        id: &ValidatorId,
        rows: Vec<CheckReport>,
    ) -> Result<u32, AppError> {
        let (of, now) = (id.clone(), self.now());
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.into_reported(now, CheckSpec::egress))
            .collect();
        let n_stale = self.write(move |tx| agents::egress_results(tx, &of, &rows));
        let n_stale = n_stale.await.map_err(AppError::Store)?;
        self.lift_silence(id).await?;
        Ok(n_stale)
    }

    /// The agent is through with all its checks; with those of that revision of its assignment, if
    /// it names one.
    ///
    /// # Errors
    /// [`AppError::Conflict`] if the report is of another claim or comes too late or too early.
    pub async fn agent_complete(
        &self,
        id: &ValidatorId,
        ip: IpId,
        fence: Option<ClaimNo>,
        revision: Option<i64>,
    ) -> Result<(), AppError> {
        let id = id.clone();
        self.write(move |tx| agents::complete(tx, &id, ip, fence, revision).map_err(AppError::from))
            .await
    }

    /// An event of an agent; always recorded.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn agent_event(&self, id: &ValidatorId, event: Event) -> Result<(), AppError> {
        let (of, event) = (id.clone(), event.into());
        self.write(move |tx| agents::event(tx, Reporter::Validator(&of), &event))
            .await
            .map_err(AppError::Store)?;
        self.lift_silence(id).await
    }
}
