//! Every commit and call is a crash point, and no build but a test's has any.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use civ_tidy::crash::{Turned, counted, turned_on, unguarded};
use civ_tidy::places::{files, root};
use serde_json::Value;

#[test]
fn every_commit_of_the_runner_and_every_call_is_a_step() {
    let files = files("rs").unwrap();
    let n_steps: usize = files.iter().filter_map(counted).map(|(_, n)| n).sum();
    assert!(n_steps >= 20, "only {n_steps} steps were found");
    let wrong: Vec<String> = files.iter().flat_map(unguarded).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_tests_turn_the_points_on() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version"])
        .arg("1")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success());
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (mut turned, mut n_for_tests) = (Vec::new(), 0);
    for package in all["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().to_owned();
        turned.push(Turned::Default {
            package: name.clone(),
            features: texts(&package["features"]["default"]),
        });
        for need in package["dependencies"].as_array().unwrap() {
            let features = texts(&need["features"]);
            if need["kind"] == "dev" {
                n_for_tests += usize::from(features.contains(&"crash-points".to_owned()));
                continue;
            }
            turned.push(Turned::Need {
                package: name.clone(),
                features,
            });
        }
    }
    assert_eq!(n_for_tests, 1, "control-api's tests turn them on");
    let wrong = turned_on(&turned);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
