//! Methods for prober.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json};
use civ_proto::prober::{Assignment, Identity, Register, Results};
use civ_proto::{Alive, EventReport, Nonce, Ok as Done, Registered, ResultsAccepted};
use civ_types::SiteId;

use super::body::JsonBody;
use super::error::ApiError;
use super::path::Segment;
use super::poll::{self, Asked, Look};
use super::report::{self, Answered, Body};
use super::server::PeerNames;
use super::{Web, auth, intake};
use crate::app::probers::{Proof, SiteAssignments};

/// The site of the path.
fn named(id: &str) -> Result<SiteId, ApiError> {
    report::named("site", id, SiteId::parse)
}

/// The site of the path, whose prober is alive.
async fn seen(web: &Web, id: &str) -> Result<SiteId, ApiError> {
    let id = named(id)?;
    web.app.prober_seen(&id).await?;
    Ok(id)
}

/// A prober has started
///
/// An `unregistered` or `unreachable` site becomes `idle`. 400 for a site that is not configured.
#[utoipa::path(
    post, path = "/probers/register", tag = "probers", operation_id = "prober_register",
    request_body = Register,
    responses((status = 200, description = "Known.", body = Registered))
)]
pub(super) async fn register(
    State(web): State<Web>,
    headers: HeaderMap,
    names: Option<Extension<PeerNames>>,
    JsonBody(body): JsonBody<Register>,
) -> Answered<Registered> {
    let id = SiteId::parse(&body.site_id)
        .map_err(|error| ApiError::bad_input(format!("site_id: {error}")))?;
    auth::registers(&web, &headers, names.as_deref(), id.as_str())?;
    let hostname = intake::cut(body.hostname.unwrap_or_default());
    let knows = intake::knows(body.capabilities.as_deref());
    web.app.prober_register(&id, hostname, knows).await?;
    Ok(report::registered(&web))
}

/// A sign of life
///
/// Whatever body is sent is ignored.
#[utoipa::path(
    post, path = "/probers/{site_id}/heartbeat", tag = "probers",
    operation_id = "prober_heartbeat",
    params(("site_id" = String, Path, description = "`site_id`", example = "site_01")),
    responses((status = 200, description = "Noted.", body = Alive))
)]
pub(super) async fn heartbeat(State(web): State<Web>, Segment(id): Segment) -> Answered<Alive> {
    let registered = web.app.prober_seen(&named(&id)?).await?;
    Ok(report::alive(registered))
}

fn identity(proof: &Proof) -> Identity {
    Identity {
        validator_id: proof.validator.to_string(),
        nonce: Nonce(proof.nonce.as_str().to_owned()),
        ports: proof.ports.clone(),
    }
}

fn assignments(found: &SiteAssignments) -> Vec<Assignment> {
    let each = |one: &crate::app::probers::SiteAssignment| Assignment {
        ip_id: one.ip.0,
        ip_address: one.address.to_string(),
        ports: found.ports.clone(),
        icmp: found.icmp,
        closed_ports: found.closed_ports.clone(),
        identity: one.proof.as_ref().map(identity),
        attempt_number: one.attempt.0,
        fence: Some(one.fence.0),
        revision: Some(one.revision),
    };
    found.list.iter().map(each).collect()
}

/// Every address that is being checked
///
/// With `wait` the request is held until the list is another one than `If-None-Match` names.
#[utoipa::path(
    get, path = "/probers/{site_id}/assignments", tag = "probers",
    operation_id = "prober_assignments",
    params(
        ("site_id" = String, Path, description = "`site_id`", example = "site_01"),
        ("wait" = Option<u32>, Query, minimum = 0, maximum = 60,
            description = "Seconds to wait for news; without it the answer comes at once."),
        ("If-None-Match" = Option<String>, Header,
            description = "The `ETag` of what is known: the request waits for something else."),
    ),
    responses(
        (status = 200, description = "The list; empty if there is nothing to check.",
            body = Vec<Assignment>,
            headers(("ETag" = String, description = "For `If-None-Match`."))),
        (status = 304, description = "Still what `If-None-Match` names.",
            headers(("ETag" = String, description = "For `If-None-Match`."))),
    )
)]
pub(super) async fn get_assignments(
    State(web): State<Web>,
    Segment(id): Segment,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = seen(&web, &id).await?;
    let asked = Asked::read(query.as_deref(), &headers)?;
    let changes = web.app.hub().watch_sites();
    let look = async || {
        let found = web.app.prober_assignments(&id).await?;
        let body = poll::json(&assignments(&found))?;
        Ok(if found.list.is_empty() {
            Look::Empty(body)
        } else {
            Look::Body(body)
        })
    };
    poll::hold(&web, &asked, changes, look).await
}

/// Results of inbound checks
///
/// `complete: true` on one row says that the site is through with that address. Rows of an address
/// that is not in `checking`, or of another claim, are dropped and counted in `stale`.
#[utoipa::path(
    post, path = "/probers/{site_id}/results", tag = "probers", operation_id = "prober_results",
    params(("site_id" = String, Path, description = "`site_id`", example = "site_01")),
    request_body = Results,
    responses((status = 200, description = "Stored.", body = ResultsAccepted))
)]
pub(super) async fn results(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<Results>,
) -> Answered<ResultsAccepted> {
    let id = seen(&web, &id).await?;
    let JsonBody(body) = body?;
    let (rows, warnings) = intake::inbound(body)?;
    // Each of these warnings is a replaced `checked_at`.
    web.app.metrics().replaced_checked_at(warnings.len());
    let stale = web.app.prober_results(&id, rows).await?;
    Ok(report::accepted(stale, warnings))
}

/// Something happened
///
/// Always recorded.
#[utoipa::path(
    post, path = "/probers/{site_id}/events", tag = "probers", operation_id = "prober_event",
    params(("site_id" = String, Path, description = "`site_id`", example = "site_01")),
    request_body = EventReport,
    responses((status = 200, description = "Recorded.", body = Done))
)]
pub(super) async fn events(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<EventReport>,
) -> Answered<Done> {
    let id = seen(&web, &id).await?;
    let JsonBody(body) = body?;
    web.app.prober_event(&id, intake::event(body)?).await?;
    Ok(Json(Done::YES))
}
