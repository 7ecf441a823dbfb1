//! The walls inside control-api, and that every package inherits the lints.

use civ_tidy::leftovers::manifest;
use civ_tidy::places::files;
use civ_tidy::walls::folders;

#[test]
fn no_folder_names_what_lies_behind_a_wall() {
    let wrong: Vec<String> = files("rs").unwrap().iter().flat_map(folders).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_package_inherits_the_lints() {
    let manifests = files("toml").unwrap();
    let wrong: Vec<String> = manifests.iter().filter_map(manifest).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
