//! One ICMP socket: opening, sending and receiving in batches, error queue, drop counter.
//!
//! The home of everything that is Linux about it. Knows no checks and keeps no requests.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use civ_types::Family;
use nix::sys::socket::{
    ControlMessageOwned, GetSockOpt, MsgFlags, MultiHeaders, RecvMsg, SetSockOpt, SockaddrStorage,
    recvmmsg, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rustix::net::addr::SocketAddrArg as _;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::options::{DontFragment6, IcmpFilter, Icmpv6Filter, MemInfo, MtuDiscover, MtuDiscover6};
use super::wire::SEEN_BYTES;
use crate::net;

/// Packets handed over with one system call. Few enough that the times of sending, of which only
/// the first and the last are known, are right to some microseconds.
pub(super) const BATCH: usize = 32;
/// Receive buffer that is asked for; the kernel doubles it for its own overhead.
const BUFFER_BYTES: usize = 4 << 20;
/// What one small packet takes of the receive buffer, overhead included, with room to spare.
const PACKET_COST: usize = 1024;

/// What kind of socket is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A ping socket. The kernel gives it one identifier for life and puts it into every request.
    Datagram {
        id: u16,
    },
    Raw,
}

/// How a socket is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) family: Family,
    /// Address to send from; the kernel chooses if there is none.
    pub(crate) source: Option<IpAddr>,
    /// Never fragment, and never believe what the kernel has learnt of path MTUs.
    pub(crate) dont_fragment: bool,
}

/// An open socket.
#[derive(Debug)]
pub(super) struct IcmpSocket {
    /// For tokio all datagram sockets are alike.
    io: UdpSocket,
    family: Family,
    access: Access,
    /// Hop limit that the system gives.
    usual_ttl: u32,
}

/// Something read from the socket or from its error queue.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    /// Who sent it; for an error, whom our packet was meant for.
    pub(super) address: IpAddr,
    /// As much of it as was kept.
    pub(super) bytes: &'a [u8],
    /// When the kernel received it. A wall clock that jumps can only touch the time that the packet
    /// lay in our buffer.
    pub(super) at: Instant,
    /// From the error queue: what the ICMP error says.
    pub(super) error: Option<Said>,
}

/// The fields of an ICMP error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) info: u32,
    pub(super) from: IpAddr,
}

/// Which queue to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Replies,
    Errors,
}

/// Room for one batch of packets, of which only the heads are kept.
#[derive(Debug)]
pub(super) struct Inbox {
    heads: Vec<[u8; SEEN_BYTES]>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            heads: vec![[0; SEEN_BYTES]; BATCH],
        }
    }
}

/// Opens a socket of that type and closes it again.
pub(super) fn allowed(kind: Type, family: Family) -> io::Result<()> {
    open(kind, family).map(drop)
}

fn open(kind: Type, family: Family) -> io::Result<Socket> {
    let (domain, protocol) = match family {
        Family::V4 => (Domain::IPV4, Protocol::ICMPV4),
        Family::V6 => (Domain::IPV6, Protocol::ICMPV6),
    };
    Socket::new(domain, kind, Some(protocol))
}

impl IcmpSocket {
    /// A ping socket where the kernel allows it, else a raw one.
    pub(super) fn open(place: Place) -> io::Result<Self> {
        let family = place.family;
        let (socket, kind) = match open(Type::DGRAM, family) {
            Ok(socket) => (socket, Type::DGRAM),
            Err(_not_allowed) => (open(Type::RAW, family)?, Type::RAW),
        };
        socket.set_nonblocking(true)?;
        enlarge(&socket)?;
        sockopt::ReceiveTimestampns.set(&socket, &true)?;
        if place.dont_fragment {
            never_fragment(&socket, family)?;
        }
        let access = if kind == Type::RAW {
            only_replies(&socket, family)?;
            if let Some(source) = place.source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            Access::Raw
        } else {
            // Binding is what gives it its identifier.
            let source = place.source.unwrap_or_else(|| net::any(family));
            socket.bind(&SocketAddr::new(source, 0).into())?;
            let name = socket.local_addr()?.as_socket();
            let id = name.map(|name| name.port());
            Access::Datagram {
                id: id.ok_or(io::ErrorKind::InvalidData)?,
            }
        };
        match family {
            Family::V4 => sockopt::Ipv4RecvErr.set(&socket, &true)?,
            Family::V6 => sockopt::Ipv6RecvErr.set(&socket, &true)?,
        }
        let usual_ttl = match family {
            Family::V4 => socket.ttl_v4()?,
            Family::V6 => socket.unicast_hops_v6()?,
        };
        let io = UdpSocket::from_std(OwnedFd::from(socket).into())?;
        Ok(Self {
            io,
            family,
            access,
            usual_ttl,
        })
    }

    pub(super) const fn access(&self) -> Access {
        self.access
    }

    /// How many small packets its receive buffer holds.
    pub(super) fn room(&self) -> usize {
        SockRef::from(&self.io).recv_buffer_size().unwrap_or(0) / PACKET_COST
    }

    /// Packets thrown away so far because the receive buffer was full.
    ///
    /// `SO_RXQ_OVFL` would come with the next packet only, and never on ping sockets.
    pub(super) fn drops(&self) -> u32 {
        let [.., drops] = MemInfo.get(&self.io).unwrap_or_default();
        drops
    }

    /// Hop limit of what is sent from now on; `None` for the system's.
    pub(super) fn set_ttl(&self, ttl: Option<u8>) -> io::Result<()> {
        let ttl = ttl.map_or(self.usual_ttl, u32::from);
        match self.family {
            Family::V4 => SockRef::from(&self.io).set_ttl_v4(ttl),
            Family::V6 => SockRef::from(&self.io).set_unicast_hops_v6(ttl),
        }
    }

    /// Sends packets of `size` bytes that lie one behind another, each to its address: how many
    /// the kernel took.
    ///
    /// # Errors
    /// What the kernel says to the first, or what it had to say of an earlier one.
    pub(super) fn send(&self, packets: &[u8], size: usize, to: &[SocketAddr]) -> io::Result<usize> {
        let names: Vec<_> = to.iter().map(SocketAddr::as_any).collect();
        let slices: Vec<_> = packets
            .chunks(size)
            .map(|packet| [IoSlice::new(packet)])
            .collect();
        let mut controls: Vec<_> = to.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let parts = names.iter().zip(&slices).zip(&mut controls);
        let mut headers: Vec<_> = parts
            .map(|((name, slice), control)| MMsgHdr::new_with_addr(name, slice, control))
            .collect();
        Ok(sendmmsg(&self.io, &mut headers, SendFlags::DONTWAIT)?)
    }

    /// Forgets an error that the kernel kept for the next call.
    pub(super) fn forget_error(&self) {
        // What it is does not matter: the error queue says more.
        drop(self.io.take_error());
    }

    /// Waits until there is something to read in one of the queues.
    pub(super) async fn ready(&self) -> io::Result<()> {
        let either = Interest::READABLE | Interest::ERROR;
        self.io.ready(either).await.map(drop)
    }

    /// Runs `empty`, which reads both queues and says whether they are empty now; if so,
    /// [`Self::ready`] waits for what comes after its begin.
    pub(super) fn read_with(&self, mut empty: impl FnMut() -> bool) {
        // Each kind of readiness by itself: tokio tries nothing for two at once.
        for interest in [Interest::READABLE, Interest::ERROR] {
            let read = || {
                if empty() {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            };
            let _told: io::Result<()> = self.io.try_io(interest, read);
        }
    }

    /// Reads one batch and hands each packet to `each`; how many there were.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; what the kernel had to say of an earlier packet.
    pub(super) fn receive(
        &self,
        inbox: &mut Inbox,
        queue: Queue,
        mut each: impl FnMut(Arrived<'_>),
    ) -> io::Result<usize> {
        // With MSG_TRUNC a packet longer than our slot is no error.
        let mut flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        if queue == Queue::Errors {
            flags |= MsgFlags::MSG_ERRQUEUE;
        }
        let space = nix::cmsg_space!(TimeSpec, nix::libc::sock_extended_err, [u8; 28]);
        // Made anew for each call: the kernel shrinks the lengths in it to what it used.
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(space));
        let mut slices: Vec<_> = inbox
            .heads
            .iter_mut()
            .map(|head| [IoSliceMut::new(head)])
            .collect();
        let descriptor = self.io.as_raw_fd();
        let all = recvmmsg(descriptor, &mut headers, slices.iter_mut(), flags, None)?;
        // The kernel stamps with the wall clock.
        let now = (Instant::now(), clock_gettime(ClockId::CLOCK_REALTIME)?);
        let mut count = 0;
        for message in all {
            count += 1;
            if let Some(arrived) = arrived(&message, now) {
                each(arrived);
            }
        }
        Ok(count)
    }
}

/// As large as this process may make it; `SO_RCVBUFFORCE` needs `CAP_NET_ADMIN`.
fn enlarge(socket: &Socket) -> io::Result<()> {
    match sockopt::RcvBufForce.set(socket, &BUFFER_BYTES) {
        Ok(()) => Ok(()),
        Err(_not_allowed) => socket.set_recv_buffer_size(BUFFER_BYTES),
    }
}

/// Every raw socket gets every ICMP packet of this host, unless it says what it wants.
fn only_replies(socket: &Socket, family: Family) -> io::Result<()> {
    match family {
        // A set bit is a type that is not wanted.
        Family::V4 => IcmpFilter.set(socket, &!1)?,
        Family::V6 => {
            let mut unwanted = [u32::MAX; 8];
            unwanted[4] = !(1 << (129 - 128));
            Icmpv6Filter.set(socket, &unwanted)?;
        }
    }
    Ok(())
}

fn never_fragment(socket: &Socket, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => MtuDiscover.set(socket, &nix::libc::IP_PMTUDISC_PROBE)?,
        Family::V6 => {
            MtuDiscover6.set(socket, &nix::libc::IPV6_PMTUDISC_PROBE)?;
            DontFragment6.set(socket, &1)?;
        }
    }
    Ok(())
}

fn arrived<'a>(
    message: &RecvMsg<'_, 'a, SockaddrStorage>,
    now: (Instant, TimeSpec),
) -> Option<Arrived<'a>> {
    let address = ip(message.address.as_ref()?)?;
    let bytes = message.iovs().next().unwrap_or_default();
    let mut age = Duration::ZERO;
    let mut error = None;
    for control in message.cmsgs().ok()? {
        match control {
            // A clock that was set back in between makes it negative: then it is new.
            ControlMessageOwned::ScmTimestampns(at) => age = duration(now.1 - at),
            ControlMessageOwned::Ipv4RecvErr(said, from) => {
                let from = from.map(|from| Ipv4Addr::from_bits(u32::from_be(from.sin_addr.s_addr)));
                error = from.and_then(|from| said_by(&said, from.into()));
            }
            ControlMessageOwned::Ipv6RecvErr(said, from) => {
                let from = from.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr));
                error = from.and_then(|from| said_by(&said, from.into()));
            }
            _ => {}
        }
    }
    Some(Arrived {
        address,
        bytes,
        at: now.0.checked_sub(age).unwrap_or(now.0),
        error,
    })
}

fn said_by(said: &nix::libc::sock_extended_err, from: IpAddr) -> Option<Said> {
    // Errors of our own kernel are known from the call that failed.
    (said.ee_origin != nix::libc::SO_EE_ORIGIN_LOCAL).then_some(Said {
        kind: said.ee_type,
        code: said.ee_code,
        info: said.ee_info,
        from,
    })
}

fn ip(name: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = name.as_sockaddr_in().map(|name| IpAddr::V4(name.ip()));
    v4.or_else(|| name.as_sockaddr_in6().map(|name| IpAddr::V6(name.ip())))
}

fn duration(span: TimeSpec) -> Duration {
    let seconds = u64::try_from(span.tv_sec()).ok();
    let nanos = u32::try_from(span.tv_nsec()).ok();
    match (seconds, nanos) {
        (Some(seconds), Some(nanos)) => Duration::new(seconds, nanos),
        _ => Duration::ZERO,
    }
}
