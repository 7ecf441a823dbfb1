//! Whether the process lives, and whether it is fit for work.

use axum::Json;
use axum::extract::State;
use civ_proto::Ok as Done;

use super::Web;
use super::error::ApiError;

/// The process lives
#[utoipa::path(
    get, path = "/healthz", tag = "service",
    responses((status = 200, description = "It does.", body = Done))
)]
pub(super) async fn healthz() -> Json<Done> {
    Json(Done::YES)
}

/// Fit for work
///
/// The database answers and the orchestrator's loop goes round.
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses((status = 200, description = "It is; 503 says why not.", body = Done))
)]
pub(super) async fn readyz(State(web): State<Web>) -> Result<Json<Done>, ApiError> {
    if web.shutdown.is_cancelled() {
        return Err(ApiError::unavailable("control-api is about to end"));
    }
    web.app.ready().await?;
    Ok(Json(Done::YES))
}
