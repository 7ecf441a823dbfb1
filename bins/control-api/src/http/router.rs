//! The whole route table, in the order of the contract, with the level of each group.

use std::any::Any;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use super::error::{ApiError, NotFound};
use super::{Web, admin, agents, auth, limits, probers, service};
use crate::dashboard;

/// Longest request id of a caller that is taken over, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// All routes.
pub fn router(web: Web) -> Router {
    let open = Router::new()
        .route("/agents/register", post(agents::register))
        .route("/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/agents/{id}/assignment", get(agents::get_assignment))
        .route("/probers/register", post(probers::register))
        .route("/probers/{site_id}/heartbeat", post(probers::heartbeat))
        .route(
            "/probers/{site_id}/assignments",
            get(probers::get_assignments),
        )
        .route_layer(from_fn_with_state(web.clone(), auth::open))
        .route_layer(from_fn_with_state(web.clone(), limits::per_client));
    let agent = Router::new()
        .route("/agents/{id}/self-check", post(agents::self_check))
        .route("/agents/{id}/events", post(agents::events))
        .route("/agents/{id}/results", post(agents::results))
        .route("/agents/{id}/complete", post(agents::complete))
        .route("/probers/{site_id}/results", post(probers::results))
        .route("/probers/{site_id}/events", post(probers::events))
        .route_layer(from_fn_with_state(web.clone(), auth::agent));
    let admin = Router::new()
        .route("/admin/status", get(admin::status))
        .route("/admin/ips", get(admin::list).post(admin::enqueue))
        .route("/admin/ips/{ip}", get(admin::details).delete(admin::delete))
        .route("/admin/ips/{ip}/cancel", post(admin::cancel))
        .route("/admin/validators", get(admin::validators))
        .route_layer(from_fn_with_state(web.clone(), auth::admin));
    let mut all = Router::new()
        .route("/healthz", get(service::healthz))
        .route("/readyz", get(service::readyz))
        .nest("/api/v1", open.merge(agent).merge(admin));
    if web.dashboard {
        all = all.route("/", get(dashboard::page));
    }
    all.fallback(async || NotFound)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(web.clone(), auth::admin_area))
        .layer(from_fn_with_state(web.clone(), limits::in_time))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(request_id))
        .with_state(web)
}

async fn not_allowed(request: Request) -> ApiError {
    let text = format!(
        "{} is not allowed here: see the header Allow",
        request.method()
    );
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands the panic over"
)]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        panic = text.unwrap_or("without a text"),
        "a handler panicked"
    );
    let text = "something went wrong inside control-api: the log says what";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// The caller's request id if it is a sane one, else a new one, on every response.
async fn request_id(request: Request, next: Next) -> Response {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        !bytes.is_empty()
            && bytes.len() <= REQUEST_ID_BYTES_MAX
            && bytes.iter().all(u8::is_ascii_graphic)
    };
    let id = request.headers().get("x-request-id").filter(sane).cloned();
    let id = id.or_else(|| HeaderValue::from_str(&Uuid::now_v7().to_string()).ok());
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
