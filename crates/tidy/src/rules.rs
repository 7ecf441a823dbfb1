//! The twelve rules of the domain and the tests that hold them: `rule_01_…` to `rule_12_…`.

use std::collections::BTreeSet;

use crate::places::Text;
use crate::source::read;

/// How many rules the domain has.
pub const RULES: u32 = 12;

/// Numbers of the rules that the tests of one file name.
///
/// # Errors
/// A function whose name has the form of a rule's test but is none, or names no rule.
pub fn named(file: &Text) -> Result<BTreeSet<u32>, Vec<String>> {
    let code = read(&file.text).code;
    let lines: Vec<&str> = code.lines().collect();
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        let Some((_, name)) = line.split_once("fn rule_") else {
            continue;
        };
        let at = format!("{}:{}", file.path, index + 1);
        match number(name) {
            Some(rule) if (1..=RULES).contains(&rule) => {
                found.insert(rule);
            }
            _ => wrong.push(format!("{at}: no such rule: rule_01_… to rule_{RULES}_…")),
        }
        // A suite is written as functions that a macro turns into tests for each implementation.
        let name: String = name
            .chars()
            .take_while(|c| *c != '(' && *c != '<')
            .collect();
        let in_suite = code.matches(&format!("rule_{name}")).count() > 1;
        if !in_suite && !is_test(lines.get(..index).unwrap_or_default()) {
            wrong.push(format!("{at}: is named like a rule's test but is no test"));
        }
    }
    if wrong.is_empty() {
        Ok(found)
    } else {
        Err(wrong)
    }
}

/// `07_late_report…`: two digits, an underscore, a name.
fn number(name: &str) -> Option<u32> {
    let (digits, rest) = name.split_once('_')?;
    let plain = digits.len() == 2 && rest.starts_with(|c: char| c.is_ascii_lowercase());
    digits.parse().ok().filter(|_| plain)
}

/// Whether the attributes above a function make it a test.
fn is_test(above: &[&str]) -> bool {
    let attributes = above.iter().rev().map(|line| line.trim());
    attributes
        .take_while(|line| line.starts_with("#[") || line.is_empty())
        .any(|line| line.contains("test"))
}

/// The rules that no test holds.
#[must_use]
pub fn missing(found: &BTreeSet<u32>) -> Vec<String> {
    let rules = (1..=RULES).filter(|rule| !found.contains(rule));
    rules
        .map(|rule| format!("no test is named rule_{rule:02}_…"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_in(text: &str) -> Result<BTreeSet<u32>, Vec<String>> {
        named(&Text {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn tests_of_rules_are_counted() {
        let text = "#[test]\nfn rule_07_late_report_changes_nothing() {}\n\
                    #[tokio::test(start_paused = true)]\n// why\nasync fn rule_12_outage() {}\n";
        let found = named_in(text).unwrap();
        assert_eq!(found, BTreeSet::from([7, 12]));
        assert_eq!(missing(&found).len(), 10);
    }

    #[test]
    fn what_is_no_rule_or_no_test_is_found() {
        assert_eq!(
            named_in("#[test]\nfn rule_13_x() {}\n").unwrap_err().len(),
            1
        );
        assert_eq!(
            named_in("#[test]\nfn rule_7_x() {}\n").unwrap_err().len(),
            1
        );
        assert_eq!(named_in("fn rule_07_x() {}\n").unwrap_err().len(), 1);
    }
}
