//! The model: floating IPs, ports, who is bound to what. Pure: no clock, no I/O, no HTTP.
//!
//! **Invariant** ([`World::faults`]): a fixed address has at most one floating IP; what has port
//! forwardings has no port; every binding names a port that exists and an address of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;

use crate::setup::Setup;

/// A port.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) id: String,
    pub(crate) fixed_ips: Vec<IpAddr>,
    pub(crate) ours: bool,
    pub(crate) is_routed: bool,
}

/// Where a floating IP leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) port: String,
    pub(crate) fixed: IpAddr,
}

/// What an agent reports; `ERROR` is reported by none here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Down,
    Active,
}

/// A floating IP.
#[derive(Debug, Clone)]
pub(crate) struct Fip {
    pub(crate) id: String,
    pub(crate) address: IpAddr,
    pub(crate) bound: Option<Bound>,
    pub(crate) forwarded: bool,
    pub(crate) status: Status,
    pub(crate) revision: u64,
    /// Counts changes of the binding only.
    pub(crate) epoch: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// A change of binding that is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) port: Option<String>,
    pub(crate) fixed: Option<IpAddr>,
    pub(crate) if_revision: Option<u64>,
}

/// A change of binding that was made.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) before: Option<Bound>,
    pub(crate) after: Option<Bound>,
    /// The floating IP's count of bindings after it.
    pub(crate) epoch: u64,
    /// The floating IP as the change left it: what the answer shows, whatever came since.
    pub(crate) row: Fip,
}

/// Why a change was not made, in Neutron's order of looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSuchFip,
    Stale { wanted: u64, is: u64 },
    Forwarded,
    FixedWithoutPort,
    NoSuchPort(String),
    NoGateway(String),
    SeveralFixed(String),
    NotItsFixed(String),
    PortHasOne { port: String, fixed: IpAddr },
}

/// Everything in the cloud that lasts.
#[derive(Debug)]
pub(crate) struct World {
    fips: BTreeMap<String, Fip>,
    ports: BTreeMap<String, Port>,
}

impl World {
    /// # Errors
    /// What of the set-up contradicts itself.
    pub(crate) fn new(setup: &Setup, now: Timestamp) -> anyhow::Result<Self> {
        let mut world = Self {
            fips: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for (index, port) in setup.ports.iter().enumerate() {
            let mut fixed_ips = vec![port.fixed_ip];
            if setup.two_address_ports.contains(&port.id) {
                let last = u8::try_from(index % 250)?;
                fixed_ips.push(IpAddr::from([10, 78, 0, last + 1]));
            }
            let made = Port {
                id: port.id.clone(),
                fixed_ips,
                ours: port.ours,
                is_routed: !setup.unrouted_ports.contains(&port.id),
            };
            world.ports.insert(port.id.clone(), made);
        }
        for fip in &setup.fips {
            let made = Fip {
                id: fip_id(fip.address),
                address: fip.address,
                bound: None,
                forwarded: fip.forwarded,
                status: Status::Down,
                revision: 0,
                epoch: 0,
                created_at: now,
                updated_at: now,
            };
            let id = made.id.clone();
            world.fips.insert(id.clone(), made);
            if let Some(port) = fip.port.clone() {
                let ask = Ask {
                    port: Some(port),
                    ..Ask::default()
                };
                let made = world.bind(&id, &ask, now);
                made.map_err(|why| anyhow::anyhow!("{} cannot be bound: {why:?}", fip.address))?;
                world.report_status(&id, now);
            }
        }
        Ok(world)
    }

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

    /// Binds or frees. Like Neutron: a bound address moves without a word, the same port again
    /// counts as a change, and freeing what is free does not.
    pub(crate) fn bind(&mut self, id: &str, ask: &Ask, now: Timestamp) -> Result<Change, Refused> {
        let after = self.target(id, ask)?;
        let fip = self.fips.get_mut(id).ok_or(Refused::NoSuchFip)?;
        let before = fip.bound.take();
        if before.is_some() || after.is_some() {
            fip.revision += 1;
            fip.updated_at = now;
        }
        if before != after {
            fip.epoch += 1;
        }
        fip.bound.clone_from(&after);
        Ok(Change {
            before,
            after,
            epoch: fip.epoch,
            row: fip.clone(),
        })
    }

    fn target(&self, id: &str, ask: &Ask) -> Result<Option<Bound>, Refused> {
        let fip = self.fips.get(id).ok_or(Refused::NoSuchFip)?;
        if let Some(wanted) = ask.if_revision
            && wanted != fip.revision
        {
            let is = fip.revision;
            return Err(Refused::Stale { wanted, is });
        }
        let Some(port_id) = &ask.port else {
            return ask
                .fixed
                .map_or(Ok(None), |_| Err(Refused::FixedWithoutPort));
        };
        if fip.forwarded {
            return Err(Refused::Forwarded);
        }
        let port = self.ports.get(port_id);
        let port = port.ok_or_else(|| Refused::NoSuchPort(port_id.clone()))?;
        let fixed = match (ask.fixed, port.fixed_ips.as_slice()) {
            (Some(fixed), all) if all.contains(&fixed) => fixed,
            (Some(_), _) => return Err(Refused::NotItsFixed(port_id.clone())),
            (None, [one]) => *one,
            (None, _) => return Err(Refused::SeveralFixed(port_id.clone())),
        };
        if !port.is_routed {
            return Err(Refused::NoGateway(port_id.clone()));
        }
        let bound = Bound {
            port: port_id.clone(),
            fixed,
        };
        let mut others = self.fips.values().filter(|other| other.id != id);
        if others.any(|other| other.bound.as_ref() == Some(&bound)) {
            let port = bound.port;
            return Err(Refused::PortHasOne { port, fixed });
        }
        Ok(Some(bound))
    }

    /// The agent reports: the status follows the binding. Whether that changed anything.
    pub(crate) fn report_status(&mut self, id: &str, now: Timestamp) -> bool {
        let Some(fip) = self.fips.get_mut(id) else {
            return false;
        };
        let status = match fip.bound {
            Some(_) => Status::Active,
            None => Status::Down,
        };
        if fip.status == status {
            return false;
        }
        fip.status = status;
        fip.revision += 1;
        fip.updated_at = now;
        true
    }

    /// Deletes a port; what was bound to it is free. Returns the ids of that.
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
        self.ports.remove(port);
        freed
    }

    /// Deletes a floating IP: what a client meets as 404 afterwards. Its change, if it was bound.
    pub(crate) fn remove_fip(&mut self, id: &str, now: Timestamp) -> Option<Change> {
        let change = self.bind(id, &Ask::default(), now).ok();
        self.fips.remove(id);
        change
    }

    /// Everything that contradicts the invariants; empty if all is well.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut faults = Vec::new();
        for fip in self.fips.values() {
            let Some(bound) = &fip.bound else { continue };
            if !taken.insert((&bound.port, bound.fixed)) {
                faults.push(format!(
                    "{} shares {} of {}",
                    fip.address, bound.fixed, bound.port
                ));
            }
            if fip.forwarded {
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

/// The id of a floating IP is made from its address, so that runs can be compared.
pub(crate) fn fip_id(address: IpAddr) -> String {
    let bits = match address {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    uuid::Builder::from_custom_bytes((bits ^ (0xF1_F0 << 112)).to_be_bytes())
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::FipSetup;

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
        let revision = |world: &World| world.fip(&id).unwrap().revision;
        world.bind(&id, &Ask::default(), NOW).unwrap();
        assert_eq!(revision(&world), 0, "freeing what is free");
        world.bind(&id, &to("port-1"), NOW).unwrap();
        world.bind(&id, &to("port-1"), NOW).unwrap();
        assert_eq!(revision(&world), 2, "the same port again counts");
        assert!(world.report_status(&id, NOW));
        assert!(!world.report_status(&id, NOW));
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
}
