//! ICMP echo: several probes a check, over sockets shared by all checks of the process.
//!
//! Sending and matching is surge-ping's, behind [`IcmpSockets`]. It matches replies by address,
//! sequence and (raw sockets) identifier; it does not hand out the payload of a reply, so a nonce
//! could not be compared and none is sent. Numbers are never shared by two open requests.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use civ_types::Family;
use futures_util::future::join_all;
use socket2::Type;
use surge_ping::{Client, Config, ICMP, IcmpPacket, PingIdentifier, PingSequence, SurgeError};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

use crate::engine::Check;
use crate::limits::Budget;
use crate::net;
use crate::outcome::{Code, Fault, Seen};

mod drops;
mod stats;

use stats::Stats;

/// Probes a check: one lost packet is no verdict, more than a few look like a flood.
const COUNT: u16 = 3;
/// Between the probes of one check: short, so that a check lasts little more than a round trip,
/// and long enough not to trip rate limits of routers.
const INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for one reply, whatever the budget: a round trip above is no use to anybody.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(3);
/// Echoes in flight per socket: with more, replies that come at once overflow the kernel's default
/// receive buffer (212,992 bytes, about 270 small packets), and our own drops look like loss.
const IN_FLIGHT_MAX: usize = 64;
/// How long an echo counts as in flight: replies later than that do not come at once any more,
/// and dead addresses must not hold up live ones.
const IN_FLIGHT_FOR: Duration = Duration::from_millis(200);
/// Data bytes, as `ping` sends them: some firewalls drop what looks different.
const PAYLOAD_BYTES: usize = 56;
/// Sockets kept at the same time, one per family and source address.
const SOCKETS_MAX: usize = 64;
/// A datagram socket has one identifier for its life, and NAT keeps the mapping of an identifier
/// after the floating IP has moved. So none is used for new checks after this age.
const DATAGRAM_AGE_MAX: Duration = Duration::from_secs(1);

/// Which ICMP sockets this process may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IcmpMode {
    /// Unprivileged ping sockets: the group is within `net.ipv4.ping_group_range`.
    Datagram,
    /// Raw sockets: the process has `CAP_NET_RAW`.
    Raw,
    /// Neither: every ICMP check ends as inconclusive.
    None {
        /// What the operator can do about it.
        remedy: String,
    },
}

impl IcmpMode {
    fn of_this_process() -> Self {
        let datagram = net::icmp_socket_allowed(Type::DGRAM, Family::V4);
        let raw = net::icmp_socket_allowed(Type::RAW, Family::V4);
        match (datagram, raw) {
            (Ok(()), _) => Self::Datagram,
            (Err(_), Ok(())) => Self::Raw,
            (Err(datagram), Err(raw)) => Self::None {
                remedy: remedy(&datagram, &raw),
            },
        }
    }
}

impl fmt::Display for IcmpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Datagram => f.write_str("datagram"),
            Self::Raw => f.write_str("raw"),
            Self::None { remedy } => write!(f, "none: {remedy}"),
        }
    }
}

/// One setting governs both families; there is no `net.ipv6.ping_group_range`.
fn remedy(datagram: &io::Error, raw: &io::Error) -> String {
    format!(
        "no ping socket ({datagram}) and no raw socket ({raw}): let the group of this process \
         into net.ipv4.ping_group_range (it governs IPv6 too), or give it CAP_NET_RAW"
    )
}

/// The ICMP sockets of this process, opened when first needed.
pub(crate) struct IcmpSockets {
    mode: IcmpMode,
    /// Identifier of the next check (raw) and sequence of the next probe.
    identifier: AtomicU16,
    sequence: AtomicU16,
    open: Mutex<HashMap<(Family, IpAddr), Arc<IcmpSocket>>>,
}

/// One socket with its receiving task.
struct IcmpSocket {
    client: Client,
    raw: bool,
    family: Family,
    opened: Instant,
    in_flight: Semaphore,
}

impl fmt::Debug for IcmpSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IcmpSockets")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl IcmpSockets {
    pub(crate) fn new() -> Self {
        // The start is different in each process: replies meant for one that ran before, or runs
        // beside us, must not match.
        let random = RandomState::new()
            .hash_one(std::process::id())
            .to_be_bytes();
        Self {
            mode: IcmpMode::of_this_process(),
            identifier: AtomicU16::new(u16::from_be_bytes([random[0], random[1]])),
            sequence: AtomicU16::new(u16::from_be_bytes([random[2], random[3]])),
            open: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn mode(&self) -> IcmpMode {
        self.mode.clone()
    }

    /// The socket of that source, opened if there is none young enough.
    fn socket(&self, family: Family, source: Option<IpAddr>) -> Result<Arc<IcmpSocket>, Fault> {
        let key = (family, source.unwrap_or_else(|| net::any(family)));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Checks under way keep theirs alive; only the table forgets it.
        open.retain(|_, socket| socket.raw || socket.opened.elapsed() < DATAGRAM_AGE_MAX);
        if let Some(socket) = open.get(&key) {
            return Ok(Arc::clone(socket));
        }
        if open.len() >= SOCKETS_MAX {
            open.retain(|_, socket| Arc::strong_count(socket) > 1);
        }
        if open.len() >= SOCKETS_MAX {
            let facts = format!("ICMP from more than {SOCKETS_MAX} source addresses at once");
            return Err(Fault::new(Code::Internal, facts));
        }
        let socket = Arc::new(IcmpSocket::open(family, source)?);
        open.insert(key, Arc::clone(&socket));
        Ok(socket)
    }
}

impl IcmpSocket {
    fn open(family: Family, source: Option<IpAddr>) -> Result<Self, Fault> {
        if let Some(source) = source {
            net::source_here(source)?;
        }
        let kind = match family {
            Family::V4 => ICMP::V4,
            Family::V6 => ICMP::V6,
        };
        let mut config = Config::builder().kind(kind).sock_type_hint(Type::DGRAM);
        if let Some(source) = source {
            config = config.bind(SocketAddr::new(source, 0));
        }
        let client = Client::new(&config.build())
            .map_err(|e| net::io_fault(&e, "opening an ICMP socket"))?;
        // It falls back from datagram to raw without saying so.
        let raw = client.get_socket().get_type() == Type::RAW;
        Ok(Self {
            client,
            raw,
            family,
            opened: Instant::now(),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
        })
    }

    fn drops(&self) -> Option<u64> {
        let descriptor = self.client.get_socket().get_native_sock();
        drops::of_socket(descriptor, self.family, self.raw)
    }
}

/// Sends [`COUNT`] echo requests to the first address; to the next ones only if none came back.
pub(crate) async fn probe(
    sockets: &IcmpSockets,
    check: &Check,
    budget: &Budget,
    waited: &mut Duration,
) -> Result<Seen, Fault> {
    if let IcmpMode::None { remedy } = &sockets.mode {
        return Err(Fault::new(Code::Permission, remedy.as_str()));
    }
    let resolved = net::resolve(&check.target, check.family, budget.end()).await?;
    let mut before = String::new();
    let mut last = None;
    let mut slots_waited = Duration::ZERO;
    for (index, address) in resolved.addresses.iter().enumerate() {
        let others = u32::try_from(resolved.addresses.len() - index).unwrap_or(1);
        // Waiting for a place in flight is our business and takes nothing from the budget.
        let left = budget
            .total()
            .saturating_sub(budget.used().saturating_sub(slots_waited));
        let socket = sockets.socket(check.family, check.source)?;
        let burst = Burst {
            sockets,
            socket: &socket,
            address: address.ip(),
            reply_wait: reply_wait(left / others),
        };
        let (result, slot) = burst.run().await;
        slots_waited += slot;
        *waited += slot;
        match result {
            Ok(mut seen) => {
                seen.facts = format!("{}{}{before}", seen.facts, resolved.fact());
                return Ok(seen);
            }
            Err(fault) if fault.code.is_inconclusive() => return Err(fault),
            Err(fault) => {
                before.push_str(&format!(" after {} {}", fault.code, fault.facts));
                last = Some(fault);
            }
        }
    }
    // The resolver's answers are never empty here.
    Err(last.unwrap_or_else(|| Fault::new(Code::NoAddressInFamily, "no address to probe")))
}

/// How long each reply is waited for, if all probes together may take `share`.
fn reply_wait(share: Duration) -> Duration {
    let sending = INTERVAL * u32::from(COUNT - 1);
    share.saturating_sub(sending).min(REPLY_WAIT_MAX)
}

/// The probes of one check to one address.
struct Burst<'a> {
    sockets: &'a IcmpSockets,
    socket: &'a IcmpSocket,
    address: IpAddr,
    reply_wait: Duration,
}

/// What became of one probe.
enum Answer {
    Reply(Duration),
    /// An ICMP error about it, and who sent it.
    Refused {
        code: Code,
        from: IpAddr,
        took: Duration,
    },
    Silent,
    /// It never left this host, or not with numbers of its own.
    NotSent(Fault),
}

impl Burst<'_> {
    /// Sends all, waits for all; also says how long the slowest waited for a place in flight.
    async fn run(&self) -> (Result<Seen, Fault>, Duration) {
        let drops_before = self.socket.drops();
        let identifier = PingIdentifier(self.sockets.identifier.fetch_add(1, Ordering::Relaxed));
        let start = Instant::now();
        let probes = (0..COUNT).map(|index| {
            // Sends do not wait for replies, and the last reply is waited for without interval.
            self.one(identifier, start + INTERVAL * u32::from(index))
        });
        let answers = join_all(probes).await;
        let waited = answers
            .iter()
            .map(|(_, waited)| *waited)
            .max()
            .unwrap_or_default();
        let answers = answers.into_iter().map(|(answer, _)| answer).collect();
        let result = self.judge(answers, drops_before);
        (result, waited)
    }

    async fn one(&self, identifier: PingIdentifier, at: Instant) -> (Answer, Duration) {
        sleep_until(at).await;
        let asked = Instant::now();
        let Ok(place) = self.socket.in_flight.acquire().await else {
            let fault = Fault::new(Code::Internal, "the places in flight are closed");
            return (Answer::NotSent(fault), asked.elapsed());
        };
        let waited = asked.elapsed();
        let mut pinger = self.socket.client.pinger(self.address, identifier).await;
        pinger.timeout(self.reply_wait);
        let sequence = PingSequence(self.sockets.sequence.fetch_add(1, Ordering::Relaxed));
        let payload = [0x42; PAYLOAD_BYTES];
        let ping = pinger.ping(sequence, &payload);
        tokio::pin!(ping);
        let result = tokio::select! {
            result = &mut ping => result,
            () = sleep(IN_FLIGHT_FOR) => {
                drop(place);
                ping.await
            }
        };
        (answer(result), waited)
    }

    fn judge(&self, answers: Vec<Answer>, drops_before: Option<u64>) -> Result<Seen, Fault> {
        let mut stats = Stats::default();
        let mut refused = None;
        let mut not_sent = None;
        for answer in answers {
            match answer {
                Answer::Reply(trip) => stats.trips.push(trip),
                Answer::Refused { code, from, took } => refused = Some((code, from, took)),
                Answer::Silent => {}
                Answer::NotSent(fault) => {
                    not_sent = Some(fault);
                    continue;
                }
            }
            stats.sent += 1;
        }
        let mode = if self.socket.raw { "raw" } else { "datagram" };
        let facts = format!("{} {stats} socket={mode}", self.address);
        if let Some(latency) = stats.mean() {
            return Ok(Seen { latency, facts });
        }
        if let Some((code, from, took)) = refused {
            let facts = format!("{facts} reported by {from}");
            return Err(Fault {
                code,
                facts,
                latency: Some(took),
            });
        }
        if let Some(fault) = not_sent {
            return Err(fault.context(&facts));
        }
        match (drops_before, self.socket.drops()) {
            (Some(before), Some(after)) if after > before => {
                let facts = format!("{facts} own receive buffer dropped {}", after - before);
                Err(Fault::new(Code::Internal, facts))
            }
            _ => Err(Fault::new(Code::TimeoutRead, facts)),
        }
    }
}

fn answer(result: Result<(IcmpPacket, Duration), SurgeError>) -> Answer {
    match result {
        Ok((packet, took)) => {
            let (message, from) = match &packet {
                IcmpPacket::V4(p) => (
                    message_v4(p.get_icmp_type().0, p.get_icmp_code().0),
                    IpAddr::V4(p.get_source()),
                ),
                IcmpPacket::V6(p) => (
                    message_v6(p.get_icmpv6_type().0, p.get_icmpv6_code().0),
                    IpAddr::V6(p.get_source()),
                ),
            };
            match message {
                Message::EchoReply => Answer::Reply(took),
                Message::Error(code) => Answer::Refused { code, from, took },
                Message::Other => Answer::Silent,
            }
        }
        Err(SurgeError::Timeout { .. }) => Answer::Silent,
        Err(SurgeError::IOError(e)) => Answer::NotSent(net::io_fault(&e, "sending")),
        Err(other) => Answer::NotSent(Fault::new(Code::Internal, other.to_string())),
    }
}

/// What an ICMP message about our request means.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    EchoReply,
    Error(Code),
    /// A redirect or something that a router says without dropping the request.
    Other,
}

/// RFC 792, RFC 1812 §5.2.7.1.
const fn message_v4(kind: u8, code: u8) -> Message {
    match (kind, code) {
        (0, _) => Message::EchoReply,
        (3, 0 | 6 | 11) => Message::Error(Code::UnreachableNet),
        (3, 4) => Message::Error(Code::PacketTooBig),
        (3, 9 | 10 | 13) => Message::Error(Code::AdminProhibited),
        (3, _) => Message::Error(Code::UnreachableHost),
        (11, _) => Message::Error(Code::TtlExceeded),
        _ => Message::Other,
    }
}

/// RFC 4443 §3.
const fn message_v6(kind: u8, code: u8) -> Message {
    match (kind, code) {
        (129, _) => Message::EchoReply,
        (1, 0) => Message::Error(Code::UnreachableNet),
        (1, 1 | 5 | 6) => Message::Error(Code::AdminProhibited),
        (1, _) => Message::Error(Code::UnreachableHost),
        (2, _) => Message::Error(Code::PacketTooBig),
        (3, _) => Message::Error(Code::TtlExceeded),
        _ => Message::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, Code, Duration, INTERVAL, Message, message_v4, message_v6, remedy};
    use super::{REPLY_WAIT_MAX, io, reply_wait};

    #[test]
    fn icmp_errors_have_their_codes() {
        assert_eq!(message_v4(0, 0), Message::EchoReply);
        assert_eq!(message_v4(3, 13), Message::Error(Code::AdminProhibited));
        assert_eq!(message_v4(3, 1), Message::Error(Code::UnreachableHost));
        assert_eq!(message_v4(3, 4), Message::Error(Code::PacketTooBig));
        assert_eq!(message_v4(11, 0), Message::Error(Code::TtlExceeded));
        assert_eq!(message_v4(5, 0), Message::Other);
        assert_eq!(message_v6(129, 0), Message::EchoReply);
        assert_eq!(message_v6(1, 1), Message::Error(Code::AdminProhibited));
        assert_eq!(message_v6(1, 3), Message::Error(Code::UnreachableHost));
    }

    #[test]
    fn waiting_for_replies_fits_into_the_share() {
        let share = Duration::from_secs(1);
        assert_eq!(reply_wait(share) + INTERVAL * u32::from(COUNT - 1), share);
        assert_eq!(reply_wait(Duration::from_secs(60)), REPLY_WAIT_MAX);
        assert_eq!(reply_wait(Duration::from_millis(100)), Duration::ZERO);
    }

    #[test]
    fn the_remedy_names_settings_that_exist() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let text = remedy(&denied(), &denied());
        assert!(text.contains("net.ipv4.ping_group_range") && text.contains("CAP_NET_RAW"));
        assert!(!text.contains("net.ipv6.ping_group_range"));
    }
}
