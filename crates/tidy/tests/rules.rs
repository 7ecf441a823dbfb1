//! Each of the twelve rules has a test that carries its number, and each such test a rule.

use std::collections::BTreeSet;

use civ_tidy::places::files;
use civ_tidy::rules::{missing, named};

#[test]
fn rules_and_tests_belong_together() {
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    for file in files("rs").unwrap() {
        match named(&file) {
            Ok(rules) => found.extend(rules),
            Err(faults) => wrong.extend(faults),
        }
    }
    wrong.extend(missing(&found));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
