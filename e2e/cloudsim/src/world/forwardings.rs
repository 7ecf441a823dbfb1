//! Port forwardings of floating IPs: one address shared by ports of the transport.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Kind, Refused, World};

/// A port forwarding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forwarding {
    pub(crate) id: String,
    pub(crate) protocol: String,
    pub(crate) internal_port_id: String,
    pub(crate) internal_address: IpAddr,
    pub(crate) internal_port: u16,
    pub(crate) external_port: u16,
    pub(crate) description: String,
}

/// One that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct NewForwarding {
    pub(crate) protocol: String,
    pub(crate) internal_port_id: String,
    pub(crate) internal_address: IpAddr,
    pub(crate) internal_port: u16,
    pub(crate) external_port: u16,
    pub(crate) description: String,
}

impl World {
    /// Adds a port forwarding to an address that no port has.
    pub(crate) fn forward(
        &mut self,
        fip_id: &str,
        new: &NewForwarding,
        now: Timestamp,
    ) -> Result<Forwarding, Refused> {
        let fip = self.fips.get(fip_id).ok_or(Refused::NoSuchFip)?;
        let port_id = &new.internal_port_id;
        let port = self.ports.get(port_id);
        let port = port.ok_or_else(|| Refused::NoSuchPort(port_id.clone()))?;
        let fixed = new.internal_address;
        if fip.bound.is_some() {
            let (fip, port) = (fip.address, port_id.clone());
            return Err(Refused::PortBusy { fip, port, fixed });
        }
        if !port.fixed_ips.contains(&fixed) {
            let port = port_id.clone();
            return Err(Refused::NotItsFixed { port, fixed });
        }
        let router = self.router_between(&port.network, &fip.network);
        let router = router.ok_or_else(|| Refused::NoGateway(port_id.clone()))?;
        let router = router.id.clone();
        let is_same = |other: &Forwarding| {
            other.protocol == new.protocol && other.external_port == new.external_port
        };
        if fip.forwardings.iter().any(is_same) {
            let port = new.external_port;
            let values = format!(
                "'external_port': {port}, 'floating_ip_address': '{}'",
                fip.address
            );
            return Err(Refused::DuplicateForwarding(values));
        }
        let id = self.next_id("port forwarding");
        let made = Forwarding {
            id,
            protocol: new.protocol.clone(),
            internal_port_id: port_id.clone(),
            internal_address: fixed,
            internal_port: new.internal_port,
            external_port: new.external_port,
            description: new.description.clone(),
        };
        if let Some(fip) = self.fips.get_mut(fip_id) {
            fip.forwardings.push(made.clone());
            fip.forwarding_router = Some(router);
            fip.standard.bump(now);
        }
        self.touch(Kind::Fip, fip_id);
        Ok(made)
    }

    /// Removes one; with the last, the address is free again.
    pub(crate) fn unforward(
        &mut self,
        fip_id: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let fip = self.fips.get_mut(fip_id).ok_or(Refused::NoSuchFip)?;
        let n_before = fip.forwardings.len();
        fip.forwardings.retain(|forwarding| forwarding.id != id);
        if fip.forwardings.len() == n_before {
            return Err(Refused::NoSuchForwarding(id.to_owned()));
        }
        if fip.forwardings.is_empty() {
            fip.forwarding_router = None;
        }
        fip.standard.bump(now);
        self.touch(Kind::Fip, fip_id);
        Ok(())
    }

    /// What was forwarded to a port that is gone.
    pub(super) fn forget_forwardings_to(&mut self, port: &str, now: Timestamp) {
        let to_it = self.fips.values().flat_map(|fip| {
            let gone = fip.forwardings.iter();
            let gone = gone.filter(|forwarding| forwarding.internal_port_id == port);
            gone.map(|forwarding| (fip.id.clone(), forwarding.id.clone()))
        });
        for (fip, forwarding) in to_it.collect::<Vec<_>>() {
            let _gone = self.unforward(&fip, &forwarding, now);
        }
    }
}
