//! Leftovers: marks of unfinished work, tests that do not run, SQL and anonymous modules in the
//! wrong place.

use crate::places::Text;
use crate::source::{Source, read};

/// Words that must not stand anywhere, and why. In pieces, so that this list does not find itself.
const ANYWHERE: &[(&str, &str, &str)] = &[
    ("FIX", "ME", "finish it"),
    ("TO", "DO:", "finish it"),
    ("for ", "now", "finish it, or say what is and why"),
];

/// The same for code.
const IN_CODE: &[(&str, &str, &str)] = &[
    ("todo", "!", "finish it"),
    ("unimple", "mented!", "finish it"),
    ("#[ign", "ore", "a test that does not run proves nothing"),
    ("should_", "panic", "assert on the error instead"),
];

/// How SQL begins.
const SQL: &[&str] = &[
    "SELECT ",
    "INSERT INTO ",
    "INSERT OR ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "CREATE INDEX ",
    "ALTER TABLE ",
    "PRAGMA ",
    "BEGIN IMMEDIATE",
];

/// Where SQL may stand. The scenarios read the database to compare it with the cloud.
const SQL_HOMES: &[&str] = &["crates/store/", "e2e/", "crates/tidy/"];

/// What is left over in one Rust file.
#[must_use]
pub fn check(file: &Text) -> Vec<String> {
    let source = read(&file.text);
    let mut found = words(file, &source);
    let first = file.text.lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        let path = &file.path;
        found.push(format!("{path}: must begin with //! and what it owns"));
    }
    found.extend(sql(file, &source));
    found
}

fn words(file: &Text, source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (list, text) in [(ANYWHERE, &file.text), (IN_CODE, &source.code)] {
        for (index, line) in text.lines().enumerate() {
            for (head, tail, why) in list {
                if line.contains(&format!("{head}{tail}")) {
                    let (path, line) = (&file.path, index + 1);
                    found.push(format!("{path}:{line}: {head}{tail}: {why}"));
                }
            }
        }
    }
    found
}

fn sql(file: &Text, source: &Source) -> Vec<String> {
    if SQL_HOMES.iter().any(|home| file.path.starts_with(home)) {
        return Vec::new();
    }
    let sql = |text: &str| SQL.iter().any(|word| text.trim_start().starts_with(word));
    let strings = source.strings.iter().filter(|(_, text)| sql(text));
    strings
        .map(|(line, _)| {
            let path = &file.path;
            format!("{path}:{line}: SQL belongs in crates/store")
        })
        .collect()
}

/// What a package's manifest lacks.
#[must_use]
pub fn manifest(file: &Text) -> Option<String> {
    let has = |section: &str| file.text.lines().any(|line| line.trim() == section);
    // A package with a workspace of its own has nothing to inherit from.
    let package = has("[package]") && !has("[workspace]");
    let mut after = file
        .text
        .lines()
        .skip_while(|line| line.trim() != "[lints]");
    let inherits = after
        .nth(1)
        .is_some_and(|line| line.trim() == "workspace = true");
    (package && !inherits).then(|| {
        let path = &file.path;
        format!("{path}: must have [lints] workspace = true")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: String) -> Text {
        Text {
            path: path.to_owned(),
            text,
        }
    }

    #[test]
    fn every_forbidden_word_is_found_once() {
        for (head, tail, _) in ANYWHERE.iter().chain(IN_CODE) {
            let file = text("crates/x/src/lib.rs", format!("//! X.\n{head}{tail}()]\n"));
            assert_eq!(check(&file).len(), 1, "{head}{tail}");
        }
    }

    #[test]
    fn a_module_says_what_it_owns() {
        let file = text("crates/x/src/lib.rs", "use a;\n".to_owned());
        assert_eq!(
            check(&file),
            ["crates/x/src/lib.rs: must begin with //! and what it owns"]
        );
    }

    #[test]
    fn sql_has_a_home() {
        let sql = "//! X.\nconst A: &str = \"SELECT 1\";\n// SELECT nothing\n".to_owned();
        assert_eq!(check(&text("bins/a/src/b.rs", sql.clone())).len(), 1);
        assert!(check(&text("crates/store/src/b.rs", sql)).is_empty());
    }

    #[test]
    fn a_package_inherits_the_lints() {
        let file = |tail: &str| text("a/Cargo.toml", format!("[package]\nname = \"a\"\n{tail}"));
        assert!(manifest(&file("")).is_some());
        assert!(manifest(&file("[lints]\nworkspace = false\n")).is_some());
        assert!(manifest(&file("[lints]\nworkspace = true\n")).is_none());
    }
}
