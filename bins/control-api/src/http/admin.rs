//! Administrative methods: the queue, the status, the validators.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::{Extension, Json};
use civ_orch::attempt::StateName;
use civ_proto::admin::{Addresses, Cleared, Deleted, Enqueued, Removal, Status};
use civ_proto::read_model::{IpDetails, Validator};
use civ_proto::{ErrorBody, Ok as Done};
use civ_types::Address;

use super::body::JsonBody;
use super::error::ApiError;
use super::listing::{answer, bad, outcome, parameters, q, window};
use super::path::Segment;
use super::query::{IpsListed, Listing};
use super::{Web, view};
use crate::app::Caller;
use crate::app::ips::Query;

type Answered<T> = Result<Json<T>, ApiError>;

/// Counts of the whole queue
#[utoipa::path(
    get, path = "/admin/status", tag = "queue",
    responses((status = 200, description = "Counts.", body = Status))
)]
pub(super) async fn status(State(web): State<Web>) -> Answered<Status> {
    Ok(Json(view::status(
        web.app.counts().await?,
        web.app.backups(),
    )))
}

/// All validators
#[utoipa::path(
    get, path = "/admin/validators", tag = "queue",
    responses((status = 200, description = "In order of their ids.", body = Vec<Validator>))
)]
pub(super) async fn validators(State(web): State<Web>) -> Answered<Vec<Validator>> {
    let list = web.app.validators().await?;
    Ok(Json(list.iter().map(view::validator).collect()))
}

fn states(value: &str) -> Result<Vec<StateName>, ApiError> {
    let all = StateName::ALL.map(StateName::as_str).join(", ");
    let one = |word: &str| {
        let allowed = format!("one or several of {all}, separated by commas");
        StateName::parse(word.trim()).ok_or_else(|| bad("state", word, &allowed))
    };
    value.split(',').map(one).collect()
}

/// Reads the parameters of the list.
fn query(raw: &str) -> Result<Query, ApiError> {
    let mut query = Query {
        window: window(raw)?,
        ..Query::default()
    };
    for (name, value) in parameters(raw) {
        match name.as_ref() {
            "state" => query.states = states(&value)?,
            "q" => query.q = Some(q(&value)?),
            "result" => query.result = Some(outcome("result", &value)?),
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
    Ok(query)
}

/// The queue
///
/// Without `limit` the whole list, as an array; with it one page in an envelope.
#[utoipa::path(
    get, path = "/admin/ips", tag = "queue", operation_id = "ips_list",
    params(Listing),
    responses((status = 200, description = "The list, or one page of it.", body = IpsListed))
)]
pub(super) async fn list(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let query = query(raw.as_deref().unwrap_or_default())?;
    let window = query.window;
    let listed = web.app.ips_list(query).await?;
    let items: Vec<_> = listed.items.iter().map(view::ip).collect();
    Ok(answer(window, items, listed.total))
}

/// Enqueue addresses
///
/// One transaction, in list order. Prefixes and ranges are expanded, at most 65,536 addresses a
/// call.
#[utoipa::path(
    post, path = "/admin/ips", tag = "queue", operation_id = "ips_enqueue",
    request_body = Addresses,
    responses((status = 200, description = "What became of each address.", body = Enqueued))
)]
pub(super) async fn enqueue(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<Addresses>,
) -> Answered<Enqueued> {
    let done = web.app.ips_enqueue(&caller, &body.addresses).await?;
    Ok(Json(view::enqueued(&done)))
}

/// The address of the path: what is none is not in the queue either.
fn address(text: &str) -> Result<Address, ApiError> {
    Address::parse(text).map_err(|error| ApiError::not_found(error.to_string()))
}

/// One address
///
/// Checks of the current attempt, all events of the address.
#[utoipa::path(
    get, path = "/admin/ips/{ip}", tag = "queue", operation_id = "ips_details",
    params(("ip" = String, Path, description = "The address", example = "203.0.113.10")),
    responses((status = 200, description = "The address.", body = IpDetails))
)]
pub(super) async fn details(State(web): State<Web>, Segment(ip): Segment) -> Answered<IpDetails> {
    let found = web.app.ips_details(address(&ip)?).await?;
    Ok(Json(view::details(&found)))
}

/// Take an address out of the queue
///
/// From any state; its history stays in the registry.
#[utoipa::path(
    delete, path = "/admin/ips/{ip}", tag = "queue", operation_id = "ips_delete",
    params(("ip" = String, Path, description = "The address", example = "203.0.113.10")),
    responses((status = 200, description = "Gone.", body = Done))
)]
pub(super) async fn delete(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(ip): Segment,
) -> Answered<Done> {
    web.app.ips_delete(&caller, address(&ip)?).await?;
    Ok(Json(Done::YES))
}

/// Break off an address
///
/// To `failed` with the result `cancelled`, at once.
#[utoipa::path(
    post, path = "/admin/ips/{ip}/cancel", tag = "queue", operation_id = "ips_cancel",
    params(("ip" = String, Path, description = "The address", example = "203.0.113.10")),
    responses(
        (status = 200, description = "Broken off.", body = Done),
        (status = 409, description = "It has already ended.", body = ErrorBody),
    )
)]
pub(super) async fn cancel(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(ip): Segment,
) -> Answered<Done> {
    web.app.ips_cancel(&caller, address(&ip)?).await?;
    Ok(Json(Done::YES))
}

/// Take a list of addresses out of the queue
///
/// From any state; what is not there is told. Prefixes and ranges are expanded, at most 65,536
/// addresses a call.
#[utoipa::path(
    post, path = "/admin/ips/delete", tag = "queue", operation_id = "ips_delete_list",
    request_body = Removal,
    responses((status = 200, description = "What became of each address.", body = Deleted))
)]
pub(super) async fn delete_list(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<Removal>,
) -> Answered<Deleted> {
    let done = web.app.ips_delete_list(&caller, &body.addresses).await?;
    Ok(Json(Deleted {
        deleted: view::texts(&done.deleted),
        not_found: done.not_found,
    }))
}

/// Empty the queue
///
/// Takes out what is being checked, too; the history stays in the registry.
#[utoipa::path(
    post, path = "/admin/ips/clear", tag = "queue", operation_id = "ips_clear",
    responses((status = 200, description = "What was in the queue.", body = Cleared))
)]
pub(super) async fn clear(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
) -> Answered<Cleared> {
    let cleared = web.app.ips_clear(&caller).await?;
    Ok(Json(Cleared {
        deleted: view::texts(&cleared),
    }))
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
