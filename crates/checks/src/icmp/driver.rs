//! The task of one socket: sends what is due as fast as the pace allows, hands replies and errors
//! to those who wait, ends those that waited long enough.
//!
//! It alone touches the socket, so nothing is locked but the pace, which all sockets share.

use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasher as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use civ_types::Family;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::{Instant, sleep_until};

use super::bucket::Bucket;
use super::flights::{Flight, Flights};
use super::job::{Answer, Answers, Job};
use super::meaning::{IcmpError, Refusal, error_code};
use super::socket::{Access, Arrived, BATCH, IcmpSocket, Inbox, Queue, Said};
use super::wire::{self, Numbers};
use crate::outcome::Code;

/// While the kernel has no room for more, or no numbers are free.
const PAUSE: Duration = Duration::from_millis(1);
/// How often a packet is tried again after errors that may have been of other packets.
const TRIES: u32 = 5;
/// Batches read in a row before sending goes on: replies never hold it up for long.
const BATCHES_READ: usize = 8;
/// Reads of both queues, at most, before echoes are given up.
const LAST_LOOKS: usize = 64;
/// Echoes that are worth a wake-up of their own.
const WORTH_WAKING: u32 = 32;
/// Numbers that are looked at for a free one at a time.
const NUMBERS_TRIED: usize = 64;

/// Runs until all senders of jobs are gone and the last job is done.
pub(super) struct Driver {
    socket: IcmpSocket,
    jobs: mpsc::Receiver<Job>,
    /// All senders of jobs are gone.
    ended: bool,
    state: State,
}

struct State {
    family: Family,
    access: Access,
    pace: Arc<Mutex<Bucket>>,
    work: HashMap<u64, Work>,
    /// What is to be sent, by time, in turns.
    due: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    /// For the next number of a job, and the next turn.
    count: u64,
    flights: Flights,
    inbox: Inbox,
    /// Next sequence number of a ping socket, whose identifier is the same for all jobs.
    seq: u16,
    /// For nonces that nobody can foretell from those he has seen.
    secret: RandomState,
    nonces: u64,
}

/// A job under way.
struct Work {
    job: Job,
    all: Vec<Answer>,
    /// Echoes that are not decided yet.
    open: usize,
    /// The next echo: its round and its place in the list of targets.
    round: u16,
    place: usize,
    round_began: Instant,
    first_sent: Option<Instant>,
    /// Next sequence number on a raw socket.
    seq: u16,
    /// Since when the kernel has not taken any more.
    stalled: Option<Instant>,
}

/// One echo that is about to be sent.
#[derive(Clone, Copy)]
struct Ready {
    numbers: Numbers,
    nonce: u64,
    slot: usize,
    to: SocketAddr,
}

impl Driver {
    pub(super) fn new(
        socket: IcmpSocket,
        family: Family,
        jobs: mpsc::Receiver<Job>,
        pace: Arc<Mutex<Bucket>>,
    ) -> Self {
        let access = socket.access();
        Self {
            socket,
            jobs,
            ended: false,
            state: State {
                family,
                access,
                pace,
                work: HashMap::new(),
                due: BinaryHeap::new(),
                count: 0,
                flights: Flights::default(),
                inbox: Inbox::new(),
                seq: 0,
                secret: RandomState::new(),
                nonces: 0,
            },
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.take_jobs();
            let socket = &self.socket;
            self.state.end_overdue(socket);
            let next = self.state.send(socket);
            if self.state.work.is_empty() && self.ended {
                return;
            }
            if next.is_some_and(|at| at <= Instant::now()) {
                self.state.receive(socket, Queue::Replies);
                tokio::task::yield_now().await;
                continue;
            }
            let wake = [next, self.state.flights.next_end()];
            if !self.wait(wake.into_iter().flatten().min()).await {
                return;
            }
        }
    }

    fn take_jobs(&mut self) {
        while !self.ended {
            match self.jobs.try_recv() {
                Ok(job) => self.state.begin(job),
                Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    /// Until a job comes, something can be read, or `wake`; `false` if nothing ever will.
    async fn wait(&mut self, wake: Option<Instant>) -> bool {
        let timer = async {
            match wake {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            job = self.jobs.recv(), if !self.ended => match job {
                Some(job) => self.state.begin(job),
                None => self.ended = true,
            },
            ready = self.socket.ready() => {
                if ready.is_err() {
                    // Tokio is shutting down.
                    return false;
                }
                let (socket, state) = (&self.socket, &mut self.state);
                socket.read_with(|| {
                    let no_replies = state.receive(socket, Queue::Replies);
                    state.receive(socket, Queue::Errors) && no_replies
                });
            }
            () = timer => {}
        }
        true
    }
}

impl State {
    fn begin(&mut self, job: Job) {
        let total = job.echoes.total();
        let now = Instant::now();
        self.count += 1;
        let work = Work {
            all: vec![Answer::Silent; total],
            open: total,
            round: 0,
            place: 0,
            round_began: now,
            first_sent: None,
            seq: 0,
            stalled: None,
            job,
        };
        let number = self.count;
        self.work.insert(number, work);
        if total == 0 {
            self.finish(number);
        } else {
            self.due.push(Reverse((now, number, number)));
        }
    }

    /// Sends one batch of what is due; when to come again.
    fn send(&mut self, socket: &IcmpSocket) -> Option<Instant> {
        let now = Instant::now();
        let Reverse((at, turn, number)) = self.due.peek().copied()?;
        if at > now {
            return Some(at);
        }
        let Some(work) = self.work.get(&number).filter(|work| !work.is_unwanted()) else {
            self.due.pop();
            self.work.remove(&number);
            return Some(now);
        };
        let want = work.left_in_round().min(BATCH);
        let granted = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            match pace.take(now, want) {
                0 => {
                    return Some(pace.ready_at(WORTH_WAKING.min(u32::try_from(want).unwrap_or(1))));
                }
                granted => granted,
            }
        };
        self.due.pop();
        debug_assert!(turn <= self.count);
        self.send_batch(socket, number, granted);
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Sends up to `count` echoes of that job, and puts it back in line if it has more.
    fn send_batch(&mut self, socket: &IcmpSocket, number: u64, count: usize) {
        let Some(mut work) = self.work.remove(&number) else {
            return;
        };
        let ready = self.prepare(&mut work, count);
        let wanted_all = ready.len() == count;
        let left = self.hand_over(socket, number, &mut work, &ready);
        // What the kernel did not take is sent first next time.
        work.go_back(left);
        let now = Instant::now();
        let again = if left > 0 || !wanted_all {
            Some(now + PAUSE)
        } else {
            work.next_due(now)
        };
        if let Some(at) = again {
            self.count += 1;
            self.due.push(Reverse((at, self.count, number)));
        }
        let open = work.open;
        self.work.insert(number, work);
        if open == 0 {
            self.finish(number);
        }
    }

    /// Gives numbers and nonces to the next echoes.
    fn prepare(&mut self, work: &mut Work, count: usize) -> Vec<Ready> {
        let mut ready: Vec<Ready> = Vec::with_capacity(count);
        while ready.len() < count {
            let Some(address) = work.job.echoes.targets.get(work.place).copied() else {
                break;
            };
            let Some(numbers) = self.free_numbers(work, address, &ready) else {
                break;
            };
            self.nonces += 1;
            ready.push(Ready {
                numbers,
                nonce: self.secret.hash_one(self.nonces),
                slot: work.place * usize::from(work.job.echoes.count) + usize::from(work.round),
                to: SocketAddr::new(address, 0),
            });
            work.place += 1;
        }
        ready
    }

    fn free_numbers(
        &mut self,
        work: &mut Work,
        address: std::net::IpAddr,
        ready: &[Ready],
    ) -> Option<Numbers> {
        (0..NUMBERS_TRIED).find_map(|_| {
            let numbers = match self.access {
                Access::Raw => {
                    work.seq = work.seq.wrapping_add(1);
                    let (id, seq) = (work.job.id, work.seq);
                    Numbers { id, seq }
                }
                Access::Datagram { id } => {
                    self.seq = self.seq.wrapping_add(1);
                    let seq = self.seq;
                    Numbers { id, seq }
                }
            };
            let taken = |other: &Ready| other.to.ip() == address && other.numbers == numbers;
            let free = self.flights.is_free(&(address, numbers.id, numbers.seq));
            (free && !ready.iter().any(taken)).then_some(numbers)
        })
    }

    /// Gives packets to the kernel; how many it did not take.
    fn hand_over(
        &mut self,
        socket: &IcmpSocket,
        number: u64,
        work: &mut Work,
        ready: &[Ready],
    ) -> usize {
        let data = work.job.echoes.data;
        let size = wire::request_bytes(data);
        let mut packets = Vec::with_capacity(size * ready.len());
        for one in ready {
            wire::push_request(&mut packets, self.family, one.numbers, one.nonce, data);
        }
        let to: Vec<SocketAddr> = ready.iter().map(|one| one.to).collect();
        if work.job.echoes.ttl.is_some()
            && let Err(error) = socket.set_ttl(work.job.echoes.ttl)
        {
            tracing::debug!(%error, "the hop limit cannot be set");
        }
        let mut sent = 0;
        let mut tries = 0;
        while let Some(first) = ready.get(sent) {
            let begin = Instant::now();
            let rest = packets.get(sent * size..).unwrap_or_default();
            let error = match socket.send(rest, size, to.get(sent..).unwrap_or_default()) {
                Ok(count) => {
                    let batch = ready.get(sent..sent + count).unwrap_or_default();
                    self.departed(socket, number, work, batch, begin);
                    (sent, tries) = (sent + count.max(1), 0);
                    continue;
                }
                Err(error) => error,
            };
            let refusal = Refusal::new(&error, self.family);
            if refusal.is_passing() && !work.stalls_too_long(begin) {
                break;
            }
            if refusal.may_be_of_another_packet() && tries < TRIES {
                tries += 1;
                socket.forget_error();
                self.receive_with(socket, Queue::Errors, Some((number, &mut *work)));
                continue;
            }
            work.decide(first.slot, Answer::NotSent(refusal));
            (sent, tries) = (sent + 1, 0);
        }
        if work.job.echoes.ttl.is_some()
            && let Err(error) = socket.set_ttl(None)
        {
            tracing::debug!(%error, "the hop limit cannot be set back");
        }
        ready.len().saturating_sub(sent)
    }

    /// Notes echoes that one call took between `begin` and now.
    fn departed(
        &mut self,
        socket: &IcmpSocket,
        number: u64,
        work: &mut Work,
        batch: &[Ready],
        begin: Instant,
    ) {
        let each = begin.elapsed() / u32::try_from(batch.len().max(1)).unwrap_or(1);
        let drops = socket.drops();
        let mut sent = begin;
        for one in batch {
            let flight = Flight {
                nonce: one.nonce,
                job: number,
                slot: one.slot,
                sent,
                drops,
            };
            let key = (one.to.ip(), one.numbers.id, one.numbers.seq);
            self.flights
                .depart(key, flight, sent + work.job.echoes.wait);
            sent += each;
        }
        work.first_sent.get_or_insert(begin);
        work.stalled = None;
    }

    /// Reads what is there, some batches at most; whether the queue is empty now.
    fn receive(&mut self, socket: &IcmpSocket, queue: Queue) -> bool {
        self.receive_with(socket, queue, None)
    }

    /// The same, while one job is out of the table.
    fn receive_with(
        &mut self,
        socket: &IcmpSocket,
        queue: Queue,
        mut out: Option<(u64, &mut Work)>,
    ) -> bool {
        let mut done = Vec::new();
        let mut emptied = false;
        let Self {
            family,
            work,
            flights,
            inbox,
            ..
        } = self;
        for _ in 0..BATCHES_READ {
            let read = socket.receive(inbox, queue, |arrived| {
                let Some((flight, answer)) = meaning(*family, flights, &arrived) else {
                    return;
                };
                let waiting = match &mut out {
                    Some((number, work)) if *number == flight.job => Some(&mut **work),
                    _ => work.get_mut(&flight.job),
                };
                if waiting.is_some_and(|waiting| waiting.decide(flight.slot, answer)) {
                    done.push(flight.job);
                }
            });
            match read {
                Ok(count) if count == BATCH => {}
                // Fewer than there was room for: it is empty.
                Ok(_) => {
                    emptied = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    emptied = true;
                    break;
                }
                // An error that the kernel kept for us. It is gone now; the error queue has it.
                Err(_kept) => {}
            }
        }
        for number in done {
            self.finish(number);
        }
        emptied
    }

    /// Ends the echoes that were waited for long enough, after a last look at what came.
    fn end_overdue(&mut self, socket: &IcmpSocket) {
        let now = Instant::now();
        if self.flights.next_end().is_none_or(|end| end > now) {
            return;
        }
        // A flood of foreign packets must not keep us here.
        for queue in [Queue::Replies, Queue::Errors] {
            let _emptied = (0..LAST_LOOKS).any(|_| self.receive(socket, queue));
        }
        let drops = socket.drops();
        while let Some(flight) = self.flights.overdue(now) {
            let answer = if flight.drops == drops {
                Answer::Silent
            } else {
                Answer::Undecided
            };
            let work = self.work.get_mut(&flight.job);
            if work.is_some_and(|work| work.decide(flight.slot, answer)) {
                self.finish(flight.job);
            }
        }
    }

    /// Says what became of a job. Whoever asked may have gone.
    fn finish(&mut self, number: u64) {
        let Some(work) = self.work.remove(&number) else {
            return;
        };
        let Job { answers, asked, .. } = work.job;
        let first = work.first_sent.unwrap_or_else(Instant::now);
        let _unwanted = answers.send(Answers {
            all: work.all,
            waited: first.saturating_duration_since(asked),
            raw: self.access == Access::Raw,
        });
    }
}

/// Whose answer it is, and what it means; it is not waited for any more then.
fn meaning(
    family: Family,
    flights: &mut Flights,
    arrived: &Arrived<'_>,
) -> Option<(Flight, Answer)> {
    let Some(said) = arrived.error else {
        let reply = wire::read_reply(family, arrived.bytes)?;
        let flight = flights.land(arrived.address, reply.numbers, Some(reply.nonce))?;
        return Some((
            flight,
            Answer::Reply(arrived.at.saturating_duration_since(flight.sent)),
        ));
    };
    let error = icmp_error(family, said)?;
    let quoted = wire::read_quoted(family, arrived.bytes)?;
    let flight = flights.land(arrived.address, quoted.numbers, quoted.nonce)?;
    let took = arrived.at.saturating_duration_since(flight.sent);
    Some((flight, Answer::Error(error, took)))
}

fn icmp_error(family: Family, said: Said) -> Option<IcmpError> {
    let code = error_code(family, said.kind, said.code)?;
    let mtu = (code == Code::PacketTooBig && said.info > 0).then_some(said.info);
    Some(IcmpError {
        code,
        from: said.from,
        mtu,
    })
}

impl Work {
    fn left_in_round(&self) -> usize {
        self.job.echoes.targets.len() - self.place
    }

    /// Nobody waits for it any more.
    fn is_unwanted(&self) -> bool {
        self.job.answers.is_closed()
    }

    /// The last `count` echoes were not sent.
    fn go_back(&mut self, count: usize) {
        self.place = self.place.saturating_sub(count);
    }

    /// When the next echo is due, if there is one.
    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        if self.left_in_round() > 0 {
            return Some(now);
        }
        self.round += 1;
        if self.round >= self.job.echoes.count {
            return None;
        }
        self.place = 0;
        self.round_began = now.max(self.round_began + self.job.echoes.interval);
        Some(self.round_began)
    }

    /// Whether the kernel has refused for as long as a reply would be waited for.
    fn stalls_too_long(&mut self, now: Instant) -> bool {
        let since = *self.stalled.get_or_insert(now);
        now.saturating_duration_since(since) > self.job.echoes.wait
    }

    /// Notes what became of one echo; whether all are decided.
    fn decide(&mut self, slot: usize, answer: Answer) -> bool {
        if let Some(place) = self.all.get_mut(slot) {
            *place = answer;
            self.open = self.open.saturating_sub(1);
        }
        self.open == 0
    }
}
