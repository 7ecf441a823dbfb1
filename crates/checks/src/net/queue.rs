//! The error queue of a TCP socket: which ICMP error ended a connect, and who sent it. The error
//! number alone does not tell: prohibited, TTL exceeded and no such host are one `EHOSTUNREACH`.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

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
pub(super) fn keep_errors(socket: &impl AsFd, address: SocketAddr) {
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
        ORIGIN_ICMP => of_icmp(icmp),
        ORIGIN_ICMP6 => of_icmp6(icmp),
        _ => None,
    }?;
    Some(Told { code, icmp, from })
}

/// RFC 792, RFC 1812 §5.2.7.1. `None` for what the error number tells already.
const fn of_icmp(icmp: (u8, u8)) -> Option<Code> {
    match icmp {
        (3, 0 | 6 | 11) => Some(Code::UnreachableNet),
        (3, 9 | 10 | 13) => Some(Code::AdminProhibited),
        // Protocol and port unreachable: the host itself says no.
        (3, 2 | 3) => Some(Code::Refused),
        (3, 4) => Some(Code::PacketTooBig),
        (3, _) => Some(Code::UnreachableHost),
        (11, _) => Some(Code::TtlExceeded),
        _ => None,
    }
}

/// RFC 4443 §3.
const fn of_icmp6(icmp: (u8, u8)) -> Option<Code> {
    match icmp {
        (1, 0) => Some(Code::UnreachableNet),
        (1, 1 | 5 | 6) => Some(Code::AdminProhibited),
        (1, 4) => Some(Code::Refused),
        (1, _) => Some(Code::UnreachableHost),
        (2, _) => Some(Code::PacketTooBig),
        (3, _) => Some(Code::TtlExceeded),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, of_icmp, of_icmp6};

    #[test]
    fn what_one_error_number_hides_is_told_apart() {
        let hidden = [(3, 1), (3, 13), (11, 0)].map(of_icmp);
        let codes = [
            Code::UnreachableHost,
            Code::AdminProhibited,
            Code::TtlExceeded,
        ];
        assert_eq!(hidden, codes.map(Some));
        let hidden = [(1, 3), (1, 1), (3, 0)].map(of_icmp6);
        assert_eq!(hidden, codes.map(Some));
        assert_eq!(of_icmp((3, 3)), Some(Code::Refused));
        assert_eq!(of_icmp((5, 0)), None);
    }
}
