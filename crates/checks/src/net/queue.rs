//! The error queue of a TCP or UDP socket: which ICMP error ended a connect or met a datagram, and
//! who sent it. The error number alone does not tell: prohibited, TTL exceeded and no such host are
//! one `EHOSTUNREACH`.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use civ_types::Family;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

use crate::icmp::error_code;
use crate::outcome::Code;

/// `SO_EE_ORIGIN_ICMP`, `SO_EE_ORIGIN_ICMP6` (linux/errqueue.h).
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
/// Messages of one queue that are looked at: one ends the connect, some may stand before it.
const MESSAGES_MAX: usize = 8;

/// An ICMP error about a connect of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) code: Code,
    pub(super) icmp: (u8, u8),
    /// The router or host that said so, where the kernel knows.
    pub(super) from: Option<IpAddr>,
}

/// Asks the kernel to keep ICMP errors. Without it a connect fails all the same, but with less to
/// say; so a refusal is not passed on.
pub(crate) fn keep_errors(socket: &impl AsFd, address: SocketAddr) {
    let kept = match address {
        SocketAddr::V4(_) => setsockopt(socket, Ipv4RecvErr, &true),
        SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvErr, &true),
    };
    if let Err(error) = kept {
        tracing::debug!(%error, "the kernel keeps no ICMP errors for this socket");
    }
}

/// The last ICMP error in the queue that has a code of its own.
pub(super) fn told(socket: &(impl AsFd + AsRawFd)) -> Option<Told> {
    let mut last = None;
    for _message in 0..MESSAGES_MAX {
        let mut payload = [0; 256];
        let mut iov = [IoSliceMut::new(&mut payload)];
        let mut space = nix::cmsg_space!([u8; 128]);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let received =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut space), flags);
        let Ok(message) = received else {
            break; // Empty.
        };
        let Ok(controls) = message.cmsgs() else {
            break; // Cut off; there is room for several.
        };
        for control in controls {
            last = read(&control).or(last);
        }
    }
    last
}

fn read(control: &ControlMessageOwned) -> Option<Told> {
    let (error, from) = match control {
        ControlMessageOwned::Ipv4RecvErr(error, from) => {
            let from = from.map(|from| Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr)).into());
            (error, from)
        }
        ControlMessageOwned::Ipv6RecvErr(error, from) => {
            let from = from.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr).into());
            (error, from)
        }
        _ => return None,
    };
    let icmp = (error.ee_type, error.ee_code);
    let code = match error.ee_origin {
        ORIGIN_ICMP => of_icmp(Family::V4, icmp),
        ORIGIN_ICMP6 => of_icmp(Family::V6, icmp),
        _ => None,
    }?;
    Some(Told { code, icmp, from })
}

/// What an ICMP error means to whoever asked for a port: protocol and port unreachable are the host
/// itself saying no.
const fn of_icmp(family: Family, (kind, code): (u8, u8)) -> Option<Code> {
    match (family, kind, code) {
        (Family::V4, 3, 2 | 3) | (Family::V6, 1, 4) => Some(Code::Refused),
        _ => error_code(family, kind, code),
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Family, of_icmp};

    #[test]
    fn what_one_error_number_hides_is_told_apart() {
        let v4 = |icmp| of_icmp(Family::V4, icmp);
        let v6 = |icmp| of_icmp(Family::V6, icmp);
        let hidden = [(3, 1), (3, 13), (11, 0)].map(v4);
        let codes = [
            Code::UnreachableHost,
            Code::AdminProhibited,
            Code::TtlExceeded,
        ];
        assert_eq!(hidden, codes.map(Some));
        let hidden = [(1, 3), (1, 1), (3, 0)].map(v6);
        assert_eq!(hidden, codes.map(Some));
        let refused = [v4((3, 2)), v4((3, 3)), v6((1, 4))];
        assert_eq!(refused, [Some(Code::Refused); 3]);
        assert_eq!(v4((5, 0)), None);
    }
}
