//! No function, file or line is too large.

use civ_tidy::places::files;
use civ_tidy::sizes::check;

#[test]
fn nothing_is_too_large() {
    let found: Vec<String> = files("rs").unwrap().iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
