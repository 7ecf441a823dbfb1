//! The addresses of a block as one text: what a search looks into when pieces alone cannot say how
//! many addresses have a text.
//!
//! The first line is what all of them begin with, each further line the rest of one, which may be
//! nothing. Neighbours have half of their characters in common, so half as much is read, searched
//! and written.

use std::collections::BTreeMap;

use memchr::memmem::{self, Finder};
use memchr::{memchr, memchr_iter, memrchr};

use super::search::common;

/// Changes of one text: addresses that came (1) or went (-1).
pub(super) type Changes<'a> = BTreeMap<&'a str, i64>;

/// Applies changes; new addresses come last. No addresses are no text.
pub(super) fn apply(text: &str, mut changes: Changes<'_>) -> String {
    let (head, rests) = text.split_once('\n').unwrap_or_default();
    let before: Vec<String> = rests
        .split_terminator('\n')
        .map(|rest| format!("{head}{rest}"))
        .collect();
    let mut after: Vec<&str> = Vec::with_capacity(before.len() + changes.len());
    for address in &before {
        if changes.remove(address.as_str()).unwrap_or(0) >= 0 {
            after.push(address);
        }
    }
    let came = changes.iter().filter(|(_, by)| 0 < **by);
    after.extend(came.map(|(address, _)| *address));
    write(&after)
}

fn write(addresses: &[&str]) -> String {
    let Some((first, others)) = addresses.split_first() else {
        return String::new();
    };
    let head = others
        .iter()
        .fold(*first, |head, address| common(head, address));
    let mut text = String::with_capacity(head.len() + 1 + 10 * addresses.len());
    text.push_str(head);
    text.push('\n');
    for address in addresses {
        text.push_str(address.get(head.len()..).unwrap_or_default());
        text.push('\n');
    }
    text
}

/// A text taken apart: the head, and the rests, a line feed before and after each.
fn parts(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'\n', text).unwrap_or(text.len());
    text.split_at(end)
}

/// Where the lines begin whose addresses have what is looked for in them, in order; the head alone
/// does not have it.
fn begins(head: &[u8], rests: &[u8], finder: &Finder<'_>) -> Vec<usize> {
    let mut begins = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(rests.get(from..).unwrap_or_default()) {
        let at = from + at;
        let before = rests.get(..at).unwrap_or_default();
        begins.push(memrchr(b'\n', before).map_or(0, |feed| feed + 1));
        let behind = rests.get(at..).unwrap_or_default();
        from = at + memchr(b'\n', behind).unwrap_or(behind.len());
    }
    // It can also begin in the head and end in the rest.
    let needle = finder.needle();
    let inside = 1..needle.len().min(head.len() + 1);
    let mut is_joined = false;
    for (_, tail) in inside
        .filter_map(|n| needle.split_at_checked(n))
        .filter(|(start, _)| head.ends_with(start))
    {
        let line = [b"\n", tail].concat();
        begins.extend(memmem::find_iter(rests, &line).map(|feed| feed + 1));
        is_joined = true;
    }
    if is_joined {
        begins.sort_unstable();
        begins.dedup();
    }
    begins
}

/// The addresses that have what is looked for in them.
pub(super) fn matches(text: &str, finder: &Finder<'_>) -> Vec<String> {
    let (head, rests) = parts(text.as_bytes());
    let address = |rest: &[u8]| String::from_utf8_lossy(&[head, rest].concat()).into_owned();
    let line = |begin: usize| {
        let behind = rests.get(begin..).unwrap_or_default();
        address(parts(behind).0)
    };
    if finder.find(head).is_some() {
        let feeds = memchr_iter(b'\n', rests).filter(|feed| feed + 1 < rests.len());
        return feeds.map(|feed| line(feed + 1)).collect();
    }
    begins(head, rests, finder).into_iter().map(line).collect()
}

/// How many those are.
pub(super) fn count(text: &[u8], finder: &Finder<'_>) -> u64 {
    let (head, rests) = parts(text);
    let n = if finder.find(head).is_some() {
        memchr_iter(b'\n', rests).count().saturating_sub(1)
    } else {
        begins(head, rests, finder).len()
    };
    n.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn addresses_come_and_go() {
        let text = apply("", Changes::from([("1.1.1.1", 1), ("1.1.1.12", 1)]));
        assert_eq!(text, "1.1.1.1\n\n2\n");
        let text = apply(
            &text,
            Changes::from([("1.1.1.1", -1), ("1.3.3.3", 1), ("1.1.1.12", 0)]),
        );
        assert_eq!(text, "1.\n1.1.12\n3.3.3\n");
        let gone = Changes::from([("1.1.1.12", -1), ("1.3.3.3", -1)]);
        assert_eq!(apply(&text, gone), "");
    }

    #[test]
    fn an_address_counts_once() {
        let text = apply(
            "",
            Changes::from([("1.1.1.1", 1), ("1.1.1.2", 1), ("1.1.3.3", 1)]),
        );
        assert_eq!(text, "1.1.\n1.1\n1.2\n3.3\n");
        let found = |q: &str| matches(&text, &Finder::new(q));
        assert_eq!(found("1.1.1"), ["1.1.1.1", "1.1.1.2"]);
        assert_eq!(found(".3"), ["1.1.3.3"]);
        assert_eq!(found("1.").len(), 3);
    }

    #[test]
    fn what_is_found_is_what_contains_it() {
        let mut rng = Rng::with_seed(11);
        for _ in 0..2_000 {
            let base = *rng.choice(&["1.1.", "45.1", "", "2001:db8::"]).unwrap();
            let mut address = || format!("{base}{}.{}", rng.u8(..3), rng.u8(..25));
            let all: Vec<String> = (0..12).map(|_| address()).collect();
            let changes: Changes<'_> = all.iter().map(|one| (one.as_str(), 1)).collect();
            let expected: Vec<&str> = changes.keys().copied().collect();
            let text = apply("", changes);
            let of = rng.choice(&all).unwrap();
            let (from, n) = (rng.usize(..of.len()), rng.usize(1..6));
            let q = of.get(from..(from + n).min(of.len())).unwrap();
            let finder = Finder::new(q);
            let expected: Vec<&str> = expected.into_iter().filter(|one| one.contains(q)).collect();
            assert_eq!(matches(&text, &finder), expected, "{q:?} in {text:?}");
            assert_eq!(count(text.as_bytes(), &finder), expected.len() as u64);
        }
    }
}
