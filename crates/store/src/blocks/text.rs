//! The addresses of a block as one text, a line feed before and after each: what a search looks
//! into when pieces alone cannot say how many addresses have a text.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

/// Changes of one text: addresses that came (1) or went (-1).
pub(super) type Changes<'a> = BTreeMap<&'a str, i64>;

/// Applies changes; new addresses come last.
pub(super) fn apply(text: &str, mut changes: Changes<'_>) -> String {
    let mut applied = String::with_capacity(text.len() + 16 * changes.len());
    let mut add = |address: &str| {
        if applied.is_empty() {
            applied.push('\n');
        }
        applied.push_str(address);
        applied.push('\n');
    };
    for address in addresses(text) {
        if changes.remove(address).unwrap_or(0) >= 0 {
            add(address);
        }
    }
    for (address, by) in changes {
        if 0 < by {
            add(address);
        }
    }
    applied
}

pub(super) fn addresses(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').filter(|address| !address.is_empty())
}

/// The addresses that have what is looked for in them.
pub(super) fn matches<'t>(text: &'t str, finder: &Finder<'_>) -> Vec<&'t str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = finder.find(rest.as_bytes()) {
        let (before, behind) = rest.split_at(at);
        let begin = memrchr(b'\n', before.as_bytes()).map_or(0, |at| at + 1);
        let end = at + memchr(b'\n', behind.as_bytes()).unwrap_or(behind.len());
        found.extend(rest.get(begin..end));
        rest = rest.get(end..).unwrap_or_default();
    }
    found
}

/// How many those are.
pub(super) fn count(text: &[u8], finder: &Finder<'_>) -> u64 {
    let mut n = 0;
    let mut rest = text;
    while let Some(at) = finder.find(rest) {
        n += 1;
        let behind = rest.get(at..).unwrap_or_default();
        let end = memchr(b'\n', behind).unwrap_or(behind.len());
        rest = behind.get(end..).unwrap_or_default();
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_and_go() {
        let text = apply("", Changes::from([("1.1.1.1", 1), ("2.2.2.2", 1)]));
        assert_eq!(text, "\n1.1.1.1\n2.2.2.2\n");
        let text = apply(
            &text,
            Changes::from([("1.1.1.1", -1), ("3.3.3.3", 1), ("2.2.2.2", 0)]),
        );
        assert_eq!(text, "\n2.2.2.2\n3.3.3.3\n");
        let gone = Changes::from([("2.2.2.2", -1), ("3.3.3.3", -1)]);
        assert_eq!(apply(&text, gone), "");
    }

    #[test]
    fn an_address_counts_once() {
        let text = "\n1.1.1.1\n2.1.1.2\n3.3.3.3\n";
        assert_eq!(matches(text, &Finder::new("1.1")), ["1.1.1.1", "2.1.1.2"]);
        let count = |q: &str| count(text.as_bytes(), &Finder::new(q));
        assert_eq!(
            [count("1.1"), count("3"), count("1.1.2"), count("4")],
            [2, 1, 1, 0]
        );
    }
}
