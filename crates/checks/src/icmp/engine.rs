//! The ICMP engine of this process: which sockets it may open, one socket for each family (and
//! source), one pace for all.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use civ_types::Family;
use socket2::Type;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::bucket::Bucket;
use super::driver::Driver;
use super::job::{Answers, Echoes, Job};
use super::socket::{self, Access, IcmpSocket, Place};
use crate::net;
use crate::outcome::{Code, Fault};

/// Sockets kept at the same time.
const SOCKETS_MAX: usize = 64;
/// A ping socket has one identifier for its life, and NAT keeps the mapping of an identifier after
/// the floating IP has moved. So none is used for new checks after this age; what is under way on
/// it ends there.
const DATAGRAM_AGE_MAX: Duration = Duration::from_secs(1);
/// Jobs on their way to a socket; more wait.
const JOBS_QUEUED: usize = 1024;
/// A stall of this length must not overflow a socket's receive buffer.
const STALL: Duration = Duration::from_millis(50);

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
        let datagram = socket::allowed(Type::DGRAM, Family::V4);
        let raw = socket::allowed(Type::RAW, Family::V4);
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

/// Sends echoes for all checks of the process.
pub(crate) struct IcmpEngine {
    mode: IcmpMode,
    pace: Arc<Mutex<Bucket>>,
    /// Identifier of the next job on a raw socket.
    id: AtomicU16,
    open: Mutex<HashMap<Place, Open>>,
}

/// A socket with its task.
#[derive(Debug, Clone)]
struct Open {
    jobs: mpsc::Sender<Job>,
    raw: bool,
    since: Instant,
    /// Held by everybody who waits for an answer.
    users: Arc<()>,
}

impl fmt::Debug for IcmpEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IcmpEngine")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl IcmpEngine {
    /// An engine that sends at most that many echoes a second; sockets are opened when needed.
    pub(crate) fn new(per_second: u32) -> Self {
        // The start is different in each process: firewalls learn identifiers, and replies meant
        // for one that ran before, or runs beside us, must not even look like ours.
        let random = RandomState::new().hash_one(std::process::id());
        let [low, high, ..] = random.to_be_bytes();
        Self {
            mode: IcmpMode::of_this_process(),
            pace: Arc::new(Mutex::new(Bucket::new(per_second, Instant::now()))),
            id: AtomicU16::new(u16::from_be_bytes([low, high])),
            open: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn mode(&self) -> IcmpMode {
        self.mode.clone()
    }

    /// # Errors
    /// `permission` with the remedy, if this process may open no ICMP socket.
    pub(crate) fn allowed(&self) -> Result<(), Fault> {
        match &self.mode {
            IcmpMode::None { remedy } => Err(Fault::new(Code::Permission, remedy.as_str())),
            IcmpMode::Datagram | IcmpMode::Raw => Ok(()),
        }
    }

    /// Sends echoes and waits for what becomes of them. Dropping the future stops the sending.
    ///
    /// # Errors
    /// What keeps this process from it; never what the network does.
    pub(crate) async fn echo(&self, place: Place, echoes: Echoes) -> Result<Answers, Fault> {
        self.allowed()?;
        let asked = Instant::now();
        let open = self.socket(place)?;
        let (answers, answered) = oneshot::channel();
        let job = Job {
            echoes,
            id: self.id.fetch_add(1, Ordering::Relaxed),
            asked,
            answers,
        };
        let gone = || Fault::new(Code::Internal, "the task of the ICMP socket has ended");
        if open.jobs.send(job).await.is_err() {
            return Err(gone());
        }
        answered.await.map_err(|_ended| gone())
    }

    /// The socket of that place, opened if there is none young enough.
    fn socket(&self, place: Place) -> Result<Open, Fault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Jobs under way keep theirs alive; only the table forgets it.
        open.retain(|_, socket| {
            !socket.jobs.is_closed() && (socket.raw || socket.since.elapsed() < DATAGRAM_AGE_MAX)
        });
        if let Some(socket) = open.get(&place) {
            return Ok(socket.clone());
        }
        if open.len() >= SOCKETS_MAX {
            open.retain(|_, socket| Arc::strong_count(&socket.users) > 1);
        }
        if open.len() >= SOCKETS_MAX {
            let facts = format!("ICMP from more than {SOCKETS_MAX} source addresses at once");
            return Err(Fault::new(Code::Internal, facts));
        }
        let socket = self.start(place)?;
        open.insert(place, socket.clone());
        Ok(socket)
    }

    fn start(&self, place: Place) -> Result<Open, Fault> {
        if let Some(source) = place.source {
            net::source_here(source)?;
        }
        let socket =
            IcmpSocket::open(place).map_err(|e| net::io_fault(&e, "opening an ICMP socket"))?;
        let raw = socket.access() == Access::Raw;
        self.fit_pace(socket.room());
        let (jobs, queue) = mpsc::channel(JOBS_QUEUED);
        let pace = Arc::clone(&self.pace);
        let driver = Driver::new(socket, place.family, queue, pace);
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the last sender, and whoever waits for it sees a panic"
        )]
        tokio::spawn(driver.run());
        Ok(Open {
            jobs,
            raw,
            since: Instant::now(),
            users: Arc::new(()),
        })
    }

    /// Slows down if the replies of a short stall would overflow a receive buffer of that room.
    fn fit_pace(&self, room: usize) {
        let stalls_a_second = Duration::from_secs(1).as_millis() / STALL.as_millis();
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let most = room.saturating_mul(u32::try_from(stalls_a_second).unwrap_or(1));
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.slow_down_to(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_settings_that_exist() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let text = remedy(&denied(), &denied());
        assert!(text.contains("net.ipv4.ping_group_range") && text.contains("CAP_NET_RAW"));
        assert!(!text.contains("net.ipv6.ping_group_range"));
    }
}
