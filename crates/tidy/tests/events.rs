//! Every event can be subscribed to by name, and none is written without its notifications.

use civ_tidy::events::{LIST, check, listed};
use civ_tidy::places::files;

/// The history of a made-up database: nobody subscribes to that.
const MADE_UP: &str = "crates/store/src/bulk.rs";

#[test]
fn events_are_listed_and_told() {
    let sources = files("rs").unwrap();
    let list = sources.iter().find(|file| file.path == LIST).unwrap();
    let names = listed(list);
    assert!(names.len() > 20, "{names:?}");
    let wrong: Vec<String> = sources
        .iter()
        .filter(|file| file.path != MADE_UP)
        .flat_map(|file| check(file, &names))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
