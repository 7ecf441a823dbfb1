//! Which of the calls that match a rule are met: by count, and by a seeded chance.

use serde::{Deserialize, Serialize};

/// Seeded numbers: `SplitMix64` (Steele, Lea, Flood 2014), which any seed suits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dice(u64);

impl Dice {
    /// The same seed, the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to 99.
    pub const fn percent(&mut self) -> u64 {
        self.next() % 100
    }

    /// At least 0 and less than 1.
    pub fn fraction(&mut self) -> f64 {
        // 53 bits: as many as a double holds exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Which of the matching calls are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// The first one, from 1; 0 counts as 1.
    pub nth: u32,
    /// How many from there on; `None`: all.
    pub count: Option<u32>,
    /// Of these, how many in a hundred.
    pub chance_percent: u8,
}

/// How many matching calls there were, and the dice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    seen: u32,
    dice: Dice,
}

impl Counter {
    /// None so far.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            seen: 0,
            dice: Dice::new(seed),
        }
    }

    /// Counts a matching call; whether it is met.
    pub fn meets(&mut self, gate: &Gate) -> bool {
        self.seen = self.seen.saturating_add(1);
        let Some(index) = self.seen.checked_sub(gate.nth.max(1)) else {
            return false;
        };
        let is_due = gate.count.is_none_or(|count| index < count);
        is_due && self.dice.percent() < u64::from(gate.chance_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(gate: Gate, seed: u64, calls: usize) -> Vec<bool> {
        let mut counter = Counter::new(seed);
        (0..calls).map(|_| counter.meets(&gate)).collect()
    }

    #[test]
    fn the_nth_call_and_so_many_more() {
        let gate = Gate {
            nth: 2,
            count: Some(2),
            chance_percent: 100,
        };
        assert_eq!(met(gate, 0, 5), [false, true, true, false, false]);
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let gate = Gate {
            nth: 1,
            count: None,
            chance_percent: 50,
        };
        let first = met(gate, 7, 200);
        assert_eq!(first, met(gate, 7, 200));
        assert_ne!(first, met(gate, 8, 200));
        let hits = first.iter().filter(|hit| **hit).count();
        assert!((70..130).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn fractions_fill_their_range() {
        let mut dice = Dice::new(3);
        let all: Vec<f64> = (0..1_000).map(|_| dice.fraction()).collect();
        assert!(all.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = all.iter().sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
