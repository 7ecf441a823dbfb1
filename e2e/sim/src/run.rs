//! One story, from its first step to the peace after its last.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use civ_control_api::config::Settings;
use civ_orch::attempt::Policy;
use civ_store::inline::trace;
use civ_store::{Rules, Store};

use crate::actors::Actor;
use crate::clock::SimClock;
use crate::product::{Life, take_dice};
use crate::story::{Mood, Op, Story};
use crate::view::{Snap, View};
use crate::world::{Accepted, SECOND, Shared, Violation, World, port};

/// Names of databases in memory, which a process shares.
static DATABASES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// A database with all migrations and nothing in it: every story begins with a copy.
    static TEMPLATE: View = template();
}

fn template() -> View {
    let n = DATABASES.fetch_add(1, Ordering::Relaxed);
    let database = format!("file:/sim-{n}?vfs=memdb");
    let view = View::open(&database).expect("a database in memory");
    let clock = Arc::new(SimClock::default());
    let story = Story::of(0);
    let other = View::open(&database).expect("a database in memory");
    let mut world = World::new(&story, other, Arc::clone(&clock));
    world.calm = true;
    let rules = Rules {
        policy: Policy {
            answer_secs: 1,
            lease_secs: 1,
            window_secs: 1,
            release_grace_secs: 1,
            assign_retries_max: 0,
            self_check_retries_max: 0,
        },
        missing_counts: true,
    };
    let weather = Arc::new(Shared::new(world));
    let ignore = Box::new(|_hints| {});
    let made = Store::open_inline(Path::new(&database), clock, rules, ignore, weather);
    drop(made.expect("a database"));
    view
}

/// How often everybody has a turn after the last step, and the pause between.
const TURNS: u32 = 400;
const TURN: Duration = Duration::from_millis(400);

/// After so many turns agents start again, as a person would have them: what a silent validator
/// waits for.
const RESTARTS: u32 = 100;

/// After so many turns everybody gives a sign of life, whether there is work or not.
const SIGNS: u32 = 12;

/// How a story ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The first rule that was broken.
    pub(crate) violation: Option<Violation>,
    /// What was reached, and how often.
    pub(crate) reached: BTreeMap<String, u64>,
    /// Faults that happened, by their number.
    pub(crate) fired: BTreeSet<u64>,
    /// What happened, line by line, if it was asked for.
    pub(crate) journal: Vec<String>,
}

struct Run<'a> {
    shared: Shared,
    settings: &'a Settings,
    database: String,
    /// A process has worked on it.
    has_begun: bool,
    life: Option<Life>,
}

impl Run<'_> {
    /// Starts the product, as often as it takes: a disk that is full at the start ends it.
    fn begin(&mut self) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let known = has_begun.then(|| {
            let world = self.shared.world();
            (world.view.moments(), world.view.snap())
        });
        self.shared.world().starts = true;
        loop {
            match Life::begin(&self.shared, self.settings, &self.database) {
                Ok(life) => {
                    life.during(async {
                        let mut world = self.shared.world();
                        world.starts = false;
                        match &known {
                            Some((moments, snap)) => world.look_at_restart(moments, snap),
                            None => world.snap = world.view.snap(),
                        }
                    });
                    life.go(&self.shared);
                    self.life = Some(life);
                    return;
                }
                Err(error) => {
                    let mut world = self.shared.world();
                    world.reach("fault the start fails");
                    world.tell(|| format!("the start fails: {error:#}"));
                }
            }
        }
    }

    fn kill(&mut self, down_ms: u32) {
        if let Some(life) = self.life.take() {
            life.end(&self.shared, i64::from(down_ms) * 1_000);
        }
        let mut world = self.shared.world();
        world.stolen.clear();
        for one in world.accepted.values_mut() {
            if one.under_way > 0 {
                *one = Accepted::default();
            }
        }
        let down = i64::from(down_ms) * 1_000;
        for since in world.off_since.values_mut() {
            *since += down;
        }
        world.cloud_trouble();
        world.outage = None;
        world.refused_at = None;
        drop(world);
        self.begin();
    }

    fn wait(&self, time: Duration) {
        if let Some(life) = &self.life {
            let clock = Arc::clone(&self.shared.world().clock);
            life.during(async {
                tokio::time::sleep(time).await;
                clock.steady()
            });
        }
    }

    /// Begins something that goes on while the story does.
    fn spawn(&self, op: Op) {
        let Some(life) = &self.life else { return };
        let actor = Actor::new(self.shared.clone(), life.app.clone());
        life.during(async {
            life.tasks
                .spawn("actor", async move { actor.act(op).await });
            tokio::task::yield_now().await;
        });
    }

    fn step(&mut self, op: &Op) {
        self.shared.world().reach(&format!("step {}", op.name()));
        match op {
            Op::Wait => {}
            Op::Kill(down) => self.kill(*down),
            Op::Twins(v, one, other) => {
                self.spawn(Op::Agent(*v, *one));
                self.spawn(Op::Agent(*v, *other));
            }
            other => {
                let happened = {
                    let life = self.life.as_ref();
                    life.is_some_and(|life| {
                        life.during(async { self.shared.world().happens(other) })
                    })
                };
                if !happened {
                    self.spawn(other.clone());
                }
            }
        }
    }

    fn look(&self) -> bool {
        let Some(life) = &self.life else { return false };
        life.during(async {
            let mut world = self.shared.world();
            world.land();
            world.look();
            if let Some(fault) = life.tasks.fault() {
                world.broken("panic", fault);
            }
            world.violation.is_none()
        })
    }

    fn story(&mut self, story: &Story) {
        self.begin();
        for (n, step) in story.steps.iter().enumerate() {
            self.wait(Duration::from_millis(step.pause_ms.into()));
            self.shared.world().tell(|| format!("{:?}", step.op));
            self.step(&step.op);
            if !self.look() {
                return;
            }
            if n % 32 == 31 {
                self.shared.world().look_at_history();
            }
        }
        self.peace();
    }

    /// Everybody who has something to do does it; the others give a sign of life now and then.
    fn turn(&self, turn: u32) {
        let (busy, checking) = {
            let world = self.shared.world();
            let leases = world.snap.leases.iter();
            let busy: BTreeSet<u8> = leases
                .filter(|one| one.attached && !one.releasing)
                .map(|one| one.validator)
                .collect();
            let mut ips = world.snap.ips.values();
            (busy, ips.any(|ip| ip.state == "checking"))
        };
        let all = turn.is_multiple_of(SIGNS);
        for v in 1..=4 {
            if turn.is_multiple_of(RESTARTS) {
                self.spawn(Op::AgentStarts(v));
            }
            if all || busy.contains(&v) {
                self.spawn(Op::Agent(v, Mood::Honest));
            }
        }
        if all || checking {
            (1..=3).for_each(|n| self.spawn(Op::Prober(n, Mood::Honest)));
        }
    }

    /// All is well from now on: everything has to come to its end.
    fn peace(&self) {
        {
            let mut world = self.shared.world();
            world.tell(|| "peace".to_owned());
            world.calm = true;
            (1..=6).for_each(|n| world.fake.add_port(port(n)));
            for agent in world.agents.values_mut() {
                agent.registered = false;
            }
        }
        self.spawn(Op::Settle(0));
        self.spawn(Op::ValidatorAdd(1, 1));
        for turn in 0..TURNS {
            self.wait(TURN);
            self.turn(turn);
            if !self.look() {
                return;
            }
            if turn > 2 && self.shared.world().is_at_rest() {
                // Whatever was said is answered; a scan may have found something yet.
                self.wait(Duration::from_secs(3));
                if !self.look() {
                    return;
                }
                if self.shared.world().is_at_rest() {
                    break;
                }
            }
        }
        if self.look() {
            self.shared.world().look_at_end();
        }
    }
}

/// Runs a story. The same story gives the same outcome.
pub(crate) fn run(story: &Story, settings: &Settings, with_journal: bool) -> Outcome {
    take_dice(story.seed);
    drop(trace::take());
    let n = DATABASES.fetch_add(1, Ordering::Relaxed);
    let database = format!("file:/sim-{n}?vfs=memdb");
    let mut view = View::open(&database).expect("a database in memory");
    TEMPLATE.with(|template| view.copy_from(template).expect("a copy"));
    let clock = Arc::new(SimClock::default());
    let mut world = World::new(story, view, clock);
    world.journal = with_journal.then(Vec::new);
    let shared = Shared::new(world);
    let mut run = Run {
        shared: shared.clone(),
        settings,
        database,
        has_begun: false,
        life: None,
    };
    let done = catch_unwind(AssertUnwindSafe(|| run.story(story)));
    if let Some(life) = run.life.take() {
        life.end(&shared, SECOND);
    }
    let mut world = shared.world();
    if done.is_err() {
        world.broken("panic", "the run panicked".to_owned());
    }
    let mut reached = std::mem::take(&mut world.reached);
    reached.extend(trace::take());
    world.snap = Snap::default();
    Outcome {
        violation: world.violation.take(),
        reached,
        fired: world.fired.iter().map(|(number, _)| *number).collect(),
        journal: world.journal.take().unwrap_or_default(),
    }
}
