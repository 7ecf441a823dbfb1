//! The guard under random schedules: whatever foreign clients, lost answers and late writes come
//! between, nothing is taken from a foreign port, and what we say is true.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;

use civ_cloud::fake::{FakeCloud, Trouble, Write};
use civ_cloud::guard::{Association, OwnPort, OwnPorts, Release, associate, release};
use civ_cloud::{Cloud, Fault};
use civ_types::{Address, FipId, PortId};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn port(id: &str) -> PortId {
    PortId::parse(id).unwrap()
}

fn fip() -> FipId {
    FipId::parse("fip").unwrap()
}

/// What happens between two of our own steps.
#[derive(Debug, Clone)]
enum Move {
    Foreign(Option<&'static str>),
    Report,
    Trouble(Trouble),
    Outage(bool),
    Associate,
    Release,
}

fn moves() -> impl Strategy<Value = Move> {
    let foreign = prop_oneof![Just(None), Just(Some("port-x")), Just(Some("port-2"))];
    let busy = Fault::cloud("busy");
    let trouble = prop_oneof![
        Just(Trouble::LostBefore),
        Just(Trouble::LostAfter),
        (0_u32..7).prop_map(Trouble::LandsAfterReads),
        Just(Trouble::TakenBefore(port("port-x"))),
        Just(Trouble::TakenBeforeUnseen(port("port-x"))),
        Just(Trouble::TakenAfter(port("port-x"))),
        Just(Trouble::ReportedBefore),
        Just(Trouble::ReportedBeforeUnseen),
        Just(Trouble::Refused(busy)),
    ];
    prop_oneof![
        3 => foreign.prop_map(Move::Foreign),
        4 => trouble.prop_map(Move::Trouble),
        3 => Just(Move::Report),
        1 => any::<bool>().prop_map(Move::Outage),
        6 => Just(Move::Associate),
        4 => Just(Move::Release),
    ]
}

#[derive(Debug, Default)]
struct Reached {
    associated: Cell<u32>,
    adopted: Cell<u32>,
    occupied: Cell<u32>,
    conflict: Cell<u32>,
    failed: Cell<u32>,
    released: Cell<u32>,
    not_ours: Cell<u32>,
}

fn count(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

async fn bind(cloud: &FakeCloud, ours: &OwnPort, own: &OwnPorts, reached: &Reached) {
    let Ok(Some(seen)) = cloud.get(&fip()).await else {
        return;
    };
    let (n_taken, n_writes) = (cloud.n_taken(), cloud.writes().len());
    let end = associate(cloud, seen, ours, own).await;
    let was_taken = n_taken < cloud.n_taken();
    let took = cloud.writes().split_off(n_writes);
    if took
        .iter()
        .any(|write| write.port.is_some() && is_taken_from_x(write))
    {
        assert!(
            matches!(end, Association::Conflict { ours: true, .. }),
            "unseen by the cloud, but not by us: {end:?}"
        );
    }
    match end {
        Association::Associated { adopted, .. } => {
            count(if adopted {
                &reached.adopted
            } else {
                &reached.associated
            });
            assert_eq!(cloud.port_of(&fip()).as_ref(), Some(ours.id()));
        }
        Association::Occupied { .. } => count(&reached.occupied),
        Association::Conflict { ours: is_ours, .. } => {
            count(&reached.conflict);
            assert!(was_taken, "nobody else changed it");
            assert_eq!(cloud.port_of(&fip()).as_ref() == Some(ours.id()), is_ours);
        }
        Association::Failed(_) => count(&reached.failed),
    }
}

fn is_taken_from_x(write: &Write) -> bool {
    let from = write.replaced.as_ref();
    from.is_some_and(|port| port.as_str() == "port-x")
}

async fn free(cloud: &FakeCloud, ours: &OwnPort, reached: &Reached) {
    match release(cloud, &fip(), ours).await {
        Release::Released | Release::AlreadyFree => {
            count(&reached.released);
            let now = cloud.port_of(&fip());
            assert_ne!(now.as_ref(), Some(ours.id()));
        }
        Release::NotOurs { .. } => {
            count(&reached.not_ours);
            assert_ne!(cloud.port_of(&fip()).as_ref(), Some(ours.id()));
        }
        Release::Gone | Release::Failed(_) => count(&reached.failed),
    }
}

async fn play(moves: &[Move], reached: &Reached) {
    let cloud = FakeCloud::new();
    for id in ["port-1", "port-2", "port-x"] {
        cloud.add_port(port(id));
    }
    cloud.add_fip(fip(), Address::parse("203.0.113.10").unwrap(), None);
    let own = OwnPorts::new(["port-1", "port-2"].map(port));
    let ours = own.own(&port("port-1")).unwrap();
    for one in moves {
        match one {
            Move::Report => cloud.report_status(&fip()),
            Move::Foreign(to) => cloud.rebind(&fip(), to.map(port)),
            Move::Trouble(trouble) => cloud.script(trouble.clone()),
            Move::Outage(is_on) => cloud.set_outage(is_on.then(|| Fault::cloud("away"))),
            Move::Associate => bind(&cloud, &ours, &own, reached).await,
            Move::Release => free(&cloud, &ours, reached).await,
        }
        // What the cloud does without our condition cannot be prevented, only noticed.
        let writes = cloud.writes();
        let mut conditional = writes.iter().filter(|write| write.revision.is_some());
        assert!(
            !conditional.any(is_taken_from_x),
            "taken from a foreign port: {writes:?}"
        );
    }
}

#[test]
fn rule_02_and_04_hold_under_random_schedules() {
    let reached = Reached::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    });
    let schedules = prop::collection::vec(moves(), 1..30);
    let outcome = runner.run(&schedules, |moves| {
        runtime.block_on(play(&moves, &reached));
        Ok(())
    });
    outcome.unwrap();
    let counts = [
        &reached.associated,
        &reached.adopted,
        &reached.occupied,
        &reached.conflict,
        &reached.failed,
        &reached.released,
        &reached.not_ours,
    ];
    assert!(
        counts.iter().all(|cell| cell.get() > 100),
        "too little was reached: {reached:?}"
    );
}
