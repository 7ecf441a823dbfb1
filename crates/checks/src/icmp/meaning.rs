//! What ICMP errors and refusals of this host mean. Pure tables.

use std::fmt;
use std::io;
use std::net::IpAddr;

use civ_types::Family;

use crate::outcome::Code;

/// An ICMP error about a packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// What it means.
    pub(crate) code: Code,
    /// The router or host that said so.
    pub(crate) from: IpAddr,
    /// Packet too big: the MTU that would pass, in bytes, where it was said.
    pub(crate) mtu: Option<u32>,
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reported by {}", self.from)?;
        match self.mtu {
            Some(mtu) => write!(f, " mtu={mtu}"),
            None => Ok(()),
        }
    }
}

/// The code of an ICMP error: RFC 792, RFC 1812 §5.2.7.1; RFC 4443 §3. `None` for a message that
/// does not say that a packet was thrown away.
pub(crate) const fn error_code(family: Family, kind: u8, code: u8) -> Option<Code> {
    match family {
        Family::V4 => error_code_v4(kind, code),
        Family::V6 => error_code_v6(kind, code),
    }
}

const fn error_code_v4(kind: u8, code: u8) -> Option<Code> {
    match (kind, code) {
        (3, 0 | 6 | 11) => Some(Code::UnreachableNet),
        (3, 4) => Some(Code::PacketTooBig),
        (3, 9 | 10 | 13) => Some(Code::AdminProhibited),
        (3, _) => Some(Code::UnreachableHost),
        (11, _) => Some(Code::TtlExceeded),
        _ => None,
    }
}

const fn error_code_v6(kind: u8, code: u8) -> Option<Code> {
    match (kind, code) {
        (1, 0) => Some(Code::UnreachableNet),
        (1, 1 | 5 | 6) => Some(Code::AdminProhibited),
        (1, _) => Some(Code::UnreachableHost),
        (2, _) => Some(Code::PacketTooBig),
        (3, _) => Some(Code::TtlExceeded),
        _ => None,
    }
}

/// Why a packet never left this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    errno: i32,
    family: Family,
}

/// Linux errors of sending that tell more than their kind does.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EMSGSIZE: i32 = 90;
    pub(super) const ENOPROTOOPT: i32 = 92;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const EPROTO: i32 = 71;
    pub(super) const ENETUNREACH: i32 = 101;
    pub(super) const ENOBUFS: i32 = 105;
    pub(super) const ECONNREFUSED: i32 = 111;
    pub(super) const EHOSTDOWN: i32 = 112;
    pub(super) const EHOSTUNREACH: i32 = 113;
}

impl Refusal {
    pub(super) fn new(error: &io::Error, family: Family) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        Self { errno, family }
    }

    /// The kernel has no room now: waiting helps.
    pub(super) fn is_passing(self) -> bool {
        let kind = io::Error::from_raw_os_error(self.errno).kind();
        self.errno == errno::ENOBUFS || kind == io::ErrorKind::WouldBlock
    }

    /// The kernel reports an ICMP error about an earlier packet by failing the next call, with
    /// these; so they need not be about the packet at hand.
    pub(super) const fn may_be_of_another_packet(self) -> bool {
        matches!(
            self.errno,
            errno::EACCES
                | errno::EMSGSIZE
                | errno::ENOPROTOOPT
                | errno::EOPNOTSUPP
                | errno::EPROTO
                | errno::ENETUNREACH
                | errno::ECONNREFUSED
                | errno::EHOSTDOWN
                | errno::EHOSTUNREACH
        )
    }

    /// A missing route has the code of an unreachable net or host; all else is ours.
    pub(crate) const fn code(self) -> Code {
        match self.errno {
            errno::EPERM | errno::EACCES => Code::Permission,
            errno::ENETUNREACH => Code::UnreachableNet,
            errno::EHOSTUNREACH | errno::EHOSTDOWN => Code::UnreachableHost,
            _ => Code::Internal,
        }
    }

    /// Who refused, as far as the error tells.
    const fn why(self) -> &'static str {
        match (self.errno, self.family) {
            (errno::EPERM, _) => "a packet filter of this host refuses it",
            (errno::EACCES, _) => "a route of this host prohibits it",
            (errno::EINVAL, _) => "a route of this host throws it away",
            (errno::ENETUNREACH | errno::EHOSTUNREACH, _) => "no route on this host",
            (errno::ENOBUFS, _) => "the send buffers of this host are full",
            (errno::EMSGSIZE, _) => "larger than the MTU of the first link",
            (_, Family::V4) => "this host does not send it",
            (_, Family::V6) => "this host does not send it over IPv6",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "not sent: {}: {error}", self.why())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icmp_errors_have_their_codes() {
        let v4 = |kind, code| error_code(Family::V4, kind, code);
        assert_eq!(v4(0, 0), None);
        assert_eq!(v4(3, 0), Some(Code::UnreachableNet));
        assert_eq!(v4(3, 1), Some(Code::UnreachableHost));
        assert_eq!(v4(3, 4), Some(Code::PacketTooBig));
        assert_eq!(v4(3, 13), Some(Code::AdminProhibited));
        assert_eq!(v4(5, 0), None);
        assert_eq!(v4(11, 0), Some(Code::TtlExceeded));
        let v6 = |kind, code| error_code(Family::V6, kind, code);
        assert_eq!(v6(1, 0), Some(Code::UnreachableNet));
        assert_eq!(v6(1, 1), Some(Code::AdminProhibited));
        assert_eq!(v6(1, 3), Some(Code::UnreachableHost));
        assert_eq!(v6(2, 0), Some(Code::PacketTooBig));
        assert_eq!(v6(3, 0), Some(Code::TtlExceeded));
        assert_eq!(v6(129, 0), None);
    }

    #[test]
    fn refusals_of_this_host_are_told_apart() {
        let refusal = |errno| Refusal::new(&io::Error::from_raw_os_error(errno), Family::V4);
        assert_eq!(refusal(errno::EPERM).code(), Code::Permission);
        assert!(!refusal(errno::EPERM).may_be_of_another_packet());
        assert_eq!(refusal(errno::EINVAL).code(), Code::Internal);
        assert_eq!(refusal(errno::ENETUNREACH).code(), Code::UnreachableNet);
        assert!(refusal(errno::ENETUNREACH).may_be_of_another_packet());
        assert!(refusal(errno::ENOBUFS).is_passing());
        assert!(refusal(11).is_passing() && !refusal(errno::EPERM).is_passing());
        let text = refusal(errno::EPERM).to_string();
        assert!(
            text.starts_with("not sent: a packet filter of this host"),
            "{text}"
        );
    }
}
