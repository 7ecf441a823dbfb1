//! Requests and answers as a simulation sees them: read in full, written in full.

use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A request, read in full.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET`, `PUT`, …
    pub method: String,
    /// The path, as it was sent.
    pub path: String,
    /// The query without the question mark, as it was sent.
    pub raw_query: String,
    /// The query, decoded; in order, repeated keys repeated.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Asked {
    /// Takes a request apart.
    #[must_use]
    pub fn new(method: &str, uri: &Uri, headers: HeaderMap, body: Bytes) -> Self {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        Self {
            method: method.to_owned(),
            path: uri.path().to_owned(),
            raw_query: uri.query().unwrap_or_default().to_owned(),
            query: pairs.map(|pairs| pairs.0).unwrap_or_default(),
            headers,
            body,
        }
    }

    /// A header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The first value of a key of the query.
    #[must_use]
    pub fn param(&self, key: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value.as_str())
    }

    /// All values of a key of the query.
    pub fn params<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.query.iter().filter(move |(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Leaves a key out of the query.
    pub fn forget_param(&mut self, key: &str) {
        self.query.retain(|(name, _)| name != key);
        let prefix = format!("{key}=");
        let kept = self
            .raw_query
            .split('&')
            .filter(|pair| !pair.starts_with(&prefix));
        self.raw_query = kept.collect::<Vec<_>>().join("&");
    }

    /// The body as JSON, if it is such.
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Where the client reached us, as its `Host` and `X-Forwarded-Proto` say.
    #[must_use]
    pub fn base_url(&self) -> String {
        let scheme = self.header("x-forwarded-proto").unwrap_or("http");
        format!("{scheme}://{}", self.header("host").unwrap_or("127.0.0.1"))
    }

    /// `METHOD path?query`, as reports name a call.
    #[must_use]
    pub fn line(&self) -> String {
        match self.raw_query.as_str() {
            "" => format!("{} {}", self.method, self.path),
            query => format!("{} {}?{query}", self.method, self.path),
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers besides those of the shell.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// Any answer with a body.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    /// JSON.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// No body.
    #[must_use]
    pub const fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// A page such as Python's web frameworks and proxies send.
    #[must_use]
    pub fn html(status: u16, text: &str) -> Self {
        let page = format!(
            "<html>\n <head>\n  <title>{status} {text}</title>\n </head>\n <body>\n  \
             <h1>{status} {text}</h1>\n  {text}<br /><br />\n </body>\n</html>"
        );
        Self::new(status, "text/html; charset=UTF-8", page)
    }
}
