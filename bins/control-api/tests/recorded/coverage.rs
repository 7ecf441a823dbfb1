//! The sessions against the published contract: every method with each of its answers.

use std::collections::BTreeSet;

use crate::script::{self, Part};

/// Answers that any method may give and that no session can ask for: a fault, or no service.
const FAULTS: [&str; 2] = ["500", "503"];

/// Answers of a layer before the method, the same for all: recorded once.
const SHARED: [&str; 2] = ["413", "429"];

/// Files of the service itself, which the document's own tests look at.
const FILES: [&str; 4] = ["/", "/docs", "/metrics", "/openapi.json"];

/// Method, path and status of every exchange in which one request is answered with one answer.
fn recorded() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(script::folder()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut asked = Vec::new();
        for part in script::parse(&text) {
            match part {
                Part::Request(lines) => asked.push(lines[0].clone()),
                Part::Answer(lines) if lines[0] != "HTTP/1.1 100 Continue" => {
                    let request = asked.remove(0);
                    let mut words = request.split(' ');
                    let method = words.next().unwrap_or_default().to_lowercase();
                    let url = words.next().unwrap_or_default();
                    let path = url.split('?').next().unwrap_or_default().to_owned();
                    let status = lines[0].split(' ').nth(1).unwrap().to_owned();
                    found.push((method, path, status));
                }
                _ => {}
            }
        }
        assert_eq!(asked, Vec::<String>::new(), "without an answer");
    }
    found
}

/// Whether a path is one that the template means.
fn is_one(path: &str, template: &str) -> bool {
    let (path, template): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), template.split('/').collect());
    let each = |(part, pattern): (&&str, &&str)| part == pattern || pattern.starts_with('{');
    path.len() == template.len() && path.iter().zip(&template).all(each)
}

#[test]
fn every_method_is_recorded_with_each_of_its_answers() {
    let document = serde_json::to_value(civ_control_api::http::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let literal = |path: &str| paths.contains_key(path);
    let recorded = recorded();
    let mut missing = BTreeSet::new();
    let mut n_answers = 0;
    for (template, item) in paths
        .iter()
        .filter(|(path, _)| !FILES.contains(&path.as_str()))
    {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().keys();
            let own = |status: &&String| {
                let status = status.as_str();
                !FAULTS.contains(&status) && !SHARED.contains(&status)
            };
            for status in answers.filter(own) {
                n_answers += 1;
                let is_it = |(by, path, with): &(String, String, String)| {
                    let same = path == template || (!literal(path) && is_one(path, template));
                    by == method && with == status && same
                };
                if !recorded.iter().any(is_it) {
                    missing.insert(format!("{method} {template} {status}"));
                }
            }
        }
    }
    assert!(n_answers > 100, "{n_answers}");
    assert_eq!(missing, BTreeSet::new());
    for status in SHARED {
        assert!(recorded.iter().any(|one| one.2 == status), "{status}");
    }
}
