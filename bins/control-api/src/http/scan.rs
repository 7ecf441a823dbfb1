//! The scan for free floating IPs.

use axum::extract::{RawQuery, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use civ_proto::ErrorBody;
use civ_proto::jobs::{ScanStatus, Scanned};

use super::error::ApiError;
use super::listing::parameters;
use super::query::Scanning;
use super::{Web, view};
use crate::app::Caller;

/// What the query of a scan says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asked {
    dry_run: bool,
    wait: bool,
}

fn truth(name: &str, value: &str) -> Result<bool, ApiError> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(ApiError::bad_input(format!(
            "{name}: {value:?} is not allowed: true or false"
        ))),
    }
}

/// Reads the parameters.
fn asked(raw: &str) -> Result<Asked, ApiError> {
    let mut asked = Asked::default();
    for (name, value) in parameters(raw) {
        match name.as_ref() {
            "dry_run" => asked.dry_run = truth("dry_run", &value)?,
            "wait" => asked.wait = truth("wait", &value)?,
            _ => {}
        }
    }
    Ok(asked)
}

/// Whether a request is one that waits for the end of a scan, however long that takes.
pub(super) fn waits_for_its_end(request: &Request) -> bool {
    let uri = request.uri();
    request.method() == Method::POST
        && uri.path() == "/api/v1/admin/ips/scan"
        && asked(uri.query().unwrap_or_default()).is_ok_and(|asked| asked.wait)
}

/// How far the scan is
///
/// The scan for free floating IPs that is under way, or the last one of this process.
#[utoipa::path(
    get, path = "/admin/ips/scan", tag = "automation", operation_id = "scan_status",
    responses((status = 200, description = "How far it is, or how it ended.", body = ScanStatus))
)]
pub(super) async fn status(State(web): State<Web>) -> Json<ScanStatus> {
    Json(view::scan(&web.app.scan_status()))
}

/// Scan for free floating IPs
///
/// Joins the scan that is under way, whatever that was begun with.
#[utoipa::path(
    post, path = "/admin/ips/scan", tag = "automation", operation_id = "scan_start",
    params(Scanning),
    responses(
        (status = 200, description = "With `wait`: what it has found and enqueued.",
            body = Scanned),
        (status = 202, description = "Without `wait`: it is under way.", body = ScanStatus),
        (status = 502, description = "With `wait`: the cloud failed.", body = ErrorBody),
    )
)]
pub(super) async fn start(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let asked = asked(raw.as_deref().unwrap_or_default())?;
    if web.shutdown.is_cancelled() {
        return Err(ApiError::unavailable("control-api is about to end"));
    }
    let job = web.app.scan_begin(&caller, asked.dry_run).await?;
    if !asked.wait {
        return Ok((StatusCode::ACCEPTED, Json(view::scan(&job.scan()))).into_response());
    }
    tokio::select! {
        outcome = web.app.scan_outcome(&job) => Ok(Json(view::scanned(&outcome?)).into_response()),
        () = web.shutdown.cancelled() => Err(ApiError::unavailable(
            "control-api ends before the scan does: ask again once it is back",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_true_false_or_refused() {
        let read = |raw: &str| asked(raw).map(|asked| (asked.dry_run, asked.wait)).ok();
        assert_eq!(read("dry_run=true&wait=1"), Some((true, true)));
        assert_eq!(read("dry_run=&wait=false&other=5"), Some((false, false)));
        assert_eq!(read("wait=60"), None);
        assert_eq!(read("dry_run=yes"), None);
    }
}
