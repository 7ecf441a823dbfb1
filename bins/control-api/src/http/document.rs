//! The OpenAPI 3.1 document: what is common to all methods, added to what stands at each handler.
//!
//! A handler says its path, its parameters, its body and its own answers. From the group that it
//! is in follow who may call it and what a refusal looks like; from its parameters and its body
//! follow the answers to bad ones. So a handler cannot forget them, and none is told a lie about.

use axum::body::Bytes;
use axum::extract::Extension;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response as Answer};
use civ_proto::ErrorBody;
use civ_proto::export::{CheckLine, RegistryLine};
use utoipa::openapi::path::{Operation, Parameter, ParameterStyle, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Content, Header, Info, License, OpenApi, OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder,
    SecurityRequirement, Tag,
};
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;

use super::Web;
use super::docs::Docs;

/// Names of the security schemes.
const ADMIN: &str = "admin";
const AGENT: &str = "agent";
const PAGE: &str = "page";
const CERTIFICATE: &str = "certificate";

/// Who may call the methods of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Everybody, always.
    Service,
    /// Everybody; the agent token is asked for too if `auth.protect_open_methods` says so.
    Open,
    /// Agents and probers.
    Agent,
    /// Administrators.
    Admin,
    /// Administrators, with the token as the password of a browser's log-in.
    Page,
}

/// Status, name among the components, description of each common refusal.
const REFUSALS: [(&str, &str, &str); 7] = [
    (
        "400",
        "BadInput",
        "The text names the field, its value and what is allowed.",
    ),
    (
        "401",
        "Unauthorized",
        "The token of this group is missing or is another one.",
    ),
    ("404", "NotFound", "What the path names is not known."),
    (
        "413",
        "TooLarge",
        "The body is larger than `server.body_limit_bytes`.",
    ),
    (
        "429",
        "TooMany",
        "This client makes too many requests: `server.open_requests_per_second`.",
    ),
    (
        "500",
        "Broken",
        "Something went wrong inside control-api; its log says what.",
    ),
    (
        "503",
        "Unavailable",
        "Starting, draining, out of time, or the database is not available: try again.",
    ),
];

/// Tag and description of each group of methods, in the order of the page.
const TAGS: [(&str, &str); 7] = [
    ("agents", "Methods for validator-agent."),
    ("probers", "Methods for prober."),
    (
        "queue",
        "The queue of addresses and the validators that check them.",
    ),
    (
        "configuration",
        "Settings that are effective at once and kept across restarts.",
    ),
    ("history", "What has happened, and what is remembered."),
    (
        "automation",
        "Scanning the cloud and going round by itself.",
    ),
    (
        "service",
        "Whether the process lives, what it serves, and pages for people.",
    ),
];

const ABOUT: &str = "\
Validates public IP addresses of an OpenStack cloud: hands them out to agents and probers, \
collects what they find and judges it.

Bodies are JSON whatever `Content-Type` says. Every error is `{\"error\":\"text\"}`. A method \
that a path does not have is answered with 405 and `Allow`; `HEAD` works wherever `GET` does. \
Unknown fields are ignored in the bodies of agents and probers and refused with 400 in those of \
`/admin`. Times are RFC 3339, UTC. Every answer carries `X-Request-Id`: the caller's, if it sent \
one of 1 to 128 printable ASCII characters, else a new one.";

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
    ]
    .into_iter()
    .filter_map(Option::as_mut)
}

fn refuse(operation: &mut Operation, status: &str) {
    let Some((_, name, _)) = REFUSALS.iter().find(|(known, _, _)| *known == status) else {
        return;
    };
    let responses = &mut operation.responses.responses;
    responses
        .entry(status.to_owned())
        .or_insert_with(|| Ref::from_response_name(*name).into());
}

fn needs(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new(scheme, Vec::<String>::new())
}

fn describe(operation: &mut Operation, group: Group) {
    let security = match group {
        Group::Service => vec![],
        Group::Open => vec![
            SecurityRequirement::default(),
            needs(AGENT),
            needs(CERTIFICATE),
            needs(AGENT).add(CERTIFICATE, Vec::<String>::new()),
        ],
        Group::Agent => vec![
            needs(AGENT),
            needs(AGENT).add(CERTIFICATE, Vec::<String>::new()),
        ],
        Group::Admin => vec![needs(ADMIN)],
        Group::Page => vec![needs(PAGE)],
    };
    if group != Group::Service {
        refuse(operation, "401");
    }
    if group == Group::Open {
        refuse(operation, "429");
    }
    operation.security = Some(security);
    let has = |place: &str| {
        let parameters = operation.parameters.iter().flatten();
        let places = parameters.filter_map(|parameter| match parameter {
            RefOr::T(parameter) => serde_json::to_value(&parameter.parameter_in).ok(),
            RefOr::Ref(_) => None,
        });
        places.into_iter().any(|found| found == place)
    };
    let (path, query) = (has("path"), has("query"));
    if path {
        refuse(operation, "404");
    }
    if query || operation.request_body.is_some() {
        refuse(operation, "400");
    }
    if operation.request_body.is_some() {
        refuse(operation, "413");
    }
    refuse(operation, "500");
    refuse(operation, "503");
}

/// Says of each method of a group who may call it, and how a refusal looks.
pub(super) fn group(mut routes: OpenApiRouter<Web>, group: Group) -> OpenApiRouter<Web> {
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        operations(item).for_each(|operation| describe(operation, group));
    }
    routes
}

fn text_header(about: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    Header::builder()
        .schema(Some(text))
        .description(Some(about))
        .build()
}

fn refusal(status: &str, about: &str) -> Response {
    let content = Content::builder().schema(Some(Ref::from_schema_name(ErrorBody::name())));
    let response = ResponseBuilder::new()
        .description(about)
        .content("application/json", content.build());
    match status {
        "401" => response.header(
            "WWW-Authenticate",
            text_header("The scheme to log in with."),
        ),
        "429" => response.header("Retry-After", text_header("Seconds to wait.")),
        _ => response,
    }
    .build()
}

/// The document before any route is in it.
pub(super) fn base() -> OpenApi {
    let mut info = Info::new("cloud-ip-validator", env!("CARGO_PKG_VERSION"));
    info.description = Some(ABOUT.to_owned());
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    info.license = Some(license);
    let tag = |(name, about): &(&str, &str)| {
        let mut tag = Tag::new(*name);
        tag.description = Some((*about).to_owned());
        tag
    };
    OpenApiBuilder::new()
        .info(info)
        .tags(Some(TAGS.iter().map(tag)))
        .build()
}

/// A parameter is there or not, but never null; lists are separated by commas.
fn plain(parameter: &mut RefOr<Parameter>) {
    let RefOr::T(parameter) = parameter else {
        return;
    };
    match &mut parameter.schema {
        Some(RefOr::T(Schema::Object(object))) => {
            if let SchemaType::Array(types) = &object.schema_type {
                let one = types.iter().find(|kind| **kind != Type::Null).cloned();
                object.schema_type = one.map_or(SchemaType::AnyValue, SchemaType::Type);
            }
        }
        Some(RefOr::T(Schema::Array(_))) => {
            parameter.style = Some(ParameterStyle::Form);
            parameter.explode = Some(false);
        }
        _ => {}
    }
}

/// Adds what all methods have in common.
pub(super) fn complete(mut api: OpenApi) -> OpenApi {
    let bearer = |about: &str| {
        let mut http = Http::new(HttpAuthScheme::Bearer);
        http.description = Some(about.to_owned());
        SecurityScheme::Http(http)
    };
    let mut log_in = Http::new(HttpAuthScheme::Basic);
    log_in.description = Some("The admin token as the password, any user name.".to_owned());
    let components = api.components.get_or_insert_default();
    components.add_security_scheme(ADMIN, bearer("The admin token."));
    components.add_security_scheme(
        AGENT,
        bearer("The token of agents and probers: of all, or of this one alone."),
    );
    let certificate = SecurityScheme::MutualTls {
        description: Some("Names the id, where server.tls.client_ca_file is set.".to_owned()),
        deprecated: None,
        extensions: None,
    };
    components.add_security_scheme(CERTIFICATE, certificate);
    components.add_security_scheme(PAGE, SecurityScheme::Http(log_in));
    components
        .schemas
        .insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    // A line of an export: OpenAPI 3.1 cannot say that a text is made of such.
    let (registry, check) = (RegistryLine::name(), CheckLine::name());
    for (name, schema) in [
        (registry, RegistryLine::schema()),
        (check, CheckLine::schema()),
    ] {
        components.schemas.insert(name.into_owned(), schema);
    }
    let id = || text_header("The caller's request id, or a new one.");
    for (status, name, about) in REFUSALS {
        let mut response = refusal(status, about);
        response
            .headers
            .insert("X-Request-Id".to_owned(), id().into());
        components
            .responses
            .insert(name.to_owned(), response.into());
    }
    for item in api.paths.paths.values_mut() {
        for operation in operations(item) {
            operation.parameters.iter_mut().flatten().for_each(plain);
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    response
                        .headers
                        .insert("X-Request-Id".to_owned(), id().into());
                }
            }
        }
    }
    api
}

/// The document as it is served.
#[derive(Debug, Clone)]
pub(super) struct Served {
    json: Bytes,
}

/// The document as it is served, for programs and for people.
pub(super) fn served(api: &OpenApi) -> (Served, Docs) {
    // The document is made of texts and maps with text keys: writing it cannot fail. Neither can
    // rendering it, into memory and from these.
    let value = serde_json::to_value(api).unwrap_or_default();
    let json = value.to_string().into();
    let page = super::docs::render(&value).unwrap_or_default();
    (Served { json }, Docs(page.into()))
}

/// This document
///
/// Generated from the code that serves it.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object))
)]
pub(super) async fn openapi(Extension(served): Extension<Served>) -> Answer {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], served.json).into_response()
}

/// The answer to a report of another claim.
#[derive(utoipa::IntoResponses)]
#[response(
    status = 409,
    description = "The address is not (or no longer) this validator's, or the report is late."
)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct Stale(ErrorBody);

/// The answer to a name that is not configured.
#[derive(utoipa::IntoResponses)]
#[response(status = 404, description = "The name is not configured.")]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct Unknown(ErrorBody);
