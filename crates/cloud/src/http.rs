//! One HTTP exchange: sent, bounded in time and size, logged. Knows no OpenStack but its request
//! id, and no secret leaves it: bodies and tokens are never logged.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use tokio::time::Instant;

use crate::budget::{Budget, Purse};
use crate::clip::clip;
use crate::fault::Refusal;
use crate::wire::ErrorBody;

/// Longest body that is read, in bytes: a page of 1,000 floating IPs is about 1 MB, a catalog of a
/// large cloud about 100 kB.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Longest `Retry-After` that is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// `GET /v2.0/floatingips`, for messages.
    pub(crate) asked: String,
}

/// No complete answer.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    /// What was asked and what was seen.
    pub(crate) text: String,
    /// Whether the request may have reached the server: false only if no connection was made.
    pub(crate) maybe_received: bool,
    /// Whether it was cut before a first byte of an answer, as a connection is that the server
    /// closed while it lay idle.
    cut_early: bool,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn refusal(&self) -> Refusal {
        Refusal {
            status: self.status,
            retry_after: retry_after(&self.headers, Timestamp::now()),
            body: ErrorBody::parse(&self.body),
            asked: self.asked.clone(),
        }
    }
}

/// A client and what it may ask.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client,
    purse: Arc<Purse>,
}

impl Http {
    pub(crate) fn new(client: Client, budget: Budget) -> Self {
        Self {
            client,
            purse: Arc::new(Purse::new(budget)),
        }
    }
}

/// Carries out one exchange. What was cut before any answer is sent once more, unless it changes
/// something: servers close idle connections without announcing it (uWSGI after 4 s).
pub(crate) async fn exchange(
    http: &Http,
    method: Method,
    url: Url,
    fill: impl Fn(RequestBuilder) -> RequestBuilder,
) -> Result<Answer, NoAnswer> {
    let once = || async {
        let _under_way = http.purse.take().await;
        let request = http.client.request(method.clone(), url.clone());
        once(fill(request), &method, &url).await
    };
    match once().await {
        Err(lost) if lost.cut_early && method != Method::PUT => once().await,
        first => first,
    }
}

async fn once(request: RequestBuilder, method: &Method, url: &Url) -> Result<Answer, NoAnswer> {
    let started = Instant::now();
    let asked = format!("{method} {}", url.path());
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => {
            let lost = lost(&asked, url, &error);
            log(method, url, None, started, &lost.text);
            return Err(lost);
        }
    };
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let id = headers.get("x-openstack-request-id");
    let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
    let body = read_body(response).await;
    log(method, url, Some(status), started, id);
    match body {
        Ok(body) => Ok(Answer {
            status,
            headers,
            body,
            asked,
        }),
        Err(text) => Err(NoAnswer {
            text: format!("the answer to {asked} ({status}) broke off: {text}"),
            maybe_received: true,
            cut_early: false,
        }),
    }
}

fn log(method: &Method, url: &Url, status: Option<u16>, started: Instant, note: &str) {
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let path = url.path();
    match status {
        Some(status) => {
            tracing::debug!(%method, path, status, duration_ms, request_id = note, "cloud call");
        }
        None => tracing::debug!(%method, path, duration_ms, error = note, "cloud call, no answer"),
    }
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let Some(chunk) = chunk.map_err(|error| clip(&chain(&error)))? else {
            return Ok(body);
        };
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(format!("it is longer than {BODY_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
}

fn lost(asked: &str, url: &Url, error: &reqwest::Error) -> NoAnswer {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let why = if error.is_connect() {
        format!("no connection: {}", chain(error))
    } else if error.is_timeout() {
        "no answer in time".to_owned()
    } else {
        format!(
            "the connection was closed without an answer: {}",
            chain(error)
        )
    };
    NoAnswer {
        text: format!("{asked} to {host}:{port}: {}", clip(&why)),
        maybe_received: !error.is_connect(),
        cut_early: !error.is_connect() && !error.is_timeout(),
    }
}

/// The causes below reqwest's own sentence, which would repeat the whole URL.
fn chain(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.join(": ")
}

/// RFC 9110, 10.2.3: seconds or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let then = rfc2822::parse(text).ok()?.timestamp();
            u64::try_from(then.as_second() - now.as_second()).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_for(text: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers, "1994-11-06T08:49:07Z".parse().unwrap())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(asked_for("7"), seconds(7));
        assert_eq!(asked_for("Sun, 06 Nov 1994 08:49:37 GMT"), seconds(30));
        assert_eq!(asked_for("Sun, 06 Nov 1994 08:49:00 GMT"), seconds(0));
        assert_eq!(asked_for("9999999"), seconds(3_600));
        assert_eq!(asked_for("soon"), None);
    }
}
