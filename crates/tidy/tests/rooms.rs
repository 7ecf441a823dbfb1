//! No package leans on what it must not.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use civ_tidy::places::root;
use civ_tidy::walls::{Needs, rooms};
use serde_json::Value;

fn dependencies() -> Needs {
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let needed = |package: &Value| {
        let needs = package["dependencies"].as_array().unwrap().iter();
        needs
            .filter(|need| need["kind"] != "dev")
            .map(name)
            .collect()
    };
    let packages = all["packages"].as_array().unwrap().iter();
    packages
        .map(|package| (name(package), needed(package)))
        .collect()
}

#[test]
fn nobody_leans_where_it_must_not() {
    let all = dependencies();
    assert!(
        all.len() >= 15,
        "cargo metadata lists {} packages",
        all.len()
    );
    let wrong = rooms(&all);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
