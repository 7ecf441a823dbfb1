//! Nothing is left over: no unfinished work, no test that does not run, no stray SQL, no module
//! without its purpose, no example without its test.

use civ_tidy::leftovers::check;
use civ_tidy::places::files;

#[test]
fn nothing_is_left_over() {
    let found: Vec<String> = files("rs").unwrap().iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_example_is_loaded_by_a_test() {
    let sources = files("rs").unwrap();
    let examples = files("yaml").unwrap();
    let names = examples
        .iter()
        .filter_map(|file| file.path.strip_prefix("configs/"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let quoted = format!("{name}\"");
        let mut tests = sources.iter().filter(|file| file.path.contains("/tests/"));
        assert!(
            tests.any(|file| file.text.contains(&quoted)),
            "configs/{name} is not named in any test"
        );
    }
}
