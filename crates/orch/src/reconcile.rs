//! The cloud as seen, compared with the leases as stored.

use std::collections::BTreeSet;

use civ_types::{Address, ClaimNo, FipId, PortId, Utc};

/// A floating IP that the cloud shows on one of our ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which one.
    pub fip: FipId,
    /// Its address.
    pub address: Address,
    /// Which of our ports.
    pub port: PortId,
}

/// An open lease as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The claim that made it.
    pub claim: ClaimNo,
    /// The address.
    pub address: Address,
    /// The port it was made with.
    pub port: PortId,
    /// The floating IP, once known.
    pub fip: Option<FipId>,
    /// The association was confirmed and no release is asked for.
    pub attached: bool,
    /// A call to the cloud is waiting or under way for it.
    pub busy: bool,
    /// When it was made or last changed.
    pub changed_at: Utc,
}

/// A difference that is worth a fresh look before anything is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// On our port without an owner: release it.
    Orphan(Seen),
    /// Believed to be on our port and not there: if a fresh read agrees, back to the queue.
    Detached(ClaimNo),
}

/// What differs.
///
/// A lease that has a call under way, or that changed since the listing began, is left alone: the
/// listing may be older than the change. An address that any lease speaks of is no orphan; that
/// lease's own end will see to it.
#[must_use]
pub fn reconcile(seen: &[Seen], held: &[Held], listing_began: Utc) -> Vec<Repair> {
    let addresses: BTreeSet<_> = held.iter().map(|lease| lease.address).collect();
    let fips: BTreeSet<_> = held.iter().filter_map(|lease| lease.fip.as_ref()).collect();
    let orphans = seen
        .iter()
        .filter(|_| !civ_planted::is!(OrphansIgnored))
        .filter(|found| !addresses.contains(&found.address) && !fips.contains(&found.fip))
        .cloned()
        .map(Repair::Orphan);
    let there: BTreeSet<_> = seen
        .iter()
        .map(|found| (found.address, &found.port))
        .collect();
    let detached = held
        .iter()
        .filter(|_| !civ_planted::is!(DetachedIgnored))
        .filter(|lease| lease.attached && !lease.busy && lease.changed_at < listing_began)
        .filter(|lease| !there.contains(&(lease.address, &lease.port)))
        .map(|lease| Repair::Detached(lease.claim));
    orphans.chain(detached).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(n: u8, port: &str) -> Seen {
        Seen {
            fip: FipId::parse(&format!("fip-{n}")).unwrap(),
            address: Address::parse(&format!("203.0.113.{n}")).unwrap(),
            port: PortId::parse(port).unwrap(),
        }
    }

    fn held(n: u8, port: &str) -> Held {
        let Seen { fip, address, port } = seen(n, port);
        Held {
            claim: ClaimNo(i64::from(n)),
            address,
            port,
            fip: Some(fip),
            attached: true,
            busy: false,
            changed_at: Utc::EPOCH,
        }
    }

    const LATER: Utc = Utc::from_micros(1);

    #[test]
    fn agreement_needs_no_repair() {
        assert_eq!(reconcile(&[seen(1, "a")], &[held(1, "a")], LATER), []);
    }

    #[test]
    fn what_hangs_on_our_ports_without_an_owner_is_an_orphan() {
        let found = reconcile(&[seen(1, "a"), seen(2, "b")], &[held(1, "a")], LATER);
        assert_eq!(found, [Repair::Orphan(seen(2, "b"))]);
    }

    #[test]
    fn an_address_with_a_lease_is_no_orphan_even_on_another_port() {
        let found = reconcile(&[seen(1, "b")], &[held(1, "a")], LATER);
        assert_eq!(found, [Repair::Detached(ClaimNo(1))]);
    }

    #[test]
    fn what_is_busy_or_younger_than_the_listing_is_left_alone() {
        let busy = Held {
            busy: true,
            ..held(1, "a")
        };
        let young = Held {
            changed_at: LATER,
            ..held(2, "b")
        };
        let not_yet = Held {
            attached: false,
            ..held(3, "c")
        };
        assert_eq!(reconcile(&[], &[busy, young, not_yet], LATER), []);
    }
}
