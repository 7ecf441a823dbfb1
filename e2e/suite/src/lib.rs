//! The tests of a [`Cloud`] and of the guard that stands on it, for whichever cloud there is: the
//! one in memory, OpenStack's client with the simulated OpenStack, and the same with a real one.
//!
//! `port-1` and `port-2` are ours, `port-x` and `port-y` are not; `.10` to `.19` are free, `.30`
//! has port forwardings. How that comes about is a [`Rig`]'s business. A test panics when it fails.
#![warn(missing_docs)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "every function here is a test"
)]

use std::collections::BTreeMap;

use civ_cloud::guard::{Association, OwnPort, OwnPorts, Release, associate, release};
use civ_cloud::walk::{Next, Walk};
use civ_cloud::{Cloud, Fault, FloatingIp};
use civ_types::{Address, PortId};

/// What the next write meets.
#[derive(Debug, Clone, Copy)]
pub enum Trouble {
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
    /// An agent reports the status between our read and our write.
    ReportedBefore,
    /// As before, and the cloud forgets our condition.
    ReportedBeforeUnseen,
    /// The port goes away just before.
    PortVanishes,
    /// The cloud is too busy.
    TooMany,
}

/// A cloud of any kind, and a way to play the others in it.
pub trait Rig {
    /// The cloud, as the product uses it.
    fn cloud(&self) -> &dyn Cloud;
    /// What the next write will meet.
    fn script(&self, trouble: Trouble);
    /// A foreign client binds the address to this port, or to none.
    fn rebind(&self, last: u8, port: Option<&str>) -> impl Future<Output = ()>;
    /// The cloud again, through a client that marks what it holds, where that can be had.
    fn marking(&self) -> &dyn Cloud {
        self.cloud()
    }
    /// Binds the address to this port and frees it, after which its status says for a while that
    /// it is bound: until an agent reports. Only to be asked of `.13`.
    fn leave_active(&self, last: u8, port: &str) -> impl Future<Output = ()>;
    /// A foreign client deletes the floating IP.
    fn remove_fip(&self, last: u8) -> impl Future<Output = ()>;
    /// Before the `nth` page from now, counted from 1, the row that it begins behind is deleted.
    fn remove_marker(&self, nth: u32);
    /// The port that the address is bound to, by its name in this suite.
    fn port_of(&self, last: u8) -> impl Future<Output = Option<String>>;
    /// Writes of ours that the cloud, or what stands in front of it, has met.
    fn n_writes(&self) -> usize;
    /// The floating address of this number.
    fn address(&self, last: u8) -> Address;
    /// The id of the port of this name.
    fn port(&self, name: &str) -> PortId;
}

/// Hands the names of all tests to a macro of yours: `with_tests!(yours)`.
#[macro_export]
macro_rules! with_tests {
    ($then:ident) => {
        $then! {
            a_free_address_is_bound_and_released
            what_is_on_our_port_already_is_adopted_without_a_write
            what_is_on_a_foreign_port_is_refused
            what_has_port_forwardings_is_refused
            an_orphan_on_another_port_of_ours_is_moved
            rule_02_never_taken_from_a_foreign_port
            a_dropped_condition_is_seen_by_the_revision
            a_status_report_is_nobody_elses_change
            a_status_report_explains_no_foreign_change
            a_mark_counts_no_revision_of_its_own
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
    };
}

fn own(rig: &impl Rig) -> OwnPorts {
    OwnPorts::new(["port-1", "port-2"].map(|name| rig.port(name)))
}

fn own_port(rig: &impl Rig) -> OwnPort {
    own(rig).own(&rig.port("port-1")).unwrap()
}

async fn seen(rig: &impl Rig, last: u8) -> FloatingIp {
    rig.cloud().find(rig.address(last)).await.unwrap().unwrap()
}

async fn bind(rig: &impl Rig, last: u8) -> Association {
    let seen = seen(rig, last).await;
    associate(rig.cloud(), seen, &own_port(rig), &own(rig)).await
}

async fn free(rig: &impl Rig, last: u8) -> Release {
    let id = seen(rig, last).await.id;
    release(rig.cloud(), &id, &own_port(rig)).await
}

#[track_caller]
fn assert_bound(rig: &impl Rig, end: &Association, was_adopted: bool) {
    let Association::Associated { fip, adopted } = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (fip.port.clone(), *adopted),
        (Some(rig.port("port-1")), was_adopted)
    );
}

/// A free address is bound and released.
pub async fn a_free_address_is_bound_and_released(rig: &impl Rig) {
    assert_bound(rig, &bind(rig, 10).await, false);
    assert_eq!(rig.port_of(10).await.as_deref(), Some("port-1"));
    assert_eq!(free(rig, 10).await, Release::Released);
    assert_eq!(rig.port_of(10).await, None);
    assert_eq!(free(rig, 10).await, Release::AlreadyFree);
    assert_eq!(rig.n_writes(), 2);
}

/// What is on our port already is adopted without a write.
pub async fn what_is_on_our_port_already_is_adopted_without_a_write(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    assert_bound(rig, &bind(rig, 10).await, true);
    assert_eq!(rig.n_writes(), 0);
}

/// What is on a foreign port is refused.
pub async fn what_is_on_a_foreign_port_is_refused(rig: &impl Rig) {
    rig.rebind(10, Some("port-x")).await;
    let end = bind(rig, 10).await;
    let port = rig.port("port-x");
    assert!(
        matches!(&end, Association::Occupied { seen } if seen.contains(port.as_str())),
        "{end:?}"
    );
    assert_eq!(
        (rig.n_writes(), rig.port_of(10).await.as_deref()),
        (0, Some("port-x"))
    );
}

/// What has port forwardings is refused.
pub async fn what_has_port_forwardings_is_refused(rig: &impl Rig) {
    let end = bind(rig, 30).await;
    assert!(matches!(end, Association::Occupied { .. }), "{end:?}");
    assert_eq!(rig.n_writes(), 0);
}

/// An orphan on another port of ours is moved.
pub async fn an_orphan_on_another_port_of_ours_is_moved(rig: &impl Rig) {
    rig.rebind(10, Some("port-2")).await;
    assert_bound(rig, &bind(rig, 10).await, false);
    assert_eq!(rig.port_of(10).await.as_deref(), Some("port-1"));
}

/// Every way in which a foreign client can come between: its port keeps the address, or we say
/// that it is ours to release.
pub async fn rule_02_never_taken_from_a_foreign_port(rig: &impl Rig) {
    rig.script(Trouble::TakenBefore);
    let end = bind(rig, 10).await;
    assert!(matches!(end, Association::Occupied { .. }), "{end:?}");
    assert_eq!(rig.port_of(10).await.as_deref(), Some("port-x"));

    rig.rebind(10, None).await;
    rig.script(Trouble::TakenAfter);
    let writes = rig.n_writes();
    let end = bind(rig, 11).await;
    assert!(
        matches!(end, Association::Conflict { ours: false, .. }),
        "{end:?}"
    );
    assert_eq!(rig.port_of(11).await.as_deref(), Some("port-x"));
    assert_eq!(rig.n_writes(), writes + 1, "never written again");
}

/// The cloud dropped our condition and moved the address: that cannot be prevented, but is seen.
pub async fn a_dropped_condition_is_seen_by_the_revision(rig: &impl Rig) {
    rig.script(Trouble::TakenBeforeUnseen);
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Conflict { ours: true, .. }),
        "{end:?}"
    );
    assert_eq!(free(rig, 10).await, Release::Released);
}

/// `.13`, free, with a status that is to change any moment.
async fn seen_active(rig: &impl Rig) -> FloatingIp {
    let mut fip = seen(rig, 13).await;
    for _ in 0..10 {
        rig.leave_active(13, "port-x").await;
        fip = seen(rig, 13).await;
        if fip.is_free() && fip.status.as_deref() == Some("ACTIVE") {
            break;
        }
    }
    fip
}

/// An agent's report of a status counts as a change: whether the cloud refuses our write for it, or
/// forgets our condition, the address is ours and nobody took it.
pub async fn a_status_report_is_nobody_elses_change(rig: &impl Rig) {
    for (trouble, n_writes) in [
        (Trouble::ReportedBefore, 2),
        (Trouble::ReportedBeforeUnseen, 1),
    ] {
        let before = seen_active(rig).await;
        let writes = rig.n_writes();
        rig.script(trouble);
        let end = associate(rig.cloud(), before.clone(), &own_port(rig), &own(rig)).await;
        assert_bound(rig, &end, false);
        assert_eq!(rig.n_writes() - writes, n_writes, "{trouble:?}");
        let Association::Associated { fip, .. } = end else {
            panic!("{end:?}");
        };
        assert!(
            before.revision.map(|n| n + 2) <= fip.revision,
            "{trouble:?}: the report came in between: {before:?} {fip:?}"
        );
        assert_eq!(free(rig, 13).await, Release::Released);
    }
}

/// A foreign client moved the address, unseen, whose status was about to change anyway.
pub async fn a_status_report_explains_no_foreign_change(rig: &impl Rig) {
    let before = seen_active(rig).await;
    rig.script(Trouble::TakenBeforeUnseen);
    let end = associate(rig.cloud(), before, &own_port(rig), &own(rig)).await;
    assert!(
        matches!(end, Association::Conflict { ours: true, .. }),
        "{end:?}"
    );
    assert_eq!(free(rig, 13).await, Release::Released);
}

/// The port and the mark change in one call, which counts once; the mark goes with the release.
pub async fn a_mark_counts_no_revision_of_its_own(rig: &impl Rig) {
    let cloud = rig.marking();
    let before = cloud.find(rig.address(10)).await.unwrap().unwrap();
    let port = own_port(rig);
    let bound = cloud.bind(&before, Some(port.id())).await.unwrap();
    assert_eq!(bound.revision, before.revision.map(|n| n + 1));
    let freed = cloud.get(&before.id).await.unwrap().unwrap();
    let freed = cloud.bind(&freed, None).await.unwrap();
    assert_eq!(freed.description, before.description);
    let says = |fip: &FloatingIp| fip.description.clone().is_some_and(|text| !text.is_empty());
    assert_eq!(says(&bound), before.description.is_some(), "{bound:?}");

    let end = associate(cloud, freed, &port, &own(rig)).await;
    assert_bound(rig, &end, false);
    assert_eq!(release(cloud, &before.id, &port).await, Release::Released);
    assert_eq!(seen(rig, 10).await.description, before.description);
}

/// A view that grew stale is refreshed.
pub async fn a_view_that_grew_stale_is_refreshed(rig: &impl Rig) {
    let seen = seen(rig, 10).await;
    rig.rebind(10, Some("port-x")).await;
    rig.rebind(10, None).await;
    let end = associate(rig.cloud(), seen, &own_port(rig), &own(rig)).await;
    assert_bound(rig, &end, false);
    assert_eq!(rig.n_writes(), 2);
}

/// A write that was lost before its effect fails.
pub async fn a_write_that_was_lost_before_its_effect_fails(rig: &impl Rig) {
    rig.script(Trouble::LostBefore);
    let end = bind(rig, 10).await;
    assert!(
        matches!(end, Association::Failed(Fault::Cloud { .. })),
        "{end:?}"
    );
    assert_eq!((rig.n_writes(), rig.port_of(10).await), (1, None));
}

/// A write whose answer was lost is adopted.
pub async fn a_write_whose_answer_was_lost_is_adopted(rig: &impl Rig) {
    rig.script(Trouble::LostAfter);
    assert_bound(rig, &bind(rig, 10).await, true);
    assert_eq!(rig.n_writes(), 1);
}

/// A write that lands late is adopted.
pub async fn a_write_that_lands_late_is_adopted(rig: &impl Rig) {
    rig.script(Trouble::LandsLate);
    assert_bound(rig, &bind(rig, 10).await, true);
}

/// A release whose answer was lost is settled by reading.
pub async fn a_release_whose_answer_was_lost_is_settled_by_reading(rig: &impl Rig) {
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

/// Release never touches another's.
pub async fn rule_04_release_never_touches_anothers(rig: &impl Rig) {
    rig.rebind(10, Some("port-x")).await;
    let end = free(rig, 10).await;
    assert!(
        matches!(&end, Release::NotOurs { seen } if seen.contains(rig.port("port-x").as_str())),
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
        (rig.n_writes(), rig.port_of(11).await.as_deref()),
        (1, Some("port-x"))
    );

    // Another port of ours is another's, too: its lease is not this one.
    rig.rebind(12, Some("port-2")).await;
    assert!(matches!(free(rig, 12).await, Release::NotOurs { .. }));
    assert_eq!(rig.port_of(12).await.as_deref(), Some("port-2"));
}

/// What does not exist any more is gone.
pub async fn what_does_not_exist_any_more_is_gone(rig: &impl Rig) {
    let seen = seen(rig, 10).await;
    rig.remove_fip(10).await;
    assert_eq!(rig.cloud().find(rig.address(10)).await, Ok(None));
    assert_eq!(rig.cloud().get(&seen.id).await, Ok(None));
    let end = release(rig.cloud(), &seen.id, &own_port(rig)).await;
    assert_eq!(end, Release::Gone);
    let end = associate(rig.cloud(), seen, &own_port(rig), &own(rig)).await;
    assert!(
        matches!(end, Association::Failed(Fault::Address { .. })),
        "{end:?}"
    );
}

/// A port that cannot is the port's fault.
pub async fn a_port_that_cannot_is_the_ports_fault(rig: &impl Rig) {
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

/// A busy cloud is asked once and says how long.
pub async fn a_busy_cloud_is_asked_once_and_says_how_long(rig: &impl Rig) {
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

/// What hangs on our ports is listed.
pub async fn what_hangs_on_our_ports_is_listed(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    rig.rebind(11, Some("port-x")).await;
    rig.rebind(12, Some("port-2")).await;
    let ports: Vec<PortId> = own(rig).iter().cloned().collect();
    let listed = rig.cloud().on_ports(&ports).await.unwrap();
    let mut found: Vec<String> = listed.iter().map(|fip| fip.address.to_string()).collect();
    found.sort();
    assert_eq!(found, [10, 12].map(|last| rig.address(last).to_string()));
    assert_eq!(rig.cloud().on_ports(&[]).await, Ok(Vec::new()));
}

/// Many more than a listing of the suite's addresses needs, also with its rows read twice.
const PAGES_MAX: usize = 100;

/// All pages to the end: each address once, in order, and whether it is free.
async fn listed(rig: &impl Rig, limit: u32) -> Vec<(u8, bool)> {
    let (mut walk, mut marker, mut found) = (Walk::default(), None, BTreeMap::new());
    for _ in 0..PAGES_MAX {
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
    panic!("no end after {PAGES_MAX} pages");
}

/// All are listed whatever the size of the pages.
pub async fn all_are_listed_whatever_the_size_of_the_pages(rig: &impl Rig) {
    rig.rebind(10, Some("port-1")).await;
    rig.rebind(11, Some("port-x")).await;
    let mut expected: Vec<(u8, bool)> = (10..20).map(|last| (last, last > 11)).collect();
    expected.push((30, false));
    for limit in [1, 2, 3, 11, 1_000] {
        assert_eq!(listed(rig, limit).await, expected, "pages of {limit}");
    }
}

/// A marker that vanishes hides nothing.
pub async fn a_marker_that_vanishes_hides_nothing(rig: &impl Rig) {
    rig.remove_marker(3);
    let found = listed(rig, 2).await;
    assert_eq!(found.len(), 10, "and is not there itself");
    assert_eq!(listed(rig, 2).await, found);
}
