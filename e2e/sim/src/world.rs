//! What a run knows beside the product: faults to come, what was sent and answered, the cloud as
//! it is, and the first rule that was broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use civ_cloud::fake::FakeCloud;
use civ_store::inline::Weather;
use civ_types::{Address, Clock as _, FipId, PortId};
use fastrand::Rng;

use crate::clock::SimClock;
use crate::story::{ADDRESSES, Ground, Story};
use crate::view::{Snap, Spec, View};

/// Seconds, in microseconds.
pub(crate) const SECOND: i64 = 1_000_000;

/// How long one request to the cloud may take.
pub(crate) const REQUEST: Duration = Duration::from_secs(1);

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// A number from 1 to 12, or a word.
    pub(crate) rule: &'static str,
    /// What was seen.
    pub(crate) text: String,
}

/// What an agent or a prober was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) ip: i64,
    pub(crate) address: u8,
    pub(crate) attempt: i64,
    pub(crate) fence: i64,
    pub(crate) checking: bool,
    pub(crate) checks: Vec<(String, Vec<String>)>,
}

/// An agent or a prober, as it knows itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reporter {
    pub(crate) registered: bool,
    pub(crate) tasks: Vec<Task>,
}

/// A write that lands later.
#[derive(Debug, Clone)]
pub(crate) struct LateWrite {
    pub(crate) due: i64,
    pub(crate) id: FipId,
    pub(crate) port: Option<PortId>,
    pub(crate) revision: Option<u64>,
}

/// What is known of a claim.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claim {
    /// When it began, in microseconds of being up.
    pub(crate) since: i64,
    /// By how much the clock was set back since.
    pub(crate) set_back: i64,
    /// An agent has said anything within it.
    pub(crate) heard: bool,
    /// Its self-check has passed.
    pub(crate) passed: bool,
}

/// Retries of one attempt as they ought to be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Retries {
    pub(crate) failed: i64,
    pub(crate) silent: i64,
    pub(crate) detached: i64,
    /// What the cloud had said against the address when the attempt began.
    pub(crate) faults_before: i64,
}

/// An accepted result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accepted {
    pub(crate) under_way: u32,
    /// Several reports of it were under way at once.
    pub(crate) mixed: bool,
    pub(crate) detail: Option<String>,
}

/// The world of one run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ground: Ground,
    pub(crate) calm: bool,
    /// The product starts: nothing is slow.
    pub(crate) starts: bool,
    /// When somebody last set the clock.
    pub(crate) jumped_at: i64,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) view: View,
    pub(crate) fake: Arc<FakeCloud>,
    faults: Rng,
    delays: Rng,
    drawn: u64,
    muted: BTreeSet<u64>,
    /// Faults that happened: number and name.
    pub(crate) fired: Vec<(u64, &'static str)>,
    pub(crate) violation: Option<Violation>,
    pub(crate) journal: Option<Vec<String>>,
    pub(crate) reached: BTreeMap<String, u64>,

    pub(crate) snap: Snap,
    pub(crate) last_event: i64,
    pub(crate) n_events: i64,
    pub(crate) n_checks: i64,
    pub(crate) cut: bool,
    pub(crate) payload_sum: i64,

    pub(crate) outage_until: i64,
    pub(crate) hangs_until: i64,
    /// Since when nothing went wrong with the cloud, by the steady clock.
    pub(crate) cloud_well_since: i64,
    /// Claims of the outage that goes on, and since when it does.
    pub(crate) outage: Option<(i64, u32)>,
    /// When an association last failed for the cloud's own reason, with no answer of it since.
    pub(crate) refused_at: Option<i64>,
    pub(crate) late: Vec<LateWrite>,
    pub(crate) in_flight: BTreeMap<String, u32>,
    pub(crate) address_faults: BTreeMap<u8, i64>,
    /// Taken from somebody else by a write whose condition the cloud dropped.
    pub(crate) stolen: BTreeSet<u8>,
    pub(crate) disk_full: u32,

    pub(crate) held: BTreeMap<u8, u8>,
    pub(crate) claims: BTreeMap<i64, Claim>,
    pub(crate) retries: BTreeMap<(i64, i64), Retries>,
    /// Until when each agent's sign of life may count: by the clock, and when that was noted.
    pub(crate) contacts: BTreeMap<u8, (i64, i64)>,
    /// Hung on ports of ours by hand.
    pub(crate) by_hand: BTreeSet<u8>,
    pub(crate) off_since: BTreeMap<i64, i64>,
    pub(crate) serial: u64,
    pub(crate) seen_marks: BTreeSet<u64>,
    pub(crate) stale_marks: BTreeSet<u64>,
    pub(crate) sound_marks: BTreeSet<u64>,
    pub(crate) accepted: BTreeMap<(i64, i64, Spec), Accepted>,
    pub(crate) agents: BTreeMap<u8, Reporter>,
    pub(crate) probers: BTreeMap<u8, Reporter>,
}

/// `203.0.113.<n>`.
pub(crate) fn address(n: u8) -> Address {
    Address::parse(&format!("203.0.113.{n}")).expect("an address")
}

/// The floating IP of an address.
pub(crate) fn fip(n: u8) -> FipId {
    FipId::parse(&format!("fip-203.0.113.{n}")).expect("a name")
}

/// A port of ours.
pub(crate) fn port(n: u8) -> PortId {
    PortId::parse(&format!("port-{n}")).expect("a name")
}

/// A port of somebody else's.
pub(crate) fn foreign(n: u8) -> PortId {
    PortId::parse(&format!("foreign-{n}")).expect("a name")
}

impl World {
    /// The world of a story before its first step.
    pub(crate) fn new(story: &Story, view: View, clock: Arc<SimClock>) -> Self {
        let fake = FakeCloud::new();
        for n in 1..=ADDRESSES {
            fake.add_fip(fip(n), address(n), None);
            fake.add_port(port(n));
            fake.add_port(foreign(n));
        }
        Self {
            ground: story.ground,
            calm: false,
            starts: false,
            jumped_at: -10 * SECOND,
            clock,
            view,
            fake: Arc::new(fake),
            faults: Rng::with_seed(story.seed ^ 0xFA17),
            delays: Rng::with_seed(story.seed ^ 0xDE1A),
            drawn: 0,
            muted: story.muted.clone(),
            fired: Vec::new(),
            violation: None,
            journal: None,
            reached: BTreeMap::new(),
            snap: Snap::default(),
            last_event: 0,
            n_events: 0,
            n_checks: 0,
            cut: false,
            payload_sum: 0,
            outage_until: 0,
            hangs_until: 0,
            cloud_well_since: 0,
            outage: None,
            refused_at: None,
            late: Vec::new(),
            in_flight: BTreeMap::new(),
            address_faults: BTreeMap::new(),
            stolen: BTreeSet::new(),
            disk_full: 0,
            held: BTreeMap::new(),
            claims: BTreeMap::new(),
            retries: BTreeMap::new(),
            contacts: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            off_since: BTreeMap::new(),
            serial: 0,
            seen_marks: BTreeSet::new(),
            stale_marks: BTreeSet::new(),
            sound_marks: BTreeSet::new(),
            accepted: BTreeMap::new(),
            agents: BTreeMap::new(),
            probers: BTreeMap::new(),
        }
    }

    /// Notes that something was reached.
    pub(crate) fn reach(&mut self, what: &str) {
        if let Some(n) = self.reached.get_mut(what) {
            *n += 1;
        } else {
            self.reached.insert(what.to_owned(), 1);
        }
    }

    /// A line of the journal, if there is one.
    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.journal.is_some() {
            let at = self.clock.steady();
            let line = format!("{:>10.3} s  {}", at as f64 / SECOND as f64, line());
            if let Some(journal) = &mut self.journal {
                journal.push(line);
            }
        }
    }

    /// A rule is broken; the first one counts.
    pub(crate) fn broken(&mut self, rule: &'static str, text: String) {
        self.tell(|| format!("RULE {rule} BROKEN: {text}"));
        self.violation.get_or_insert(Violation { rule, text });
    }

    /// Whether a fault happens, of those that are that likely.
    pub(crate) fn strikes(&mut self, fault: &'static str, chance: f64) -> bool {
        self.drawn += 1;
        let number = self.drawn;
        let hit = self.faults.f64() < chance;
        if !hit || self.calm || self.muted.contains(&number) {
            return false;
        }
        self.fired.push((number, fault));
        self.reach(&format!("fault {fault}"));
        self.tell(|| format!("  fault {number}: {fault}"));
        true
    }

    /// A number below `below`, for whatever a fault is to be like.
    pub(crate) fn die(&mut self, below: u8) -> u8 {
        self.delays.u8(0..below)
    }

    /// How long something takes: nothing, little, or, seldom, up to `most`.
    pub(crate) fn delay(&mut self, most: Duration) -> Duration {
        let (kind, part) = (self.delays.f64(), self.delays.f64());
        let slow = self.ground.slowness;
        let seldom = 0.02 * slow;
        let share = if slow == 0.0 || self.starts || (self.calm && kind < seldom) {
            0.0
        } else if kind < seldom {
            1.0
        } else if kind < 0.25 {
            0.1
        } else if kind < 0.5 {
            0.01
        } else {
            0.0
        };
        most.mul_f64(share * part)
    }

    /// A number that marks what is sent.
    pub(crate) fn mark(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Whether the cloud is away or hangs now.
    pub(crate) fn is_away(&self) -> bool {
        let now = self.clock.steady();
        !self.calm && (now < self.outage_until || now < self.hangs_until)
    }

    /// Something went wrong with the cloud just now.
    pub(crate) fn cloud_trouble(&mut self) {
        self.cloud_well_since = self.clock.steady();
    }

    /// The agent of this validator was heard of, now or at most that long ago.
    pub(crate) fn contact(&mut self, validator: u8) {
        let (now, steady) = (self.clock.now().as_micros(), self.clock.steady());
        let last = self.contacts.entry(validator).or_insert((now, steady));
        *last = (last.0.max(now), steady);
    }

    /// Somebody sets the clock. What is on its way may be noted before or after.
    pub(crate) fn jump(&mut self, by: i64) {
        self.clock.jump(by);
        self.jumped_at = self.clock.steady();
        let now = self.clock.steady();
        for (at, noted) in self.contacts.values_mut() {
            if now < *noted + 3 * SECOND {
                *at += by.max(0);
            }
        }
        for claim in self.claims.values_mut() {
            claim.set_back += (-by).max(0);
        }
    }
}

/// The world, shared by all that act in it.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// The world; not to be held across an await.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest way to the database.
const WAY: Duration = Duration::from_millis(120);

impl Weather for Shared {
    fn before(&self) -> Duration {
        self.world().delay(WAY)
    }

    fn after(&self) -> Duration {
        self.world().delay(WAY)
    }

    fn breaks(&self) -> bool {
        let mut world = self.world();
        if world.calm {
            return false;
        }
        if world.disk_full > 0 {
            world.disk_full -= 1;
            world.tell(|| "  a commit fails: the disk is full".to_owned());
            return true;
        }
        let chance = 0.006 * world.ground.disk_faults;
        world.strikes("commit fails", chance)
    }

    fn committed(&self, jobs: usize, told: bool) {
        if told {
            self.world().observe(jobs);
        }
    }
}
