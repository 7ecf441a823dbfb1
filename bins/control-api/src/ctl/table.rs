//! Tables for people: aligned, without what could steer a terminal, coloured by the words of the
//! contract.

use serde_json::Value;

use super::client::plain;
use super::output::Output;

/// How a cell is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it is.
    Text,
    /// A state or result: coloured.
    Word,
    /// RFC 3339: to the second, without its letters.
    Time,
}

/// One column: its heading, the field of each row, and how it is shown.
pub(super) type Column = (&'static str, &'static str, Kind);

/// What stands in a cell without a value.
const NOTHING: &str = "-";

/// A value as people read it.
pub(super) fn cell(value: &Value, kind: Kind) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if kind == Kind::Time => time(text),
        Value::String(text) => plain(text, usize::MAX),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| cell(item, Kind::Text)).collect();
            items.join(", ")
        }
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| {
                format!("{} {}", plain(name, usize::MAX), cell(value, Kind::Text))
            };
            fields.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => number.to_string(),
    };
    if text.is_empty() {
        NOTHING.to_owned()
    } else {
        text
    }
}

/// `2026-08-21T09:15:00.123456Z` as `2026-08-21 09:15:00`.
fn time(text: &str) -> String {
    let seconds = text.split_once('.').map_or(text, |(before, _)| before);
    plain(seconds.trim_end_matches('Z'), usize::MAX).replace('T', " ")
}

/// SGR colour of a word of the contract (ECMA-48 §8.3.117); none for ordinary ones.
fn colour(word: &str) -> Option<&'static str> {
    match word {
        "pass" | "completed" => Some("32"),
        "partial" | "occupied" | "cancelled" | "warning" | "timeout" | "unregistered" => Some("33"),
        "fail" | "failed" | "error" | "unreachable" => Some("31"),
        _ => None,
    }
}

fn painted(text: &str, kind: Kind, out: Output) -> String {
    match colour(text) {
        Some(code) if out.colours && kind == Kind::Word => format!("\x1b[{code}m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

/// Rows under headings. The last column is not filled up.
pub(super) fn table(rows: &[Value], columns: &[Column], out: Output) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let of =
                |(_, field, kind): &Column| cell(row.get(*field).unwrap_or(&Value::Null), *kind);
            columns.iter().map(of).collect()
        })
        .collect();
    let width = |index: usize, heading: &str| {
        let cells = cells.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|text| text.chars().count()).max();
        widest.unwrap_or(0).max(heading.chars().count())
    };
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, (heading, ..))| width(index, heading))
        .collect();
    let headings = columns.iter().map(|(heading, ..)| (*heading).to_owned());
    let mut text = line(&headings.collect::<Vec<_>>(), &widths, |text, _| {
        text.to_owned()
    });
    for row in &cells {
        let paint = |text: &str, index: usize| {
            let kind = columns.get(index).map_or(Kind::Text, |column| column.2);
            painted(text, kind, out)
        };
        text.push_str(&line(row, &widths, paint));
    }
    text
}

fn line(cells: &[String], widths: &[usize], paint: impl Fn(&str, usize) -> String) -> String {
    let mut text = String::new();
    for (index, cell) in cells.iter().enumerate() {
        text.push_str(&paint(cell, index));
        if index + 1 < cells.len() {
            let width = widths.get(index).copied().unwrap_or(0);
            let gap = width.saturating_sub(cell.chars().count()) + 2;
            text.push_str(&" ".repeat(gap));
        }
    }
    text.push('\n');
    text
}

/// One object, a field a line.
pub(super) fn fields(object: &Value, columns: &[Column], out: Output) -> String {
    let width = columns.iter().map(|(heading, ..)| heading.len()).max();
    let width = width.unwrap_or(0) + 2;
    let mut text = String::new();
    for (heading, field, kind) in columns {
        let value = cell(object.get(*field).unwrap_or(&Value::Null), *kind);
        let value = painted(&value, *kind, out);
        text.push_str(&format!("{heading:<width$}{value}\n"));
    }
    text
}

/// The rows of a list, with or without its envelope, and the line under a page of it.
pub(super) fn rows(answer: &Value) -> (Vec<Value>, Option<String>) {
    if let Value::Array(rows) = answer {
        return (rows.clone(), None);
    }
    let rows = answer.get("items").and_then(Value::as_array).cloned();
    let rows = rows.unwrap_or_default();
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
    let footer = format!("{} of {total}\n", rows.len());
    (rows, Some(footer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: &[Column] = &[
        ("NAME", "name", Kind::Text),
        ("STATE", "state", Kind::Word),
        ("SEEN", "seen", Kind::Time),
    ];

    fn out(colours: bool) -> Output {
        Output {
            json: false,
            colours,
            terminal: colours,
        }
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_a_dash() {
        let rows = [
            json!({"name": "v-1", "state": "unreachable", "seen": "2026-08-21T09:15:00.123456Z"}),
            json!({"name": "validator-2", "state": "", "seen": null}),
        ];
        let expected = "\
NAME         STATE        SEEN
v-1          unreachable  2026-08-21 09:15:00
validator-2  -            -
";
        assert_eq!(table(&rows, COLUMNS, out(false)), expected);
        let coloured = table(&rows, COLUMNS, out(true));
        assert!(
            coloured.contains("\x1b[31munreachable\x1b[0m  2026"),
            "{coloured}"
        );
    }

    #[test]
    fn values_cannot_steer_the_terminal() {
        let row = json!({"name": "a\u{1b}[2Jb\n", "state": "x", "seen": "\u{7}"});
        let text = table(&[row], COLUMNS, out(false));
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn lists_objects_and_flags_are_readable() {
        assert_eq!(cell(&json!([22, 80]), Kind::Text), "22, 80");
        assert_eq!(
            cell(&json!({"s-1": true, "s-2": false}), Kind::Text),
            "s-1 yes, s-2 no"
        );
        let page = json!({"items": [1], "total": 9, "limit": 1, "offset": 0});
        assert_eq!(rows(&page), (vec![json!(1)], Some("1 of 9\n".to_owned())));
    }
}
