//! What was asked, in order, and what of it the simulation does not know.

use std::collections::{BTreeMap, VecDeque};

/// Calls that are kept; the oldest go first. A scenario of an hour makes some ten thousand.
const CALLS_MAX: usize = 200_000;

/// The calls so far, each as the simulation describes it.
#[derive(Debug)]
pub struct Audit<C> {
    calls: VecDeque<C>,
    unsupported: BTreeMap<String, u64>,
}

impl<C> Default for Audit<C> {
    fn default() -> Self {
        Self {
            calls: VecDeque::new(),
            unsupported: BTreeMap::new(),
        }
    }
}

impl<C> Audit<C> {
    /// Keeps a call; the oldest is forgotten once there are 200,000.
    pub fn push(&mut self, call: C) {
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    /// Oldest first.
    pub fn calls(&self) -> impl Iterator<Item = &C> {
        self.calls.iter()
    }

    /// Counts a call that was answered 501.
    pub fn unsupported(&mut self, call: String) {
        *self.unsupported.entry(call).or_default() += 1;
    }

    /// Every call that was answered 501, and how often.
    #[must_use]
    pub const fn all_unsupported(&self) -> &BTreeMap<String, u64> {
        &self.unsupported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_the_unsupported_are_counted() {
        let mut audit = Audit::default();
        (0..=CALLS_MAX).for_each(|n| audit.push(n));
        assert_eq!(audit.calls().next(), Some(&1));
        audit.unsupported("GET /x".to_owned());
        audit.unsupported("GET /x".to_owned());
        assert_eq!(audit.all_unsupported()["GET /x"], 2);
    }
}
