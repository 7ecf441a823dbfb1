//! One set of tests for the guard, run against the cloud in memory and against OpenStack's client
//! with the simulated OpenStack over HTTP. `port-1` and `port-2` are ours, `port-x` and `port-y`
//! are not; `.10` to `.19` are free, `.30` has port forwardings.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::collections::BTreeMap;

use civ_cloud::fake::{FakeCloud, PageTrouble, Trouble as FakeTrouble};
use civ_cloud::guard::{Association, OwnPort, OwnPorts, Release, associate, release};
use civ_cloud::walk::{Next, Walk};
use civ_cloud::{Cloud, Fault, FloatingIp, OpenStack};
use civ_cloudsim::{Action, AnswerBody, FipSetup, Match, PortSetup, Setup};
use civ_types::{FipId, PortId};
use common::{Served, address, ip, port};

/// What the next write meets.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Lost, and not carried out.
    LostBefore,
    /// Carried out, but its answer lost.
    LostAfter,
    /// Its answer lost, and carried out a while later.
    LandsLate,
    /// A foreign client binds the address to `port-x` between our read and our write.
    TakenBefore,
    /// As before, and the cloud forgets our condition.
    TakenBeforeUnseen,
    /// A foreign client moves the address to `port-x` between our write and our reading back.
    TakenAfter,
    /// The port goes away just before.
    PortVanishes,
    /// The cloud is too busy.
    TooMany,
}

/// A cloud of either kind, and a way to play the others in it.
trait Rig {
    fn cloud(&self) -> &dyn Cloud;
    fn script(&self, trouble: Trouble);
    async fn rebind(&self, last: u8, port: Option<&str>);
    async fn remove_fip(&self, last: u8);
    /// Before the `nth` page from now, counted from 1, the row that it begins behind is deleted.
    fn remove_marker(&self, nth: u32);
    fn port_of(&self, last: u8) -> Option<String>;
    fn n_writes(&self) -> usize;
}

struct InMemory(FakeCloud);

impl InMemory {
    fn new() -> Self {
        let cloud = FakeCloud::new();
        for id in ["port-1", "port-2", "port-x", "port-y"] {
            cloud.add_port(port(id));
        }
        for last in (10..20).chain([30]) {
            cloud.add_fip(Self::id(last), address(last), None);
        }
        cloud.forward(&Self::id(30));
        Self(cloud)
    }

    fn id(last: u8) -> FipId {
        FipId::parse(&format!("fip-{last}")).unwrap()
    }
}

impl Rig for InMemory {
    fn cloud(&self) -> &dyn Cloud {
        &self.0
    }

    fn script(&self, trouble: Trouble) {
        let other = port("port-x");
        self.0.script(match trouble {
            Trouble::LostBefore => FakeTrouble::LostBefore,
            Trouble::LostAfter => FakeTrouble::LostAfter,
            Trouble::LandsLate => FakeTrouble::LandsAfterReads(2),
            Trouble::TakenBefore => FakeTrouble::TakenBefore(other),
            Trouble::TakenBeforeUnseen => FakeTrouble::TakenBeforeUnseen(other),
            Trouble::TakenAfter => FakeTrouble::TakenAfter(other),
            Trouble::PortVanishes => return self.0.remove_port(&port("port-1")),
            Trouble::TooMany => FakeTrouble::Refused(too_many()),
        });
    }

    async fn rebind(&self, last: u8, to: Option<&str>) {
        self.0.rebind(&Self::id(last), to.map(port));
    }

    async fn remove_fip(&self, last: u8) {
        self.0.remove_fip(&Self::id(last));
    }

    fn remove_marker(&self, nth: u32) {
        for _ in 1..nth {
            self.0.script_page(None);
        }
        self.0.script_page(Some(PageTrouble::MarkerGone));
    }

    fn port_of(&self, last: u8) -> Option<String> {
        let port = self.0.port_of(&Self::id(last))?;
        Some(port.to_string())
    }

    fn n_writes(&self) -> usize {
        self.0.writes().len()
    }
}

struct OverHttp {
    served: Served,
    client: OpenStack,
}

impl OverHttp {
    async fn new() -> Self {
        let mut setup = Setup::default();
        setup.ports.push(PortSetup {
            id: "port-y".to_owned(),
            fixed_ip: [10, 77, 0, 201].into(),
            ours: false,
        });
        setup.fips.push(FipSetup {
            address: ip(30),
            port: None,
            forwarded: true,
        });
        let served = Served::new(setup).await;
        let client = served.client();
        Self { served, client }
    }
}

impl Rig for OverHttp {
    fn cloud(&self) -> &dyn Cloud {
        &self.client
    }

    fn script(&self, trouble: Trouble) {
        let other = "port-x".to_owned();
        let action = match trouble {
            Trouble::LostBefore => Action::CutBefore,
            Trouble::LostAfter => Action::CutAfter,
            // The client waits for 2 s, then reads at once, 0.25 s and 0.75 s later.
            Trouble::LandsLate => Action::DelayBefore { ms: 2_500 },
            Trouble::TakenBefore => Action::TakeBefore { port: other },
            Trouble::TakenBeforeUnseen => Action::TakeBeforeUnseen { port: other },
            Trouble::TakenAfter => Action::TakeAfter { port: other },
            Trouble::PortVanishes => Action::RemovePort {
                port: "port-1".to_owned(),
            },
            Trouble::TooMany => Action::Answer {
                status: 429,
                body: AnswerBody::Empty,
                retry_after: Some(7),
            },
        };
        self.served
            .rule(Match::next("PUT", "/v2.0/floatingips/"), action);
    }

    async fn rebind(&self, last: u8, to: Option<&str>) {
        let done = match to {
            Some(port) => self.served.sim.bind_foreign(ip(last), port).await,
            None => self.served.sim.unbind(ip(last)).await,
        };
        done.unwrap();
    }

    async fn remove_fip(&self, last: u8) {
        self.served.sim.remove_fip(ip(last)).await;
    }

    fn remove_marker(&self, nth: u32) {
        let matches = Match {
            nth,
            ..Match::next("GET", "/v2.0/floatingips")
        };
        self.served.rule(matches, Action::RemoveMarker);
    }

    fn port_of(&self, last: u8) -> Option<String> {
        assert_eq!(self.served.sim.faults(), Vec::<String>::new());
        let attached = self.served.sim.attached();
        let found = attached
            .into_iter()
            .find(|entry| entry.address == ip(last))?;
        Some(found.port)
    }

    fn n_writes(&self) -> usize {
        self.served.n_calls("PUT", "/v2.0/floatingips/")
    }
}

fn too_many() -> Fault {
    Fault::Cloud {
        text: "too many requests".to_owned(),
        retry_after: Some(std::time::Duration::from_secs(7)),
    }
}

fn own() -> OwnPorts {
    OwnPorts::new(["port-1", "port-2"].map(port))
}

fn own_port(id: &str) -> OwnPort {
    own().own(&port(id)).unwrap()
}

async fn seen(rig: &impl Rig, last: u8) -> FloatingIp {
    rig.cloud().find(address(last)).await.unwrap().unwrap()
}

async fn bind(rig: &impl Rig, last: u8) -> Association {
    let seen = seen(rig, last).await;
    associate(rig.cloud(), seen, &own_port("port-1"), &own()).await
}

async fn free(rig: &impl Rig, last: u8) -> Release {
    let id = seen(rig, last).await.id;
    release(rig.cloud(), &id, &own_port("port-1")).await
}

#[track_caller]
fn assert_bound(end: &Association, was_adopted: bool) {
    let Association::Associated { fip, adopted } = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (fip.port.clone(), *adopted),
        (Some(port("port-1")), was_adopted)
    );
}

async fn a_free_address_is_bound_and_released(rig: &impl Rig) {
    assert_bound(&bind(rig, 10).await, false);
    assert_eq!(rig.port_of(10).as_deref(), Some("port-1"));
    assert_eq!(free(rig, 10).await, Release::Released);
    assert_eq!(rig.port_of(10), None);
    assert_eq!(free(rig, 10).await, Release::AlreadyFree);
    assert_eq!(rig.n_writes(), 2);
}

async fn what_is_on_our_port_already_is_adopted_without_a_write(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    assert_bound(&bind(rig, 10).await, true);
    assert_eq!(rig.n_writes(), 0);
}

async fn what_is_on_a_foreign_port_is_refused(rig: &impl Rig) {
    rig.rebind(10, Some("port-x")).await;
    let end = bind(rig, 10).await;
    assert!(
        matches!(&end, Association::Occupied { seen } if seen.contains("port-x")),
        "{end:?}"
    );
    assert_eq!(
        (rig.n_writes(), rig.port_of(10).as_deref()),
        (0, Some("port-x"))
    );
}

async fn what_has_port_forwardings_is_refused(rig: &impl Rig) {
    let end = bind(rig, 30).await;
    assert!(matches!(end, Association::Occupied { .. }), "{end:?}");
    assert_eq!(rig.n_writes(), 0);
}

async fn an_orphan_on_another_port_of_ours_is_moved(rig: &impl Rig) {
    rig.rebind(10, Some("port-2")).await;
    assert_bound(&bind(rig, 10).await, false);
    assert_eq!(rig.port_of(10).as_deref(), Some("port-1"));
}

/// Every way in which a foreign client can come between: its port keeps the address, or we say
/// that it is ours to release.
async fn rule_02_never_taken_from_a_foreign_port(rig: &impl Rig) {
    rig.script(Trouble::TakenBefore);
    let end = bind(rig, 10).await;
    assert!(matches!(end, Association::Occupied { .. }), "{end:?}");
    assert_eq!(rig.port_of(10).as_deref(), Some("port-x"));

    rig.rebind(10, None).await;
    rig.script(Trouble::TakenAfter);
    let writes = rig.n_writes();
    let end = bind(rig, 11).await;
    assert!(
        matches!(end, Association::Conflict { ours: false, .. }),
        "{end:?}"
    );
    assert_eq!(rig.port_of(11).as_deref(), Some("port-x"));
    assert_eq!(rig.n_writes(), writes + 1, "never written again");
}

/// The cloud dropped our condition and moved the address: that cannot be prevented, but is seen.
async fn a_dropped_condition_is_seen_by_the_revision(rig: &impl Rig) {
    rig.script(Trouble::TakenBeforeUnseen);
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Conflict { ours: true, .. }),
        "{end:?}"
    );
    assert_eq!(free(rig, 10).await, Release::Released);
}

async fn a_view_that_grew_stale_is_refreshed(rig: &impl Rig) {
    let seen = seen(rig, 10).await;
    rig.rebind(10, Some("port-x")).await;
    rig.rebind(10, None).await;
    let end = associate(rig.cloud(), seen, &own_port("port-1"), &own()).await;
    assert_bound(&end, false);
    assert_eq!(rig.n_writes(), 2);
}

async fn a_write_that_was_lost_before_its_effect_fails(rig: &impl Rig) {
    rig.script(Trouble::LostBefore);
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Failed(Fault::Cloud { .. })),
        "{end:?}"
    );
    assert_eq!((rig.n_writes(), rig.port_of(10)), (1, None));
}

async fn a_write_whose_answer_was_lost_is_adopted(rig: &impl Rig) {
    rig.script(Trouble::LostAfter);
    assert_bound(&bind(rig, 10).await, true);
    assert_eq!(rig.n_writes(), 1);
}

async fn a_write_that_lands_late_is_adopted(rig: &impl Rig) {
    rig.script(Trouble::LandsLate);
    assert_bound(&bind(rig, 10).await, true);
}

async fn a_release_whose_answer_was_lost_is_settled_by_reading(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    rig.script(Trouble::LostAfter);
    assert_eq!(free(rig, 10).await, Release::Released);
    rig.rebind(10, Some("port-1")).await;
    rig.script(Trouble::LostBefore);
    let end = free(rig, 10).await;
    assert!(
        matches!(end, Release::Failed(Fault::Cloud { .. })),
        "{end:?}"
    );
    assert_eq!(free(rig, 10).await, Release::Released);
}

async fn rule_04_release_never_touches_anothers(rig: &impl Rig) {
    rig.rebind(10, Some("port-x")).await;
    let end = free(rig, 10).await;
    assert!(
        matches!(&end, Release::NotOurs { seen } if seen.contains("port-x")),
        "{end:?}"
    );
    assert_eq!(rig.n_writes(), 0);

    // Moved between our read and our write: the condition fails, and the next read shows whose.
    rig.rebind(10, None).await;
    rig.rebind(11, Some("port-1")).await;
    rig.script(Trouble::TakenBefore);
    let end = free(rig, 11).await;
    assert!(matches!(end, Release::NotOurs { .. }), "{end:?}");
    assert_eq!(
        (rig.n_writes(), rig.port_of(11).as_deref()),
        (1, Some("port-x"))
    );

    // Another port of ours is another's, too: its lease is not this one.
    rig.rebind(12, Some("port-2")).await;
    assert!(matches!(free(rig, 12).await, Release::NotOurs { .. }));
    assert_eq!(rig.port_of(12).as_deref(), Some("port-2"));
}

async fn what_does_not_exist_any_more_is_gone(rig: &impl Rig) {
    let seen = seen(rig, 10).await;
    rig.remove_fip(10).await;
    assert_eq!(rig.cloud().find(address(10)).await, Ok(None));
    assert_eq!(rig.cloud().get(&seen.id).await, Ok(None));
    let end = release(rig.cloud(), &seen.id, &own_port("port-1")).await;
    assert_eq!(end, Release::Gone);
    let end = associate(rig.cloud(), seen, &own_port("port-1"), &own()).await;
    assert!(
        matches!(end, Association::Failed(Fault::Address { .. })),
        "{end:?}"
    );
}

async fn a_port_that_cannot_is_the_ports_fault(rig: &impl Rig) {
    rig.rebind(11, Some("port-1")).await;
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Failed(Fault::Port { .. })),
        "{end:?}"
    );
    rig.script(Trouble::PortVanishes);
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Failed(Fault::Port { .. })),
        "{end:?}"
    );
}

async fn a_busy_cloud_is_asked_once_and_says_how_long(rig: &impl Rig) {
    rig.script(Trouble::TooMany);
    let end = bind(rig, 10).await;
    let Association::Failed(Fault::Cloud { retry_after, .. }) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (retry_after.map(|d| d.as_secs()), rig.n_writes()),
        (Some(7), 1)
    );
}

async fn what_hangs_on_our_ports_is_listed(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    rig.rebind(11, Some("port-x")).await;
    rig.rebind(12, Some("port-2")).await;
    let ports: Vec<PortId> = own().iter().cloned().collect();
    let listed = rig.cloud().on_ports(&ports).await.unwrap();
    let mut found: Vec<String> = listed.iter().map(|fip| fip.address.to_string()).collect();
    found.sort();
    assert_eq!(found, ["203.0.113.10", "203.0.113.12"]);
    assert_eq!(rig.cloud().on_ports(&[]).await, Ok(Vec::new()));
}

/// All pages to the end: each address once, in order, and whether it is free.
async fn listed(rig: &impl Rig, limit: u32) -> Vec<(u8, bool)> {
    let (mut walk, mut marker, mut found) = (Walk::default(), None, BTreeMap::new());
    loop {
        let page = rig.cloud().page(marker.as_ref(), limit).await.unwrap();
        assert!(page.rows.len() <= limit as usize);
        let next = walk.take(page.rows.iter().map(|row| row.id.clone()), page.has_more);
        for row in page.rows {
            let text = row.address.to_string();
            let last: u8 = text.rsplit('.').next().unwrap().parse().unwrap();
            found.insert(last, (row.id, (last, row.is_free)));
        }
        match next.unwrap() {
            Next::End => {
                let seen = found.into_values().filter(|(id, _)| walk.saw(id));
                let mut seen: Vec<_> = seen.map(|(_, row)| row).collect();
                seen.sort_unstable();
                return seen;
            }
            Next::After(id) => marker = id,
        }
    }
}

async fn all_are_listed_whatever_the_size_of_the_pages(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    rig.rebind(11, Some("port-x")).await;
    let mut expected: Vec<(u8, bool)> = (10..20).map(|last| (last, last > 11)).collect();
    expected.push((30, false));
    for limit in [1, 2, 3, 11, 1_000] {
        assert_eq!(listed(rig, limit).await, expected, "pages of {limit}");
    }
}

async fn a_marker_that_vanishes_hides_nothing(rig: &impl Rig) {
    rig.remove_marker(3);
    let found = listed(rig, 2).await;
    assert_eq!(found.len(), 10, "and is not there itself");
    assert_eq!(listed(rig, 2).await, found);
}

macro_rules! suite {
    ($($name:ident)*) => {
        mod in_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(&super::InMemory::new()).await;
            })*
        }

        mod over_http {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::OverHttp::new().await).await;
            })*
        }
    };
}

suite! {
    a_free_address_is_bound_and_released
    what_is_on_our_port_already_is_adopted_without_a_write
    what_is_on_a_foreign_port_is_refused
    what_has_port_forwardings_is_refused
    an_orphan_on_another_port_of_ours_is_moved
    rule_02_never_taken_from_a_foreign_port
    a_dropped_condition_is_seen_by_the_revision
    a_view_that_grew_stale_is_refreshed
    a_write_that_was_lost_before_its_effect_fails
    a_write_whose_answer_was_lost_is_adopted
    a_write_that_lands_late_is_adopted
    a_release_whose_answer_was_lost_is_settled_by_reading
    rule_04_release_never_touches_anothers
    what_does_not_exist_any_more_is_gone
    a_port_that_cannot_is_the_ports_fault
    a_busy_cloud_is_asked_once_and_says_how_long
    what_hangs_on_our_ports_is_listed
    all_are_listed_whatever_the_size_of_the_pages
    a_marker_that_vanishes_hides_nothing
}
