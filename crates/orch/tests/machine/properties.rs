//! What must hold under every order of events, however late, doubled or forged.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{fresh, policy, run, tally};
use civ_orch::attempt::{Attempt, Ctx, Effect, Event, Order, Policy, StateName, Step};
use civ_orch::expected::{
    Configured, Progress, Reported, Site, Verdict, tally as tally_of, unseen,
};
use civ_types::{SiteId, Utc};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// Late ticks that must end everything: from `checking` over `aggregating` to `done` are two, and
/// one more shows that the end is an end.
const LATE_TICKS: usize = 3;

#[derive(Default)]
struct Leases {
    minted: u32,
    given_back: u32,
}

impl Leases {
    fn count(&mut self, before: &Attempt, step: &Step) -> Result<(), TestCaseError> {
        for effect in &step.effects {
            match effect {
                Effect::Associate { claim, .. } => {
                    self.minted += 1;
                    prop_assert!(
                        before.head().claim < *claim,
                        "a claim number was used twice"
                    );
                }
                Effect::Release(lease) | Effect::Forget(lease) => {
                    self.given_back += 1;
                    prop_assert_eq!(lease.claim(), before.head().claim);
                }
                Effect::Record(_)
                | Effect::Silence(_)
                | Effect::PausePort { .. }
                | Effect::WakeValidator(_)
                | Effect::WakeSites => {}
            }
        }
        let held = step
            .next
            .as_ref()
            .is_some_and(|next| next.lease().is_some());
        prop_assert_eq!(
            self.minted,
            self.given_back + u32::from(held),
            "a lease leaked or doubled"
        );
        Ok(())
    }
}

fn check_edge(
    before: &Attempt,
    event: &Event,
    next: &Attempt,
    end: i64,
) -> Result<(), TestCaseError> {
    if before.name().is_terminal() && next.name() != before.name() {
        let by_operator = matches!(event, Event::Order(Order::Enqueue { .. }));
        prop_assert!(by_operator && before.head().attempt < next.head().attempt);
    }
    if next.name() == StateName::Queued && before.name() != StateName::Queued {
        prop_assert_eq!(next.head().sequence, end, "jumped the queue");
        prop_assert!(
            next.head().stamps.associated.is_none(),
            "the settle pause was inherited"
        );
    }
    Ok(())
}

/// With everybody dead, time alone leads to a terminal state or back into the queue.
fn ends_by_time_alone(mut attempt: Attempt, mut now: Utc, policy: &Policy) -> bool {
    let nothing = tally(false);
    for _ in 0..LATE_TICKS {
        now = now.plus_secs(1000);
        let ctx = Ctx {
            now,
            policy,
            tally: &nothing,
            heard: false,
            queue_end: 99,
        };
        attempt = attempt
            .step(&Event::Order(Order::Tick), &ctx)
            .unwrap()
            .next
            .unwrap();
    }
    attempt.name().is_terminal() || attempt.name() == StateName::Queued
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn invariants_hold_along_every_run(policy in policy(), run in run()) {
        let mut now = Utc::EPOCH;
        let mut attempt = fresh();
        let mut leases = Leases::default();
        let mut end = 1;
        for (happening, pause, complete, heard) in run {
            end += 1;
            now = now.plus(std::time::Duration::from_micros(pause.unsigned_abs()));
            let tally = tally(complete);
            let ctx = Ctx { now, policy: &policy, tally: &tally, heard, queue_end: end };
            // The store holds the state as a row: nothing may be lost on the way through it.
            let stored = Attempt::from_row(attempt.to_row()).unwrap();
            prop_assert_eq!(&stored, &attempt);
            let event = happening.to_event(attempt.head().claim);
            let late = matches!(event, Event::Report(claim, _) if claim != stored.head().claim);
            let Ok(step) = attempt.step(&event, &ctx) else {
                attempt = stored;
                continue;
            };
            prop_assert!(!late, "a late report was accepted");
            leases.count(&stored, &step)?;
            let Some(next) = step.next else { return Ok(()) };
            check_edge(&stored, &event, &next, end)?;
            attempt = next;
        }
        prop_assert!(ends_by_time_alone(attempt, now, &policy));
    }
}

/// Which states a run passes through.
fn states_of(policy: &Policy, run: Vec<crate::world::Turn>) -> Vec<StateName> {
    let mut attempt = fresh();
    let mut seen = vec![StateName::Queued];
    let mut now = Utc::EPOCH;
    for (happening, pause, complete, heard) in run {
        now = now.plus(std::time::Duration::from_micros(pause.unsigned_abs()));
        let tally = tally(complete);
        let ctx = Ctx {
            now,
            policy,
            tally: &tally,
            heard,
            queue_end: 9,
        };
        let event = happening.to_event(attempt.head().claim);
        let row = attempt.to_row();
        attempt = match attempt.step(&event, &ctx) {
            Ok(Step {
                next: Some(next), ..
            }) => next,
            Ok(Step { next: None, .. }) => break,
            Err(_) => Attempt::from_row(row).unwrap(),
        };
        seen.push(attempt.name());
    }
    seen
}

/// A property that never meets the state it speaks of proves nothing.
#[test]
fn the_generator_reaches_every_state() {
    const RUNS: usize = 500;
    let inputs = (policy(), run());
    let mut runner = TestRunner::deterministic();
    let mut reached = StateName::ALL.map(|_| 0_usize);
    for _ in 0..RUNS {
        let (policy, run) = inputs.new_tree(&mut runner).unwrap().current();
        let seen = states_of(&policy, run);
        for (count, name) in reached.iter_mut().zip(StateName::ALL) {
            *count += usize::from(seen.contains(&name));
        }
    }
    for (name, count) in StateName::ALL.iter().zip(reached) {
        assert!(
            RUNS / 20 <= count,
            "{name}: reached in {count} of {RUNS} runs"
        );
    }
}

/// What is configured at one moment: ports, closed ports, whether the prober knows them and
/// `identity`, and whether the validator proves.
type Moment = (Vec<u16>, Vec<u16>, bool, bool, bool);

fn moment() -> impl Strategy<Value = Moment> {
    let ports = |range: std::ops::Range<u16>| proptest::collection::btree_set(range, 0..4);
    (
        ports(1..5),
        ports(5..9),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(open, closed, knows, compares, proves)| {
            let list = |ports: BTreeSet<u16>| ports.into_iter().collect();
            (list(open), list(closed), knows, compares, proves)
        })
}

fn configured((ports, closed, knows, compares, _): &Moment) -> Configured {
    Configured {
        egress: Vec::new(),
        sites: vec![Site {
            id: SiteId::parse("site-1").unwrap(),
            identity: *compares,
            closed_ports: *knows,
        }],
        ports: ports.clone(),
        closed_ports: closed.clone(),
        icmp: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The site has done whatever list it was handed last, or the one before if that has not
    /// arrived yet, and says so with its revision. The configuration, what its prober knows and the
    /// responder change at will in between.
    #[test]
    fn no_order_of_changes_makes_a_healthy_address_fail(
        moments in proptest::collection::vec((moment(), any::<bool>()), 1..8),
        is_late in any::<bool>(),
    ) {
        let began_proving = moments[0].0.4;
        let specs_of = |moment: &Moment| configured(moment).specs(moment.4 && began_proving);
        let (mut counted, mut lists, mut newest) = (BTreeMap::new(), Vec::new(), 0_i64);
        for (n, (moment, is_handed_out)) in moments.iter().enumerate() {
            let specs = specs_of(moment);
            counted.retain(|spec, _| specs.contains(spec));
            if n == 0 || *is_handed_out {
                let is_new = specs.iter().any(|spec| !counted.contains_key(spec));
                newest += i64::from(is_new && n > 0);
                for spec in &specs {
                    counted.entry(spec.clone()).or_insert(newest);
                }
                lists.push((specs, newest));
            }
        }
        let (done, seen) = &lists[lists.len().saturating_sub(1 + usize::from(is_late))];
        let reported: BTreeMap<_, _> =
            done.iter().map(|spec| (spec.clone(), Reported::Passed)).collect();
        let now = &moments.last().unwrap().0;
        let newer = unseen(&counted, &reported, *seen);
        let through = newer.is_disjoint(&specs_of(now));
        let progress = Progress {
            counted: counted.into_keys().collect(),
            reported,
            proves: now.4 && began_proving,
            egress_complete: true,
            sites_complete: through.then(|| SiteId::parse("site-1").unwrap()).into_iter().collect(),
        };
        let told = tally_of(&progress, &configured(now), true);
        prop_assert!(told.complete == (through || progress.counted.is_empty()));
        if told.complete {
            prop_assert_eq!(told.judgement.verdict, Verdict::Pass);
        }
    }
}
