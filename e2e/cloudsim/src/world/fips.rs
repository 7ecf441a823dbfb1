//! Floating IPs: made, bound, freed, deleted, as Neutron does it and in its order of refusing.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

use super::{Bound, Fip, Kind, Standard, Status, Subnet, World};

/// A change of binding that is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) port: Option<String>,
    pub(crate) fixed: Option<IpAddr>,
    pub(crate) if_revision: Option<u64>,
    /// A new description.
    pub(crate) description: Option<String>,
    /// Whether the binding stays as it is: only the description is changed.
    pub(crate) keeps_port: bool,
}

/// A floating IP that is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct New {
    pub(crate) project: String,
    pub(crate) network: String,
    pub(crate) subnet: Option<String>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) ask: Ask,
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

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSuchFip,
    Stale {
        wanted: u64,
        is: u64,
    },
    Forwarded,
    FixedWithoutPort,
    NoSuchPort(String),
    NoGateway(String),
    SeveralFixed(String),
    NotItsFixed {
        port: String,
        fixed: IpAddr,
    },
    PortHasOne {
        port: String,
        fixed: IpAddr,
    },
    NoSuchNetwork(String),
    NotExternal(String),
    NoSuchSubnet(String),
    OverQuota,
    NoMoreAddresses(String),
    AddressTaken {
        address: IpAddr,
        subnet: String,
    },
    AddressOutside(IpAddr),
    PortBusy {
        fip: IpAddr,
        port: String,
        fixed: IpAddr,
    },
    DuplicateForwarding(String),
    NoSuchForwarding(String),
}

impl World {
    /// Binds or frees. Like Neutron: a bound address moves without a word.
    pub(crate) fn bind(&mut self, id: &str, ask: &Ask, now: Timestamp) -> Result<Change, Refused> {
        let target = self.target(id, ask)?;
        let fip = self.fips.get_mut(id).ok_or(Refused::NoSuchFip)?;
        let before = fip.bound.clone();
        let after = if ask.keeps_port {
            before.clone()
        } else {
            target
        };
        let describes = ask.description.as_ref();
        let is_described = describes.is_some_and(|text| *text != fip.standard.description);
        // Neutron writes down the router of before at every update, also if that is all that
        // changes: the port again counts once, and so does freeing again what was just freed.
        let last_router = before.as_ref().map(|bound| bound.router.clone());
        if before != after || fip.last_router != last_router || is_described {
            fip.standard.bump(now);
        }
        fip.last_router = last_router;
        if let Some(text) = describes {
            fip.standard.description.clone_from(text);
        }
        if before != after {
            fip.epoch += 1;
        }
        fip.bound.clone_from(&after);
        let change = Change {
            before,
            after,
            epoch: fip.epoch,
            row: fip.clone(),
        };
        self.touch(Kind::Fip, id);
        Ok(change)
    }

    fn target(&self, id: &str, ask: &Ask) -> Result<Option<Bound>, Refused> {
        let fip = self.fips.get(id).ok_or(Refused::NoSuchFip)?;
        if ask.port.is_some() && !fip.forwardings.is_empty() {
            return Err(Refused::Forwarded);
        }
        let bound = self.bound_of(id, &fip.network, ask)?;
        // The condition is a constraint of the transaction: whatever is refused before its end is
        // refused for its own reason.
        check_revision(fip, ask.if_revision)?;
        Ok(bound)
    }

    /// Where the asked binding leads; `id` is the floating IP that is to be there.
    fn bound_of(&self, id: &str, network: &str, ask: &Ask) -> Result<Option<Bound>, Refused> {
        let Some(port_id) = &ask.port else {
            return ask
                .fixed
                .map_or(Ok(None), |_| Err(Refused::FixedWithoutPort));
        };
        let port = self.ports.get(port_id);
        let port = port.ok_or_else(|| Refused::NoSuchPort(port_id.clone()))?;
        let fixed = match (ask.fixed, port.fixed_ips.as_slice()) {
            (Some(fixed), all) if all.contains(&fixed) => fixed,
            (Some(fixed), _) => {
                let port = port_id.clone();
                return Err(Refused::NotItsFixed { port, fixed });
            }
            (None, [one]) => *one,
            (None, _) => return Err(Refused::SeveralFixed(port_id.clone())),
        };
        let router = self.router_between(&port.network, network);
        let router = router.ok_or_else(|| Refused::NoGateway(port_id.clone()))?;
        let is_same = |bound: &Bound| bound.port == *port_id && bound.fixed == fixed;
        let mut others = self.fips.values().filter(|other| other.id != id);
        if others.any(|other| other.network == network && other.bound.as_ref().is_some_and(is_same))
        {
            let port = port_id.clone();
            return Err(Refused::PortHasOne { port, fixed });
        }
        Ok(Some(Bound {
            port: port_id.clone(),
            fixed,
            router: router.id.clone(),
        }))
    }

    /// Makes a floating IP with the lowest address that is free, or the one that is asked for.
    pub(crate) fn create(&mut self, new: &New, now: Timestamp) -> Result<Change, Refused> {
        let network = self.networks.get(&new.network);
        let network = network.ok_or_else(|| Refused::NoSuchNetwork(new.network.clone()))?;
        if !network.is_external {
            return Err(Refused::NotExternal(new.network.clone()));
        }
        let n_has = self.fips.values().filter(|fip| fip.project == new.project);
        let n_has = n_has.count();
        let quota = self.fip_quotas.get(&new.project);
        if quota.is_some_and(|most| n_has >= usize::try_from(*most).unwrap_or(usize::MAX)) {
            return Err(Refused::OverQuota);
        }
        let address = self.free_address(new)?;
        let bound = self.bound_of("", &new.network, &new.ask)?;
        let id = self.next_id("floating ip");
        let mut standard = Standard::new(now);
        standard.description = new.ask.description.clone().unwrap_or_default();
        let fip = Fip {
            id: id.clone(),
            address,
            project: new.project.clone(),
            network: new.network.clone(),
            epoch: u64::from(bound.is_some()),
            bound: bound.clone(),
            forwardings: Vec::new(),
            forwarding_router: None,
            last_router: None,
            status: Status::Down,
            standard,
        };
        self.fips.insert(id.clone(), fip.clone());
        self.touch(Kind::Fip, &id);
        Ok(Change {
            before: None,
            after: bound,
            epoch: fip.epoch,
            row: fip,
        })
    }

    fn free_address(&self, new: &New) -> Result<IpAddr, Refused> {
        let subnets = self.subnets_of(&new.network);
        let wanted: Vec<&Subnet> = match &new.subnet {
            None => subnets,
            Some(id) => {
                let found = subnets.into_iter().filter(|subnet| subnet.id == *id);
                let found: Vec<&Subnet> = found.collect();
                if found.is_empty() {
                    return Err(Refused::NoSuchSubnet(id.clone()));
                }
                found
            }
        };
        let taken = self.taken_addresses();
        if let Some(address) = new.address {
            let subnet = wanted.iter().find(|subnet| subnet.contains(address));
            let subnet = subnet.ok_or(Refused::AddressOutside(address))?;
            if taken.contains(&address) {
                let subnet = subnet.id.clone();
                return Err(Refused::AddressTaken { address, subnet });
            }
            return Ok(address);
        }
        let mut free = wanted
            .iter()
            .flat_map(|subnet| subnet.hosts())
            .map(IpAddr::V4)
            .filter(|address| !taken.contains(address));
        free.next()
            .ok_or_else(|| Refused::NoMoreAddresses(new.network.clone()))
    }

    /// Addresses of external networks that something has.
    pub(super) fn taken_addresses(&self) -> BTreeSet<IpAddr> {
        let fips = self.fips.values().map(|fip| fip.address);
        let gateways = self.routers.values().map(|router| router.gateway_address);
        fips.chain(gateways).collect()
    }

    /// The highest address of a network that nothing has: routers take those.
    pub(super) fn last_free_address(&self, network: &str) -> Option<(IpAddr, String)> {
        let taken = self.taken_addresses();
        let subnets = self.subnets_of(network);
        let mut free = subnets.iter().flat_map(|subnet| {
            let id = &subnet.id;
            subnet.hosts().rev().map(move |ip| (IpAddr::V4(ip), id))
        });
        let (address, subnet) = free.find(|(address, _)| !taken.contains(address))?;
        Some((address, subnet.clone()))
    }

    /// Deletes a floating IP as Neutron does: bound or not, unless it has port forwardings.
    pub(crate) fn delete(&mut self, id: &str, if_revision: Option<u64>) -> Result<Fip, Refused> {
        let fip = self.fips.get(id).ok_or(Refused::NoSuchFip)?;
        check_revision(fip, if_revision)?;
        if !fip.forwardings.is_empty() {
            return Err(Refused::Forwarded);
        }
        self.remove_fip(id).ok_or(Refused::NoSuchFip)
    }

    /// Deletes a floating IP, whatever it has.
    pub(crate) fn remove_fip(&mut self, id: &str) -> Option<Fip> {
        self.touch(Kind::Fip, id);
        self.fips.remove(id)
    }

    /// The agent reports: the status follows the binding. Whether that changed anything.
    pub(crate) fn report_status(&mut self, id: &str, is_error: bool, now: Timestamp) -> bool {
        let Some(fip) = self.fips.get_mut(id) else {
            return false;
        };
        let status = match fip.bound {
            Some(_) if is_error => Status::Error,
            Some(_) => Status::Active,
            None => Status::Down,
        };
        if fip.status == status {
            return false;
        }
        fip.status = status;
        fip.standard.bump(now);
        self.touch(Kind::Fip, id);
        true
    }
}

const fn check_revision(fip: &Fip, wanted: Option<u64>) -> Result<(), Refused> {
    let is = fip.standard.revision;
    match wanted {
        Some(wanted) if wanted != is => Err(Refused::Stale { wanted, is }),
        _ => Ok(()),
    }
}
