//! What fuzzing runs: what a cloud answers. Each function takes any bytes and panics if a property
//! of the parser does not hold; the seeds are in `fuzz/seeds`.

use civ_types::FipId;

use crate::clip::clip;
use crate::keystone::{neutron_base, tokens_url};
use crate::walk::{Next, Walk};
use crate::wire::{ErrorBody, ExtensionPage, FipOne, FipPage, NetworkPage, PortOne};
use crate::wire::{QuotaOne, TokenOne};

/// The bytes as each answer of Neutron and Keystone, and as an error.
pub fn cloud_answers(bytes: &[u8]) {
    let said = clip(&ErrorBody::parse(bytes).message);
    assert!(said.chars().count() <= 301, "{said}");
    assert!(!said.chars().any(char::is_control), "{said:?}");
    if let Ok(one) = serde_json::from_slice::<FipOne>(bytes)
        && let Ok(fip) = one.read()
    {
        assert!(!fip.is_free() || fip.port.is_none(), "{fip:?}");
    }
    if let Ok(page) = serde_json::from_slice::<FipPage>(bytes) {
        let more = page.may_go_on();
        if let Ok(rows) = page.read() {
            let ids = || rows.iter().map(|row| row.id.clone());
            assert_ne!(Walk::default().take(ids(), false), Ok(Next::After(None)));
            let next = Walk::default().take(ids(), more);
            assert!(next.is_ok(), "the first page of a walk was refused");
        }
    }
    drop(serde_json::from_slice::<NetworkPage>(bytes));
    drop(serde_json::from_slice::<ExtensionPage>(bytes));
    drop(serde_json::from_slice::<QuotaOne>(bytes));
    drop(serde_json::from_slice::<PortOne>(bytes));
    if let Ok(TokenOne { token }) = serde_json::from_slice(bytes) {
        for endpoint in token.catalog.iter().flat_map(|service| &service.endpoints) {
            urls(&endpoint.url);
        }
    }
    urls(&String::from_utf8_lossy(bytes));
}

fn urls(text: &str) {
    for url in [neutron_base(text), tokens_url(text)].into_iter().flatten() {
        assert!(!url.cannot_be_a_base(), "{url}");
    }
}

/// Each byte is a row of a page, 0 ends a page: whatever a cloud answers, a walk comes to an end.
pub fn pages(bytes: &[u8]) {
    let pages: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let mut walk = Walk::default();
    // Over and over again, as a server that goes in circles does.
    for (n, page) in pages.iter().cycle().enumerate() {
        // A new row on each page would be an endless list, which is bounded by its length.
        assert!(n < 100_000, "a walk without an end");
        let ids = page.iter();
        let ids: Vec<FipId> = ids
            .filter_map(|byte| FipId::parse(&byte.to_string()).ok())
            .collect();
        match walk.take(ids.clone(), true) {
            Ok(Next::After(Some(marker))) => assert!(walk.saw(&marker), "{marker}"),
            Ok(Next::After(None)) => {}
            Ok(Next::End) => {
                assert!(ids.is_empty(), "ended by a page with rows");
                break;
            }
            Err(_endless) => break,
        }
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
            target(&seed);
            for at in 0..seed.len() {
                target(&seed[..at]);
                let mut changed = seed.clone();
                changed[at] = b'0';
                target(&changed);
            }
        }
        assert!(n_seeds > 0, "no seeds in {}", folder.display());
    }

    #[test]
    fn properties_hold_for_answers_of_a_cloud() {
        seeds_of("cloud_answers", super::cloud_answers);
    }

    #[test]
    fn properties_hold_for_pages() {
        seeds_of("pages", super::pages);
    }
}
