//! Owns the reading of the processes' JSON log lines. Knows no process.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// One line. Fields of the event and of its frame stand side by side; where both have a name
/// (`target`), the event's comes first and is kept.
#[derive(Debug)]
pub(crate) struct LogLine(HashMap<String, Value>);

impl LogLine {
    /// The line as an object; `None` if it is none with a level and a message.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line: Self = serde_json::from_str(line).ok()?;
        let whole = line.0.contains_key("level") && line.0.contains_key("message");
        whole.then_some(line)
    }

    /// A field that is text; empty if it is not.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A field that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }
}

impl<'de> Deserialize<'de> for LogLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FirstWins)
    }
}

struct FirstWins;

impl<'de> Visitor<'de> for FirstWins {
    type Value = LogLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a log line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LogLine, A::Error> {
        let mut fields = HashMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            fields.entry(name).or_insert(value);
        }
        Ok(LogLine(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_fields_is_kept() {
        let line = r#"{"level":"INFO","message":"m","target":"https://a","n":3,"target":"mod"}"#;
        let line = LogLine::parse(line).unwrap();
        assert_eq!(line.text("target"), "https://a");
        assert_eq!(line.number("n"), Some(3));
    }

    #[test]
    fn other_objects_are_no_log_lines() {
        assert!(LogLine::parse("{\"level\":\"INFO\"}").is_none());
        assert!(LogLine::parse("thread main panicked").is_none());
    }
}
