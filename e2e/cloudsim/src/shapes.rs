//! The shapes of errors of Keystone and Neutron, and what their requests carry.

use std::io;

use civ_simkit::{Asked, Reply};
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Value, json};

/// Keystone's shape.
pub(crate) fn keystone(status: u16, title: &str, message: &str) -> Reply {
    let error = json!({"code": status, "message": message, "title": title});
    Reply::json(status, &json!({ "error": error }))
}

/// Nobody is logged in; also what the middleware in front of Neutron says.
pub(crate) fn unauthorized(base: &str) -> Reply {
    let message = "The request you have made requires authentication.";
    keystone(401, "Unauthorized", message)
        .with("www-authenticate", format!("Keystone uri=\"{base}/v3\""))
}

/// Neutron's shape.
pub(crate) fn neutron(status: u16, kind: &str, message: &str) -> Reply {
    let error = json!({"type": kind, "message": message, "detail": ""});
    Reply::json(status, &json!({ "NeutronError": error }))
}

/// What `If-Match` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing, or a form that Neutron ignores.
    None,
    /// This revision.
    Revision(u64),
    /// No number, or several.
    Bad,
}

impl Condition {
    /// The revision, if one is asked for.
    pub(crate) const fn revision(self) -> Option<u64> {
        match self {
            Self::Revision(revision) => Some(revision),
            Self::None | Self::Bad => None,
        }
    }
}

/// Reads `If-Match: revision_number=N`; other forms are ignored, as Neutron does.
pub(crate) fn condition(asked: &Asked) -> Condition {
    let all = asked.headers.get_all("if-match");
    let texts = all.iter().filter_map(|value| value.to_str().ok());
    let parts = texts.flat_map(|text| text.split(','));
    let mut wanted = parts.filter_map(|part| {
        let part = part.trim().trim_matches('"');
        part.strip_prefix("revision_number=")
    });
    match (wanted.next(), wanted.next()) {
        (None, _) => Condition::None,
        (Some(text), None) => text.parse().map_or(Condition::Bad, Condition::Revision),
        (Some(_), Some(_)) => Condition::Bad,
    }
}

/// Writes JSON as Python's `json.dumps` does: with spaces.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

/// JSON with spaces: how Neutron writes floating IPs and routers.
pub(crate) fn spaced(status: u16, body: &Value) -> Reply {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Spaced);
    match body.serialize(&mut serializer) {
        Ok(()) => Reply::new(status, "application/json", text),
        Err(error) => neutron(500, "HTTPInternalServerError", &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderMap, HeaderValue, Uri};

    #[test]
    fn conditions_are_read_as_neutron_does() {
        for (texts, expected) in [
            (vec![], Condition::None),
            (vec!["revision_number=7"], Condition::Revision(7)),
            (vec!["\"abc\""], Condition::None),
            (vec!["*"], Condition::None),
            (vec!["revision_number=x"], Condition::Bad),
            (
                vec!["revision_number=1", "revision_number=2"],
                Condition::Bad,
            ),
        ] {
            let mut headers = HeaderMap::new();
            for text in &texts {
                headers.append("if-match", HeaderValue::from_static(text));
            }
            let uri = Uri::from_static("/");
            let asked = Asked::new("PUT", &uri, headers, "".into());
            assert_eq!(condition(&asked), expected, "{texts:?}");
        }
    }

    #[test]
    fn some_json_has_spaces() {
        let reply = spaced(200, &json!({"a": [1, 2], "b": {}}));
        assert_eq!(reply.body, r#"{"a": [1, 2], "b": {}}"#);
    }
}
