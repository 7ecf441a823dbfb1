//! Neutron's words for what it does not do.

use civ_simkit::Reply;

use crate::shapes::neutron;
use crate::world::{Refused, World};

/// 404: there is no such floating IP, or it is another project's.
pub(crate) fn no_such_fip(id: &str) -> Reply {
    let message = format!("Floating IP {id} could not be found");
    neutron(404, "FloatingIPNotFound", &message)
}

fn no_such_port(id: &str) -> Reply {
    let message = format!("Port {id} could not be found.");
    neutron(404, "PortNotFound", &message)
}

/// Why a change of the floating IP `id`, or its making on `network`, was not made.
pub(crate) fn refusal(refused: &Refused, id: &str, network: &str, world: &World) -> Reply {
    let fip = world.fip(id);
    let network = fip.map_or(network, |fip| &fip.network);
    let bad = |what: &str| {
        neutron(
            400,
            "BadRequest",
            &format!("Bad floatingip request: {what}."),
        )
    };
    match refused {
        Refused::NoSuchFip => no_such_fip(id),
        Refused::Stale { wanted, is } => {
            let message = format!("Constrained to {wanted}, but current revision is {is}");
            neutron(412, "RevisionNumberConstraintFailed", &message)
        }
        Refused::Forwarded => {
            let message = format!("Floating IP {id} in use by Port Forwarding resources.");
            neutron(409, "FipInUseByPortForwarding", &message)
        }
        Refused::FixedWithoutPort => bad("fixed_ip_address cannot be specified without a port_id"),
        Refused::NoSuchPort(port) => no_such_port(port),
        Refused::NoGateway(port) => {
            let message = format!(
                "External network {network} is not reachable from subnet of port {port}. \
                 Therefore, cannot associate Port {port} with a Floating IP."
            );
            neutron(404, "ExternalGatewayForFloatingIPNotFound", &message)
        }
        Refused::SeveralFixed(port) => bad(&format!(
            "Port {port} has multiple fixed IPv4 addresses.  Must provide a specific IPv4 \
             address when assigning a floating IP"
        )),
        Refused::NotItsFixed { port, fixed } => {
            bad(&format!("Port {port} does not have fixed ip {fixed}"))
        }
        Refused::PortHasOne { port, fixed } => {
            let address = fip.map(|fip| fip.address.to_string()).unwrap_or_default();
            let message = format!(
                "Cannot associate floating IP {address} ({id}) with port {port} using fixed IP \
                 {fixed}, as that fixed IP already has a floating IP on external network {network}."
            );
            neutron(409, "FloatingIPPortAlreadyAssociated", &message)
        }
        other => of_making(other, id),
    }
}

/// Why a floating IP or a port forwarding was not made.
fn of_making(refused: &Refused, id: &str) -> Reply {
    match refused {
        Refused::NoSuchNetwork(network) => {
            let message = format!("Network {network} could not be found.");
            neutron(404, "NetworkNotFound", &message)
        }
        Refused::NotExternal(network) => {
            let what = format!("Network {network} is not a valid external network");
            neutron(
                400,
                "BadRequest",
                &format!("Bad floatingip request: {what}."),
            )
        }
        Refused::NoSuchSubnet(subnet) => {
            let message = format!("Subnet {subnet} could not be found.");
            neutron(404, "SubnetNotFound", &message)
        }
        Refused::OverQuota => {
            let message = "Quota exceeded for resources: ['floatingip'].";
            neutron(409, "OverQuota", message)
        }
        Refused::NoMoreAddresses(network) => {
            let message = format!("No more IP addresses available on network {network}.");
            neutron(409, "IpAddressGenerationFailure", &message)
        }
        Refused::AddressTaken { address, subnet } => {
            let message = format!("IP address {address} already allocated in subnet {subnet}");
            neutron(409, "IpAddressAlreadyAllocated", &message)
        }
        Refused::AddressOutside(address) => {
            let message = format!(
                "IP address {address} is not a valid IP for any of the subnets on the specified \
                 network."
            );
            neutron(400, "InvalidIpForNetwork", &message)
        }
        Refused::PortBusy { fip, port, fixed } => {
            let message = format!(
                "Cannot create port forwarding to floating IP {fip} ({id}) with port {port} using \
                 fixed IP {fixed}, as that port already has a binding floating IP."
            );
            neutron(409, "PortHasBindingFloatingIP", &message)
        }
        Refused::DuplicateForwarding(values) => {
            let message = format!(
                "Bad port_forwarding request: A duplicate port forwarding entry with same \
                 attributes already exists, conflicting values are {{{values}}}."
            );
            neutron(400, "BadRequest", &message)
        }
        Refused::NoSuchForwarding(forwarding) => {
            let message = format!("Port Forwarding {forwarding} could not be found.");
            neutron(404, "PortForwardingNotFound", &message)
        }
        // The rest is said in `refusal`.
        _ => server_error(),
    }
}

/// Neutron's words for what went wrong inside.
const SERVER_ERROR: &str = "Request Failed: internal server error while processing your request.";

/// Neutron's answer to what it did not expect.
pub(crate) fn server_error() -> Reply {
    neutron(500, "HTTPInternalServerError", SERVER_ERROR)
}
