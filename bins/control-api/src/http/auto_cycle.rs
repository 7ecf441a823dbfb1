//! The auto-cycle: clear, scan, wait for the checks, pause, again.

use axum::extract::State;
use axum::{Extension, Json};
use civ_proto::jobs::{AutoCycle, AutoCycleChange};

use super::body::JsonBody;
use super::error::ApiError;
use super::{Web, view};
use crate::app::Caller;

type Answered = Result<Json<AutoCycle>, ApiError>;

/// The auto-cycle
///
/// Its parameters, where it is, how its last round ended.
#[utoipa::path(
    get, path = "/admin/auto-cycle", tag = "automation",
    operation_id = "auto_cycle",
    responses((status = 200, description = "As it is now.", body = AutoCycle))
)]
pub(super) async fn status(State(web): State<Web>) -> Answered {
    Ok(Json(view::auto_cycle(&web.app.auto_cycle().await?)))
}

/// Change the auto-cycle
///
/// What is left out stays as it is.
#[utoipa::path(
    put, path = "/admin/auto-cycle", tag = "automation",
    operation_id = "auto_cycle_change",
    request_body = AutoCycleChange,
    responses((status = 200, description = "As it is now.", body = AutoCycle))
)]
pub(super) async fn change(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<AutoCycleChange>,
) -> Answered {
    let (interval, max_run) = (body.interval_seconds, body.max_run_seconds);
    let cycle = web
        .app
        .auto_cycle_change(&caller, interval, max_run)
        .await?;
    Ok(Json(view::auto_cycle(&cycle)))
}

/// Turn the auto-cycle on
///
/// One that is on goes on where it is.
#[utoipa::path(
    post, path = "/admin/auto-cycle/start", tag = "automation",
    operation_id = "auto_cycle_start",
    responses((status = 200, description = "As it is now.", body = AutoCycle))
)]
pub(super) async fn start(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
) -> Answered {
    let cycle = web.app.auto_cycle_start(&caller).await?;
    Ok(Json(view::auto_cycle(&cycle)))
}

/// Turn the auto-cycle off
///
/// Checks that are under way go on.
#[utoipa::path(
    post, path = "/admin/auto-cycle/stop", tag = "automation",
    operation_id = "auto_cycle_stop",
    responses((status = 200, description = "As it is now.", body = AutoCycle))
)]
pub(super) async fn stop(State(web): State<Web>, Extension(caller): Extension<Caller>) -> Answered {
    let cycle = web.app.auto_cycle_stop(&caller).await?;
    Ok(Json(view::auto_cycle(&cycle)))
}
