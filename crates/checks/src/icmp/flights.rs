//! The echoes under way: who waits for which numbers, and until when. Pure.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use tokio::time::Instant;

use super::wire::Numbers;

/// Whom an echo went to, and its numbers. Two echoes under way never share one.
pub(super) type Key = (IpAddr, u16, u16);

/// One echo under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flight {
    /// Mark in its data.
    pub(super) nonce: u64,
    /// Who waits: number of the job, and which of its echoes.
    pub(super) job: u64,
    pub(super) slot: usize,
    pub(super) sent: Instant,
    /// Drop counter of the socket when it was sent.
    pub(super) drops: u32,
}

/// The table. Numbers wrap around and are used again as soon as they are free; a late reply to an
/// earlier use has another nonce.
#[derive(Debug, Default)]
pub(super) struct Flights {
    table: HashMap<Key, Flight>,
    /// Ends in order; those of echoes that were answered meanwhile are skipped.
    ends: BinaryHeap<Reverse<(Instant, Key, u64)>>,
}

impl Flights {
    pub(super) fn is_free(&self, key: &Key) -> bool {
        !self.table.contains_key(key)
    }

    pub(super) fn depart(&mut self, key: Key, flight: Flight, end: Instant) {
        self.ends.push(Reverse((end, key, flight.nonce)));
        self.table.insert(key, flight);
    }

    /// Takes out the echo with these numbers. A nonce that was seen must be its own; one that was
    /// not (a short quote in an ICMP error) need not.
    pub(super) fn land(
        &mut self,
        address: IpAddr,
        numbers: Numbers,
        nonce: Option<u64>,
    ) -> Option<Flight> {
        let key = (address, numbers.id, numbers.seq);
        let flight = self.table.get(&key)?;
        if nonce.is_some_and(|nonce| nonce != flight.nonce) {
            return None;
        }
        self.table.remove(&key)
    }

    /// The next end, of an echo that may have been answered meanwhile.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    /// Takes out one that was waited for until `now` or before.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Flight> {
        while self.next_end().is_some_and(|end| end <= now) {
            let Reverse((_, key, nonce)) = self.ends.pop()?;
            if self
                .table
                .get(&key)
                .is_some_and(|flight| flight.nonce == nonce)
            {
                return self.table.remove(&key);
            }
        }
        if self.table.is_empty() {
            // What is left are ends of answered echoes.
            self.ends.clear();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn numbers(seq: u16) -> Numbers {
        Numbers { id: 1, seq }
    }

    fn depart(flights: &mut Flights, seq: u16, nonce: u64, sent: Instant) {
        let flight = Flight {
            nonce,
            job: 1,
            slot: usize::from(seq),
            sent,
            drops: 0,
        };
        flights.depart((PEER, 1, seq), flight, sent + Duration::from_secs(1));
    }

    #[test]
    fn only_the_right_address_numbers_and_nonce_land() {
        let mut flights = Flights::default();
        depart(&mut flights, 7, 42, Instant::now());
        let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(flights.land(other, numbers(7), Some(42)), None);
        assert_eq!(flights.land(PEER, numbers(8), Some(42)), None);
        assert_eq!(flights.land(PEER, numbers(7), Some(43)), None);
        assert!(!flights.is_free(&(PEER, 1, 7)));
        let landed = flights.land(PEER, numbers(7), Some(42));
        assert_eq!(landed.map(|flight| flight.slot), Some(7));
        assert_eq!(flights.land(PEER, numbers(7), Some(42)), None);
    }

    #[test]
    fn a_short_quote_lands_by_its_numbers() {
        let mut flights = Flights::default();
        depart(&mut flights, 7, 42, Instant::now());
        assert!(flights.land(PEER, numbers(7), None).is_some());
    }

    #[test]
    fn used_again_numbers_are_not_ended_by_their_first_use() {
        let mut flights = Flights::default();
        let start = Instant::now();
        depart(&mut flights, 7, 42, start);
        flights.land(PEER, numbers(7), Some(42)).unwrap();
        depart(&mut flights, 7, 43, start + Duration::from_millis(500));
        assert_eq!(flights.overdue(start + Duration::from_secs(1)), None);
        assert_eq!(flights.land(PEER, numbers(7), Some(42)), None);
        let late = start + Duration::from_secs(2);
        assert_eq!(flights.overdue(late).map(|flight| flight.nonce), Some(43));
        assert_eq!(flights.overdue(late), None);
        assert_eq!(flights.next_end(), None);
    }
}
