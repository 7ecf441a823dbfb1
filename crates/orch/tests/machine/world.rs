//! What the tests of the machine share: a fresh address, a generator of happenings.

use std::collections::BTreeSet;

use civ_orch::attempt::{
    Attempt, Event, FaultKind, Head, Order, Place, Policy, Report, Retries, Row, Stamps, StateName,
};
use civ_orch::expected::{Tally, judge};
use civ_types::{Address, AttemptNo, ClaimNo, CycleId, FipId, IpId, PortId, ValidatorId};
use proptest::prelude::*;

/// A tally of which nothing is missing any more, or everything still is.
pub(crate) fn tally(complete: bool) -> Tally {
    Tally {
        complete,
        judgement: judge(&BTreeSet::new(), &std::collections::BTreeMap::new(), true),
    }
}

/// An address that was just added.
pub(crate) fn fresh() -> Attempt {
    let head = Head {
        ip: IpId(1),
        address: Address::parse("203.0.113.10").unwrap(),
        attempt: AttemptNo(1),
        cycle: CycleId(1),
        claim: ClaimNo(0),
        sequence: 1,
        retries: Retries::default(),
        avoid: None,
        place: None,
        stamps: Stamps::default(),
        last_error: String::new(),
    };
    let row = Row {
        head,
        state: StateName::Queued,
        due_at: None,
        verdict: None,
        cause: None,
    };
    Attempt::from_row(row).unwrap()
}

/// The place that validator `n` offers.
pub(crate) fn place(n: u8) -> Place {
    Place {
        validator: ValidatorId::parse(&format!("v{n}")).unwrap(),
        port: PortId::parse(&format!("port-{n}")).unwrap(),
        fip: None,
    }
}

/// The report of a confirmed association.
pub(crate) fn associated() -> Report {
    Report::Associated {
        fip: FipId::parse("fip-1").unwrap(),
    }
}

prop_compose! {
    /// Any timers and limits.
    pub(crate) fn policy()(
        answer_secs in 1..300_u32,
        lease_secs in 1..300_u32,
        window_secs in 1..300_u32,
        release_grace_secs in 1..300_u32,
        assign_retries_max in 0..4_u32,
        self_check_retries_max in 0..4_u32,
    ) -> Policy {
        Policy {
            answer_secs,
            lease_secs,
            window_secs,
            release_grace_secs,
            assign_retries_max,
            self_check_retries_max,
        }
    }
}

/// What the generator makes; it becomes an [`Event`] when its turn comes, because only then is it
/// known which claim is the current one.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The scheduler gives the address to validator `n`.
    Claimed(u8),
    /// Another order.
    Ordered(Order),
    /// A report of the claim that many claims ago.
    Reported(i64, Report),
}

impl Happening {
    /// The event, now that the current claim is known. A claim number is minted once.
    pub(crate) fn to_event(&self, current: ClaimNo) -> Event {
        match self {
            Self::Claimed(n) => Event::Order(Order::Claim {
                claim: ClaimNo(current.0 + 1),
                place: place(*n),
            }),
            Self::Ordered(order) => Event::Order(order.clone()),
            Self::Reported(claims_ago, report) => {
                Event::Report(ClaimNo((current.0 - claims_ago).max(0)), report.clone())
            }
        }
    }
}

fn report() -> impl Strategy<Value = Report> {
    let seen = || "seen".to_owned();
    let failed = |kind| Report::CloudFailed {
        kind,
        why: "why".to_owned(),
    };
    let self_check = |passed| Report::SelfCheck {
        passed,
        detail: String::new(),
    };
    prop_oneof![
        8 => Just(associated()),
        1 => Just(Report::Occupied { seen: seen() }),
        1 => any::<bool>().prop_map(move |ours| Report::Conflict { ours, seen: seen() }),
        1 => Just(failed(FaultKind::Address)),
        1 => Just(failed(FaultKind::Port)),
        1 => Just(failed(FaultKind::Cloud)),
        1 => Just(Report::Detached { seen: seen() }),
        8 => Just(self_check(true)),
        1 => Just(self_check(false)),
        4 => Just(Report::Progress),
        4 => Just(Report::Released),
    ]
}

/// Orders and reports in the proportions that let runs get far.
pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    let claims_ago = prop_oneof![8 => Just(0_i64), 1 => Just(1), 1 => Just(2)];
    prop_oneof![
        12 => (claims_ago, report()).prop_map(|(ago, report)| Happening::Reported(ago, report)),
        6 => (1..4_u8).prop_map(Happening::Claimed),
        4 => Just(Happening::Ordered(Order::Tick)),
        1 => Just(Happening::Ordered(Order::Cancel)),
        2 => (2..9_i64).prop_map(|n| Happening::Ordered(Order::Enqueue { cycle: CycleId(n) })),
        1 => prop_oneof![3 => Just(Order::Tick), 1 => Just(Order::Delete)]
            .prop_map(Happening::Ordered),
    ]
}

/// Mostly moments, sometimes longer than any timer.
pub(crate) fn pause_micros() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..5_000_000_i64, 1 => 0..600_000_000_i64]
}

/// One step of a run: what happens, after which pause, with which tally and heard flag.
pub(crate) type Turn = (Happening, i64, bool, bool);

/// A run of up to sixty turns.
pub(crate) fn run() -> impl Strategy<Value = Vec<Turn>> {
    let complete = prop_oneof![1 => Just(true), 1 => Just(false)];
    prop::collection::vec(
        (happening(), pause_micros(), complete, any::<bool>()),
        1..60,
    )
}
