//! The strict reader: what it finds, where it says it is, and what it never repeats.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use civ_boot::config::{Faults, Loaded, Report, load, parse};
use serde::Deserialize;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    name: String,
    count: i64,
    on: bool,
    maybe: Option<String>,
    inner: Inner,
    list: Vec<Inner>,
    groups: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Inner {
    port_number: i64,
}

impl Default for Inner {
    fn default() -> Self {
        Self { port_number: 80 }
    }
}

fn keep(raw: Raw, _report: &mut Report) -> Option<Raw> {
    Some(raw)
}

/// Each list item below 10 is a fault, by its index in the raw list.
fn strict(raw: Raw, report: &mut Report) -> Option<Raw> {
    for (index, inner) in raw.list.iter().enumerate() {
        let path = format!("list[{index}].port_number");
        let _port: u16 = report.int(&path, inner.port_number, 10..=99);
    }
    if raw.name.is_empty() {
        report.fault("name", "must be given");
    }
    Some(raw)
}

fn read(text: &str) -> Result<Loaded<Raw>, Faults> {
    parse("x.yaml", text, keep)
}

fn faults(text: &str) -> Vec<String> {
    let faults = read(text).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_may_be_left_out() {
    for text in ["", "# nothing\n", "---\n", "inner:\nlist:\ncount:\n"] {
        assert_eq!(read(text).unwrap().settings, Raw::default(), "{text:?}");
    }
}

#[test]
fn values_are_read_as_yaml_has_them() {
    let text = "name: '22'\ncount: 0x10\non: true\nmaybe: ~\nlist: [{port_number: 1}]\n\
                groups: {8080: [a b, \"c\"], x.y: []}\n";
    let raw = read(text).unwrap().settings;
    assert_eq!((raw.name.as_str(), raw.count, raw.on), ("22", 16, true));
    assert_eq!(raw.list, [Inner { port_number: 1 }]);
    assert_eq!(raw.groups.get("8080").unwrap(), &["a b", "c"]);
}

#[test]
fn wrong_types_are_told_with_place_and_kind_but_without_the_value() {
    assert_eq!(
        faults(
            "name: 77\ncount: '5'\non: sure\ninner: [1]\nlist:\n  - port_number: 1.5\n  - 7\n  -\n\
             groups: {a: {b: c}}\n"
        ),
        [
            "x.yaml:1:7: name: must be text (in quotes if it looks like a number), \
             not a whole number",
            "x.yaml:2:8: count: must be a whole number, not text",
            "x.yaml:3:5: on: must be true or false, not text",
            "x.yaml:4:8: inner: must be a section of keys, not a list",
            "x.yaml:6:18: list[0].port_number: must be a whole number, not a number with a \
             fraction, or a very large one",
            "x.yaml:7:5: list[1]: must be a section of keys, not a whole number",
            "x.yaml:8:4: list[2]: must be a section of keys, not nothing",
            "x.yaml:9:13: groups.a: must be a list, not a section",
        ]
    );
}

#[test]
fn unknown_keys_come_with_the_nearest_known_one() {
    let found = faults("nmae: a\ninner:\n  prot_number: 1\n  zzz:\n");
    assert!(found[0].starts_with("x.yaml:1:1: nmae: unknown key; did you mean `name`?"));
    assert!(found[1].starts_with("x.yaml:3:3: inner.prot_number: unknown key; did you mean"));
    assert_eq!(
        found[2],
        "x.yaml:4:3: inner.zzz: unknown key. Known here: port_number"
    );
}

#[test]
fn repeated_keys_are_faults_on_every_level() {
    assert_eq!(
        faults("count: 1\ninner: {port_number: 1, port_number: 2}\ncount: 2\n"),
        [
            "x.yaml:2:25: inner.port_number: this key stands here a second time, first in line 2",
            "x.yaml:3:1: count: this key stands here a second time, first in line 1",
        ]
    );
}

#[test]
fn what_cannot_be_read_at_all_is_one_fault_with_its_place() {
    for (text, place, word) in [
        (
            "inner: {port_number: 1\ncount: 2\n",
            "x.yaml:2:",
            "not valid YAML",
        ),
        ("a: b: c\n", "x.yaml:1:", "not valid YAML"),
        ("- 1\n", "x.yaml:1:1", "top of the file"),
        ("count: 1\n---\ncount: 2\n", "x.yaml:2:", "second document"),
        ("name: &a x\nmaybe: *a\n", "x.yaml:1:", "anchor"),
        ("name: !secret x\n", "x.yaml:1:", "a tag"),
        ("? [a]\n: b\n", "x.yaml:1:", "a key must be"),
    ] {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(place), "{found:?}");
        assert!(found[0].contains(word), "{found:?}");
    }
    let deep = format!("name: {}{}", "[".repeat(200), "]".repeat(200));
    assert!(faults(&deep)[0].contains("nested too deeply"));
}

#[test]
fn rules_report_by_the_place_in_the_file_though_items_were_left_out() {
    let text = "list:\n  - 7\n  - port_number: 5\n";
    let found = parse("x.yaml", text, strict).unwrap_err();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "x.yaml:1:1: name: must be given",
            "x.yaml:2:5: list[0]: must be a section of keys, not a whole number",
            "x.yaml:3:18: list[1].port_number: must be a whole number from 10 to 99",
        ]
    );
}

#[test]
fn a_key_that_could_not_be_read_is_not_blamed_twice() {
    let found = parse("x.yaml", "name: [a]\n", strict).unwrap_err();
    assert_eq!(found.iter().count(), 1, "{found}");
}

#[test]
fn faults_are_bounded() {
    let text: String = (0..500).map(|n| format!("k{n}: 1\n")).collect();
    assert_eq!(faults(&text).len(), 101);
}

#[test]
fn files_are_bounded_and_their_absence_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.yaml");
    std::fs::write(&path, vec![b'#'; 1024 * 1024 + 1]).unwrap();
    let large = load(&path, keep).unwrap_err();
    assert!(large.to_string().contains("larger than"), "{large}");
    let missing = load(&folder.path().join("none.yaml"), keep).unwrap_err();
    assert!(missing.to_string().contains("cannot be read"), "{missing}");
    std::fs::write(&path, b"name: \xff\n").unwrap();
    let binary = load(&path, keep).unwrap_err();
    assert!(binary.to_string().contains("not UTF-8"), "{binary}");
}

#[test]
fn no_fault_repeats_a_value() {
    let text = "name: [hunter2]\ncount: hunter2\non: hunter2\ninner: hunter2\nlist: hunter2\n\
                groups: {a: hunter2}\n";
    let found = read(text).unwrap_err();
    assert_eq!(found.iter().count(), 6);
    assert!(!found.to_string().contains("hunter2"), "{found}");
    let broken = read("name: \"hunter2\n").unwrap_err();
    assert!(!broken.to_string().contains("hunter2"), "{broken}");
}
