//! Whether the process lives, and whether it is fit for work.

use axum::Json;
use axum::extract::State;
use civ_proto::Ok as Done;

use super::Web;
use super::error::ApiError;

pub(super) async fn healthz() -> Json<Done> {
    Json(Done::YES)
}

pub(super) async fn readyz(State(web): State<Web>) -> Result<Json<Done>, ApiError> {
    if web.shutdown.is_cancelled() {
        return Err(ApiError::unavailable("control-api is about to end"));
    }
    web.app.ready().await?;
    Ok(Json(Done::YES))
}
