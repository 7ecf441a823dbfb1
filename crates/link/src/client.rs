//! HTTP to one control-api: bounded in time and size, and it tries everything once only.
//!
//! Trying again is the business of whoever knows what a request means (poll, courier, heartbeat).

use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ETAG, HeaderMap, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use url::Url;

use crate::error::{ClientError, LinkError};
use crate::tls;

/// A connect that takes longer has met a dead host; the next try may find it alive.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// One request with its answer; a group commit under full load takes well under a second.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// How long data or keepalive probes may go unacknowledged. An association changes the address
/// translation under open connections, which then hang without an error: 8 s later they are gone.
const DEAD_AFTER: Duration = Duration::from_secs(8);
/// Idle connections younger than this are used again.
const IDLE_MAX: Duration = Duration::from_secs(15);
/// The longest answer that is read: 40,000 assignments of a prober.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How much of the text of a refusal is kept.
const TEXT_CHARS_MAX: usize = 300;

/// Where control-api is and how it is trusted.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its base, with a path if it stands behind a proxy that adds one.
    pub url: Url,
    /// Roots beside those of the host, PEM.
    pub ca_file: Option<PathBuf>,
    /// The certificate to show, PEM; with `key_file`.
    pub cert_file: Option<PathBuf>,
    /// Its private key, PEM.
    pub key_file: Option<PathBuf>,
}

/// A pool of connections to one control-api; cheap to clone, all clones share the pool.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

/// A success, and 304.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) etag: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Reads the certificates and prepares the pool; connects to nothing yet.
    ///
    /// # Errors
    /// [`ClientError`] for a URL without host or with another scheme, and for certificate files
    /// that cannot be used.
    pub fn new(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let url = &endpoint.url;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(ClientError::BadUrl(url.to_string()));
        }
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::config(endpoint)?)
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(4))
            .tcp_keepalive_interval(Duration::from_secs(2))
            .tcp_keepalive_retries(2)
            .tcp_user_timeout(DEAD_AFTER)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .user_agent(concat!("cloud-ip-validator/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Http)?;
        Ok(Self {
            http,
            base: url.clone(),
        })
    }

    /// `/api/v1/…` under the base; segments are percent-encoded.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Only a URL that cannot be a base has no segments; `new` lets none through.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v1"]).extend(segments);
        }
        url
    }

    /// POST of a JSON body; the body of a success comes back.
    pub(crate) async fn post<B: Serialize + Sync>(
        &self,
        url: Url,
        token: Option<&SecretString>,
        body: &B,
    ) -> Result<Vec<u8>, LinkError> {
        let what = format!("POST {}", url.path());
        let request = self
            .http
            .request(Method::POST, url)
            .timeout(REQUEST_MAX)
            .json(body);
        Ok(self.send(what, authorized(request, token)).await?.body)
    }

    /// GET that the server may hold for `wait`.
    pub(crate) async fn get(
        &self,
        mut url: Url,
        token: Option<&SecretString>,
        wait: Duration,
        etag: Option<&str>,
    ) -> Result<Answer, LinkError> {
        let what = format!("GET {}", url.path());
        url.query_pairs_mut()
            .append_pair("wait", &wait.as_secs().to_string());
        let mut request = self
            .http
            .request(Method::GET, url)
            .timeout(wait + REQUEST_MAX);
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        self.send(what, authorized(request, token)).await
    }

    async fn send(&self, what: String, request: RequestBuilder) -> Result<Answer, LinkError> {
        let response = match request.send().await {
            Ok(response) => response,
            Err(source) => return Err(unreachable(what, source)),
        };
        let status = response.status();
        let etag = text_of(response.headers(), &ETAG);
        let retry_after = text_of(response.headers(), &RETRY_AFTER)
            .and_then(|text| text.trim().parse().ok())
            .map(Duration::from_secs);
        let body = bounded_body(&what, response).await?;
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(Answer { status, etag, body });
        }
        let text = refusal_text(&body);
        Err(LinkError::Refused {
            what,
            status: status.as_u16(),
            text,
            retry_after,
        })
    }
}

fn authorized(request: RequestBuilder, token: Option<&SecretString>) -> RequestBuilder {
    match token {
        // bearer_auth marks the header as sensitive, so that no debug output shows it.
        Some(token) => request.bearer_auth(token.expose_secret()),
        None => request,
    }
}

fn unreachable(what: String, source: reqwest::Error) -> LinkError {
    // A base URL may carry a password of a proxy in front; logs must not.
    LinkError::Unreachable {
        what,
        source: source.without_url(),
    }
}

fn text_of(headers: &HeaderMap, name: &reqwest::header::HeaderName) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

async fn bounded_body(what: &str, mut response: Response) -> Result<Vec<u8>, LinkError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(part)) if body.len() + part.len() <= ANSWER_BYTES_MAX => {
                body.extend_from_slice(&part);
            }
            Ok(Some(_)) => {
                let why = format!("it is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(LinkError::BadAnswer {
                    what: what.to_owned(),
                    why,
                });
            }
            Ok(None) => return Ok(body),
            Err(source) => return Err(unreachable(what.to_owned(), source)),
        }
    }
}

/// The `error` of an [`civ_proto::ErrorBody`], else the beginning of whatever came.
fn refusal_text(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<civ_proto::ErrorBody>(body) {
        Ok(known) => known.error,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    text.chars()
        .filter(|c| !c.is_control())
        .take(TEXT_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint {
            url: url.parse().unwrap(),
            ca_file: None,
            cert_file: None,
            key_file: None,
        }
    }

    fn client(url: &str) -> Result<Client, ClientError> {
        Client::new(&endpoint(url))
    }

    #[test]
    fn paths_are_joined_to_the_base_and_encoded() {
        let path = |base: &str, id: &str| {
            client(base)
                .unwrap()
                .url(&["agents", id, "results"])
                .to_string()
        };
        let plain = "http://a:1/api/v1/agents/v-1/results";
        assert_eq!(path("http://a:1", "v-1"), plain);
        assert_eq!(path("http://a:1/?x=1#y", "v-1"), plain);
        assert_eq!(
            path("http://a/gw", "v"),
            "http://a/gw/api/v1/agents/v/results"
        );
        assert_eq!(
            path("http://a/gw/", "v"),
            "http://a/gw/api/v1/agents/v/results"
        );
        assert_eq!(
            path("http://a", "v 1?"),
            "http://a/api/v1/agents/v%201%3F/results"
        );
    }

    #[test]
    fn other_schemes_are_refused() {
        assert!(matches!(client("ftp://a/"), Err(ClientError::BadUrl(_))));
        assert!(matches!(client("mailto:a@b"), Err(ClientError::BadUrl(_))));
    }

    #[test]
    fn a_refusal_is_read_from_json_or_text_and_is_bounded() {
        assert_eq!(refusal_text(br#"{"error":"no such site"}"#), "no such site");
        assert_eq!(refusal_text(b"Bad\ngateway"), "Badgateway");
        assert_eq!(refusal_text(&[b'x'; 9999]).len(), TEXT_CHARS_MAX);
    }
}
