//! Long polls: hold a request until there is news, the time is up, or the process ends.

use std::future::Future;
use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Web;
use super::error::ApiError;

/// Longest wait that a client may ask for, in seconds.
const WAIT_SECS_MAX: u64 = 60;

/// What the query and the headers say of waiting.
#[derive(Debug)]
pub(super) struct Asked {
    wait: Duration,
    known: Option<String>,
}

/// One look at what there is to say.
#[derive(Debug)]
pub(super) enum Look {
    /// Something, with a body.
    Body(Vec<u8>),
    /// Something that is as good as nothing: said at once only if the client does not wait.
    Empty(Vec<u8>),
    /// Nothing; worth another look after that time, if any.
    Nothing(Option<Duration>),
}

/// The `wait` of a query, if it has a valid one.
pub(super) fn asked_wait(query: Option<&str>) -> Option<Duration> {
    let pairs = url::form_urlencoded::parse(query?.as_bytes());
    let wait = pairs.into_iter().find(|(name, _)| name == "wait")?;
    let secs: u64 = wait.1.parse().ok()?;
    (secs <= WAIT_SECS_MAX).then(|| Duration::from_secs(secs))
}

impl Asked {
    /// Reads `?wait=` and `If-None-Match`.
    pub(super) fn read(query: Option<&str>, headers: &HeaderMap) -> Result<Self, ApiError> {
        let named = query.is_some_and(|query| {
            url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "wait")
        });
        let wait = asked_wait(query);
        if named && wait.is_none() {
            let text = format!("wait: must be a whole number of seconds from 0 to {WAIT_SECS_MAX}");
            return Err(ApiError::bad_input(text));
        }
        let known = headers
            .get(header::IF_NONE_MATCH)
            .and_then(|value| value.to_str().ok());
        Ok(Self {
            wait: wait.unwrap_or_default(),
            known: known.map(str::to_owned),
        })
    }

    fn knows(&self, tag: &str) -> bool {
        let known = self.known.as_deref().unwrap_or_default();
        known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag)
    }
}

/// A body as bytes; serializing the contract's structs does not fail.
pub(super) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer could not be written",
        )
    })
}

fn tag_of(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    format!("\"{:016x}\"", hasher.finish())
}

fn answer(body: Vec<u8>, tag: &str) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Looks until there is something that the client does not know yet, or until its time is up.
///
/// `changes` must have been taken before the first look. What is known is answered with 304 when
/// the time is up; nothing at all with 204, at once if the client knows something that is gone.
pub(super) async fn hold<F>(
    web: &Web,
    asked: &Asked,
    mut changes: watch::Receiver<u64>,
    look: impl Fn() -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = Result<Look, ApiError>>,
{
    let until = Instant::now() + asked.wait;
    loop {
        changes.mark_unchanged();
        let found = look().await?;
        let over = web.shutdown.is_cancelled() || until <= Instant::now();
        let again = match found {
            Look::Body(body) | Look::Empty(body) if asked.known.is_some() => {
                let tag = tag_of(&body);
                if !asked.knows(&tag) {
                    return Ok(answer(body, &tag));
                }
                if over {
                    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("*"));
                    return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
                }
                None
            }
            Look::Body(body) => return Ok(answer(body.clone(), &tag_of(&body))),
            Look::Empty(body) if over => return Ok(answer(body.clone(), &tag_of(&body))),
            Look::Empty(_) => None,
            Look::Nothing(_) if over || asked.known.is_some() => {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            Look::Nothing(again) => again,
        };
        let next = again.map_or(until, |again| until.min(Instant::now() + again));
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep_until(next) => {}
            () = web.shutdown.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_bounded_and_must_be_a_number() {
        let read = |query: &str| Asked::read(Some(query), &HeaderMap::new());
        assert_eq!(read("wait=60").unwrap().wait, Duration::from_secs(60));
        assert_eq!(read("other=1").unwrap().wait, Duration::ZERO);
        assert!(read("wait=61").is_err());
        assert!(read("wait=soon").is_err());
    }

    #[test]
    fn tags_are_compared_weakly() {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, "\"a\", W/\"b\"".parse().unwrap());
        let asked = Asked::read(None, &headers).unwrap();
        assert!(asked.knows("\"a\"") && asked.knows("\"b\"") && !asked.knows("\"c\""));
    }
}
