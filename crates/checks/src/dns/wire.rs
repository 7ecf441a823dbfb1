//! One DNS question and what comes back (RFC 1035 §4), as bytes. Pure; believes nothing.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::outcome::printable;

/// Longest name on the wire, in bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;
/// Longest label, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Most records of an answer that are shown.
const SHOWN_MAX: usize = 4;
/// Header, in bytes.
const HEADER_BYTES: usize = 12;
/// Class Internet.
const IN: u16 = 1;
/// Record types that can be asked for, with their numbers.
const TYPES: [(&str, u16); 9] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
];

/// What to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Without the final dot, in lower case; empty for the root.
    name: String,
    kind: (&'static str, u16),
}

/// Why a text is no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// Nothing behind the server.
    #[error("the name is missing")]
    None,
    /// A label is empty or too long, or the whole is.
    #[error("the name has an empty or too long label, or is too long")]
    Name,
    /// Not one of the record types.
    #[error("the type must be one of A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV")]
    Type,
}

impl Question {
    /// `name` or `name?type=AAAA`; type A where none is said. The root is `.`.
    pub(crate) fn parse(text: &str) -> Result<Self, QuestionError> {
        let (name, kind) = match text.split_once('?') {
            None => (text, "A"),
            Some((name, query)) => (
                name,
                query.strip_prefix("type=").ok_or(QuestionError::Type)?,
            ),
        };
        let kind = TYPES
            .into_iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(kind))
            .ok_or(QuestionError::Type)?;
        if name.is_empty() {
            return Err(QuestionError::None);
        }
        let name = if name == "." {
            String::new()
        } else {
            name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
        };
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
        };
        let fits = name.len() + 2 <= NAME_BYTES_MAX;
        let is_name = name.is_empty() || (fits && name.split('.').all(is_label));
        if !is_name {
            return Err(QuestionError::Name);
        }
        Ok(Self { name, kind })
    }

    /// The query, recursion desired.
    pub(crate) fn query(&self, id: u16) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in self.name.split('.').filter(|label| !label.is_empty()) {
            // A label has at most 63 bytes.
            bytes.push(u8::try_from(label.len()).unwrap_or_default());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(self.kind.1.to_be_bytes());
        bytes.extend(IN.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() {
            "."
        } else {
            &self.name
        };
        write!(f, "{name}?type={}", self.kind.0)
    }
}

/// An answer to our question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// RFC 1035 §4.1.1; 0 is no error.
    pub(super) rcode: u8,
    /// Ask again over TCP.
    pub(super) truncated: bool,
    pub(super) authoritative: bool,
    pub(super) answers: u16,
    /// The first addresses, others by their type.
    pub(super) shown: Vec<String>,
}

/// Why bytes are no answer to the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotOurs {
    /// Another id: an answer to somebody else, or a forged one. To be passed over.
    OtherId,
    /// No DNS message, or not one about our question.
    Bad(&'static str),
}

/// Reads an answer to `question` with this id.
pub(super) fn reply(bytes: &[u8], id: u16, question: &Question) -> Result<Reply, NotOurs> {
    let mut reader = Reader { bytes, at: 0 };
    let got = reader.u16().ok_or(NotOurs::Bad("shorter than a header"))?;
    if got != id {
        return Err(NotOurs::OtherId);
    }
    let short = NotOurs::Bad("shorter than a header");
    let flags = reader.u16().ok_or(short.clone())?;
    let questions = reader.u16().ok_or(short.clone())?;
    let answers = reader.u16().ok_or(short.clone())?;
    reader.at = HEADER_BYTES;
    if bytes.len() < HEADER_BYTES {
        return Err(short);
    }
    if flags & 0x8000 == 0 {
        return Err(NotOurs::Bad("a query, not an answer"));
    }
    let rcode = u8::try_from(flags & 0xf).unwrap_or_default();
    // A server that cannot read the query need not repeat it.
    let repeats = questions == 1;
    if !repeats && rcode == 0 {
        return Err(NotOurs::Bad("does not repeat the question"));
    }
    if repeats {
        let name = reader.name().ok_or(NotOurs::Bad("a broken name"))?;
        let (kind, class) = (reader.u16(), reader.u16());
        let same = name.eq_ignore_ascii_case(&question.name);
        if !same || kind != Some(question.kind.1) || class != Some(IN) {
            return Err(NotOurs::Bad("about another question"));
        }
    }
    let truncated = flags & 0x0200 != 0;
    let mut shown = Vec::new();
    for _record in 0..answers {
        match reader.record() {
            Some(text) if shown.len() < SHOWN_MAX => shown.push(text),
            Some(_) => break,
            None if truncated => break,
            None => return Err(NotOurs::Bad("a broken record")),
        }
    }
    Ok(Reply {
        rcode,
        truncated,
        authoritative: flags & 0x0400 != 0,
        answers,
        shown,
    })
}

/// Name of an answer's error (RFC 1035, RFC 2136, RFC 6891 would need EDNS and is not met here).
pub(super) const fn rcode_name(rcode: u8) -> &'static str {
    match rcode {
        1 => "formerr",
        2 => "servfail",
        3 => "nxdomain",
        4 => "notimp",
        5 => "refused",
        9 => "notauth",
        _ => "other",
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// A name, pointers followed backwards only, so that it ends (RFC 1035 §4.1.4).
    fn name(&mut self) -> Option<String> {
        let mut name = Vec::new();
        let mut at = self.at;
        let mut end = None;
        loop {
            let length = usize::from(*self.bytes.get(at)?);
            match length {
                0 => break,
                1..=LABEL_BYTES_MAX => {
                    let label = self.bytes.get(at + 1..at + 1 + length)?;
                    if !name.is_empty() {
                        name.push(b'.');
                    }
                    name.extend_from_slice(label);
                    if name.len() > NAME_BYTES_MAX {
                        return None;
                    }
                    at += 1 + length;
                }
                _ if length & 0xc0 == 0xc0 => {
                    let low = usize::from(*self.bytes.get(at + 1)?);
                    let to = (length & 0x3f) << 8 | low;
                    if to >= at {
                        return None;
                    }
                    end.get_or_insert(at + 2);
                    at = to;
                }
                _ => return None,
            }
        }
        self.at = end.unwrap_or(at + 1);
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    fn record(&mut self) -> Option<String> {
        self.name()?;
        let kind = self.u16()?;
        let _class = self.u16()?;
        let _ttl = self.take(4)?;
        let length = usize::from(self.u16()?);
        let data = self.take(length)?;
        let word = TYPES.iter().find(|(_, number)| *number == kind);
        Some(match (kind, data.len()) {
            (1, 4) => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
            (28, 16) => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
            (16, 1..) => printable(&String::from_utf8_lossy(data.get(1..)?), 64),
            _ => word.map_or_else(|| format!("TYPE{kind}"), |(word, _)| (*word).to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{NotOurs, Question, reply};

    fn question() -> Question {
        Question::parse("Example.org").unwrap()
    }

    /// An answer with one A record that points back to the question's name.
    fn answer(flags: u16) -> Vec<u8> {
        let mut bytes = question().query(7);
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[7] = 1;
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
        bytes
    }

    #[test]
    fn an_answer_is_read() {
        let got = reply(&answer(0x8580), 7, &question()).unwrap();
        assert_eq!(
            (got.rcode, got.truncated, got.authoritative),
            (0, false, true)
        );
        assert_eq!((got.answers, got.shown), (1, vec!["192.0.2.7".to_owned()]));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let bad = |bytes: &[u8]| reply(bytes, 7, &question()).unwrap_err();
        assert_eq!(
            reply(&answer(0x8000), 8, &question()),
            Err(NotOurs::OtherId)
        );
        assert!(matches!(
            bad(&question().query(7)),
            NotOurs::Bad("a query, not an answer")
        ));
        assert!(matches!(bad(&[0, 7, 0x80]), NotOurs::Bad(_)));
        let other = Question::parse("example.net").unwrap();
        assert!(matches!(
            reply(&answer(0x8000), 7, &other),
            Err(NotOurs::Bad(_))
        ));
        let mut looped = answer(0x8000);
        let at = looped.len() - 16;
        looped[at..at + 2].copy_from_slice(&[0xc0, u8::try_from(at).unwrap()]);
        assert_eq!(bad(&looped), NotOurs::Bad("a broken record"));
    }

    #[test]
    fn the_root_can_be_asked_for() {
        let root = Question::parse(".?type=ns").unwrap();
        assert_eq!(root.to_string(), ".?type=NS");
        assert_eq!(root.query(1).len(), 12 + 1 + 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if bytes.len() > 3 {
                bytes[..4].copy_from_slice(&[0, 7, 0x80, 0]);
            }
            let read = reply(&bytes, 7, &question());
            prop_assert!(read.is_err() || bytes.len() >= 12);
        }

        #[test]
        fn any_changed_byte_is_survived(at in 0_usize..60, byte in any::<u8>()) {
            let mut bytes = answer(0x8580);
            let at = at % bytes.len();
            bytes[at] = byte;
            prop_assert!(reply(&bytes, 7, &question()).is_ok_and(|r| r.shown.len() <= 4)
                || reply(&bytes, 7, &question()).is_err());
        }

        #[test]
        fn any_text_is_survived_and_what_is_taken_reads_the_same_again(text in "\\PC{0,80}") {
            if let Ok(question) = Question::parse(&text) {
                prop_assert_eq!(Question::parse(&question.to_string()), Ok(question));
            }
        }
    }
}
