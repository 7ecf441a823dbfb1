//! Resolving and connecting: with ICMP's socket the only home of `socket2`. Knows addresses, errors
//! of the kernel and deadlines; knows no protocol above TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use civ_types::Family;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::engine::family_of;
use crate::outcome::{Code, Fault, Stage, Trail, millis};
use crate::policy::Policy;
use crate::tap::Tap;
use crate::target::Target;

mod queue;

pub(crate) use queue::keep_errors;

/// Most answers of a resolver that are tried; more would leave too little time for each.
const ANSWERS_MAX: usize = 4;
/// Descriptors that resolving a name takes at once, with room for checks that end meanwhile.
const DESCRIPTORS_SPARE: usize = 8;
/// Linux: too many open files in this process, in this system; no buffer space.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const ENOBUFS: i32 = 105;
/// Linux: a connect that does not block has begun.
const EINPROGRESS: i32 = 115;
/// Linux: the address family is not supported by this kernel.
const EAFNOSUPPORT: i32 = 97;
/// Linux: permission denied, other than EPERM.
const EACCES: i32 = 13;

/// From where a check goes, and where it may go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach<'a> {
    /// The address of this host to send from.
    pub(crate) source: Option<IpAddr>,
    /// The family under test.
    pub(crate) family: Family,
    /// Which addresses may be checked.
    pub(crate) policy: &'a Policy,
}

/// A name's addresses in the family under test.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// In the resolver's order, one to [`ANSWERS_MAX`].
    pub(crate) addresses: Vec<SocketAddr>,
    /// How long it took; `None` for a target that is an address.
    pub(crate) took: Option<Duration>,
}

impl Resolved {
    /// ` dns=1.20ms`, or nothing.
    pub(crate) fn fact(&self) -> String {
        self.took
            .map_or_else(String::new, |took| format!(" dns={}", millis(took)))
    }
}

/// Resolves through the system's resolver, keeps the family under test only, and refuses what
/// the policy denies: also one denied answer among others, since it shows where the name leads.
pub(crate) async fn resolve(
    target: &Target,
    reach: Reach<'_>,
    end: Instant,
    trail: &mut Trail,
) -> Result<Resolved, Fault> {
    trail.stage = Stage::Resolve;
    let resolved = match target.name() {
        Some(name) => look_up(name, target, reach.family, end, trail).await?,
        None => {
            let all = target.ip().map(|ip| SocketAddr::new(ip, target.port()));
            keep_family(all.into_iter().collect(), reach.family, target, None)?
        }
    };
    for address in &resolved.addresses {
        if let Err(denied) = reach.policy.judge(address.ip()) {
            let facts = format!("{target}: {denied}");
            return Err(Fault::new(Code::TargetDenied, facts));
        }
    }
    Ok(resolved)
}

async fn look_up(
    name: &str,
    target: &Target,
    family: Family,
    end: Instant,
    trail: &mut Trail,
) -> Result<Resolved, Fault> {
    let begin = Instant::now();
    let looked_up = timeout_at(end, tokio::net::lookup_host((name, target.port()))).await;
    let took = begin.elapsed();
    trail.phases().resolve = Some(took);
    match looked_up {
        Ok(Ok(all)) => keep_family(all.collect(), family, target, Some(took)),
        Ok(Err(e)) if own_fault(&e).is_some() => Err(io_fault(&e, "resolving")),
        // A resolver that cannot open its files says that the name does not exist.
        Ok(Err(e)) if descriptors_left().is_err() => {
            let facts = format!("{name}: {e}, but this process has no descriptors left");
            Err(Fault::new(Code::Internal, facts))
        }
        Ok(Err(e)) => Err(Fault::new(
            Code::DnsFailed,
            format!("{name}: {e} dns={}", millis(took)),
        )),
        Err(_elapsed) => Err(Fault::new(
            Code::DnsFailed,
            format!("{name}: no answer of the resolver after {}", millis(took)),
        )),
    }
}

/// Could a resolver open what it needs (its files, a socket for each server)?
pub(crate) fn descriptors_left() -> io::Result<()> {
    let open = || Socket::new(Domain::IPV4, Type::DGRAM, None);
    let held: io::Result<Vec<Socket>> = (0..DESCRIPTORS_SPARE).map(|_| open()).collect();
    held.map(drop)
}

fn keep_family(
    all: Vec<SocketAddr>,
    family: Family,
    target: &Target,
    took: Option<Duration>,
) -> Result<Resolved, Fault> {
    let seen = all.len();
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in all {
        if family_of(address.ip()) == family && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses.truncate(ANSWERS_MAX);
    if addresses.is_empty() {
        let facts = format!("{target} has {seen} of the other family, none of {family:?}");
        return Err(Fault::new(Code::NoAddressInFamily, facts));
    }
    Ok(Resolved { addresses, took })
}

/// An established connection, and how it came about.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) stream: Tap,
    /// The address that answered.
    pub(crate) peer: SocketAddr,
    /// From SYN to SYN-ACK on that address, in the attempt that succeeded.
    pub(crate) took: Duration,
    /// What did not answer before: `tried 192.0.2.1:22 refused`.
    pub(crate) tried: Vec<String>,
}

impl Connected {
    /// Facts for the detail: who answered, how fast, what had been tried before.
    pub(crate) fn facts(&self, resolved: &Resolved) -> String {
        let mut facts = format!("{} connect={}", self.peer, millis(self.took));
        facts.push_str(&resolved.fact());
        if !self.tried.is_empty() {
            facts.push_str(" after ");
            facts.push_str(&self.tried.join(", "));
        }
        facts
    }
}

/// Connects to the addresses in order, each over a fresh socket, within `end`. If nothing but
/// time-outs came back, all are tried once more: one lost SYN is no verdict.
pub(crate) async fn connect(
    resolved: &Resolved,
    reach: Reach<'_>,
    end: Instant,
    trail: &mut Trail,
) -> Result<Connected, Fault> {
    trail.stage = Stage::Connect;
    let addresses = &resolved.addresses;
    let mut tried = Vec::new();
    let mut last = Code::TimeoutConnect;
    let mut latency = None;
    let mut attempts_left = u32::try_from(addresses.len() * 2).unwrap_or(2);
    for round in 0..2 {
        for address in addresses {
            // The rest of the time in equal parts; an early answer leaves more for the others.
            let share = end.saturating_duration_since(Instant::now()) / attempts_left.max(1);
            attempts_left = attempts_left.saturating_sub(1);
            let begin = Instant::now();
            match connect_to(*address, reach, begin + share, trail).await {
                Ok(connected) => return Ok(Connected { tried, ..connected }),
                Err(fault) if fault.code.is_inconclusive() => {
                    return Err(fault.context(&address.to_string()));
                }
                Err(fault) => {
                    latency = (fault.code != Code::TimeoutConnect).then(|| begin.elapsed());
                    last = fault.code;
                    tried.push(format!("{address} {}", fault.facts));
                }
            }
        }
        // A definite answer of the last address needs no second look.
        if round == 0 && last != Code::TimeoutConnect {
            break;
        }
    }
    let facts = format!("{}{}", tried.join(", "), resolved.fact());
    Err(Fault {
        code: last,
        facts,
        latency,
    })
}

/// Connects to one address, once.
pub(crate) async fn connect_to(
    peer: SocketAddr,
    reach: Reach<'_>,
    end: Instant,
    trail: &mut Trail,
) -> Result<Connected, Fault> {
    trail.stage = Stage::Connect;
    let begin = Instant::now();
    let connected = connect_once(peer, reach.source, end).await;
    let took = begin.elapsed();
    let code = connected.as_ref().err().map(|fault| fault.code);
    trail.tried(peer, code, took);
    let stream = connected?;
    trail.phases().connect = Some(took);
    trail.stage = Stage::Exchange;
    Ok(Connected {
        stream: Tap::new(stream, trail.new_tape()),
        peer,
        took,
        tried: Vec::new(),
    })
}

async fn connect_once(
    address: SocketAddr,
    source: Option<IpAddr>,
    end: Instant,
) -> Result<TcpStream, Fault> {
    let begin = Instant::now();
    let opening = |e: io::Error| io_fault(&e, "opening a socket");
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        None,
    )
    .map_err(opening)?;
    keep_errors(&socket, address);
    if let Some(source) = source {
        socket
            .bind(&SocketAddr::new(source, 0).into())
            .map_err(|e| bind_fault(&e, source))?;
    }
    match socket.connect(&address.into()) {
        Err(e) if e.raw_os_error() != Some(EINPROGRESS) => return Err(connect_fault(&e, address)),
        Ok(()) | Err(_) => {}
    }
    let stream = TcpStream::from_std(socket.into()).map_err(opening)?;
    let answered = timeout_at(end, stream.writable()).await;
    let error = match answered {
        Ok(Ok(())) => stream.take_error().map_err(opening)?,
        Ok(Err(e)) => Some(e),
        Err(_elapsed) => {
            let facts = format!("no answer after {}", millis(begin.elapsed()));
            return Err(Fault::new(Code::TimeoutConnect, facts));
        }
    };
    let Some(error) = error else {
        return Ok(stream);
    };
    Err(told_fault(&stream, "connect").unwrap_or_else(|| connect_fault(&error, address)))
}

/// What the ICMP error that `socket` was told of means, if there is one.
fn told_fault(socket: &(impl AsFd + AsRawFd), doing: &str) -> Option<Fault> {
    let told = queue::told(socket)?;
    let (kind, code) = told.icmp;
    let from = told
        .from
        .map_or_else(String::new, |ip| format!(" from {ip}"));
    let facts = format!("{doing}: ICMP {kind}/{code}{from}");
    Some(Fault::new(told.code, facts))
}

/// What an error of a connected datagram socket means that keeps ICMP errors.
pub(crate) fn datagram_fault(
    socket: &(impl AsFd + AsRawFd),
    e: &io::Error,
    address: SocketAddr,
) -> Fault {
    told_fault(socket, "datagram").unwrap_or_else(|| connect_fault(e, address))
}

/// Makes closing send RST: thousands of checks leave no `TIME_WAIT` behind.
pub(crate) fn close_with_reset(stream: &Tap) -> io::Result<()> {
    SockRef::from(stream.tcp()).set_linger(Some(Duration::ZERO))
}

/// Is the source address on this host? Asked by binding a socket that never sends.
pub(crate) fn source_here(source: IpAddr) -> Result<(), Fault> {
    let bound = Socket::new(
        Domain::for_address(SocketAddr::new(source, 0)),
        Type::DGRAM,
        None,
    )
    .and_then(|socket| socket.bind(&SocketAddr::new(source, 0).into()));
    bound.map_err(|e| bind_fault(&e, source))
}

/// The wildcard address of a family.
pub(crate) const fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

pub(crate) fn bind_fault(e: &io::Error, source: IpAddr) -> Fault {
    if e.kind() == io::ErrorKind::AddrNotAvailable {
        let facts = format!("{source} is not an address of this host: {e}");
        return Fault::new(Code::SourceUnavailable, facts);
    }
    // Whatever keeps us from binding is ours.
    Fault::new(Code::Internal, format!("binding to {source}: {e}"))
}

/// The code of an error that is a reason of ours.
fn own_fault(e: &io::Error) -> Option<Code> {
    if let Some(EMFILE | ENFILE | ENOBUFS | EAFNOSUPPORT) = e.raw_os_error() {
        return Some(Code::Internal);
    }
    match e.kind() {
        io::ErrorKind::PermissionDenied => Some(Code::Permission),
        // On connect: no free local port. Invalid input: a blackhole route of this host.
        io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::AddrInUse
        | io::ErrorKind::OutOfMemory
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::InvalidInput => Some(Code::Internal),
        _ => None,
    }
}

/// The code of an error that the network caused.
fn network_fault(e: &io::Error) -> Option<Code> {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => Some(Code::Refused),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Some(Code::Reset),
        io::ErrorKind::HostUnreachable => Some(Code::UnreachableHost),
        io::ErrorKind::NetworkUnreachable => Some(Code::UnreachableNet),
        _ => None,
    }
}

/// What an error of connect means by itself. Prohibited and TTL exceeded look like an unreachable
/// host here: the socket's error queue tells them apart.
pub(crate) fn connect_fault(e: &io::Error, address: SocketAddr) -> Fault {
    let code = match e.raw_os_error() {
        // The kernel turns the ICMPv6 errors "prohibited" and "policy" into EACCES.
        Some(EACCES) if address.is_ipv6() => Code::AdminProhibited,
        _ if e.kind() == io::ErrorKind::TimedOut => Code::TimeoutConnect,
        // What we do not know is nothing to blame the address for.
        _ => own_fault(e)
            .or_else(|| network_fault(e))
            .unwrap_or(Code::Internal),
    };
    Fault::new(code, format!("connect: {e}"))
}

/// What an error of an open socket means. One without its own code is `closed_early`: the
/// connection is gone without an answer.
pub(crate) fn io_fault(e: &io::Error, doing: &str) -> Fault {
    let code = match e.kind() {
        io::ErrorKind::TimedOut => Code::TimeoutRead,
        _ => own_fault(e)
            .or_else(|| network_fault(e))
            .unwrap_or(Code::ClosedEarly),
    };
    Fault::new(code, format!("{doing}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::{Code, EACCES, EMFILE, SocketAddr, connect_fault, io, io_fault};

    #[test]
    fn errors_of_connect_have_their_codes() {
        let v4: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:1".parse().unwrap();
        let code = |errno, to| connect_fault(&io::Error::from_raw_os_error(errno), to).code;
        assert_eq!(code(111, v4), Code::Refused);
        assert_eq!(code(113, v4), Code::UnreachableHost);
        assert_eq!(code(101, v4), Code::UnreachableNet);
        assert_eq!(code(110, v4), Code::TimeoutConnect);
        assert_eq!(code(EACCES, v4), Code::Permission);
        assert_eq!(code(EACCES, v6), Code::AdminProhibited);
        assert_eq!(code(1, v6), Code::Permission);
        assert_eq!(code(EMFILE, v4), Code::Internal);
        assert_eq!(code(71, v6), Code::Internal);
    }

    #[test]
    fn errors_of_an_open_socket_have_their_codes() {
        let code = |errno| io_fault(&io::Error::from_raw_os_error(errno), "reading").code;
        assert_eq!(code(104), Code::Reset);
        assert_eq!(code(110), Code::TimeoutRead);
        let eof = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(io_fault(&eof, "reading").code, Code::ClosedEarly);
    }
}
