//! Which pieces of four characters the addresses of a block have, as marks in a field of bits: a
//! piece that a block has is always marked, a mark can also be another piece's.
//!
//! Counting these pieces, as [`super::gram`] counts shorter ones, would make the table of pieces
//! five times as large; a field is one small row of a block and changes only when addresses come.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::gram;
use super::search::Bounds;

/// Length of the pieces that are marked.
const PIECE: usize = 4;

/// Bits of a field. A block of a thousand neighbours has 300 to 900 pieces, so that a piece that it
/// does not have is marked in one of ten to twenty-seven.
const BITS: usize = 8_192;

/// Bytes of a field.
const BYTES: usize = BITS / 8;

/// The marks of some addresses.
#[derive(Debug)]
pub(super) struct Marks {
    bits: [u8; BYTES],
    /// Whether they take the place of what is stored, instead of joining it.
    instead: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            bits: [0; BYTES],
            instead: false,
        }
    }
}

/// The places of a text's pieces; `None` for one that no address has.
fn places(text: &str) -> impl Iterator<Item = Option<usize>> + '_ {
    text.as_bytes().windows(PIECE).map(|piece| {
        let code = piece.iter().try_fold(0_u32, |code, byte| {
            Some((code << 5) | u32::from(gram::letter(*byte)?))
        })?;
        // Fibonacci hashing: the upper bits of a product with 2^32 / phi. What is stored depends on
        // it.
        let hash = code.wrapping_mul(2_654_435_769) >> (u32::BITS - BITS.ilog2());
        usize::try_from(hash).ok()
    })
}

fn has(bits: &[u8], place: usize) -> bool {
    bits.get(place / 8)
        .is_some_and(|byte| byte & (1 << (place % 8)) != 0)
}

impl Marks {
    /// The marks of these addresses and no others.
    pub(super) fn instead<'a>(addresses: impl Iterator<Item = &'a str>) -> Self {
        let mut marks = Self {
            instead: true,
            ..Self::default()
        };
        addresses.for_each(|address| marks.add(address));
        marks
    }

    /// Marks the pieces of an address.
    pub(super) fn add(&mut self, address: &str) {
        for place in places(address).flatten() {
            if let Some(byte) = self.bits.get_mut(place / 8) {
                *byte |= 1 << (place % 8);
            }
        }
    }

    /// Marks what is marked in others.
    pub(super) fn join(&mut self, others: &Self) {
        self.join_bits(&others.bits);
    }

    fn join_bits(&mut self, others: &[u8]) {
        for (byte, other) in self.bits.iter_mut().zip(others) {
            *byte |= other;
        }
    }

    /// Stores them for a block, if that changes anything.
    pub(super) fn write(&self, connection: &Connection, block: i64) -> rusqlite::Result<()> {
        const FIND: &str = "SELECT marks FROM registry_marks WHERE block = ?1";
        const SET: &str = "INSERT INTO registry_marks (block, marks) VALUES (?1, ?2) \
             ON CONFLICT DO UPDATE SET marks = excluded.marks";
        let mut statement = connection.prepare_cached(FIND)?;
        let known: Option<Vec<u8>> = statement.query_row([block], |row| row.get(0)).optional()?;
        let mut joined = Self::default();
        joined.join(self);
        if let Some(known) = known.as_ref().filter(|_| !self.instead) {
            joined.join_bits(known);
        }
        if known.is_none_or(|known| known != joined.bits) {
            let mut statement = connection.prepare_cached(SET)?;
            statement.execute(params![block, joined.bits])?;
        }
        Ok(())
    }
}

/// The blocks that have the marks of all pieces of a text of [`PIECE`] characters or more: any
/// number of their addresses may have it.
pub(super) fn having(connection: &Connection, q: &str) -> rusqlite::Result<Bounds> {
    const ALL: &str = "SELECT block, marks FROM registry_marks";
    let Some(places) = places(q).collect::<Option<Vec<usize>>>() else {
        return Ok(Bounds::new());
    };
    let mut bounds = Bounds::new();
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let bits = row.get_ref(1)?.as_blob()?;
        if places.iter().all(|place| has(bits, *place)) {
            bounds.insert(row.get(0)?, u64::MAX);
        }
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_is_there_is_marked() {
        let marks = Marks::instead(["203.0.113.10", "2001:db8::1"].into_iter());
        for text in ["203.", "0.113.10", "db8::1", "2001:db8::1"] {
            let marked = places(text).all(|place| has(&marks.bits, place.unwrap()));
            assert!(marked, "{text}");
        }
        let missing = ["9.99", "ffff", "77.7"].into_iter().filter(|text| {
            let marked = places(text).all(|place| has(&marks.bits, place.unwrap()));
            !marked
        });
        assert!(missing.count() >= 2, "almost everything is marked");
    }

    #[test]
    fn no_address_has_other_characters() {
        assert!(places("45.x").any(|place| place.is_none()));
    }
}
