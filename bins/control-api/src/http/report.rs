//! What the methods of agents and probers have in common.

use axum::Json;
use civ_proto::{Alive, Registered, ResultsAccepted};

use super::Web;
use super::body::JsonBody;
use super::error::ApiError;

pub(super) type Answered<T> = Result<Json<T>, ApiError>;

/// Looked at after the id of the path: an unknown one is 404 whatever was sent.
pub(super) type Body<T> = Result<JsonBody<T>, ApiError>;

/// The id of a path; what is no name names nothing that is configured.
pub(super) fn named<T, E>(
    what: &str,
    id: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ApiError> {
    parse(id).map_err(|_error| ApiError::not_found(format!("{what} {id:?} is not configured")))
}

/// The answer to `register`.
pub(super) fn registered(web: &Web) -> Json<Registered> {
    Json(Registered {
        ok: true,
        poll_interval_seconds: web.app.timers().poll_interval_seconds,
    })
}

/// The answer to `heartbeat`.
pub(super) const fn alive(registered: bool) -> Json<Alive> {
    Json(Alive {
        ok: true,
        registered,
    })
}

/// The answer to `results`, of which so many were dropped.
pub(super) const fn accepted(stale: u32, warnings: Vec<String>) -> Json<ResultsAccepted> {
    Json(ResultsAccepted {
        ok: true,
        stale,
        warnings,
    })
}
