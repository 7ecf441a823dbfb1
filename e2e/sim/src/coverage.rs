//! What many stories must have reached between them: every state, edge, effect, verdict, fault and
//! kind of step.

use std::collections::{BTreeMap, BTreeSet};

use crate::view::STATES;

/// The table of edges is the one that the machine's own test holds.
const ARCHITECTURE: &str = include_str!("../../../docs/ARCHITECTURE.md");

/// Rows that say nothing else in these states, since the product never asks: it ticks what is due,
/// and whatever is being checked when the configuration changes.
const NEVER_ASKED: &[(&str, &[&str])] = &[
    (
        "tick",
        &[
            "queued",
            "assigning_fip",
            "awaiting_self_check",
            "aggregating",
            "done",
            "failed",
            "occupied",
        ],
    ),
    // What is not handed out yet has no report, and what ended has no deadline.
    (
        "tick (due)",
        &["queued", "assigning_fip", "done", "failed", "occupied"],
    ),
    // Without a report nothing gets as far as to be checked.
    (
        "tick (due, silent)",
        &[
            "queued",
            "checking",
            "aggregating",
            "done",
            "failed",
            "occupied",
        ],
    ),
    // The tally is looked at in `checking` only.
    ("progress (all in)", &["awaiting_self_check"]),
];

/// Rows that differ with the retries used up.
const USED_UP: [&str; 6] = [
    "address fault: assigning_fip > failed",
    "detached: awaiting_self_check > failed",
    "detached: checking > failed",
    "self-check bad: awaiting_self_check > failed",
    "tick (due): awaiting_self_check > failed",
    "tick (due, silent): awaiting_self_check > failed",
];

const EFFECTS: [&str; 8] = [
    "associate",
    "release",
    "forget",
    "record",
    "silence",
    "pause port",
    "wake validator",
    "wake sites",
];

const FAULTS: [&str; 21] = [
    "address exists twice",
    "commit fails",
    "lands after the process's death",
    "late report",
    "late report of a site",
    "listing is refused",
    "no answer in time",
    "read is refused",
    "report of a stranger",
    "status is reported",
    "taken after the write",
    "taken before the write",
    "taken before the write, unseen",
    "the start fails",
    "write is done twice",
    "write is not answered",
    "write is not done",
    "write is refused: address",
    "write is refused: cloud",
    "write is refused: port",
    "write lands late",
];

const STEPS: [&str; 37] = [
    "Agent",
    "AgentStarts",
    "Cancel",
    "CheckType",
    "Clear",
    "ClockJump",
    "Delete",
    "DeleteList",
    "DiskFull",
    "Enqueue",
    "FipBack",
    "FipGone",
    "ForeignBinds",
    "ForeignFrees",
    "Forwarded",
    "Hangs",
    "Heartbeat",
    "Inbound",
    "Kill",
    "Late",
    "LateProber",
    "Orphan",
    "Outage",
    "PortBack",
    "PortGone",
    "Prober",
    "Retention",
    "Scan",
    "Settle",
    "SiteDelete",
    "SiteSet",
    "StatusReported",
    "Targets",
    "Twins",
    "ValidatorAdd",
    "ValidatorDelete",
    "ValidatorSet",
];

fn never(row: &str, state: &str) -> bool {
    let of_row = NEVER_ASKED.iter().filter(|(name, _)| *name == row);
    of_row
        .flat_map(|(_, states)| *states)
        .any(|one| *one == state)
}

/// Edges by the table: `event: before > after`.
fn edges() -> BTreeSet<String> {
    let head = STATES.join(" ");
    let mut lines = ARCHITECTURE.lines().map(str::trim_end).skip_while(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ") != head
    });
    let columns: Vec<usize> = lines
        .next()
        .map(|line| {
            STATES
                .iter()
                .filter_map(|state| line.find(&format!(" {state}")))
                .map(|at| at + 1)
                .collect()
        })
        .unwrap_or_default();
    let mut all = BTreeSet::new();
    for line in lines.take_while(|line| !line.starts_with("```")) {
        let cell = |from: usize| {
            let rest = line.get(from..).unwrap_or_default();
            rest.split_whitespace().next().unwrap_or("-").to_owned()
        };
        let first = columns.first().copied().unwrap_or_default();
        let row = line.get(..first).unwrap_or_default().trim();
        for (state, column) in STATES.iter().zip(&columns) {
            let to = match cell(*column).as_str() {
                "-" => continue,
                "=" => (*state).to_owned(),
                other => other.to_owned(),
            };
            if !never(row, state) {
                all.insert(format!("{row}: {state} > {to}"));
            }
        }
    }
    all
}

/// Everything that has to be reached.
pub(crate) fn wanted() -> BTreeSet<String> {
    let mut all = edges();
    all.extend(USED_UP.map(str::to_owned));
    let named = |kind: &'static str| move |name: &str| format!("{kind} {name}");
    all.extend(STATES.map(named("state")));
    all.extend(["pass", "partial", "fail"].map(named("verdict")));
    all.extend(EFFECTS.map(named("effect")));
    all.extend(FAULTS.map(named("fault")));
    all.extend(STEPS.map(named("step")));
    all
}

/// What was not reached.
pub(crate) fn missing(reached: &BTreeMap<String, u64>) -> Vec<String> {
    let wanted = wanted().into_iter();
    wanted.filter(|one| !reached.contains_key(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let all = edges();
        assert!(all.contains("claim: queued > assigning_fip"));
        assert!(all.contains("delete: checking > (gone)"));
        assert!(all.contains("self-check ok: checking > checking"));
        assert!(!all.iter().any(|edge| edge.starts_with("late report")));
        assert_eq!(all.len(), 40, "{all:?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut reached: BTreeMap<String, u64> = wanted().into_iter().map(|one| (one, 1)).collect();
        assert!(missing(&reached).is_empty());
        reached.remove("state occupied");
        assert_eq!(missing(&reached), ["state occupied"]);
    }
}
