//! What must hold under every order of events, however late, doubled or forged.

use crate::world::{fresh, policy, run, tally};
use civ_orch::attempt::{Attempt, Ctx, Effect, Event, Order, Policy, StateName, Step};
use civ_types::Utc;
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
