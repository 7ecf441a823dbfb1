//! The responder's ports: what nothing else serves is taken, the rest is said and left.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use crate::config::{Responder, Settings, Validator};

/// One port that is ours.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) socket: TcpListener,
    pub(super) is_tls: bool,
    /// The validator's address; `None`: every address of this host.
    address: Option<IpAddr>,
    port: u16,
}

/// The ports that the responder has got.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(super) open: Vec<Open>,
}

impl Sockets {
    /// The ports on which a validator can be asked over HTTP who it is; `None`: there is none.
    pub(crate) fn http_ports(&self, validator: &Validator) -> Option<Vec<u16>> {
        let own = |open: &&Open| !open.is_tls && open.address == validator.bind_address;
        let ports: Vec<u16> = self.open.iter().filter(own).map(|open| open.port).collect();
        if ports.is_empty() {
            let id = validator.validator_id.as_str();
            tracing::warn!(
                id,
                "the responder has no HTTP port: the check identity is not asked for"
            );
        }
        (!ports.is_empty()).then_some(ports)
    }
}

/// Takes the ports, for each validator at its own address. One that cannot be had is no reason not
/// to start: the others serve as well, and the checks go on without any.
pub(crate) fn bind(wanted: &Responder, settings: &Settings) -> Sockets {
    let mut open = Vec::new();
    let http = wanted.http_ports.iter().map(|port| (*port, false));
    let tls = wanted.tls_ports.iter().map(|port| (*port, true));
    let ports: Vec<_> = http.chain(tls).collect();
    for validator in &settings.validators {
        let address = validator.bind_address;
        let at = address.map_or_else(|| "every address".to_owned(), |at| at.to_string());
        for (port, is_tls) in &ports {
            match listen(address, *port) {
                Ok(socket) => {
                    tracing::info!(at, port, tls = is_tls, "the responder listens");
                    open.push(Open {
                        socket,
                        is_tls: *is_tls,
                        address,
                        port: *port,
                    });
                }
                Err(error) => {
                    let remedy = remedy(&error, *port);
                    tracing::warn!(at, port, %error, "the responder leaves a port: {remedy}");
                }
            }
        }
    }
    Sockets { open }
}

/// What to do about a port that cannot be had.
fn remedy(error: &io::Error, port: u16) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "something else serves port {port}; take it out of `responder` if that is meant"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "port {port} needs CAP_NET_BIND_SERVICE (systemd: \
             AmbientCapabilities=CAP_NET_BIND_SERVICE, containers: --cap-add NET_BIND_SERVICE), or \
             sysctl net.ipv4.ip_unprivileged_port_start={port}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            "bind_address of the validator is not an address of this host".to_owned()
        }
        _ => "the checks go on without it".to_owned(),
    }
}

fn listen(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    let socket = match address {
        Some(address) => TcpListener::bind(SocketAddr::new(address, port))?,
        None => on_every_address(port)?,
    };
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Both families at once, or IPv4 alone on a host without IPv6.
fn on_every_address(port: u16) -> io::Result<TcpListener> {
    use io::ErrorKind::{AddrInUse, PermissionDenied};
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        Err(error) if !matches!(error.kind(), AddrInUse | PermissionDenied) => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::{io, remedy};

    #[test]
    fn every_port_that_is_left_comes_with_a_remedy() {
        let of = |kind: io::ErrorKind| remedy(&kind.into(), 80);
        let denied = of(io::ErrorKind::PermissionDenied);
        assert!(denied.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE"));
        assert!(denied.contains("ip_unprivileged_port_start=80"));
        assert!(of(io::ErrorKind::AddrInUse).contains("something else serves port 80"));
        assert!(of(io::ErrorKind::AddrNotAvailable).contains("bind_address"));
    }
}
