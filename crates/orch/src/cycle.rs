//! The auto-cycle: clear the queue, scan, wait for all checks, pause, and again.

use std::fmt;

use civ_types::Utc;

/// Shortest pause between two rounds, in seconds.
pub const INTERVAL_SECS_MIN: u32 = 60;

/// Where the auto-cycle is. All but `Idle` and `Waiting` belong to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Off, or before its first round.
    Idle,
    /// The queue is being cleared.
    Clearing,
    /// What was being checked is being released, until then at the latest.
    Releasing {
        /// When it is waited for no longer.
        until: Utc,
    },
    /// Floating IPs are listed and enqueued.
    Scanning,
    /// The checks are waited for.
    Checking {
        /// Since when.
        since: Utc,
    },
    /// Between two rounds.
    Waiting {
        /// When the next one begins.
        until: Utc,
    },
}

/// The name of a phase, without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "see Phase")]
pub enum PhaseName {
    Idle,
    Clearing,
    Releasing,
    Scanning,
    Checking,
    Waiting,
}

impl PhaseName {
    /// All of them, in the order of a round.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Clearing,
        Self::Releasing,
        Self::Scanning,
        Self::Checking,
        Self::Waiting,
    ];

    /// The word that is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Clearing => "clearing",
            Self::Releasing => "releasing",
            Self::Scanning => "scanning",
            Self::Checking => "checking",
            Self::Waiting => "waiting",
        }
    }

    /// The word of the contract, which tells the steps of a round not apart.
    #[must_use]
    pub const fn public(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Clearing | Self::Releasing | Self::Scanning | Self::Checking => "running",
            Self::Waiting => "waiting",
        }
    }

    /// From the word that is stored.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Phase {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> PhaseName {
        match self {
            Self::Idle => PhaseName::Idle,
            Self::Clearing => PhaseName::Clearing,
            Self::Releasing { .. } => PhaseName::Releasing,
            Self::Scanning => PhaseName::Scanning,
            Self::Checking { .. } => PhaseName::Checking,
            Self::Waiting { .. } => PhaseName::Waiting,
        }
    }

    /// Whether a round is under way.
    #[must_use]
    pub const fn is_round(self) -> bool {
        match self {
            Self::Idle | Self::Waiting { .. } => false,
            Self::Clearing | Self::Releasing { .. } | Self::Scanning | Self::Checking { .. } => {
                true
            }
        }
    }
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every address came to its end.
    Completed,
    /// The scan found nothing to check.
    NoFreeIps,
    /// The checks took longer than `max_run_seconds`.
    Timeout,
    /// A step failed.
    Error,
    /// An operator ended it.
    Stopped,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Completed,
        Self::NoFreeIps,
        Self::Timeout,
        Self::Error,
        Self::Stopped,
    ];

    /// The word of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NoFreeIps => "no_free_ips",
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Stopped => "stopped",
        }
    }

    /// From the word of the contract.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The auto-cycle as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Whether it is on.
    pub enabled: bool,
    /// The pause between two rounds, in seconds.
    pub interval_secs: u32,
    /// How long the checks of a round are waited for, in seconds; 0: without limit.
    pub max_run_secs: u32,
    /// Where it is.
    pub phase: Phase,
    /// When the round under way began.
    pub run_started_at: Option<Utc>,
    /// When the last round began.
    pub last_started_at: Option<Utc>,
    /// When the last round ended.
    pub last_finished_at: Option<Utc>,
    /// How the last round ended.
    pub last_outcome: Option<Outcome>,
    /// Why, if that was an error.
    pub last_error: String,
    /// Free floating IPs that the last round's scan found.
    pub last_scanned_free: u64,
    /// Rounds that were completed.
    pub runs_total: u64,
}

impl Default for Cycle {
    /// Off, an hour between two rounds, no limit.
    fn default() -> Self {
        Self {
            enabled: false,
            interval_secs: 3_600,
            max_run_secs: 0,
            phase: Phase::Idle,
            run_started_at: None,
            last_started_at: None,
            last_finished_at: None,
            last_outcome: None,
            last_error: String::new(),
            last_scanned_free: 0,
            runs_total: 0,
        }
    }
}

/// What happens to the auto-cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An operator turns it on.
    Start,
    /// An operator turns it off.
    Stop,
    /// Time has passed, or something has changed in the queue.
    Tick,
    /// The queue is clear.
    Cleared,
    /// The scan has enqueued what is free.
    Scanned {
        /// How many.
        free: u64,
    },
    /// A step cannot be carried out.
    Failed(String),
}

/// What a decision needs to know besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ctx {
    /// The present moment.
    pub now: Utc,
    /// How long releases are waited for, in seconds.
    pub release_grace_secs: u32,
    /// Whether any floating IP is, or may be, on our ports.
    pub has_leases: bool,
    /// Whether any address in the queue has not come to its end.
    pub has_open: bool,
}

/// What is worth an entry of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// A round began.
    Started,
    /// A round ended.
    Ended(Outcome),
    /// It was turned off between two rounds.
    TurnedOff,
}

/// An event that does not fit the phase, such as the end of a step that is no longer wanted;
/// nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the auto-cycle in the phase {0} has no such step")]
pub struct Refused(pub PhaseName);

type Stepped = Result<(Cycle, Option<Fact>), Refused>;

impl Cycle {
    /// When the next round begins, if that is known.
    #[must_use]
    pub const fn next_run_at(&self) -> Option<Utc> {
        match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Idle
            | Phase::Clearing
            | Phase::Releasing { .. }
            | Phase::Scanning
            | Phase::Checking { .. } => None,
        }
    }

    /// The moment at which a tick may change something by time alone.
    #[must_use]
    pub fn due_at(&self) -> Option<Utc> {
        match self.phase {
            Phase::Waiting { until } | Phase::Releasing { until } => Some(until),
            Phase::Checking { since } => self.limit(since),
            Phase::Idle | Phase::Clearing | Phase::Scanning => None,
        }
    }

    fn limit(&self, since: Utc) -> Option<Utc> {
        (self.max_run_secs > 0).then(|| since.plus_secs(self.max_run_secs))
    }

    /// The auto-cycle after `event`.
    ///
    /// # Errors
    /// [`Refused`] if the phase has no such step.
    pub fn step(&self, event: &Event, ctx: &Ctx) -> Stepped {
        let same = || Ok((self.clone(), None));
        match (self.phase, event) {
            (_, Event::Start) => Ok((
                Self {
                    enabled: true,
                    ..self.clone()
                },
                None,
            )),
            (_, Event::Stop) => Ok(self.stop(ctx.now)),
            (Phase::Idle, Event::Tick) if self.enabled => Ok(self.begin(ctx.now)),
            (Phase::Waiting { until }, Event::Tick) if until <= ctx.now => Ok(self.begin(ctx.now)),
            (Phase::Releasing { until }, Event::Tick) if !ctx.has_leases || until <= ctx.now => {
                Ok((self.at(Phase::Scanning), None))
            }
            (Phase::Checking { .. }, Event::Tick) if !ctx.has_open => {
                Ok(self.end(Outcome::Completed, "", ctx.now))
            }
            (Phase::Checking { since }, Event::Tick)
                if self.limit(since).is_some_and(|limit| limit <= ctx.now) =>
            {
                Ok(self.end(Outcome::Timeout, "", ctx.now))
            }
            (_, Event::Tick) => same(),
            (Phase::Clearing, Event::Cleared) => {
                let until = ctx.now.plus_secs(ctx.release_grace_secs);
                Ok((self.at(Phase::Releasing { until }), None))
            }
            (Phase::Scanning, Event::Scanned { free }) => {
                let mut next = self.at(Phase::Checking { since: ctx.now });
                next.last_scanned_free = *free;
                if *free == 0 {
                    return Ok(next.end(Outcome::NoFreeIps, "", ctx.now));
                }
                Ok((next, None))
            }
            (Phase::Clearing | Phase::Releasing { .. } | Phase::Scanning, Event::Failed(why)) => {
                Ok(self.end(Outcome::Error, why, ctx.now))
            }
            (phase, Event::Cleared | Event::Scanned { .. } | Event::Failed(_)) => {
                Err(Refused(phase.name()))
            }
        }
    }

    fn at(&self, phase: Phase) -> Self {
        Self {
            phase,
            ..self.clone()
        }
    }

    fn begin(&self, now: Utc) -> (Self, Option<Fact>) {
        let mut next = self.at(Phase::Clearing);
        next.run_started_at = Some(now);
        next.last_started_at = Some(now);
        (next, Some(Fact::Started))
    }

    fn end(&self, outcome: Outcome, why: &str, now: Utc) -> (Self, Option<Fact>) {
        let until = now.plus_secs(self.interval_secs);
        let mut next = self.at(Phase::Waiting { until });
        next.run_started_at = None;
        next.last_finished_at = Some(now);
        next.last_outcome = Some(outcome);
        why.clone_into(&mut next.last_error);
        if outcome == Outcome::Completed {
            next.runs_total = next.runs_total.saturating_add(1);
        }
        (next, Some(Fact::Ended(outcome)))
    }

    /// A round under way ends as stopped; the last outcome of a cycle that paused stays.
    fn stop(&self, now: Utc) -> (Self, Option<Fact>) {
        let (mut next, fact) = if self.phase.is_round() {
            self.end(Outcome::Stopped, "", now)
        } else {
            (self.clone(), self.enabled.then_some(Fact::TurnedOff))
        };
        next.enabled = false;
        next.phase = Phase::Idle;
        (next, fact)
    }
}
