//! Who is connected: many silent or endless clients must neither keep others out nor fill the
//! memory. Whoever has more than a share, and has kept us waiting longest, makes room.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// What a connection's unfinished request may take without being counted, in bytes: heartbeats
/// and most questions are smaller, so they get through whatever others send.
const FREE: usize = 8 * 1_024;

/// Connections that nobody takes from a client for having too many.
const FAIR: usize = 64;

/// Whose connection it is: of IPv6, whoever has the network, since a host has all of its addresses.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

#[derive(Debug)]
struct Entry {
    client: IpAddr,
    /// Since when nothing was answered.
    since: Instant,
    /// Requests that are being answered.
    served: usize,
    /// Bytes that came since the last answer.
    bytes: usize,
    close: CancellationToken,
}

impl Entry {
    const fn counted(&self) -> usize {
        self.bytes.saturating_sub(FREE)
    }

    /// Who makes room first: nobody is being served there, and it has been silent longest.
    const fn turn(&self, id: u64) -> Turn {
        (0 < self.served, self.since, id)
    }
}

/// Whether requests are being answered, since when nothing was, and the connection.
type Turn = (bool, Instant, u64);

/// All connections, and in which order they make room: an attacker whose connections are closed
/// makes new ones at once, so the choice must not cost a look at all of them.
#[derive(Debug, Default)]
struct State {
    next: u64,
    all: HashMap<u64, Entry>,
    counted: usize,
    turns: BTreeSet<Turn>,
    clients: HashMap<IpAddr, BTreeSet<Turn>>,
    /// How many connections each client has.
    shares: BTreeSet<(usize, IpAddr)>,
    /// Requests that take more than is free, the oldest first.
    large: BTreeSet<(Instant, u64)>,
}

impl State {
    fn enter(&mut self, id: u64, entry: Entry) {
        let theirs = self.clients.entry(entry.client).or_default();
        let before = theirs.len();
        theirs.insert(entry.turn(id));
        self.shares.remove(&(before, entry.client));
        self.shares.insert((before + 1, entry.client));
        self.turns.insert(entry.turn(id));
        self.all.insert(id, entry);
    }

    fn leave(&mut self, id: u64) {
        let Some(entry) = self.all.remove(&id) else {
            return;
        };
        self.counted = self.counted.saturating_sub(entry.counted());
        self.turns.remove(&entry.turn(id));
        self.large.remove(&(entry.since, id));
        let Some(theirs) = self.clients.get_mut(&entry.client) else {
            return;
        };
        theirs.remove(&entry.turn(id));
        let left = theirs.len();
        self.shares.remove(&(left + 1, entry.client));
        if left == 0 {
            self.clients.remove(&entry.client);
        } else {
            self.shares.insert((left, entry.client));
        }
    }

    /// Changes one connection and its place in all orders.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.all.get_mut(&id) else {
            return;
        };
        let (turn, since, counted) = (entry.turn(id), entry.since, entry.counted());
        change(entry);
        self.counted = self.counted.saturating_sub(counted) + entry.counted();
        if turn != entry.turn(id) {
            self.turns.remove(&turn);
            self.turns.insert(entry.turn(id));
            if let Some(theirs) = self.clients.get_mut(&entry.client) {
                theirs.remove(&turn);
                theirs.insert(entry.turn(id));
            }
        }
        if 0 < counted {
            self.large.remove(&(since, id));
        }
        if 0 < entry.counted() {
            self.large.insert((entry.since, id));
        }
    }

    fn evict(&mut self, id: u64) {
        if let Some(entry) = self.all.get(&id) {
            entry.close.cancel();
        }
        self.leave(id);
    }

    /// Whoever has been silent longest.
    fn idle(&self) -> Option<u64> {
        let (served, _, id) = self.turns.first()?;
        (!served).then_some(*id)
    }

    /// Of the client that has most connections, if that is more than its share: the one that has
    /// been silent longest, else the oldest.
    fn greedy(&self) -> Option<u64> {
        let (n, client) = self.shares.last()?;
        if *n <= FAIR {
            return None;
        }
        let (_, _, id) = self.clients.get(client)?.first()?;
        Some(*id)
    }

    /// The oldest request among those that take more than is free.
    fn large(&self) -> Option<u64> {
        self.large.first().map(|(_, id)| *id)
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Crowd {
    state: Mutex<State>,
    connections_max: usize,
    bytes_max: usize,
}

impl Crowd {
    pub(super) fn new(connections_max: usize, bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            connections_max,
            bytes_max,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, if need be at the cost of another.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let mut state = self.state();
        if self.connections_max <= state.all.len() {
            let victim = state.greedy().or_else(|| state.idle())?;
            state.evict(victim);
        }
        let id = state.next;
        state.next += 1;
        let entry = Entry {
            client: client(peer),
            since: Instant::now(),
            served: 0,
            bytes: 0,
            close: CancellationToken::new(),
        };
        let closed = entry.close.clone();
        state.enter(id, entry);
        drop(state);
        Some(Seat {
            crowd: Arc::clone(self),
            id,
            closed,
        })
    }

    /// Closes one that can best be done without.
    pub(super) fn make_room(&self) {
        let mut state = self.state();
        if let Some(victim) = state.greedy().or_else(|| state.idle()) {
            state.evict(victim);
        }
    }

    fn came(&self, id: u64, n: usize) {
        let mut state = self.state();
        state.change(id, |entry| entry.bytes = entry.bytes.saturating_add(n));
        while self.bytes_max < state.counted {
            let Some(victim) = state.large() else { return };
            state.evict(victim);
        }
    }

    fn served(&self, id: u64) {
        self.state().change(id, |entry| entry.served += 1);
    }

    fn answered(&self, id: u64) {
        self.state().change(id, |entry| {
            entry.served = entry.served.saturating_sub(1);
            entry.bytes = 0;
            entry.since = Instant::now();
        });
    }
}

/// The place of one connection; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    id: u64,
    closed: CancellationToken,
}

impl Seat {
    /// Cancelled when this connection must make room.
    pub(super) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// A request is being answered until what this returns is dropped.
    pub(super) fn serve(seat: &Arc<Self>) -> Served {
        seat.crowd.served(seat.id);
        Served(Arc::clone(seat))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.crowd.state().leave(self.id);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Served(Arc<Seat>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.crowd.answered(self.0.id);
    }
}

/// A stream whose incoming bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    seat: Arc<Seat>,
}

impl<S> Metered<S> {
    pub(super) const fn new(stream: S, seat: Arc<Seat>) -> Self {
        Self { stream, seat }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let n = buf.filled().len() - before;
        if 0 < n {
            self.seat.crowd.came(self.seat.id, n);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The body of an answer, which ends the request when it was sent.
#[derive(Debug)]
pub(super) struct Answering {
    body: Body,
    _served: Served,
}

impl Answering {
    pub(super) const fn new(body: Body, served: Served) -> Self {
        Self {
            body,
            _served: served,
        }
    }
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    fn crowd(connections: usize, bytes: usize) -> Arc<Crowd> {
        Arc::new(Crowd::new(connections, bytes))
    }

    fn open(seat: &Seat) -> bool {
        !seat.closed().is_cancelled()
    }

    #[test]
    fn whoever_has_been_silent_longest_makes_room() {
        let crowd = crowd(3, 1 << 20);
        let seats: Vec<_> = (0..3)
            .map(|n| Arc::new(crowd.enter(peer(n)).unwrap()))
            .collect();
        // The first is being served, the second was just answered: the third is silent longest.
        let served = Seat::serve(&seats[0]);
        drop(Seat::serve(&seats[1]));
        let next = crowd.enter(peer(9)).unwrap();
        let closed: Vec<bool> = seats.iter().map(|seat| open(seat)).collect();
        assert_eq!(closed, [true, true, false]);
        assert!(open(&next));
        drop((served, next));
        assert!(crowd.enter(peer(9)).is_some());
        assert!(open(&seats[0]) && open(&seats[1]), "there was room again");
    }

    #[test]
    fn a_host_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn who_has_few_connections_keeps_them_however_silent() {
        let crowd = crowd(FAIR + 2, 1 << 20);
        let friend = crowd.enter(peer(1)).unwrap();
        let greedy: Vec<_> = (0..=FAIR)
            .map(|_| Arc::new(crowd.enter(peer(2)).unwrap()))
            .collect();
        let _served = Seat::serve(&greedy[0]);
        let _next = crowd.enter(peer(3)).unwrap();
        assert!(open(&friend));
        let closed: Vec<usize> = (0..=FAIR).filter(|n| !open(&greedy[*n])).collect();
        assert_eq!(closed, [1], "served ones are kept before silent ones");
    }

    #[test]
    fn a_client_with_more_than_its_share_loses_one_that_is_served() {
        let crowd = crowd(FAIR + 2, 1 << 20);
        let friend = Arc::new(crowd.enter(peer(1)).unwrap());
        let of_friend = Seat::serve(&friend);
        let greedy: Vec<_> = (0..=FAIR)
            .map(|_| Arc::new(crowd.enter(peer(2)).unwrap()))
            .collect();
        let served: Vec<_> = greedy.iter().map(Seat::serve).collect();
        let third = Arc::new(crowd.enter(peer(3)).unwrap());
        let of_third = Seat::serve(&third);
        assert!(!open(&greedy[0]) && open(&greedy[1]) && open(&friend));
        // Nobody has more than its share now.
        assert!(crowd.enter(peer(4)).is_none());
        drop((of_friend, of_third, served));
    }

    #[test]
    fn the_oldest_large_request_makes_room_and_small_ones_are_safe() {
        let crowd = crowd(10, 100_000);
        let seats: Vec<_> = (0..4).map(|n| crowd.enter(peer(n)).unwrap()).collect();
        crowd.came(seats[0].id, FREE);
        crowd.came(seats[1].id, FREE + 60_000);
        crowd.came(seats[2].id, FREE + 40_000);
        assert!(seats.iter().all(open));
        crowd.came(seats[3].id, FREE + 1);
        let closed: Vec<bool> = seats.iter().map(open).collect();
        assert_eq!(closed, [true, false, true, true]);
        assert_eq!(crowd.state().counted, 40_001);
        let mut seats = seats.into_iter().skip(2).map(Arc::new);
        drop(Seat::serve(&seats.next().unwrap()));
        assert_eq!(crowd.state().counted, 1);
        drop(seats);
        let state = crowd.state();
        assert_eq!(state.counted, 0);
        assert!(state.all.is_empty() && state.turns.is_empty() && state.clients.is_empty());
        assert!(state.shares.is_empty() && state.large.is_empty());
    }
}
