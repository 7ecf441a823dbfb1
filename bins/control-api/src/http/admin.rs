//! Administrative methods: the queue, the status, the validators.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use civ_orch::attempt::{Outcome, StateName};
use civ_proto::Ok as Done;
use civ_proto::admin::{Addresses, Enqueued, Page, Status};
use civ_proto::read_model::{IpDetails, Validator};
use civ_types::Address;

use super::body::JsonBody;
use super::error::ApiError;
use super::path::Segment;
use super::{Web, view};
use crate::app::ips::Query;

type Answered<T> = Result<Json<T>, ApiError>;

/// Longest page of a list.
const LIMIT_MAX: u32 = 1_000;

/// Longest text that is searched for, in bytes: no address is longer.
const Q_BYTES_MAX: usize = 64;

pub(super) async fn status(State(web): State<Web>) -> Answered<Status> {
    Ok(Json(view::status(web.app.counts().await?)))
}

pub(super) async fn validators(State(web): State<Web>) -> Answered<Vec<Validator>> {
    let list = web.app.validators().await?;
    Ok(Json(list.iter().map(view::validator).collect()))
}

fn bad(field: &str, value: &str, allowed: &str) -> ApiError {
    ApiError::bad_input(format!("{field}: {value:?} is not allowed: {allowed}"))
}

fn number<T: std::str::FromStr>(field: &str, value: &str, allowed: &str) -> Result<T, ApiError> {
    value.parse().map_err(|_error| bad(field, value, allowed))
}

fn states(value: &str) -> Result<Vec<StateName>, ApiError> {
    let all = StateName::ALL.map(StateName::as_str).join(", ");
    let one = |word: &str| {
        let allowed = format!("one or several of {all}, separated by commas");
        StateName::parse(word.trim()).ok_or_else(|| bad("state", word, &allowed))
    };
    value.split(',').map(one).collect()
}

/// Reads the parameters of a list. A parameter that is there and empty is as good as missing.
fn query(raw: &str) -> Result<Query, ApiError> {
    let mut query = Query::default();
    let (mut limit, mut offset) = (None, None);
    for (name, value) in url::form_urlencoded::parse(raw.as_bytes()) {
        if value.is_empty() {
            continue;
        }
        match name.as_ref() {
            "limit" => {
                let allowed = format!("a whole number from 1 to {LIMIT_MAX}");
                let n: u32 = number("limit", &value, &allowed)?;
                if n == 0 || LIMIT_MAX < n {
                    return Err(bad("limit", &value, &allowed));
                }
                limit = Some(n);
            }
            "offset" => offset = Some(number::<u64>("offset", &value, "a whole number from 0")?),
            "state" => query.states = states(&value)?,
            "q" if Q_BYTES_MAX < value.len() => {
                return Err(bad("q", &value, &format!("at most {Q_BYTES_MAX} bytes")));
            }
            "q" => query.q = Some(value.trim().to_lowercase()),
            "result" => {
                let allowed = Outcome::ALL.map(Outcome::as_str).join(", ");
                let result = Outcome::parse(&value);
                query.result = Some(result.ok_or_else(|| bad("result", &value, &allowed))?);
            }
            "order" => {
                query.latest_first = match value.as_ref() {
                    "sequence" => false,
                    "aggregated_at_desc" => true,
                    _ => return Err(bad("order", &value, "sequence or aggregated_at_desc")),
                };
            }
            _ => {}
        }
    }
    query.window = match (limit, offset) {
        (Some(limit), offset) => Some((limit, offset.unwrap_or(0))),
        (None, None) => None,
        (None, Some(offset)) => {
            return Err(bad(
                "offset",
                &offset.to_string(),
                "only together with limit",
            ));
        }
    };
    Ok(query)
}

pub(super) async fn list(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let query = query(raw.as_deref().unwrap_or_default())?;
    let window = query.window;
    let listed = web.app.ips_list(query).await?;
    let items: Vec<_> = listed.items.iter().map(view::ip).collect();
    Ok(match window {
        None => Json(items).into_response(),
        Some((limit, offset)) => Json(Page {
            items,
            total: listed.total,
            limit,
            offset,
        })
        .into_response(),
    })
}

pub(super) async fn enqueue(
    State(web): State<Web>,
    JsonBody(body): JsonBody<Addresses>,
) -> Answered<Enqueued> {
    let done = web.app.ips_enqueue(&body.addresses).await?;
    Ok(Json(view::enqueued(&done)))
}

/// The address of the path: what is none is not in the queue either.
fn address(text: &str) -> Result<Address, ApiError> {
    Address::parse(text).map_err(|error| ApiError::not_found(error.to_string()))
}

pub(super) async fn details(State(web): State<Web>, Segment(ip): Segment) -> Answered<IpDetails> {
    let found = web.app.ips_details(address(&ip)?).await?;
    Ok(Json(view::details(&found)))
}

pub(super) async fn delete(State(web): State<Web>, Segment(ip): Segment) -> Answered<Done> {
    web.app.ips_delete(address(&ip)?).await?;
    Ok(Json(Done::YES))
}

pub(super) async fn cancel(State(web): State<Web>, Segment(ip): Segment) -> Answered<Done> {
    web.app.ips_cancel(address(&ip)?).await?;
    Ok(Json(Done::YES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_asked_for_as_the_contract_says() {
        let asked = query("limit=50&offset=10&state=done,failed&q=113&result=pass").unwrap();
        assert_eq!(asked.window, Some((50, 10)));
        assert_eq!(asked.states, [StateName::Done, StateName::Failed]);
        assert_eq!(query("order=aggregated_at_desc").unwrap().window, None);
        assert_eq!(query("").unwrap(), Query::default());
    }

    #[test]
    fn bad_values_are_refused() {
        for raw in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "offset=1",
            "limit=1&offset=-1",
            "state=gone",
            "state=done,",
            "result=occupied",
            "order=random",
        ] {
            assert!(query(raw).is_err(), "{raw}");
        }
    }
}
