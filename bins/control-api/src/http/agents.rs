//! Methods for validator-agent.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json};
use civ_proto::agent::{
    Assignment, CheckConfig, Complete, Heartbeat, Phase, Register, Results, SelfCheck,
};
use civ_proto::{Alive, EventReport, Nonce, Ok as Done, Registered, ResultsAccepted};
use civ_types::{ClaimNo, IpId, ValidatorId};

use super::body::{JsonBody, MaybeBody};
use super::document::{Stale, Unknown};
use super::error::ApiError;
use super::path::Segment;
use super::poll::{self, Asked, Look};
use super::report::{self, Answered, Body};
use super::server::PeerNames;
use super::{Web, auth, intake};
use crate::app::agents::{self, Answer, SelfCheckReport};

/// The validator of the path.
fn named(id: &str) -> Result<ValidatorId, ApiError> {
    report::named("validator", id, ValidatorId::parse)
}

/// The validator of the path, whose agent reports something.
async fn reports(web: &Web, id: &str) -> Result<ValidatorId, ApiError> {
    let id = named(id)?;
    web.app.agent_reports(&id).await?;
    Ok(id)
}

/// An agent has started
///
/// Idempotent: brings an `unregistered` or `unreachable` validator back and takes no address away.
/// 404 for an id that is not configured.
#[utoipa::path(
    post, path = "/agents/register", tag = "agents", operation_id = "agent_register",
    request_body = Register,
    responses((status = 200, description = "Known.", body = Registered), Unknown)
)]
pub(super) async fn register(
    State(web): State<Web>,
    headers: HeaderMap,
    names: Option<Extension<PeerNames>>,
    JsonBody(body): JsonBody<Register>,
) -> Answered<Registered> {
    let id = ValidatorId::parse(&body.validator_id)
        .map_err(|error| ApiError::bad_input(format!("validator_id: {error}")))?;
    auth::registers(&web, &headers, names.as_deref(), id.as_str())?;
    let agent = agents::Introduction {
        hostname: intake::cut(body.hostname.unwrap_or_default()),
        version: intake::cut(body.agent_version.unwrap_or_default()),
        responder: intake::responder(body.capabilities.as_deref(), body.responder_ports)?,
    };
    web.app.agent_register(&id, agent).await?;
    Ok(report::registered(&web))
}

/// A sign of life
///
/// Brings an `unreachable` validator back. The body may be missing.
#[utoipa::path(
    post, path = "/agents/{id}/heartbeat", tag = "agents", operation_id = "agent_heartbeat",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = Option<Heartbeat>,
    responses((status = 200, description = "Noted.", body = Alive))
)]
pub(super) async fn heartbeat(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Result<MaybeBody<Heartbeat>, ApiError>,
) -> Answered<Alive> {
    let registered = web.app.agent_seen(&named(&id)?).await?;
    let MaybeBody(_informational) = body?;
    Ok(report::alive(registered))
}

fn assignment(work: agents::Assignment) -> Result<Assignment, ApiError> {
    let check = |(name, targets, options): (civ_types::CheckName, _, Option<String>)| {
        let options = options.map(|text| serde_json::from_str(&text)).transpose();
        let options = options.map_err(|error| {
            tracing::error!(check_type = %name, %error, "stored options are not JSON");
            ApiError::unavailable(format!("the options of check type {name} cannot be read"))
        })?;
        Ok::<_, ApiError>(CheckConfig {
            check_type: name.to_string(),
            targets,
            options,
        })
    };
    Ok(Assignment {
        ip_id: work.ip.0,
        ip_address: work.address.to_string(),
        phase: if work.checking {
            Phase::Checking
        } else {
            Phase::AwaitingSelfCheck
        },
        check_config: work
            .checks
            .into_iter()
            .map(check)
            .collect::<Result<_, _>>()?,
        attempt_number: work.attempt.0,
        fence: Some(work.fence.0),
        revision: Some(work.revision),
        nonce: work.nonce.map(|nonce| Nonce(nonce.as_str().to_owned())),
    })
}

/// What the validator is to do
///
/// With `wait` the request is held until there is something to say that the agent does not know
/// yet.
#[utoipa::path(
    get, path = "/agents/{id}/assignment", tag = "agents", operation_id = "agent_assignment",
    params(
        ("id" = String, Path, description = "`validator_id`", example = "validator_01"),
        ("wait" = Option<u32>, Query, minimum = 0, maximum = 60,
            description = "Seconds to wait for news; without it the answer comes at once."),
        ("If-None-Match" = Option<String>, Header,
            description = "The `ETag` of what is known: the request waits for something else."),
    ),
    responses(
        (status = 200, description = "Something to do.", body = Assignment,
            headers(("ETag" = String, description = "For `If-None-Match`."))),
        (status = 204, description = "Nothing to do, also while a fresh floating IP settles."),
        (status = 304, description = "Still what `If-None-Match` names.",
            headers(("ETag" = String, description = "For `If-None-Match`."))),
    )
)]
pub(super) async fn get_assignment(
    State(web): State<Web>,
    Segment(id): Segment,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = named(&id)?;
    web.app.agent_seen(&id).await?;
    let asked = Asked::read(query.as_deref(), &headers)?;
    let changes = web.app.hub().watch_validator(&id);
    let look = async || {
        Ok(match web.app.agent_assignment(&id).await? {
            Answer::Nothing => Look::Nothing(None),
            Answer::Settling(rest) => Look::Nothing(Some(rest)),
            Answer::Work(work) => Look::Body(poll::json(&assignment(work)?)?),
        })
    };
    poll::hold(&web, &asked, changes, look).await
}

/// The self-check, as the agent judges it
///
/// After `success: false` control-api decides: another try, or `failed`.
#[utoipa::path(
    post, path = "/agents/{id}/self-check", tag = "agents", operation_id = "agent_self_check",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = SelfCheck,
    responses((status = 200, description = "Noted.", body = Done), Stale)
)]
pub(super) async fn self_check(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<SelfCheck>,
) -> Answered<Done> {
    let id = reports(&web, &id).await?;
    let JsonBody(body) = body?;
    let report = SelfCheckReport {
        ip: IpId(body.ip_id),
        fence: body.fence.map(ClaimNo),
        success: body.success,
        detected: body.detected_egress_ip.map(intake::cut),
        detail: intake::cut(body.detail.unwrap_or_default()),
    };
    web.app.agent_self_check(&id, report).await?;
    Ok(Json(Done::YES))
}

/// Something happened
///
/// Always recorded.
#[utoipa::path(
    post, path = "/agents/{id}/events", tag = "agents", operation_id = "agent_event",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = EventReport,
    responses((status = 200, description = "Recorded.", body = Done))
)]
pub(super) async fn events(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<EventReport>,
) -> Answered<Done> {
    let id = reports(&web, &id).await?;
    let JsonBody(body) = body?;
    web.app.agent_event(&id, intake::event(body)?).await?;
    Ok(Json(Done::YES))
}

/// Results of egress checks
///
/// A later result of the same check of the same attempt replaces the earlier one. Rows of an
/// address that is not (or no longer) this validator's are dropped and counted in `stale`.
#[utoipa::path(
    post, path = "/agents/{id}/results", tag = "agents", operation_id = "agent_results",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = Results,
    responses((status = 200, description = "Stored.", body = ResultsAccepted))
)]
pub(super) async fn results(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<Results>,
) -> Answered<ResultsAccepted> {
    let id = reports(&web, &id).await?;
    let JsonBody(body) = body?;
    let (rows, warnings) = intake::egress(body)?;
    // Each of these warnings is a replaced `checked_at`.
    web.app.metrics().replaced_checked_at(warnings.len());
    let stale = web.app.agent_results(&id, rows).await?;
    Ok(report::accepted(stale, warnings))
}

/// The agent is through with all its checks
#[utoipa::path(
    post, path = "/agents/{id}/complete", tag = "agents", operation_id = "agent_complete",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = Complete,
    responses((status = 200, description = "Noted.", body = Done), Stale)
)]
pub(super) async fn complete(
    State(web): State<Web>,
    Segment(id): Segment,
    body: Body<Complete>,
) -> Answered<Done> {
    let id = reports(&web, &id).await?;
    let JsonBody(body) = body?;
    web.app
        .agent_complete(
            &id,
            IpId(body.ip_id),
            body.fence.map(ClaimNo),
            body.revision,
        )
        .await?;
    Ok(Json(Done::YES))
}
