//! Owns what a scenario can break between the addresses and the world. Knows no way to do it.

use std::net::Ipv4Addr;

/// Something broken on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nobody outside reaches this port of this floating address.
    InboundPort {
        /// The floating address.
        floating: Ipv4Addr,
        /// The TCP port.
        port: u16,
    },
    /// Nobody outside reaches anything of this floating address.
    InboundAll {
        /// The floating address.
        floating: Ipv4Addr,
    },
    /// Another host answers on this floating address; what leaves through it is as it was.
    Conflict {
        /// The floating address.
        floating: Ipv4Addr,
        /// The fixed address of the other host.
        other: Ipv4Addr,
    },
    /// No VM reaches the web targets; the IP-echo service still answers.
    Targets,
    /// The IP-echo service does not answer.
    Echo,
}

/// Which ways an association opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    /// As it should be.
    Both,
    /// Out only.
    Egress,
    /// In only.
    Inbound,
}
