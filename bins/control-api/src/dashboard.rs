//! The status page at `/`: server-rendered, without scripts. Calls use cases, never the store.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use civ_orch::attempt::{Outcome, StateName};
use civ_types::Utc;

use crate::app::AppError;
use crate::app::ips::{self, Query};
use crate::app::validators::{Site, Validator};
use crate::http::{ApiError, Level, Web};

/// Addresses and events on the page.
const IPS_SHOWN: u32 = 100;
const EVENTS_SHOWN: u32 = 30;

struct Count {
    word: &'static str,
    n: u64,
}

struct IpLine {
    address: String,
    state: &'static str,
    result: &'static str,
    attempt: i64,
    retries: u32,
    validator: String,
    seconds: String,
    last_error: String,
}

struct EventLine {
    at: String,
    event_type: String,
    severity: String,
    address: String,
    who: String,
    payload: String,
}

#[derive(Template)]
#[template(path = "status.html")]
struct Page {
    now: String,
    paused: Option<String>,
    total: u64,
    states: Vec<Count>,
    results: Vec<Count>,
    validators: Vec<(Validator, String)>,
    sites: Vec<(Site, String)>,
    ips: Vec<IpLine>,
    events: Vec<EventLine>,
}

fn clock_time(moment: Utc) -> String {
    let text = moment.to_string();
    text.get(11..19).unwrap_or(&text).to_owned()
}

fn seen(last: Option<Utc>) -> String {
    last.map_or_else(|| "never".to_owned(), clock_time)
}

fn ip_line(ip: &ips::Ip, now: Utc) -> IpLine {
    let head = &ip.attempt.head;
    let rests = ip.attempt.state.is_terminal();
    let so_far = if rests { ip.updated_at } else { now };
    let end = head
        .stamps
        .released
        .or(head.stamps.aggregated)
        .unwrap_or(so_far);
    let seconds = head
        .stamps
        .assigned
        .map(|from| format!("{:.1}", end.since(from).as_secs_f64()));
    IpLine {
        address: head.address.to_string(),
        state: ip.attempt.state.as_str(),
        result: ip.attempt.outcome().map_or("", Outcome::as_str),
        attempt: head.attempt.0,
        retries: head.retries.assign.saturating_add(head.retries.self_check),
        validator: head
            .place
            .as_ref()
            .map(|p| p.validator.to_string())
            .unwrap_or_default(),
        seconds: seconds.unwrap_or_default(),
        last_error: head.last_error.clone(),
    }
}

fn event_line(event: ips::Event) -> EventLine {
    let validator = event.validator.map(|id| id.to_string());
    EventLine {
        at: clock_time(event.occurred_at),
        event_type: event.event_type,
        severity: event.severity,
        address: event.address.unwrap_or_default(),
        who: validator
            .or(event.site.map(|id| id.to_string()))
            .unwrap_or_default(),
        payload: event.payload,
    }
}

async fn gather(web: &Web) -> Result<Page, AppError> {
    let now = web.app.now();
    let counts = web.app.counts().await?;
    let newest = Query {
        window: Some((IPS_SHOWN, 0)),
        latest_first: true,
        ..Query::default()
    };
    let active = [
        StateName::AssigningFip,
        StateName::AwaitingSelfCheck,
        StateName::Checking,
        StateName::Aggregating,
    ];
    let active = Query {
        states: active.to_vec(),
        ..Query::default()
    };
    let mut shown = web.app.ips_list(active).await?.items;
    let rest = web.app.ips_list(newest).await?.items;
    let known: Vec<_> = shown.iter().map(|ip| ip.attempt.head.ip).collect();
    shown.extend(
        rest.into_iter()
            .filter(|ip| !known.contains(&ip.attempt.head.ip)),
    );
    let events = web.app.events_latest(EVENTS_SHOWN).await?;
    let count = |map: &std::collections::BTreeMap<String, u64>, word: &'static str| Count {
        word,
        n: map.get(word).copied().unwrap_or(0),
    };
    let validators = web.app.validators().await?;
    let sites = web.app.sites().await?;
    Ok(Page {
        now: now.to_string(),
        paused: web.gate.paused_because(),
        total: counts.states.values().sum(),
        states: StateName::ALL
            .map(|name| count(&counts.states, name.as_str()))
            .into(),
        results: Outcome::ALL
            .map(|name| count(&counts.results, name.as_str()))
            .into(),
        validators: validators
            .into_iter()
            .map(|v| (v.clone(), seen(v.last_seen_at)))
            .collect(),
        sites: sites
            .into_iter()
            .map(|s| (s.clone(), seen(s.last_seen_at)))
            .collect(),
        ips: shown.iter().map(|ip| ip_line(ip, now)).collect(),
        events: events.into_iter().map(event_line).collect(),
    })
}

/// The password of `Authorization: Basic` (RFC 7617), which a browser asks its user for.
fn password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = BASE64.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':')
        .map(|(_user, password)| password.to_owned())
}

/// The status page
///
/// With an admin token configured it asks for that as the password, user name at will.
#[utoipa::path(
    get, path = "/", tag = "service", operation_id = "status_page",
    responses((status = 200, description = "The page.", body = String, content_type = "text/html"))
)]
pub(crate) async fn page(State(web): State<Web>, headers: HeaderMap) -> Result<Response, ApiError> {
    if !web.tokens.open(Level::Admin, password(&headers).as_deref()) {
        let ask = HeaderValue::from_static("Basic realm=\"admin token as password\"");
        let refusal = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized");
        return Err(refusal.with(header::WWW_AUTHENTICATE, ask));
    }
    let page = gather(&web).await?.render().map_err(|error| {
        tracing::error!(%error, "the status page could not be rendered");
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the page could not be rendered",
        )
    })?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Ok((headers, Html(page)).into_response())
}
