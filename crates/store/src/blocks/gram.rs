//! Pieces of one to three characters of an address as small numbers, and changes of their counts.

/// The characters of addresses, in canonical form.
const ALPHABET: &[u8; 18] = b".0123456789:abcdef";

/// Bits of a character.
const BITS: u32 = 5;

/// Numbers of pieces are below this.
const CODES: usize = 1 << (3 * BITS);

/// Longest piece.
pub(super) const LONGEST: usize = 3;

/// A piece as a number: 1 to 18 for each character, the last one lowest.
fn code(piece: &[u8]) -> Option<u16> {
    piece
        .iter()
        .try_fold(0, |code, byte| Some((code << BITS) | letter(*byte)?))
}

/// 1 to 18 for a character of addresses.
pub(super) fn letter(byte: u8) -> Option<u16> {
    let letter = LETTERS.get(usize::from(byte)).copied().unwrap_or(0);
    (letter != 0).then_some(letter)
}

/// The number of each character; 0: addresses do not have it.
const LETTERS: [u16; 256] = {
    let mut letters = [0; 256];
    let (mut at, mut rest): (u16, &[u8]) = (1, ALPHABET);
    while let [first, others @ ..] = rest {
        letters[*first as usize] = at;
        (at, rest) = (at + 1, others);
    }
    letters
};

/// The pieces by which a text is searched: itself if it is short, else all of three characters,
/// the last ones first, which are the rarer ones. `None`: no address has this text.
pub(super) fn of_search(text: &str) -> Option<Vec<u16>> {
    let text = text.as_bytes();
    if text.len() <= LONGEST {
        return Some(vec![code(text)?]);
    }
    text.windows(LONGEST).rev().map(code).collect()
}

/// How many addresses have each piece; can be negative while it is a change.
#[derive(Debug)]
pub(super) struct Tally {
    counts: Vec<i64>,
    /// Of each piece, the number of the last address that had it: counts an address once.
    last: Vec<u64>,
    n_seen: u64,
    touched: Vec<u16>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; CODES],
            last: vec![0; CODES],
            n_seen: 0,
            touched: Vec::new(),
        }
    }

    /// Counts the pieces of an address `by` times.
    pub(super) fn add(&mut self, address: &str, by: i64) {
        self.n_seen += 1;
        let mut before = [0_u16; LONGEST];
        for byte in address.bytes() {
            let [one, two, _] = before;
            // A character that addresses do not have would begin nothing.
            let single = code(&[byte]).unwrap_or(0);
            let join = |head: u16| (head << BITS) | single;
            let pieces = [
                single,
                if one == 0 { 0 } else { join(one) },
                if two == 0 { 0 } else { join(two) },
            ];
            for piece in pieces.into_iter().filter(|piece| *piece != 0) {
                self.count(piece, by);
            }
            let [single, pair, _] = pieces;
            before = [single, pair, 0];
        }
    }

    fn count(&mut self, piece: u16, by: i64) {
        let at = usize::from(piece);
        let (Some(last), Some(count)) = (self.last.get_mut(at), self.counts.get_mut(at)) else {
            return;
        };
        if *last == self.n_seen {
            return;
        }
        if *last == 0 {
            self.touched.push(piece);
        }
        *last = self.n_seen;
        *count += by;
    }

    /// What has been counted, without zeros; begins anew.
    pub(super) fn take(&mut self) -> Vec<(u16, i64)> {
        let mut taken = Vec::with_capacity(self.touched.len());
        for piece in std::mem::take(&mut self.touched) {
            let at = usize::from(piece);
            if let Some(last) = self.last.get_mut(at) {
                *last = 0;
            }
            if let Some(count) = self.counts.get_mut(at)
                && *count != 0
            {
                taken.push((piece, std::mem::take(count)));
            }
        }
        self.n_seen = 0;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        let mut all: Vec<&str> = (1..=LONGEST)
            .flat_map(|n| {
                (0..=text.len().saturating_sub(n)).filter_map(move |at| text.get(at..at + n))
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn every_piece_of_an_address_is_counted_once() {
        for text in ["203.0.113.10", "::", "2001:db8::1", "1.1.1.1"] {
            let mut tally = Tally::new();
            tally.add(text, 2);
            let mut counted = tally.take();
            counted.sort_unstable();
            let mut expected: Vec<_> = pieces(text)
                .into_iter()
                .map(|piece| (code(piece.as_bytes()).unwrap(), 2))
                .collect();
            expected.sort_unstable();
            assert_eq!(counted, expected, "{text}");
            assert!(tally.take().is_empty());
        }
    }

    #[test]
    fn what_is_taken_back_is_zero() {
        let mut tally = Tally::new();
        tally.add("192.0.2.1", 1);
        tally.add("192.0.2.1", -1);
        assert!(tally.take().is_empty());
    }

    #[test]
    fn a_search_goes_by_its_pieces() {
        assert_eq!(of_search("45").unwrap().len(), 1);
        assert_eq!(of_search("45.0.1").unwrap().len(), 4);
        assert_eq!(of_search("4x5"), None);
        assert_eq!(of_search("ü"), None);
    }
}
