//! Every event in every state, as a table: the same text stands in docs/ARCHITECTURE.md.

use std::fmt::Write as _;

use crate::world::{associated, fresh, place, tally};
use civ_orch::attempt::{Attempt, Ctx, Event, FaultKind, Order, Policy, Report, StateName};
use civ_types::{ClaimNo, CycleId, Utc};

fn policy(retries: u32) -> Policy {
    Policy {
        answer_secs: 60,
        lease_secs: 60,
        window_secs: 60,
        release_grace_secs: 60,
        assign_retries_max: retries,
        self_check_retries_max: retries,
    }
}

/// Another way to look at the same events: late enough for every deadline.
#[derive(Clone, Copy)]
struct View {
    late: bool,
    complete: bool,
    heard: bool,
}

const PLAIN: View = View {
    late: false,
    complete: false,
    heard: true,
};

fn after(attempt: Attempt, event: &Event, policy: &Policy, view: View) -> Option<Attempt> {
    let now = if view.late {
        Utc::EPOCH.plus_secs(3600)
    } else {
        Utc::EPOCH
    };
    let tally = tally(view.complete);
    let ctx = Ctx {
        now,
        policy,
        tally: &tally,
        heard: view.heard,
        queue_end: 5,
    };
    attempt.step(event, &ctx).unwrap().next
}

fn self_check(passed: bool) -> Report {
    Report::SelfCheck {
        passed,
        detail: String::new(),
    }
}

fn failed(kind: FaultKind) -> Report {
    Report::CloudFailed {
        kind,
        why: String::new(),
    }
}

/// The shortest way to a state.
fn in_state(name: StateName, policy: &Policy) -> Attempt {
    let claim = Event::Order(Order::Claim {
        claim: ClaimNo(1),
        place: place(1),
    });
    let report = |report| Event::Report(ClaimNo(1), report);
    let occupied = Report::Occupied {
        seen: String::new(),
    };
    let cancel = Event::Order(Order::Cancel);
    let plain = PLAIN;
    let whole = View {
        complete: true,
        ..PLAIN
    };
    let way: Vec<(Event, View)> = match name {
        StateName::Queued => vec![],
        StateName::AssigningFip => vec![(claim, plain)],
        StateName::AwaitingSelfCheck => vec![(claim, plain), (report(associated()), plain)],
        StateName::Checking => {
            vec![
                (claim, plain),
                (report(associated()), plain),
                (report(self_check(true)), plain),
            ]
        }
        StateName::Aggregating | StateName::Done => vec![
            (claim, plain),
            (report(associated()), plain),
            (report(self_check(true)), plain),
            (report(Report::Progress), whole),
        ],
        StateName::Failed => vec![(cancel, plain)],
        StateName::Occupied => vec![(claim, plain), (report(occupied), plain)],
    };
    let mut attempt = fresh();
    for (event, view) in way {
        attempt = after(attempt, &event, policy, view).unwrap();
    }
    if name == StateName::Done {
        attempt = after(attempt, &report(Report::Released), policy, plain).unwrap();
    }
    assert_eq!(attempt.name(), name);
    attempt
}

fn events() -> Vec<(&'static str, Event, View)> {
    let seen = String::new;
    let report = |report| Event::Report(ClaimNo(1), report);
    let tick = || Event::Order(Order::Tick);
    let claim = Event::Order(Order::Claim {
        claim: ClaimNo(2),
        place: place(2),
    });
    let conflict = |ours| report(Report::Conflict { ours, seen: seen() });
    let whole = View {
        complete: true,
        ..PLAIN
    };
    let late = View {
        late: true,
        ..PLAIN
    };
    vec![
        ("claim", claim, PLAIN),
        ("associated", report(associated()), PLAIN),
        ("occupied", report(Report::Occupied { seen: seen() }), PLAIN),
        ("conflict (theirs)", conflict(false), PLAIN),
        ("conflict (ours)", conflict(true), PLAIN),
        ("address fault", report(failed(FaultKind::Address)), PLAIN),
        ("port fault", report(failed(FaultKind::Port)), PLAIN),
        ("cloud fault", report(failed(FaultKind::Cloud)), PLAIN),
        ("detached", report(Report::Detached { seen: seen() }), PLAIN),
        ("self-check ok", report(self_check(true)), PLAIN),
        ("self-check bad", report(self_check(false)), PLAIN),
        ("progress", report(Report::Progress), PLAIN),
        ("progress (all in)", report(Report::Progress), whole),
        ("released", report(Report::Released), PLAIN),
        (
            "late report",
            Event::Report(ClaimNo(99), Report::Released),
            PLAIN,
        ),
        ("tick", tick(), PLAIN),
        ("tick (due)", tick(), late),
        (
            "tick (due, silent)",
            tick(),
            View {
                heard: false,
                ..late
            },
        ),
        ("cancel", Event::Order(Order::Cancel), PLAIN),
        (
            "enqueue",
            Event::Order(Order::Enqueue { cycle: CycleId(2) }),
            PLAIN,
        ),
        ("delete", Event::Order(Order::Delete), PLAIN),
    ]
}

fn cell(name: StateName, event: &Event, policy: &Policy, view: View) -> String {
    let attempt = in_state(name, policy);
    let now = if view.late {
        Utc::EPOCH.plus_secs(3600)
    } else {
        Utc::EPOCH
    };
    let tally = tally(view.complete);
    let ctx = Ctx {
        now,
        policy,
        tally: &tally,
        heard: view.heard,
        queue_end: 5,
    };
    match attempt.step(event, &ctx) {
        Err(_) => "-".to_owned(),
        Ok(step) => match step.next {
            None => "(gone)".to_owned(),
            Some(next) if next.name() == name => "=".to_owned(),
            Some(next) => next.name().to_string(),
        },
    }
}

fn matrix(policy: &Policy) -> String {
    let mut text = format!("{:<20}", "");
    for name in StateName::ALL {
        write!(text, "{name:<20}").unwrap();
    }
    for (label, event, view) in events() {
        text.truncate(text.trim_end().len());
        write!(text, "\n{label:<20}").unwrap();
        for name in StateName::ALL {
            write!(text, "{:<20}", cell(name, &event, policy, view)).unwrap();
        }
    }
    text.trim_end().to_owned()
}

#[test]
fn the_matrix_of_states_and_events() {
    insta::assert_snapshot!("matrix", matrix(&policy(3)));
}

#[test]
fn with_retries_used_up_only_these_cells_differ() {
    let (fresh, used_up) = (matrix(&policy(3)), matrix(&policy(0)));
    let differ: Vec<_> = fresh
        .lines()
        .zip(used_up.lines())
        .filter(|(with, without)| with != without)
        .map(|(_, without)| without.split_once("  ").map_or(without, |(label, _)| label))
        .collect();
    assert_eq!(
        differ,
        ["address fault", "detached", "self-check bad", "tick (due)"]
    );
}

/// The document shows what the machine does, not what it once did.
#[test]
fn the_architecture_document_shows_this_matrix() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ARCHITECTURE.md");
    let document = std::fs::read_to_string(path).unwrap();
    assert!(
        document.contains(&matrix(&policy(3))),
        "docs/ARCHITECTURE.md does not contain the matrix:\n{}",
        matrix(&policy(3))
    );
}
