//! What fuzzing runs: what clients of ours write as text. Each function takes any bytes and panics
//! if a property of the parser does not hold; the seeds are in `fuzz/seeds`.

use std::collections::BTreeSet;

use crate::{Address, CheckName, FipId, Utc, bounds, parse_list};

/// Most addresses of one list here: few, so that lists go over it.
const LIST_MAX: usize = 1_000;

/// A list of addresses, prefixes and ranges, one a line.
pub fn addresses(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let entries: Vec<&str> = text.lines().take(200).collect();
    for entry in &entries {
        if let Ok((first, last)) = bounds(entry) {
            assert!(
                first <= last && first.family() == last.family(),
                "{entry:?}"
            );
            // The ends of a prefix around all of ::ffff:0:0/96 may lie within, and would be read as
            // IPv4 addresses: such a prefix is far too long for any list.
            let is_itself = |end: Address| Address::from_ip(end.ip()) == end;
            if is_itself(first) && is_itself(last) {
                let range = format!("{first}-{last}");
                assert_eq!(bounds(&range), Ok((first, last)), "{entry:?}");
            }
        }
    }
    match parse_list(&entries, LIST_MAX) {
        Ok(list) => {
            assert!(list.len() <= LIST_MAX, "{} addresses", list.len());
            let distinct: BTreeSet<Address> = list.iter().copied().collect();
            assert_eq!(distinct.len(), list.len(), "one is twice in the list");
            let is_itself = |one: &Address| Address::from_ip(one.ip()) == *one;
            assert!(list.iter().all(is_itself), "an address with two names");
            let names: Vec<String> = list.iter().map(ToString::to_string).collect();
            assert_eq!(parse_list(&names, LIST_MAX), Ok(list));
        }
        Err(wrong) => assert!((1..=entries.len()).contains(&wrong.len()), "{wrong:?}"),
    }
}

/// Names and times.
pub fn words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(name) = CheckName::parse(&text) {
        assert_eq!(name.to_string(), text);
        assert!(name.to_string().is_ascii() && text.len() <= CheckName::BYTES_MAX);
    }
    if let Ok(id) = FipId::parse(&text) {
        assert_eq!(id.as_str(), text);
        assert!(!text.contains('/') && !text.chars().any(char::is_control));
    }
    if let Ok(time) = Utc::parse(&text) {
        let shown = time.to_string();
        assert_eq!(
            Utc::parse(&shown).ok(),
            Some(time),
            "{text:?} became {shown:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn seeds_of(name: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/seeds")
            .join(name);
        let mut n_seeds = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let seed = fs::read(entry.unwrap().path()).unwrap();
            n_seeds += 1;
            for at in 0..=seed.len() {
                target(&seed[..at]);
            }
        }
        assert!(n_seeds > 0, "no seeds in {}", folder.display());
    }

    #[test]
    fn properties_hold_for_addresses() {
        seeds_of("addresses", super::addresses);
    }

    #[test]
    fn properties_hold_for_names_and_times() {
        seeds_of("words", super::words);
    }
}
