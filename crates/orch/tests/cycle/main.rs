//! The auto-cycle: every event in every phase, and what holds whatever happens.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;

use civ_orch::cycle::{Ctx, Cycle, Event, Fact, Outcome, Phase, PhaseName};
use civ_types::Utc;
use proptest::prelude::*;

const CTX: Ctx = Ctx {
    now: Utc::EPOCH,
    release_grace_secs: 60,
    has_leases: true,
    has_open: true,
};

fn at(secs: u32) -> Utc {
    Utc::EPOCH.plus_secs(secs)
}

fn after(cycle: &Cycle, event: &Event, ctx: &Ctx) -> Cycle {
    cycle.step(event, ctx).unwrap().0
}

fn in_phase(name: PhaseName) -> Cycle {
    let calm = Ctx {
        has_leases: false,
        ..CTX
    };
    let way = [
        Event::Tick,
        Event::Cleared,
        Event::Tick,
        Event::Scanned { free: 3 },
        Event::Tick,
    ];
    let n = match name {
        PhaseName::Idle => 0,
        PhaseName::Clearing => 1,
        PhaseName::Releasing => 2,
        PhaseName::Scanning => 3,
        PhaseName::Checking => 4,
        PhaseName::Waiting => 5,
    };
    let mut cycle = Cycle {
        enabled: true,
        max_run_secs: 500,
        ..Cycle::default()
    };
    for event in way.iter().take(n) {
        let ctx = Ctx {
            has_open: n < 5,
            ..calm
        };
        cycle = after(&cycle, event, &ctx);
    }
    assert_eq!(cycle.phase.name(), name);
    cycle
}

const MATRIX: &str = "\
event               idle       clearing   releasing  scanning   checking   waiting
start               =          =          =          =          =          =
stop                =          idle       idle       idle       idle       idle
tick                clearing   =          =          =          =          =
tick (late)         clearing   =          scanning   =          waiting    clearing
tick (released)     clearing   =          scanning   =          =          =
tick (all ended)    clearing   =          =          =          waiting    =
cleared             -          releasing  -          -          -          -
scanned             -          -          -          checking   -          -
scanned (none)      -          -          -          waiting    -          -
failed              -          waiting    waiting    waiting    -          -
";

#[test]
fn every_event_in_every_phase() {
    let late = Ctx {
        now: at(86_400),
        ..CTX
    };
    let released = Ctx {
        has_leases: false,
        ..CTX
    };
    let all_ended = Ctx {
        has_open: false,
        ..CTX
    };
    let rows = [
        ("start", Event::Start, CTX),
        ("stop", Event::Stop, CTX),
        ("tick", Event::Tick, CTX),
        ("tick (late)", Event::Tick, late),
        ("tick (released)", Event::Tick, released),
        ("tick (all ended)", Event::Tick, all_ended),
        ("cleared", Event::Cleared, CTX),
        ("scanned", Event::Scanned { free: 3 }, CTX),
        ("scanned (none)", Event::Scanned { free: 0 }, CTX),
        ("failed", Event::Failed("why".to_owned()), CTX),
    ];
    let mut text = format!("{:<20}", "event");
    for name in PhaseName::ALL {
        write!(text, "{:<11}", name.as_str()).unwrap();
    }
    for (label, event, ctx) in rows {
        text.truncate(text.trim_end().len());
        write!(text, "\n{label:<20}").unwrap();
        for name in PhaseName::ALL {
            let cell = match in_phase(name).step(&event, &ctx) {
                Err(refused) => {
                    assert_eq!(refused.0, name);
                    "-"
                }
                Ok((next, _)) if next.phase.name() == name => "=",
                Ok((next, _)) => next.phase.name().as_str(),
            };
            write!(text, "{cell:<11}").unwrap();
        }
    }
    assert_eq!(format!("{}\n", text.trim_end()), MATRIX);
}

#[test]
fn a_cycle_that_is_off_stays_off() {
    let off = Cycle::default();
    assert_eq!(after(&off, &Event::Tick, &CTX), off);
    let stopped = off.step(&Event::Stop, &CTX).unwrap();
    assert_eq!(stopped, (off, None));
}

#[test]
fn start_changes_nothing_of_a_cycle_that_is_on() {
    for name in PhaseName::ALL {
        let cycle = in_phase(name);
        assert_eq!(
            cycle.step(&Event::Start, &CTX).unwrap(),
            (cycle.clone(), None)
        );
    }
}

#[test]
fn stopping_a_pause_keeps_the_outcome_of_the_last_round() {
    let (next, fact) = in_phase(PhaseName::Waiting)
        .step(&Event::Stop, &CTX)
        .unwrap();
    assert_eq!(
        (next.last_outcome, fact),
        (Some(Outcome::Completed), Some(Fact::TurnedOff))
    );
    let (next, fact) = in_phase(PhaseName::Checking)
        .step(&Event::Stop, &CTX)
        .unwrap();
    assert_eq!(next.last_outcome, Some(Outcome::Stopped));
    assert_eq!(fact, Some(Fact::Ended(Outcome::Stopped)));
    assert_eq!((next.runs_total, next.next_run_at()), (0, None));
}

#[test]
fn a_new_interval_counts_from_the_next_pause() {
    let mut cycle = in_phase(PhaseName::Waiting);
    let until = cycle.next_run_at();
    cycle.interval_secs = 60;
    let cycle = after(&cycle, &Event::Tick, &CTX);
    assert_eq!(cycle.next_run_at(), until);
    let mut cycle = in_phase(PhaseName::Checking);
    cycle.interval_secs = 60;
    let ended = Ctx {
        now: at(7),
        has_open: false,
        ..CTX
    };
    assert_eq!(
        after(&cycle, &Event::Tick, &ended).next_run_at(),
        Some(at(67))
    );
}

#[test]
fn without_a_limit_the_checks_are_waited_for() {
    let mut cycle = in_phase(PhaseName::Checking);
    assert_eq!(cycle.due_at(), Some(at(500)));
    cycle.max_run_secs = 0;
    assert_eq!(cycle.due_at(), None);
    let late = Ctx {
        now: at(u32::MAX),
        ..CTX
    };
    assert_eq!(after(&cycle, &Event::Tick, &late), cycle);
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Start),
        1 => Just(Event::Stop),
        8 => Just(Event::Tick),
        3 => Just(Event::Cleared),
        3 => (0_u64..3).prop_map(|free| Event::Scanned { free }),
        1 => Just(Event::Failed("why".to_owned())),
    ]
}

proptest! {
    /// Whatever comes in whatever order: times and phase agree, completed rounds are counted, a
    /// cycle that is off has no round, and every fact is the change that it names.
    #[test]
    fn what_is_shown_agrees(
        steps in proptest::collection::vec(
            (any_event(), 0_u32..200, any::<bool>(), any::<bool>()),
            0..200,
        ),
        interval_secs in 60_u32..300,
        max_run_secs in 0_u32..300,
    ) {
        let mut cycle = Cycle { interval_secs, max_run_secs, ..Cycle::default() };
        let (mut now, mut n_completed, mut n_started, mut n_ended) = (Utc::EPOCH, 0, 0, 0);
        for (event, secs, has_leases, has_open) in steps {
            now = now.plus_secs(secs);
            let ctx = Ctx { now, has_leases, has_open, ..CTX };
            let Ok((next, fact)) = cycle.step(&event, &ctx) else { continue };
            match fact {
                Some(Fact::Started) => {
                    n_started += 1;
                    prop_assert!(!cycle.phase.is_round() && next.phase == Phase::Clearing);
                }
                Some(Fact::Ended(outcome)) => {
                    n_ended += 1;
                    n_completed += u64::from(outcome == Outcome::Completed);
                    prop_assert!(cycle.phase.is_round());
                    prop_assert_eq!(next.last_outcome, Some(outcome));
                    prop_assert_eq!(next.last_finished_at, Some(now));
                    prop_assert_eq!(!next.last_error.is_empty(), outcome == Outcome::Error);
                }
                Some(Fact::TurnedOff) => prop_assert!(cycle.enabled && !next.enabled),
                None => prop_assert_eq!(cycle.phase.is_round(), next.phase.is_round()),
            }
            prop_assert_eq!(next.phase.is_round(), next.run_started_at.is_some());
            prop_assert!(next.enabled || next.phase == Phase::Idle);
            prop_assert_eq!(next.runs_total, n_completed);
            prop_assert_eq!(n_started - n_ended, i32::from(next.phase.is_round()));
            cycle = next;
        }
    }

    /// A cycle that is on and whose steps end always comes to its next round.
    #[test]
    fn a_round_is_never_the_last(start in 0_usize..6, has_leases: bool) {
        let mut cycle = in_phase(PhaseName::ALL[start]);
        let mut now = Utc::EPOCH;
        let mut facts = Vec::new();
        for _ in 0..12 {
            let event = match cycle.phase {
                Phase::Clearing => Event::Cleared,
                Phase::Scanning => Event::Scanned { free: 1 },
                Phase::Idle | Phase::Releasing { .. } | Phase::Checking { .. }
                | Phase::Waiting { .. } => Event::Tick,
            };
            now = cycle.due_at().unwrap_or(now);
            let ctx = Ctx { now, has_leases, ..CTX };
            let (next, fact) = cycle.step(&event, &ctx).unwrap();
            facts.extend(fact);
            cycle = next;
        }
        prop_assert!(facts.contains(&Fact::Started));
        prop_assert!(facts.contains(&Fact::Ended(Outcome::Timeout)));
    }
}
