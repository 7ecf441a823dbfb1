//! What happens in one run, written down before it happens: who does what, after which pause.
//!
//! A story follows from its seed alone, so a step that is left out changes no other one.

use std::collections::BTreeSet;
use std::fmt;

use fastrand::Rng;

/// Addresses of the world, from 1.
pub(crate) const ADDRESSES: u8 = 6;
/// Validators that it begins with, from 1.
pub(crate) const VALIDATORS: u8 = 3;
/// Sites that it begins with, from 1.
pub(crate) const SITES: u8 = 2;

/// How an agent or a prober behaves in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Does what it is told, and says what is.
    Honest,
    /// Asks and never reports.
    Mute,
    /// Says that all is well through another address.
    WrongAddress,
    /// Says that nothing works.
    Gloomy,
    /// Some checks fail.
    Mixed,
    /// Could not carry out some checks.
    Unable,
    /// Could not carry out any.
    Helpless,
    /// Reports some results and does not say that it is through.
    Halfway,
    /// Says that it is through without a single result.
    Hasty,
    /// Reports results before the self-check.
    Early,
    /// Reports everything twice.
    Repeats,
}

/// What an agent says about a claim that is over, or not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stale {
    /// A self-check of its former claim.
    SelfCheck,
    /// Results of its former claim.
    Results,
    /// That it is through with its former claim.
    Complete,
    /// A check that could not be carried out in its former claim.
    Inconclusive,
    /// Results of an address that another validator holds, without a fence.
    Stranger,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// Nothing but time.
    Wait,
    /// An agent asks for its assignment and acts on it.
    Agent(u8, Mood),
    /// Two agents with one id do so.
    Twins(u8, Mood, Mood),
    /// An agent starts again, and knows nothing.
    AgentStarts(u8),
    /// Only a sign of life.
    Heartbeat(u8),
    /// An agent says something late.
    Late(u8, Stale),
    /// A prober asks and reports.
    Prober(u8, Mood),
    /// A prober says something late.
    LateProber(u8),
    /// An operator enqueues addresses.
    Enqueue(Vec<u8>),
    /// An operator breaks off an attempt.
    Cancel(u8),
    /// An operator takes an address out of the queue.
    Delete(u8),
    /// An operator takes some out.
    DeleteList(Vec<u8>),
    /// An operator takes all out.
    Clear,
    /// The pause after an association, in seconds.
    Settle(u8),
    /// What the sites check: a number that says which ports, and whether echo requests.
    Inbound(u8, bool),
    /// A check type is switched.
    CheckType(u8, bool),
    /// A group has other targets.
    Targets(u8),
    /// A site is put into a slot.
    SiteSet(u8, u8),
    /// A slot is emptied.
    SiteDelete(u8),
    /// A validator is added, on a port.
    ValidatorAdd(u8, u8),
    /// A validator gets another port.
    ValidatorSet(u8, u8),
    /// A validator is taken out.
    ValidatorDelete(u8),
    /// How many cycles of the history are kept.
    Retention(u8),
    /// All floating IPs are listed and the free ones enqueued, or only counted.
    Scan(bool),
    /// Somebody else binds an address to a port of theirs.
    ForeignBinds(u8),
    /// Somebody else frees an address.
    ForeignFrees(u8),
    /// A floating IP gets a port forwarding.
    Forwarded(u8),
    /// A floating IP is deleted.
    FipGone(u8),
    /// It is made again.
    FipBack(u8),
    /// A port is deleted.
    PortGone(u8),
    /// It is made again.
    PortBack(u8),
    /// An address hangs on a port of ours without anybody knowing why.
    Orphan(u8, u8),
    /// An agent of the cloud reports the status of a floating IP.
    StatusReported(u8),
    /// The cloud is away for so many seconds.
    Outage(u8),
    /// The cloud does not answer for so many seconds.
    Hangs(u8),
    /// So many commits in a row fail.
    DiskFull(u8),
    /// The process is killed, and started again so many milliseconds later.
    Kill(u32),
    /// The clock is set, by so many seconds.
    ClockJump(i32),
}

impl Op {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }
}

/// A pause and what happens after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Milliseconds before.
    pub(crate) pause_ms: u32,
    /// What.
    pub(crate) op: Op,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} ms later: {:?}", self.pause_ms, self.op)
    }
}

/// The world that a story happens in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ground {
    /// `aggregation.missing_counts_as_fail`.
    pub(crate) missing_counts: bool,
    /// `max_self_check_retries`.
    pub(crate) self_check_retries: u32,
    /// `max_assign_retries`.
    pub(crate) assign_retries: u32,
    /// `max_parallel_cloud_calls`.
    pub(crate) parallel: u32,
    /// `fip_settle_seconds`.
    pub(crate) settle: u32,
    /// How often faults of calls to the cloud are, as a factor.
    pub(crate) cloud_faults: f64,
    /// How often commits fail, as a factor.
    pub(crate) disk_faults: f64,
    /// How slow everything is, as a factor.
    pub(crate) slowness: f64,
}

/// A story.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Story {
    /// Where it is from.
    pub(crate) seed: u64,
    /// The world.
    pub(crate) ground: Ground,
    /// The steps.
    pub(crate) steps: Vec<Step>,
    /// Faults that do not happen, by their number.
    pub(crate) muted: BTreeSet<u64>,
}

fn pause(rng: &mut Rng) -> u32 {
    match rng.u8(0..100) {
        0..20 => 0,
        20..45 => rng.u32(1..60),
        45..75 => rng.u32(60..600),
        75..94 => rng.u32(600..2_500),
        94..99 => rng.u32(2_500..9_000),
        _ => rng.u32(9_000..25_000),
    }
}

fn mood(rng: &mut Rng, honesty: u8) -> Mood {
    const OTHERS: [Mood; 10] = [
        Mood::Mute,
        Mood::WrongAddress,
        Mood::Gloomy,
        Mood::Mixed,
        Mood::Unable,
        Mood::Helpless,
        Mood::Halfway,
        Mood::Hasty,
        Mood::Early,
        Mood::Repeats,
    ];
    if rng.u8(0..100) < honesty {
        Mood::Honest
    } else {
        OTHERS[rng.usize(0..OTHERS.len())]
    }
}

fn some(rng: &mut Rng) -> Vec<u8> {
    let mut all: Vec<u8> = (1..=ADDRESSES).collect();
    rng.shuffle(&mut all);
    all.truncate(rng.usize(1..=4));
    all
}

/// What a story is mostly about.
struct Theme {
    honesty: u8,
    agents: u32,
    late: u32,
    operators: u32,
    config: u32,
    foreigners: u32,
    outages: u32,
    kills: u32,
    clock: u32,
}

const BALANCED: Theme = Theme {
    honesty: 75,
    agents: 130,
    late: 10,
    operators: 14,
    config: 8,
    foreigners: 8,
    outages: 3,
    kills: 2,
    clock: 1,
};

fn theme(rng: &mut Rng) -> Theme {
    match rng.u8(0..8) {
        0 => Theme {
            operators: 50,
            ..BALANCED
        },
        1 => Theme {
            config: 40,
            ..BALANCED
        },
        2 => Theme {
            foreigners: 45,
            ..BALANCED
        },
        3 => Theme {
            kills: 12,
            outages: 6,
            ..BALANCED
        },
        4 => Theme {
            honesty: 30,
            late: 40,
            ..BALANCED
        },
        5 => Theme {
            outages: 15,
            operators: 25,
            ..BALANCED
        },
        6 => Theme {
            agents: 40,
            clock: 6,
            ..BALANCED
        },
        _ => BALANCED,
    }
}

fn agent(rng: &mut Rng, theme: &Theme) -> Op {
    let who = rng.u8(1..=VALIDATORS);
    let mood_1 = mood(rng, theme.honesty);
    match rng.u8(0..100) {
        0..52 => Op::Agent(who, mood_1),
        52..56 => Op::Twins(who, mood_1, mood(rng, theme.honesty)),
        56..60 => Op::AgentStarts(who),
        60..62 => Op::Heartbeat(who),
        _ => Op::Prober(rng.u8(1..=SITES), mood_1),
    }
}

fn late(rng: &mut Rng) -> Op {
    const KINDS: [Stale; 5] = [
        Stale::SelfCheck,
        Stale::Results,
        Stale::Complete,
        Stale::Inconclusive,
        Stale::Stranger,
    ];
    if rng.u8(0..5) == 0 {
        return Op::LateProber(rng.u8(1..=SITES));
    }
    Op::Late(rng.u8(1..=VALIDATORS), KINDS[rng.usize(0..KINDS.len())])
}

fn operator(rng: &mut Rng) -> Op {
    let one = rng.u8(1..=ADDRESSES);
    match rng.u8(0..100) {
        0..55 => Op::Enqueue(some(rng)),
        55..72 => Op::Cancel(one),
        72..86 => Op::Delete(one),
        86..91 => Op::DeleteList(some(rng)),
        91..95 => Op::Clear,
        _ => Op::Scan(rng.bool()),
    }
}

fn config(rng: &mut Rng) -> Op {
    let validator = rng.u8(1..=VALIDATORS + 1);
    match rng.u8(0..100) {
        0..15 => Op::Settle(rng.u8(0..5)),
        15..32 => Op::Inbound(rng.u8(0..4), rng.bool()),
        32..46 => Op::CheckType(rng.u8(0..2), rng.bool()),
        46..58 => Op::Targets(rng.u8(0..4)),
        58..66 => Op::SiteSet(rng.u8(1..=3), rng.u8(1..=3)),
        66..72 => Op::SiteDelete(rng.u8(1..=3)),
        72..80 => Op::ValidatorAdd(validator, rng.u8(1..=6)),
        80..88 => Op::ValidatorSet(validator, rng.u8(1..=6)),
        88..95 => Op::ValidatorDelete(validator),
        _ => Op::Retention(rng.u8(0..3)),
    }
}

fn foreigner(rng: &mut Rng) -> Op {
    let (one, port) = (rng.u8(1..=ADDRESSES), rng.u8(1..=4));
    match rng.u8(0..100) {
        0..38 => Op::ForeignBinds(one),
        38..64 => Op::ForeignFrees(one),
        64..68 => Op::Forwarded(one),
        68..73 => Op::FipGone(one),
        73..79 => Op::FipBack(one),
        79..84 => Op::PortGone(port),
        84..91 => Op::PortBack(port),
        91..96 => Op::Orphan(one, port),
        _ => Op::StatusReported(one),
    }
}

fn op(rng: &mut Rng, theme: &Theme) -> Op {
    let parts = [
        theme.agents,
        theme.late,
        theme.operators,
        theme.config,
        theme.foreigners,
        theme.outages,
        theme.kills,
        theme.clock,
        2,
    ];
    let mut die = rng.u32(0..parts.iter().sum());
    let mut part = 0;
    while parts[part] <= die {
        die -= parts[part];
        part += 1;
    }
    match part {
        0 => agent(rng, theme),
        1 => late(rng),
        2 => operator(rng),
        3 => config(rng),
        4 => foreigner(rng),
        5 => match rng.u8(0..5) {
            0 => Op::DiskFull(rng.u8(1..4)),
            1 => Op::Hangs(rng.u8(1..10)),
            _ => Op::Outage(rng.u8(1..25)),
        },
        6 => Op::Kill(match rng.u8(0..3) {
            0 => 0,
            1 => rng.u32(1..3_000),
            _ => rng.u32(3_000..120_000),
        }),
        7 => Op::ClockJump(rng.i32(-20..60)),
        _ => Op::Wait,
    }
}

impl Story {
    /// The story of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x51D0);
        let theme = theme(&mut rng);
        let factor = |rng: &mut Rng| [0.0, 0.3, 1.0, 1.0, 3.0][rng.usize(0..5)];
        let ground = Ground {
            missing_counts: rng.u8(0..4) > 0,
            self_check_retries: rng.u32(0..3),
            assign_retries: rng.u32(0..3),
            parallel: rng.u32(1..4),
            settle: if rng.bool() { 0 } else { rng.u32(0..5) },
            cloud_faults: factor(&mut rng),
            disk_faults: factor(&mut rng),
            slowness: factor(&mut rng),
        };
        let n = rng.usize(40..160);
        let mut steps = vec![Step {
            pause_ms: 0,
            op: Op::Enqueue(some(&mut rng)),
        }];
        for who in 1..=VALIDATORS {
            steps.push(Step {
                pause_ms: pause(&mut rng),
                op: Op::AgentStarts(who),
            });
        }
        steps.extend((0..n).map(|_| Step {
            pause_ms: pause(&mut rng),
            op: op(&mut rng, &theme),
        }));
        Self {
            seed,
            ground,
            steps,
            muted: BTreeSet::new(),
        }
    }
}
