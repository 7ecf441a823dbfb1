//! Socket options of Linux that nix does not name, through its macros for such.

use nix::libc;
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

/// Level of options of raw IPv4 sockets (`linux/socket.h`).
const SOL_RAW: libc::c_int = 255;
/// `linux/icmp.h`: a bit for each of the types 0 to 31.
const ICMP_FILTER: libc::c_int = 1;
/// `linux/icmpv6.h`: a bit for each of the 256 types.
const ICMPV6_FILTER: libc::c_int = 1;

sockopt_impl!(
    /// Memory and drops of a socket (`linux/sock_diag.h`): the last of the nine is the drops.
    MemInfo, GetOnly, libc::SOL_SOCKET, libc::SO_MEMINFO, [u32; 9]
);
sockopt_impl!(
    /// ICMP types that a raw socket does not want.
    IcmpFilter, SetOnly, SOL_RAW, ICMP_FILTER, u32
);
sockopt_impl!(
    /// `ICMPv6` types that a raw socket does not want.
    Icmpv6Filter, SetOnly, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, [u32; 8]
);
sockopt_impl!(
    /// Whether to fragment (ip(7)).
    MtuDiscover, SetOnly, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::c_int
);
sockopt_impl!(
    /// Whether to believe learnt path MTUs (ipv6(7)).
    MtuDiscover6, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::c_int
);
sockopt_impl!(
    /// Never fragment on this host (RFC 3542 §11.2).
    DontFragment6, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, libc::c_int
);
