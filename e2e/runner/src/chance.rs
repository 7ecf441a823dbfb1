//! Owns the dice of the scenarios: the same seed throws the same numbers.

use std::ops::Range;

/// Xorshift (Marsaglia 2003, 64 bits): good enough to pick moments.
#[derive(Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// From a seed; 0, which would stay 0, is replaced.
    pub(crate) fn new(seed: u64) -> Self {
        let state = if seed == 0 {
            0x9E37_79B9_7F4A_7C15
        } else {
            seed
        };
        let mut chance = Self { state };
        // Small seeds have few bits set; the first numbers would look alike.
        for _ in 0..16 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number of a range that is not empty.
    pub(crate) fn pick(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.next() % width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throws(seed: u64) -> Vec<u64> {
        let mut chance = Chance::new(seed);
        (0..10).map(|_| chance.pick(5..50)).collect()
    }

    #[test]
    fn the_same_seed_throws_the_same() {
        assert_eq!(throws(1), throws(1));
        assert_ne!(throws(1), throws(2));
        assert!(throws(0).iter().all(|n| (5..50).contains(n)));
    }
}
