//! Methods under `/admin/config`: what is validated by whom, and what is checked.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use civ_proto::config::{
    CheckTypeBody, CheckTypeEntry, InboundChecks, InboundChecksBody, NewValidator, Orchestrator,
    OrchestratorChange, SiteEntry, SiteName, TargetGroup, Targets, ValidatorEntry, ValidatorPort,
};
use civ_proto::{ErrorBody, Ok as Done};
use civ_types::{IdError, PortId, SiteId, ValidatorId};

use super::body::JsonBody;
use super::error::ApiError;
use super::path::Segment;
use super::query::{EgressCheck, GroupName};
use super::{Web, view};
use crate::app::{Caller, config};

type Answered<T> = Result<Json<T>, ApiError>;

/// A name of a body; the text of a refusal says which field it is.
fn name<T>(
    field: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, IdError>,
) -> Result<T, ApiError> {
    parse(text)
        .map_err(|error| ApiError::bad_input(format!("{field}: {text:?} is not allowed: {error}")))
}

/// The validator of the path: what is no name is not configured either.
fn validator(id: &str) -> Result<ValidatorId, ApiError> {
    let unknown = |_error| ApiError::not_found(format!("validator {id:?} is not configured"));
    ValidatorId::parse(id).map_err(unknown)
}

/// The configured validators
///
/// In order of name.
#[utoipa::path(
    get, path = "/admin/config/validators", tag = "configuration",
    operation_id = "config_validators",
    responses((status = 200, description = "The validators.", body = Vec<ValidatorEntry>))
)]
pub(super) async fn validators(State(web): State<Web>) -> Answered<Vec<ValidatorEntry>> {
    let list = web.app.validators().await?;
    Ok(Json(list.iter().map(view::validator_entry).collect()))
}

/// Add a validator
#[utoipa::path(
    post, path = "/admin/config/validators", tag = "configuration",
    operation_id = "config_validator_add",
    request_body = NewValidator,
    responses(
        (status = 201, description = "Added.", body = Done),
        (status = 409, description = "The name exists, or the port is another validator's.",
            body = ErrorBody),
    )
)]
pub(super) async fn add_validator(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<NewValidator>,
) -> Result<(StatusCode, Json<Done>), ApiError> {
    let id = name("validator_id", &body.validator_id, ValidatorId::parse)?;
    let port = name("os_port_id", &body.os_port_id, PortId::parse)?;
    web.app.config_validator_add(&caller, id, port).await?;
    Ok((StatusCode::CREATED, Json(Done::YES)))
}

/// Give a validator another port
///
/// From its next claim on.
#[utoipa::path(
    put, path = "/admin/config/validators/{id}", tag = "configuration",
    operation_id = "config_validator_set",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    request_body = ValidatorPort,
    responses(
        (status = 200, description = "Changed.", body = Done),
        (status = 409, description = "The port is another validator's.",
            body = ErrorBody),
    )
)]
pub(super) async fn set_validator(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    JsonBody(body): JsonBody<ValidatorPort>,
) -> Answered<Done> {
    let id = validator(&id)?;
    let port = name("os_port_id", &body.os_port_id, PortId::parse)?;
    web.app.config_validator_set(&caller, id, port).await?;
    Ok(Json(Done::YES))
}

/// Take a validator out of the configuration
#[utoipa::path(
    delete, path = "/admin/config/validators/{id}", tag = "configuration",
    operation_id = "config_validator_delete",
    params(("id" = String, Path, description = "`validator_id`", example = "validator_01")),
    responses(
        (status = 200, description = "Gone.", body = Done),
        (status = 409, description = "It owns an address, or its last release is pending.",
            body = ErrorBody),
    )
)]
pub(super) async fn delete_validator(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
) -> Answered<Done> {
    let id = validator(&id)?;
    web.app.config_validator_delete(&caller, id).await?;
    Ok(Json(Done::YES))
}

/// The sites
///
/// In order of slot.
#[utoipa::path(
    get, path = "/admin/config/sites", tag = "configuration",
    operation_id = "config_sites",
    responses((status = 200, description = "The sites.", body = Vec<SiteEntry>))
)]
pub(super) async fn sites(State(web): State<Web>) -> Answered<Vec<SiteEntry>> {
    let list = web.app.sites().await?;
    Ok(Json(list.iter().map(view::site_entry).collect()))
}

/// Put a site into a slot
///
/// Always a new identity, even with the same name.
#[utoipa::path(
    put, path = "/admin/config/sites/{index}", tag = "configuration",
    operation_id = "config_site_set",
    params(("index" = i64, Path, minimum = 1, description = "The slot", example = 1)),
    request_body = SiteName,
    responses(
        (status = 200, description = "It stands there.", body = Done),
        (status = 409, description = "The name stands in another slot.",
            body = ErrorBody),
    )
)]
pub(super) async fn set_site(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(index): Segment,
    JsonBody(body): JsonBody<SiteName>,
) -> Answered<Done> {
    let slot = index.parse().map_err(|_error| {
        let allowed = "a whole number from 1";
        ApiError::bad_input(format!("index: {index:?} is not allowed: {allowed}"))
    })?;
    let site = name("site_id", &body.site_id, SiteId::parse)?;
    web.app.config_site_set(&caller, slot, site).await?;
    Ok(Json(Done::YES))
}

/// Empty a slot
#[utoipa::path(
    delete, path = "/admin/config/sites/{index}", tag = "configuration",
    operation_id = "config_site_delete",
    params(("index" = i64, Path, minimum = 1, description = "The slot", example = 1)),
    responses((status = 200, description = "Empty.", body = Done))
)]
pub(super) async fn delete_site(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(index): Segment,
) -> Answered<Done> {
    let unknown = |_error| ApiError::not_found(format!("no site stands in slot {index:?}"));
    let slot = index.parse().map_err(unknown)?;
    web.app.config_site_delete(&caller, slot).await?;
    Ok(Json(Done::YES))
}

/// The target groups
///
/// In order of name.
#[utoipa::path(
    get, path = "/admin/config/targets", tag = "configuration",
    operation_id = "config_targets",
    responses((status = 200, description = "The target groups.", body = Vec<TargetGroup>))
)]
pub(super) async fn targets(State(web): State<Web>) -> Answered<Vec<TargetGroup>> {
    let list = web.app.config_targets().await?;
    let group = |group: config::TargetGroup| TargetGroup {
        name: group.name,
        targets: group.targets,
    };
    Ok(Json(list.into_iter().map(group).collect()))
}

/// Add a target group or replace its targets
#[utoipa::path(
    put, path = "/admin/config/targets/{group}", tag = "configuration",
    operation_id = "config_targets_set",
    params(("group" = inline(GroupName), Path, description = "Its name", example = "web")),
    request_body = Targets,
    responses((status = 200, description = "Set.", body = Done))
)]
pub(super) async fn set_targets(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(group): Segment,
    JsonBody(body): JsonBody<Targets>,
) -> Answered<Done> {
    let list = body.targets;
    web.app.config_targets_set(&caller, group, list).await?;
    Ok(Json(Done::YES))
}

/// Remove a target group
#[utoipa::path(
    delete, path = "/admin/config/targets/{group}", tag = "configuration",
    operation_id = "config_targets_delete",
    params(("group" = String, Path, description = "Its name", example = "web")),
    responses(
        (status = 200, description = "Gone.", body = Done),
        (status = 409, description = "A check type refers to it.",
            body = ErrorBody),
    )
)]
pub(super) async fn delete_targets(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(group): Segment,
) -> Answered<Done> {
    web.app.config_targets_delete(&caller, group).await?;
    Ok(Json(Done::YES))
}

/// The check types
///
/// In order of name.
#[utoipa::path(
    get, path = "/admin/config/check-types", tag = "configuration",
    operation_id = "config_check_types",
    responses((status = 200, description = "The check types.", body = Vec<CheckTypeEntry>))
)]
pub(super) async fn check_types(State(web): State<Web>) -> Answered<Vec<CheckTypeEntry>> {
    let list = web.app.config_check_types().await?;
    let list = list.into_iter().map(view::check_type_entry);
    Ok(Json(list.collect::<Result<_, _>>()?))
}

/// Add a check type or replace it
///
/// Every group that it names must exist.
#[utoipa::path(
    put, path = "/admin/config/check-types/{name}", tag = "configuration",
    operation_id = "config_check_type_set",
    params(("name" = inline(EgressCheck), Path, description = "The check type")),
    request_body = CheckTypeBody,
    responses((status = 200, description = "Set.", body = Done))
)]
pub(super) async fn set_check_type(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    JsonBody(body): JsonBody<CheckTypeBody>,
) -> Answered<Done> {
    let new = config::NewCheckType {
        enabled: body.enabled,
        groups: body.targets,
        options: body.options,
    };
    web.app.config_check_type_set(&caller, &name, new).await?;
    Ok(Json(Done::YES))
}

/// Remove a check type
#[utoipa::path(
    delete, path = "/admin/config/check-types/{name}", tag = "configuration",
    operation_id = "config_check_type_delete",
    params(("name" = String, Path, description = "The check type", example = "https")),
    responses((status = 200, description = "Gone.", body = Done))
)]
pub(super) async fn delete_check_type(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
) -> Answered<Done> {
    web.app.config_check_type_delete(&caller, &name).await?;
    Ok(Json(Done::YES))
}

/// The settle pause and the depth of the history
#[utoipa::path(
    get, path = "/admin/config/orchestrator", tag = "configuration",
    operation_id = "config_orchestrator",
    responses((status = 200, description = "As it is.", body = Orchestrator))
)]
pub(super) async fn orchestrator(State(web): State<Web>) -> Answered<Orchestrator> {
    let told = web.app.config_orchestrator().await?;
    Ok(Json(Orchestrator {
        fip_settle_seconds: told.fip_settle_seconds,
        history_retention_cycles: told.history_retention_cycles,
    }))
}

/// Change the settle pause and the depth of the history
///
/// What is left out stays as it is.
#[utoipa::path(
    put, path = "/admin/config/orchestrator", tag = "configuration",
    operation_id = "config_orchestrator_set",
    request_body = OrchestratorChange,
    responses((status = 200, description = "Changed.", body = Done))
)]
pub(super) async fn set_orchestrator(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<OrchestratorChange>,
) -> Answered<Done> {
    let change = config::OrchestratorChange {
        fip_settle_seconds: body.fip_settle_seconds,
        history_retention_cycles: body.history_retention_cycles,
    };
    web.app.config_orchestrator_set(&caller, change).await?;
    Ok(Json(Done::YES))
}

/// What every site checks of every address
#[utoipa::path(
    get, path = "/admin/config/inbound-checks", tag = "configuration",
    operation_id = "config_inbound_checks",
    responses((status = 200, description = "As it is.", body = InboundChecks))
)]
pub(super) async fn inbound_checks(State(web): State<Web>) -> Answered<InboundChecks> {
    let config::Inbound {
        ports,
        closed_ports,
        icmp,
    } = web.app.config_inbound().await?;
    Ok(Json(InboundChecks {
        ports,
        icmp,
        closed_ports,
    }))
}

/// Change what every site checks of every address
///
/// Also of those that are being checked.
#[utoipa::path(
    put, path = "/admin/config/inbound-checks", tag = "configuration",
    operation_id = "config_inbound_checks_set",
    request_body = InboundChecksBody,
    responses((status = 200, description = "Changed.", body = Done))
)]
pub(super) async fn set_inbound_checks(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<InboundChecksBody>,
) -> Answered<Done> {
    let change = config::InboundChange {
        ports: body.ports,
        closed_ports: body.closed_ports,
        icmp: body.icmp,
    };
    web.app.config_inbound_set(&caller, change).await?;
    Ok(Json(Done::YES))
}
