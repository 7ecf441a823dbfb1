//! A session as it stands in its file: settings, and what is sent and answered in turn.

use std::fmt::Write as _;
use std::path::PathBuf;

/// A line or a group of lines of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A comment or a setting, before the first connection.
    Setting(String),
    /// `=== TITLE`: a new connection.
    Connect(String),
    /// `~~~ …`: something beside the connection.
    Command(String),
    /// `>>>`: a head and a body.
    Request(Vec<String>),
    /// `>>> body`: bytes without a head.
    Body(Vec<String>),
    /// `<<<`: the answer.
    Answer(Vec<String>),
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/sessions")
}

/// Reads a session.
pub(crate) fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for line in text.lines() {
        let part = match line {
            ">>>" => Part::Request(Vec::new()),
            ">>> body" => Part::Body(Vec::new()),
            "<<<" => Part::Answer(Vec::new()),
            _ => match (line.strip_prefix("=== "), line.strip_prefix("~~~ ")) {
                (Some(title), _) => Part::Connect(title.to_owned()),
                (_, Some(command)) => Part::Command(command.to_owned()),
                _ => {
                    if let Some(lines) = parts.last_mut().and_then(lines) {
                        lines.push(line.to_owned());
                    } else {
                        parts.push(Part::Setting(line.to_owned()));
                    }
                    continue;
                }
            },
        };
        parts.push(part);
    }
    parts
}

fn lines(part: &mut Part) -> Option<&mut Vec<String>> {
    match part {
        Part::Request(lines) | Part::Body(lines) | Part::Answer(lines) => Some(lines),
        Part::Setting(_) | Part::Connect(_) | Part::Command(_) => None,
    }
}

/// Writes a session as [`parse`] reads it.
pub(crate) fn render(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let (marker, lines) = match part {
            Part::Setting(line) => (line.clone(), None),
            Part::Connect(title) => (format!("=== {title}"), None),
            Part::Command(command) => (format!("~~~ {command}"), None),
            Part::Request(lines) => (">>>".to_owned(), Some(lines)),
            Part::Body(lines) => (">>> body".to_owned(), Some(lines)),
            Part::Answer(lines) => ("<<<".to_owned(), Some(lines)),
        };
        writeln!(text, "{marker}").unwrap();
        for line in lines.into_iter().flatten() {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

#[test]
fn a_session_is_written_as_it_is_read() {
    let text = "# why\n@tokens\n=== one\n>>>\nGET / HTTP/1.1\n\n<<<\n\
                HTTP/1.1 204 No\n\n~~~ go away\n\
                === two\n>>> body\n3␍\nabc␍\n\n<<<\n";
    let parts = parse(text);
    assert_eq!(render(&parts), text);
    let head = vec!["GET / HTTP/1.1".to_owned(), String::new()];
    assert_eq!(parts[3], Part::Request(head));
    assert_eq!(parts.len(), 9);
}
