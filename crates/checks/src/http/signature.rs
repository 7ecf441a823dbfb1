//! An answer that must show who gives it: a name, and a secret that nobody else has.

use std::fmt;

use hyper::header::{HeaderValue, SERVER};

use super::{Page, shown};
use crate::outcome::{Code, Fault, Seen, millis, printable};

/// Longest header of somebody else that is shown, in bytes.
const SHOWN_MAX: usize = 64;

/// What the headers of an answer must be; everything else about it decides nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    /// The header with the name, and the name.
    pub name: (&'static str, String),
    /// The header with the secret, and the secret, which no outcome shows.
    pub secret: (&'static str, String),
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (header, name) = &self.name;
        write!(f, "Signature({header}: {name})")
    }
}

impl Signature {
    /// Passes if both are there; else says who answered.
    pub(super) fn judge(&self, url: &url::Url, page: &Page) -> Result<Seen, Fault> {
        let latency = page.first_byte;
        let (header, name) = &self.name;
        let facts = format!(
            "{} {} first_byte={} {}",
            page.status.as_u16(),
            shown(url),
            millis(latency),
            page.facts
        );
        let found = page.headers.get(*header).map(HeaderValue::as_bytes);
        let secret = page.headers.get(self.secret.0).map(HeaderValue::as_bytes);
        let (wanted, nonce) = (name.as_bytes(), self.secret.1.as_bytes());
        let who = match (found, secret) {
            (Some(found), Some(secret)) if found == wanted && secret == nonce => {
                let facts = format!("{name} {facts}");
                return Ok(Seen { latency, facts });
            }
            (Some(found), secret) if found == wanted => {
                let what = secret.map_or("without a nonce", |_other| "with another nonce");
                format!("{name} itself, but {what}")
            }
            (Some(found), _) => format!("{}, not by {name}", text(found)),
            (None, _) => {
                let server = page.headers.get(SERVER).map(HeaderValue::as_bytes);
                let server = text(server.unwrap_or(b"nothing"));
                format!("a server that is none of ours and calls itself {server:?}")
            }
        };
        Err(Fault {
            latency: Some(latency),
            ..Fault::new(Code::WrongHost, format!("answered by {who}: {facts}"))
        })
    }
}

fn text(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes), SHOWN_MAX)
}
