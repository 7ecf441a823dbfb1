//! The whole route table, in the order of the contract, with the level of each group.

use std::any::Any;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::document::{self, Group};
use super::error::{ApiError, NotFound};
use super::{
    Web, admin, agents, auth, auto_cycle, config, docs, events, export, limits, listing, metrics,
    probers, registry, scan, service,
};
use crate::dashboard;

/// Longest request id of a caller that is taken over, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Methods that are open to agents and probers, and the token that they may have to show.
fn open() -> OpenApiRouter<Web> {
    let routes = OpenApiRouter::default()
        .routes(routes!(agents::register))
        .routes(routes!(agents::heartbeat))
        .routes(routes!(agents::get_assignment))
        .routes(routes!(probers::register))
        .routes(routes!(probers::heartbeat))
        .routes(routes!(probers::get_assignments));
    document::group(routes, Group::Open)
}

/// Writes of agents and probers.
fn agent() -> OpenApiRouter<Web> {
    let routes = OpenApiRouter::default()
        .routes(routes!(agents::self_check))
        .routes(routes!(agents::events))
        .routes(routes!(agents::results))
        .routes(routes!(agents::complete))
        .routes(routes!(probers::results))
        .routes(routes!(probers::events));
    document::group(routes, Group::Agent)
}

/// Everything under `/admin`.
fn admin() -> OpenApiRouter<Web> {
    let routes = OpenApiRouter::default()
        .routes(routes!(admin::status))
        .routes(routes!(admin::list, admin::enqueue))
        .routes(routes!(admin::delete_list))
        .routes(routes!(admin::clear))
        .routes(routes!(admin::details, admin::delete))
        .routes(routes!(admin::cancel))
        .routes(routes!(admin::validators))
        .routes(routes!(registry::list))
        .routes(routes!(registry::history))
        .routes(routes!(events::list))
        .routes(routes!(events::stream))
        .routes(routes!(export::registry))
        .routes(routes!(export::checks))
        .merge(configuration())
        .routes(routes!(scan::status, scan::start))
        .routes(routes!(auto_cycle::status, auto_cycle::change))
        .routes(routes!(auto_cycle::start))
        .routes(routes!(auto_cycle::stop));
    document::group(routes, Group::Admin)
}

/// What is changed through the API.
fn configuration() -> OpenApiRouter<Web> {
    OpenApiRouter::default()
        .routes(routes!(config::validators, config::add_validator))
        .routes(routes!(config::set_validator, config::delete_validator))
        .routes(routes!(config::sites))
        .routes(routes!(config::set_site, config::delete_site))
        .routes(routes!(config::targets))
        .routes(routes!(config::set_targets, config::delete_targets))
        .routes(routes!(config::check_types))
        .routes(routes!(config::set_check_type, config::delete_check_type))
        .routes(routes!(config::orchestrator, config::set_orchestrator))
        .routes(routes!(config::inbound_checks, config::set_inbound_checks))
}

/// What needs no token.
fn service() -> OpenApiRouter<Web> {
    let routes = OpenApiRouter::with_openapi(document::base())
        .routes(routes!(service::healthz))
        .routes(routes!(service::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(document::openapi))
        .routes(routes!(docs::page));
    document::group(routes, Group::Service)
}

/// The status page.
fn page() -> OpenApiRouter<Web> {
    document::group(
        OpenApiRouter::default().routes(routes!(dashboard::page)),
        Group::Page,
    )
}

/// The document of all routes.
#[must_use]
pub fn openapi() -> OpenApi {
    let api = OpenApiRouter::default()
        .merge(open())
        .merge(agent())
        .merge(admin());
    let all = service().merge(page()).nest("/api/v1", api);
    document::complete(all.into_openapi())
}

/// All routes.
pub fn router(web: Web) -> Router {
    let open = open()
        .route_layer(from_fn(listing::once))
        .route_layer(from_fn_with_state(web.clone(), auth::open))
        .route_layer(from_fn_with_state(web.clone(), limits::per_client));
    let agent = agent()
        .route_layer(from_fn(listing::once))
        .route_layer(from_fn_with_state(web.clone(), auth::agent));
    let admin = admin()
        .route_layer(from_fn(listing::once))
        .route_layer(from_fn_with_state(web.clone(), auth::admin));
    let mut all = service();
    if web.dashboard {
        all = all.merge(page());
    }
    let (routes, api) = all
        .nest("/api/v1", open.merge(agent).merge(admin))
        .split_for_parts();
    let (served, docs) = document::served(&document::complete(api));
    routes
        .fallback(elsewhere)
        .method_not_allowed_fallback(not_allowed)
        .layer(Extension(served))
        .layer(Extension(docs))
        .layer(from_fn_with_state(web.clone(), auth::admin_area))
        .layer(from_fn_with_state(web.clone(), limits::in_time))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(web.clone(), metrics::counted))
        .layer(from_fn(request_id))
        .with_state(web)
}

/// What has no route; the page of the document is meant with a slash too.
async fn elsewhere(request: Request) -> Response {
    if request.uri().path() == "/docs/" {
        return Redirect::permanent("../docs").into_response();
    }
    NotFound.into_response()
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
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    // The one line for each request; `make fuzz-api` counts them.
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, request_id = ?id, "answered");
    if let Some(id) = id {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn panicking() -> Response {
        panic!("with a secret in it")
    }

    #[tokio::test]
    async fn a_panic_is_500_in_the_shape_of_the_contract_and_says_nothing_of_itself() {
        let routes = Router::new()
            .fallback(panicking)
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn(request_id));
        let answer = routes.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.headers()["x-request-id"].len(), 36);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = "something went wrong inside control-api: the log says what";
        assert_eq!(body, format!("{{\"error\":\"{text}\"}}"));
    }
}
