//! What all lists share: how their query is read, the page, the text that is searched for, the
//! result; and the whole list or the page as an answer.

use std::borrow::Cow;
use std::collections::BTreeSet;

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use civ_orch::attempt::Outcome;
use civ_proto::admin::Page;
use serde::Serialize;

use super::error::ApiError;

/// Longest page of a list.
const LIMIT_MAX: u32 = 1_000;

/// Longest text that is searched for, in characters: no address is longer.
const Q_CHARS_MAX: usize = 64;

/// 400 for a parameter.
pub(super) fn bad(field: &str, value: &str, allowed: &str) -> ApiError {
    ApiError::bad_input(format!("{field}: {value:?} is not allowed: {allowed}"))
}

/// A number, or 400.
pub(super) fn number<T: std::str::FromStr>(
    field: &str,
    value: &str,
    allowed: &str,
) -> Result<T, ApiError> {
    value.parse().map_err(|_error| bad(field, value, allowed))
}

/// A whole number that the database can count to.
fn from_zero(field: &str, value: &str) -> Result<u64, ApiError> {
    let allowed = format!("a whole number from 0 to {}", i64::MAX);
    let n: u64 = number(field, value, &allowed)?;
    i64::try_from(n).map_err(|_error| bad(field, value, &allowed))?;
    Ok(n)
}

/// The parameters of a query. One that is there and empty is as good as missing.
pub(super) fn parameters(raw: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(raw.as_bytes()).filter(|(_name, value)| !value.is_empty())
}

/// Refuses a parameter that is given twice: of which value is to count, readers differ.
pub(super) async fn once(request: Request, next: Next) -> Result<Response, ApiError> {
    let raw = request.uri().query().unwrap_or_default();
    if let Some(name) = repeated(raw) {
        let text = format!("{name}: given more than once: it may be given once");
        return Err(ApiError::bad_input(text));
    }
    Ok(next.run(request).await)
}

fn repeated(raw: &str) -> Option<Cow<'_, str>> {
    let mut seen = BTreeSet::new();
    let pairs = url::form_urlencoded::parse(raw.as_bytes());
    let mut names = pairs.map(|(name, _value)| name);
    names.find(|name| !seen.insert(name.clone()))
}

/// Rows at most and rows passed over; `None` for the whole list.
pub(super) type Window = Option<(u32, u64)>;

/// Reads `limit` and `offset`.
pub(super) fn window(raw: &str) -> Result<Window, ApiError> {
    let (mut limit, mut offset) = (None, None);
    for (name, value) in parameters(raw) {
        match name.as_ref() {
            "limit" => {
                let allowed = format!("a whole number from 1 to {LIMIT_MAX}");
                let n: u32 = number("limit", &value, &allowed)?;
                if n == 0 || LIMIT_MAX < n {
                    return Err(bad("limit", &value, &allowed));
                }
                limit = Some(n);
            }
            "offset" => offset = Some(from_zero("offset", &value)?),
            _ => {}
        }
    }
    match (limit, offset) {
        (Some(limit), offset) => Ok(Some((limit, offset.unwrap_or(0)))),
        (None, None) => Ok(None),
        (None, Some(offset)) => Err(bad(
            "offset",
            &offset.to_string(),
            "only together with limit",
        )),
    }
}

/// `q`: a part of the text of an address.
pub(super) fn q(value: &str) -> Result<String, ApiError> {
    if Q_CHARS_MAX < value.chars().count() {
        let allowed = format!("at most {Q_CHARS_MAX} characters");
        return Err(bad("q", value, &allowed));
    }
    Ok(value.trim().to_lowercase())
}

/// A result by its word.
pub(super) fn outcome(field: &str, value: &str) -> Result<Outcome, ApiError> {
    let allowed = Outcome::ALL.map(Outcome::as_str).join(", ");
    Outcome::parse(value).ok_or_else(|| bad(field, value, &allowed))
}

/// The whole list as an array, or its page in an envelope; `total` counts all that were meant.
pub(super) fn answer<T: Serialize>(window: Window, items: Vec<T>, total: u64) -> Response {
    let Some((limit, offset)) = window else {
        return Json(items).into_response();
    };
    Json(Page {
        items,
        total,
        limit,
        offset,
    })
    .into_response()
}
