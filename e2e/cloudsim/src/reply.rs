//! Requests and answers as the simulation sees them, and the error shapes of Keystone and Neutron.

use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A request, read in full.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) raw_query: String,
    /// In order, repeated keys repeated.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn new(method: &str, uri: &Uri, headers: HeaderMap, body: Bytes) -> Self {
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

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn param(&self, key: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Where the client reached us, as its `Host` says.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.header("host").unwrap_or("127.0.0.1"))
    }

    /// The revision of `If-Match: revision_number=N`; other forms are ignored, as Neutron does.
    pub(crate) fn if_revision(&self) -> Option<u64> {
        let text = self.header("if-match")?.trim().trim_matches('"');
        text.strip_prefix("revision_number=")?.parse().ok()
    }

    /// The segments of the path after `/v2.0/`, without an empty last one.
    pub(crate) fn segments(&self) -> Vec<&str> {
        let rest = self.path.strip_prefix("/v2.0/").unwrap_or_default();
        rest.split('/')
            .filter(|segment| !segment.is_empty())
            .collect()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    pub(crate) fn html(status: u16, text: &str) -> Self {
        let page = format!(
            "<html>\n <head>\n  <title>{status} {text}</title>\n </head>\n <body>\n  \
             <h1>{status} {text}</h1>\n  {text}<br /><br />\n </body>\n</html>"
        );
        Self::new(status, "text/html; charset=UTF-8", page)
    }

    /// Keystone's shape.
    pub(crate) fn keystone(status: u16, title: &str, message: &str) -> Self {
        let error = json!({"code": status, "message": message, "title": title});
        Self::json(status, &json!({"error": error}))
    }

    /// Nobody is logged in; also what the middleware in front of Neutron says.
    pub(crate) fn unauthorized(base: &str) -> Self {
        let message = "The request you have made requires authentication.";
        Self::keystone(401, "Unauthorized", message)
            .with("www-authenticate", format!("Keystone uri=\"{base}/v3\""))
    }

    /// Neutron's shape.
    pub(crate) fn neutron(status: u16, kind: &str, message: &str) -> Self {
        let error = json!({"type": kind, "message": message, "detail": ""});
        Self::json(status, &json!({"NeutronError": error}))
    }
}
