//! Events: every type that is written stands in the list that people choose from, and whatever
//! inserts events also queues the notifications of them.

use crate::places::Text;
use crate::source::read;

/// Where the list is.
pub const LIST: &str = "crates/types/src/event.rs";

/// What stands right before the type of an event that is written.
const BEFORE_TYPE: &[&str] = &["NewEvent::new(", "event_type: "];

/// The words of the list.
#[must_use]
pub fn listed(list: &Text) -> Vec<String> {
    let strings = read(&list.text).strings;
    strings.into_iter().map(|(_, text)| text).collect()
}

/// What one file of the store or of control-api writes and the list does not have; and inserts
/// without notifications.
#[must_use]
pub fn check(file: &Text, listed: &[String]) -> Vec<String> {
    let ours = ["crates/store/src/", "bins/control-api/src/"];
    if !ours.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    let written = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut wrong: Vec<String> = types(written)
        .filter(|name| !listed.iter().any(|other| other == name))
        .map(|name| format!("{}: the event {name:?} is not in {LIST}", file.path))
        .collect();
    let inserts = written.contains("INSERT INTO events");
    if inserts && !written.contains("notifications::enqueue(") {
        wrong.push(format!(
            "{}: inserts events without notifications::enqueue",
            file.path
        ));
    }
    wrong
}

/// Literals that name the type of an event.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let after = BEFORE_TYPE
        .iter()
        .flat_map(move |before| text.split(before).skip(1).filter_map(literal));
    after.chain(described(text))
}

/// A text that begins with a string literal.
fn literal(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('"')?;
    Some(rest.split_once('"')?.0)
}

/// `"type", Severity::…`: the first two of what describes a fact of the machine.
fn described(text: &str) -> impl Iterator<Item = &str> {
    text.split("Severity::").filter_map(|before| {
        let before = before.trim_end().strip_suffix("\",")?;
        Some(before.rsplit_once('"')?.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Text {
        Text {
            path: "crates/store/src/x.rs".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn types_are_found_however_they_are_written() {
        let text = "NewEvent::new(\"a\") event_type: \"b\", (\n\"c\",\n  Severity::Info) \
                    NewEvent::new(name)";
        let mut found: Vec<&str> = types(text).collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let listed = ["a".to_owned()];
        assert!(check(&file("NewEvent::new(\"a\")"), &listed).is_empty());
        assert_eq!(check(&file("NewEvent::new(\"b\")"), &listed).len(), 1);
        assert_eq!(check(&file("INSERT INTO events"), &listed).len(), 1);
        let both = "INSERT INTO events notifications::enqueue(";
        assert!(check(&file(both), &listed).is_empty());
    }
}
