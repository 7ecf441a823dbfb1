//! The model: networks, routers, ports, floating IPs and who is bound to what. Pure: no clock, no
//! I/O, no HTTP.
//!
//! **Invariant** ([`World::faults`]): a fixed address has at most one floating IP of a network;
//! what has port forwardings has no port; every binding names a port that exists and an address of
//! it.

mod build;
mod fips;
mod forwardings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use fips::{Ask, Change, New, Refused};
pub(crate) use forwardings::{Forwarding, NewForwarding};

use crate::ids::fip_id;

/// What Neutron calls standard attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standard {
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    pub(crate) revision: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Standard {
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            description: String::new(),
            tags: Vec::new(),
            revision: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// Counts a change.
    pub(crate) const fn bump(&mut self, now: Timestamp) {
        self.revision += 1;
        self.updated_at = now;
    }
}

/// A network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) is_external: bool,
    pub(crate) standard: Standard,
}

/// An IPv4 subnet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subnet {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) network: String,
    pub(crate) base: Ipv4Addr,
    pub(crate) bits: u8,
    pub(crate) gateway: Ipv4Addr,
    pub(crate) has_dhcp: bool,
    pub(crate) standard: Standard,
}

impl Subnet {
    const fn n_addresses(&self) -> u32 {
        1 << (32 - self.bits as u32)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else {
            return false;
        };
        let mask = !(self.n_addresses() - 1);
        address.to_bits() & mask == self.base.to_bits() & mask
    }

    /// First and last address that may be given out: all but network, gateway and broadcast.
    pub(crate) fn pool(&self) -> (Ipv4Addr, Ipv4Addr) {
        let (base, last) = (
            self.base.to_bits(),
            self.base.to_bits() + self.n_addresses() - 1,
        );
        let at = |bits| Ipv4Addr::from_bits(bits);
        if self.gateway == at(base + 1) {
            (at(base + 2), at(last - 1))
        } else {
            (at(base + 1), at(last - 2))
        }
    }

    fn hosts(&self) -> impl DoubleEndedIterator<Item = Ipv4Addr> + use<> {
        let (first, last) = self.pool();
        (first.to_bits()..=last.to_bits()).map(Ipv4Addr::from_bits)
    }
}

/// A router.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Router {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) gateway_network: String,
    pub(crate) gateway_subnet: String,
    pub(crate) gateway_address: IpAddr,
    pub(crate) standard: Standard,
}

/// A security group with its rules.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) rules: Vec<GroupRule>,
    pub(crate) standard: Standard,
}

/// One rule of a security group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupRule {
    pub(crate) id: String,
    pub(crate) direction: String,
    pub(crate) ethertype: String,
    pub(crate) protocol: Option<String>,
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) remote_prefix: Option<String>,
    /// Whether the remote side is the group itself.
    pub(crate) from_group: bool,
}

/// The owner of a router's interface, as Neutron names it.
pub(crate) const ROUTER_INTERFACE: &str = "network:router_interface";

/// A port.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Port {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) network: String,
    pub(crate) subnet: String,
    pub(crate) fixed_ips: Vec<IpAddr>,
    pub(crate) device_id: String,
    pub(crate) device_owner: String,
    pub(crate) groups: Vec<String>,
    pub(crate) ours: bool,
    pub(crate) standard: Standard,
}

/// Where a floating IP leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) port: String,
    pub(crate) fixed: IpAddr,
    pub(crate) router: String,
}

/// What an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    Down,
    Active,
    Error,
}

impl Status {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Down => "DOWN",
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
        }
    }
}

/// A floating IP.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fip {
    pub(crate) id: String,
    pub(crate) address: IpAddr,
    pub(crate) project: String,
    pub(crate) network: String,
    pub(crate) bound: Option<Bound>,
    pub(crate) forwardings: Vec<Forwarding>,
    /// The router that the port forwardings use.
    pub(crate) forwarding_router: Option<String>,
    /// The router before the last update; nobody sees it, but it counts as a change.
    #[serde(default)]
    pub(crate) last_router: Option<String>,
    pub(crate) status: Status,
    /// Counts changes of the binding only.
    pub(crate) epoch: u64,
    pub(crate) standard: Standard,
}

/// A kind of object: how Neutron names its collection and how a state file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Fip,
    Port,
    Network,
    Subnet,
    Router,
    Group,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Fip,
        Self::Port,
        Self::Network,
        Self::Subnet,
        Self::Router,
        Self::Group,
    ];

    /// The key of the map that holds them.
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::Fip => "fips",
            Self::Port => "ports",
            Self::Network => "networks",
            Self::Subnet => "subnets",
            Self::Router => "routers",
            Self::Group => "groups",
        }
    }
}

/// Everything in the cloud that lasts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct World {
    pub(crate) fips: BTreeMap<String, Fip>,
    pub(crate) ports: BTreeMap<String, Port>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) subnets: BTreeMap<String, Subnet>,
    pub(crate) routers: BTreeMap<String, Router>,
    pub(crate) groups: BTreeMap<String, Group>,
    /// Project, and the most floating IPs that it may have.
    pub(crate) fip_quotas: BTreeMap<String, u32>,
    /// Objects that were made since the start, for their ids.
    n_made: u64,
    /// What changed since it was last written to the state file.
    #[serde(skip)]
    touched: BTreeSet<(Kind, String)>,
}

impl World {
    pub(crate) fn fip(&self, id: &str) -> Option<&Fip> {
        self.fips.get(id)
    }

    pub(crate) fn fips(&self) -> impl Iterator<Item = &Fip> {
        self.fips.values()
    }

    pub(crate) fn port(&self, id: &str) -> Option<&Port> {
        self.ports.get(id)
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values()
    }

    /// The id of the floating IP with this address.
    pub(crate) fn id_at(&self, address: IpAddr) -> Option<String> {
        let first = fip_id(address);
        if self.fips.contains_key(&first) {
            return Some(first);
        }
        let mut found = self.fips.values().filter(|fip| fip.address == address);
        found.next().map(|fip| fip.id.clone())
    }

    /// The router that leads from one network to another.
    pub(crate) fn router_between(&self, inside: &str, outside: &str) -> Option<&Router> {
        let interfaces = self
            .ports
            .values()
            .filter(|port| port.network == inside && port.device_owner == ROUTER_INTERFACE);
        let mut routers = interfaces.filter_map(|port| self.routers.get(&port.device_id));
        routers.find(|router| router.gateway_network == outside)
    }

    /// The subnets of a network, in order of their addresses.
    pub(crate) fn subnets_of(&self, network: &str) -> Vec<&Subnet> {
        let on_it = self
            .subnets
            .values()
            .filter(|subnet| subnet.network == network);
        let mut found: Vec<&Subnet> = on_it.collect();
        found.sort_by_key(|subnet| subnet.base);
        found
    }

    /// Whether an id that is no UUID is malformed: not in a world whose ids are chosen freely.
    pub(crate) fn has_uuids(&self) -> bool {
        self.ports.keys().all(|id| crate::ids::is_uuid(id))
    }

    /// Description, tags and the rest of what every object has.
    pub(crate) fn standard_mut(&mut self, kind: Kind, id: &str) -> Option<&mut Standard> {
        let standard = match kind {
            Kind::Fip => self.fips.get_mut(id).map(|it| &mut it.standard),
            Kind::Port => self.ports.get_mut(id).map(|it| &mut it.standard),
            Kind::Network => self.networks.get_mut(id).map(|it| &mut it.standard),
            Kind::Subnet => self.subnets.get_mut(id).map(|it| &mut it.standard),
            Kind::Router => self.routers.get_mut(id).map(|it| &mut it.standard),
            Kind::Group => self.groups.get_mut(id).map(|it| &mut it.standard),
        };
        if standard.is_some() {
            self.touched.insert((kind, id.to_owned()));
        }
        standard
    }

    pub(crate) fn touch(&mut self, kind: Kind, id: &str) {
        self.touched.insert((kind, id.to_owned()));
    }

    /// What changed since this was asked last.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<(Kind, String)> {
        std::mem::take(&mut self.touched)
    }

    /// A new id, the same in every run.
    fn next_id(&mut self, what: &str) -> String {
        self.n_made += 1;
        crate::ids::dashed(&format!("{what} {}", self.n_made))
    }

    pub(crate) const fn n_made(&self) -> u64 {
        self.n_made
    }

    /// Deletes a port; what was bound to it is free, what was forwarded to it is not any more.
    /// Returns the ids of what was freed.
    pub(crate) fn remove_port(&mut self, port: &str, now: Timestamp) -> Vec<(String, Change)> {
        let on_it = |fip: &&Fip| fip.bound.as_ref().is_some_and(|bound| bound.port == port);
        let bound: Vec<String> = self
            .fips
            .values()
            .filter(on_it)
            .map(|f| f.id.clone())
            .collect();
        let free = |id: String| {
            let change = self.bind(&id, &Ask::default(), now).ok()?;
            Some((id, change))
        };
        let freed = bound.into_iter().filter_map(free).collect();
        if self.ports.remove(port).is_some() {
            self.touch(Kind::Port, port);
        }
        self.forget_forwardings_to(port, now);
        freed
    }

    /// Everything that contradicts the invariants; empty if all is well.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut faults = Vec::new();
        for fip in self.fips.values() {
            let Some(bound) = &fip.bound else { continue };
            if !taken.insert((&bound.port, bound.fixed, &fip.network)) {
                faults.push(format!(
                    "{} shares {} of {}",
                    fip.address, bound.fixed, bound.port
                ));
            }
            if !fip.forwardings.is_empty() {
                faults.push(format!("{} is bound and has port forwardings", fip.address));
            }
            let port = self.ports.get(&bound.port);
            if !port.is_some_and(|port| port.fixed_ips.contains(&bound.fixed)) {
                faults.push(format!("{} leads nowhere: {bound:?}", fip.address));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{FipSetup, Setup};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, last])
    }

    fn to(port: &str) -> Ask {
        Ask {
            port: Some(port.to_owned()),
            ..Ask::default()
        }
    }

    fn world() -> World {
        let mut setup = Setup::default();
        setup.fips.push(FipSetup {
            address: address(30),
            port: None,
            forwarded: true,
        });
        World::new(&setup, NOW).unwrap()
    }

    #[test]
    fn a_bound_address_moves_silently() {
        let (mut world, id) = (world(), fip_id(address(10)));
        world.bind(&id, &to("port-1"), NOW).unwrap();
        let change = world.bind(&id, &to("port-x"), NOW).unwrap();
        assert_eq!(change.before.unwrap().port, "port-1");
        assert_eq!(change.after.unwrap().port, "port-x");
        assert!(world.faults().is_empty());
    }

    #[test]
    fn revisions_count_every_change_and_no_other() {
        let (mut world, id) = (world(), fip_id(address(10)));
        let revision = |world: &World| world.fip(&id).unwrap().standard.revision;
        world.bind(&id, &Ask::default(), NOW).unwrap();
        assert_eq!(revision(&world), 0, "freeing what is free");
        world.bind(&id, &to("port-1"), NOW).unwrap();
        world.bind(&id, &to("port-1"), NOW).unwrap();
        assert_eq!(revision(&world), 2, "the same port again counts");
        assert!(world.report_status(&id, false, NOW));
        assert!(!world.report_status(&id, false, NOW));
        assert_eq!(revision(&world), 3);
        let stale = Ask {
            if_revision: Some(2),
            ..Ask::default()
        };
        let refused = world.bind(&id, &stale, NOW).unwrap_err();
        assert_eq!(refused, Refused::Stale { wanted: 2, is: 3 });
    }

    #[test]
    fn what_neutron_refuses_is_refused() {
        let mut world = world();
        let (first, second) = (fip_id(address(10)), fip_id(address(11)));
        world.bind(&first, &to("port-1"), NOW).unwrap();
        let refused = world.bind(&second, &to("port-1"), NOW).unwrap_err();
        assert!(matches!(refused, Refused::PortHasOne { .. }));
        let refused = world.bind(&second, &to("nowhere"), NOW).unwrap_err();
        assert_eq!(refused, Refused::NoSuchPort("nowhere".to_owned()));
        let refused = world
            .bind(&fip_id(address(30)), &to("port-2"), NOW)
            .unwrap_err();
        assert_eq!(refused, Refused::Forwarded);
        assert!(world.faults().is_empty());
    }

    #[test]
    fn a_port_that_vanishes_frees_its_address() {
        let (mut world, id) = (world(), fip_id(address(10)));
        world.bind(&id, &to("port-1"), NOW).unwrap();
        assert_eq!(world.remove_port("port-1", NOW).len(), 1);
        assert_eq!(world.fip(&id).unwrap().bound, None);
        assert!(world.port("port-1").is_none() && world.faults().is_empty());
    }

    #[test]
    fn addresses_are_given_out_in_order_and_never_twice() {
        let mut world = world();
        let new = New {
            network: Setup::default().network_id,
            ..New::default()
        };
        let mut given = BTreeSet::new();
        while let Ok(change) = world.create(&new, NOW) {
            assert!(given.insert(change.row.address), "{}", change.row.address);
        }
        // Of 254, one is the subnet's gateway, one the router's, eleven were there.
        assert_eq!(given.len(), 241);
        assert!(!given.contains(&address(1)) && !given.contains(&address(254)));
        assert!(!given.contains(&address(10)) && given.contains(&address(2)));
        let refused = world.create(&new, NOW).unwrap_err();
        assert_eq!(refused, Refused::NoMoreAddresses(new.network));
    }
}
