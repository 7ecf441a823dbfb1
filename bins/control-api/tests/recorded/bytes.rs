//! Lines of a session as bytes on the wire, and places in them that are different every time.

use std::collections::BTreeMap;

/// Stands for a carriage return in a body; in a head every line has one.
const CR: char = '\u{240d}';

/// What stood in a place with a name, by `«kind name»` without its marks.
pub(crate) type Known = BTreeMap<String, String>;

/// A piece of an expected answer.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Place(String),
}

/// The head up to the first empty line, every line with its line end; then the body as it stands.
pub(crate) fn wire(lines: &[String]) -> String {
    let end = lines.iter().position(String::is_empty);
    let (head, rest) = lines.split_at(end.unwrap_or(lines.len()));
    let mut text: String = head.iter().map(|line| format!("{line}\r\n")).collect();
    if let Some((_empty, rest)) = rest.split_first() {
        text.push_str("\r\n");
        text.push_str(&body(rest));
    }
    text
}

/// Lines without a head.
pub(crate) fn body(lines: &[String]) -> String {
    lines.join("\n").replace(CR, "\r")
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('«') {
        let (place, next) = after.split_once('»').unwrap();
        pieces.push(Piece::Literal(before.to_owned()));
        pieces.push(Piece::Place(place.to_owned()));
        rest = next;
    }
    pieces.push(Piece::Literal(rest.to_owned()));
    pieces
}

/// What may stand in a place of that kind: so many bytes, each of these.
fn kind(place: &str) -> (usize, fn(u8) -> bool) {
    match place.split(' ').next().unwrap() {
        "id" => (36, |byte| byte.is_ascii_hexdigit() || byte == b'-'),
        "date" => (29, |byte| {
            byte.is_ascii_alphanumeric() || b" ,:".contains(&byte)
        }),
        "tag" => (16, |byte| byte.is_ascii_hexdigit()),
        "nonce" => (32, |byte| byte.is_ascii_hexdigit()),
        other => panic!("«{other}» is none of «id», «date», «tag NAME», «nonce NAME»"),
    }
}

/// A request with the places that are known.
pub(crate) fn fill(text: &str, known: &Known) -> String {
    let each = |piece| match piece {
        Piece::Literal(text) => text,
        Piece::Place(place) => known.get(&place).unwrap().clone(),
    };
    pieces(text).into_iter().map(each).collect()
}

/// How many bytes an expected answer has.
pub(crate) fn length(expected: &str) -> usize {
    let each = |piece: &Piece| match piece {
        Piece::Literal(text) => text.len(),
        Piece::Place(place) => kind(place).0,
    };
    pieces(expected).iter().map(each).sum()
}

/// Whether an answer is the expected one; what stands in a place with a name is noted.
pub(crate) fn fits(expected: &str, answer: &[u8], known: &mut Known) -> bool {
    let mut rest = answer;
    for piece in pieces(expected) {
        let place = match piece {
            Piece::Literal(text) => {
                let Some(next) = rest.strip_prefix(text.as_bytes()) else {
                    return false;
                };
                rest = next;
                continue;
            }
            Piece::Place(place) => place,
        };
        let (length, allowed) = kind(&place);
        let Some((value, next)) = rest.split_at_checked(length) else {
            return false;
        };
        let value = String::from_utf8_lossy(value).into_owned();
        let same = known.get(&place).is_none_or(|before| *before == value);
        if !value.bytes().all(allowed) || !same {
            return false;
        }
        if place.contains(' ') {
            known.insert(place, value);
        }
        rest = next;
    }
    rest.is_empty()
}

/// An answer as it would stand in a session.
pub(crate) fn lines(answer: &[u8], known: &mut Known) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return text.lines().map(str::to_owned).collect();
    };
    let mut lines: Vec<_> = head.split("\r\n").map(|line| named(line, known)).collect();
    lines.push(String::new());
    if !body.is_empty() {
        let body = body.replace('\r', &CR.to_string());
        lines.extend(body.split('\n').map(str::to_owned));
    }
    lines
}

/// A line of a head, with places for what is different every time.
fn named(line: &str, known: &mut Known) -> String {
    match line.split_once(": ") {
        Some(("date", _)) => "date: «date»".to_owned(),
        Some(("x-request-id", id)) if id.len() == 36 => "x-request-id: «id»".to_owned(),
        Some(("etag", tag)) => {
            let tag = tag.trim_matches('"').to_owned();
            let next = format!("tag {}", known.len() + 1);
            let place = known.iter().find(|(_, value)| **value == tag);
            let place = place.map_or(next, |(place, _)| place.clone());
            known.insert(place.clone(), tag);
            format!("etag: \"«{place}»\"")
        }
        _ => line.to_owned(),
    }
}

#[test]
fn only_what_is_expected_fits() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(wire(&lines("a: b\n\n1␍\n2")), "a: b\r\n\r\n1\r\n2");
    assert_eq!(wire(&lines("a: b\n")), "a: b\r\n");
    let tag = "0123456789abcdef";
    let answer = format!("etag: \"{tag}\"\r\n\r\n");
    let expected = "etag: \"«tag a»\"\r\n\r\n";
    let mut known = Known::new();
    assert!(fits(expected, answer.as_bytes(), &mut known));
    assert_eq!(length(expected), answer.len());
    assert_eq!(fill("x «tag a»", &known), format!("x {tag}"));
    for wrong in [
        "etag: \"0123456789abcdee\"\r\n\r\n",
        "etag: \"0123456789abcdef\"\r\n\r\nx",
        "etag: \"0123456789abcdef\"\r\n",
        "Etag: \"0123456789abcdef\"\r\n\r\n",
    ] {
        assert!(!fits(expected, wrong.as_bytes(), &mut known), "{wrong}");
    }
    assert!(!fits(
        "«date»",
        b"Mon, 30 Nov 2026 20:23:50 GM\r",
        &mut known
    ));
}
