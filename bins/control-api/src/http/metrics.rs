//! The text for Prometheus, and the count of each answer.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Web;
use super::error::ApiError;

/// Numbers for Prometheus
///
/// Its cost does not depend on the length of the queue or the registry.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses((
        status = 200, description = "OpenMetrics 1.0.",
        content_type = "application/openmetrics-text", body = String,
    ))
)]
pub(super) async fn metrics(State(web): State<Web>) -> Result<Response, ApiError> {
    let text = web.app.metrics_text().await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = HeaderValue::from_static(kind);
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Counts the answer by its route.
pub(super) async fn counted(State(web): State<Web>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    let status = response.status().as_u16();
    let metrics = web.app.metrics();
    metrics.answered(method.as_str(), route, status, begun.elapsed());
    response
}
