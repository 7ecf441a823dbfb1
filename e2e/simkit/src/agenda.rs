//! What is to happen later, in order of time; among equals, in order of asking.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing and when it is due.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Item<T> {
    at: Timestamp,
    what: T,
}

/// Things to come. A few thousand at most, so a sorted list will do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Agenda<T> {
    items: Vec<Item<T>>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> Agenda<T> {
    /// Adds `what` at `at`.
    pub fn add(&mut self, at: Timestamp, what: T) {
        let index = self.items.partition_point(|item| item.at <= at);
        self.items.insert(index, Item { at, what });
    }

    /// When the next thing is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.items.first().map(|item| item.at)
    }

    /// Takes the next thing if it is due.
    pub fn take_due(&mut self, now: Timestamp) -> Option<T> {
        let is_due = self.next_at().is_some_and(|at| at <= now);
        is_due.then(|| self.items.remove(0).what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut agenda = Agenda::default();
        for (seconds, what) in [(3, "c"), (1, "a"), (3, "d"), (2, "b")] {
            agenda.add(at(seconds), what);
        }
        assert_eq!(agenda.next_at(), Some(at(1)));
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take_due(at(3))).collect();
        assert_eq!(taken, ["a", "b", "c", "d"]);
        agenda.add(at(5), "later");
        assert_eq!(agenda.take_due(at(4)), None);
    }
}
