//! The OpenAPI document against the contract, the domain and itself.
#![cfg(test)]

use std::collections::BTreeSet;

use civ_orch::attempt::{Outcome, StateName};
use civ_orch::{cycle, scan};
use civ_proto::words;
use serde_json::Value;

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

fn document() -> Value {
    serde_json::to_value(civ_control_api::http::openapi()).unwrap()
}

/// Path, method and description of each method.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = |(path, item): (&String, &Value)| {
        let item = item.as_object().unwrap().clone();
        let path = path.clone();
        item.into_iter()
            .filter(|(method, _)| METHODS.contains(&method.as_str()))
            .map(move |(method, operation)| (path.clone(), method, operation))
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn the_document_is_the_one_in_the_tree() {
    insta::assert_json_snapshot!("openapi", document());
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(place)) = map.get("$ref") {
                    found.insert(place);
                }
                map.values().for_each(|value| walk(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    walk(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for place in found {
        let pointer = place.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{place}");
    }
}

#[test]
fn every_method_says_who_may_call_it_and_how_it_refuses() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let name = format!("{method} {path}");
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
            "{name}"
        );
        assert!(operation["summary"].is_string(), "{name}");
        let answers = operation["responses"].as_object().unwrap();
        let has = |status: &str| answers.contains_key(status);
        assert!(has("500") && has("503"), "{name}");
        let admin = path.starts_with("/api/v1/admin/");
        let security = operation["security"].to_string();
        assert_eq!(security.contains(r#""admin""#), admin, "{name}");
        assert_eq!(
            has("401"),
            path.starts_with("/api/") || path == "/",
            "{name}"
        );
        assert_eq!(
            has("404"),
            path.contains('{') || path.ends_with("agents/register"),
            "{name}"
        );
        assert_eq!(has("413"), !operation["requestBody"].is_null(), "{name}");
        for (status, answer) in answers {
            let answer = match answer["$ref"].as_str() {
                Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
                None => answer,
            };
            assert!(
                answer["headers"]["X-Request-Id"].is_object(),
                "{name} {status}"
            );
            if status.as_str() >= "400" {
                let schema = &answer["content"]["application/json"]["schema"];
                assert_eq!(
                    schema["$ref"], "#/components/schemas/Error",
                    "{name} {status}"
                );
            }
        }
    }
}

#[test]
fn administrative_bodies_refuse_unknown_fields_and_the_others_do_not() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(place) = schema["$ref"].as_str() else {
            continue;
        };
        let schema = document.pointer(place.trim_start_matches('#')).unwrap();
        let strict = schema["additionalProperties"] == false;
        let admin = path.starts_with("/api/v1/admin/");
        assert_eq!(strict, admin, "{method} {path}");
    }
}

#[test]
fn the_words_of_the_contract_are_those_of_the_domain() {
    assert_eq!(words::IP_STATES, StateName::ALL.map(StateName::as_str));
    assert_eq!(words::RESULTS, Outcome::ALL.map(Outcome::as_str));
    assert_eq!(
        words::SCAN_STATES,
        scan::Phase::ALL.map(scan::Phase::as_str)
    );
    let phases: BTreeSet<_> = cycle::PhaseName::ALL.map(cycle::PhaseName::public).into();
    assert_eq!(phases, words::CYCLE_PHASES.into());
    let ends = cycle::Outcome::ALL.map(cycle::Outcome::as_str);
    assert_eq!(words::CYCLE_OUTCOMES, ends);
}
