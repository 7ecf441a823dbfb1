//! The memory of all addresses ever enqueued.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use civ_proto::registry::RegistryHistory;
use civ_types::Address;

use super::error::ApiError;
use super::listing::{answer, outcome, parameters, q, window};
use super::path::Segment;
use super::query::{RegistryListed, RegistryListing};
use super::{Web, view};
use crate::app::registry::Query;

/// Reads the parameters of the list.
fn query(raw: &str) -> Result<Query, ApiError> {
    let mut query = Query {
        window: window(raw)?,
        ..Query::default()
    };
    for (name, value) in parameters(raw) {
        match name.as_ref() {
            "q" => query.q = Some(q(&value)?),
            "last_result" => query.last_result = Some(outcome("last_result", &value)?),
            _ => {}
        }
    }
    Ok(query)
}

/// Every address ever enqueued
///
/// In order of the text of the address. Without `limit` the whole list, as an array; with it one
/// page in an envelope.
#[utoipa::path(
    get, path = "/admin/registry", tag = "history", operation_id = "registry_list",
    params(RegistryListing),
    responses((status = 200, description = "The list, or one page of it.", body = RegistryListed))
)]
pub(super) async fn list(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let query = query(raw.as_deref().unwrap_or_default())?;
    let window = query.window;
    let listed = web.app.registry_list(query).await?;
    let items: Vec<_> = listed.items.iter().map(view::registry_entry).collect();
    Ok(answer(window, items, listed.total))
}

/// One address and its history
///
/// Results of all cycles that are kept, newest cycle first.
#[utoipa::path(
    get, path = "/admin/registry/{ip}", tag = "history", operation_id = "registry_history",
    params(("ip" = String, Path, description = "The address", example = "203.0.113.10")),
    responses((status = 200, description = "The address.", body = RegistryHistory))
)]
pub(super) async fn history(
    State(web): State<Web>,
    Segment(ip): Segment,
) -> Result<Json<RegistryHistory>, ApiError> {
    let unknown = |_error| ApiError::not_found(format!("{ip:?} was never enqueued"));
    let address = Address::parse(&ip).map_err(unknown)?;
    let found = web.app.registry_history(address).await?;
    Ok(Json(view::registry_history(&found)))
}

#[cfg(test)]
mod tests {
    use civ_orch::attempt::Outcome;

    use super::*;

    #[test]
    fn a_list_is_asked_for_as_the_contract_says() {
        let asked = query("limit=1000&offset=3&q=113&last_result=cancelled").unwrap();
        assert_eq!(asked.window, Some((1000, 3)));
        assert_eq!(asked.q.as_deref(), Some("113"));
        assert_eq!(asked.last_result, Some(Outcome::Cancelled));
        assert_eq!(query("last_result=&q=").unwrap(), Query::default());
        for raw in ["limit=0", "limit=1001", "offset=1", "last_result=done"] {
            assert!(query(raw).is_err(), "{raw}");
        }
    }
}
