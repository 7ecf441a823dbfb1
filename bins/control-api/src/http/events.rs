//! The history as a list to page through and as a stream of server-sent events.

use std::convert::Infallible;
use std::time::Duration;
use std::vec;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use civ_proto::read_model::Event;
use civ_types::Address;
use futures_util::stream;
use tokio::sync::watch;

use super::error::ApiError;
use super::listing::{bad, number};
use super::query::Paging;
use super::{Web, view};
use crate::app::history::{Query, severities};

/// Longest page, and the length of one that is not asked for.
const LIMIT_MAX: u32 = 1_000;
const LIMIT_DEFAULT: u32 = 100;

/// Longest event type that is searched for, in characters: none is longer.
const TYPE_CHARS_MAX: usize = 64;

/// Entries that one stream holds at once; a slow reader is not read ahead for.
const AT_ONCE: u32 = 200;

/// A comment that says that the stream lives, so often; and so often a look for good measure.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Commits within this time are answered with one look at the database for each stream.
const TOGETHER: Duration = Duration::from_millis(100);

/// After which pause a client should come back, if it is cut off.
const RETRY: Duration = Duration::from_secs(2);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// No proxy should hold the stream back.
const UNBUFFERED: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-accel-buffering"),
    HeaderValue::from_static("no"),
);

fn id(field: &str, value: &str) -> Result<i64, ApiError> {
    let allowed = "the ID of an event, or 0 for all";
    let id: i64 = number(field, value, allowed)?;
    if id < 0 {
        return Err(bad(field, value, allowed));
    }
    Ok(id)
}

fn query(raw: &str) -> Result<Query, ApiError> {
    let mut query = Query {
        limit: LIMIT_DEFAULT,
        ..Query::default()
    };
    for (name, value) in url::form_urlencoded::parse(raw.as_bytes()) {
        match name.as_ref() {
            "after" => query.after = Some(id("after", &value)?),
            "limit" => {
                let allowed = format!("a whole number from 1 to {LIMIT_MAX}");
                query.limit = number("limit", &value, &allowed)?;
                if query.limit == 0 || LIMIT_MAX < query.limit {
                    return Err(bad("limit", &value, &allowed));
                }
            }
            "type" if TYPE_CHARS_MAX < value.chars().count() => {
                let allowed = format!("at most {TYPE_CHARS_MAX} characters");
                return Err(bad("type", &value, &allowed));
            }
            "type" if value.is_empty() => {}
            "type" => query.event_type = Some(value.into_owned()),
            "severity" if !severities().contains(&value.as_ref()) => {
                return Err(bad("severity", &value, &severities().join(", ")));
            }
            "severity" => query.severity = Some(value.into_owned()),
            "ip" => {
                let wrong = |error| ApiError::bad_input(format!("ip: {error}"));
                query.address = Some(Address::parse(&value).map_err(wrong)?);
            }
            _ => {}
        }
    }
    Ok(query)
}

/// The history, page by page
///
/// Oldest first. Without `after` the latest entries; to go on, `after` is the `ID` of the last
/// entry of the page before. Entries are never inserted below an `ID` that was seen.
#[utoipa::path(
    get, path = "/admin/events", tag = "history", operation_id = "events_list",
    params(Paging),
    responses((status = 200, description = "Oldest first.", body = Vec<Event>))
)]
pub(super) async fn list(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Json<Vec<Event>>, ApiError> {
    let query = query(raw.as_deref().unwrap_or_default())?;
    let found = web.app.events(query).await?;
    Ok(Json(found.iter().map(view::event).collect()))
}

/// One client that follows the history.
struct Feed {
    web: Web,
    changes: watch::Receiver<u64>,
    after: i64,
    waiting: vec::IntoIter<Sent>,
}

impl Feed {
    async fn look(&mut self) -> Result<(), ApiError> {
        let query = Query {
            after: Some(self.after),
            limit: AT_ONCE,
            ..Query::default()
        };
        let mut sent = Vec::new();
        for event in self.web.app.events(query).await? {
            self.after = event.id;
            let text = super::poll::json(&view::event(&event))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            sent.push(Sent::default().id(event.id.to_string()).data(text));
        }
        self.waiting = sent.into_iter();
        Ok(())
    }

    /// The next entry, once there is one; the end at a shutdown or when the database fails. The
    /// client comes back with `Last-Event-ID` and has missed nothing.
    async fn next(mut self) -> Option<(Result<Sent, Infallible>, Self)> {
        loop {
            if let Some(event) = self.waiting.next() {
                return Some((Ok(event), self));
            }
            if self.web.shutdown.is_cancelled() {
                return None;
            }
            self.changes.mark_unchanged();
            self.look().await.ok()?;
            if self.waiting.len() != 0 {
                continue;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(HEARTBEAT) => continue,
                () = self.web.shutdown.cancelled() => return None,
            }
            tokio::select! {
                () = tokio::time::sleep(TOGETHER) => {}
                () = self.web.shutdown.cancelled() => return None,
            }
        }
    }
}

/// The history as it grows
///
/// Server-sent events: one message for each entry, its `id` the entry's, its `data` the entry as
/// `GET /admin/events` gives it. Begins behind `Last-Event-ID`, else behind `after`, else with
/// what comes next. A comment every 15 seconds says that the stream lives; it ends at a shutdown.
#[utoipa::path(
    get, path = "/admin/events/stream", tag = "history", operation_id = "events_stream",
    params(
        ("after" = Option<i64>, Query, minimum = 0, maximum = 9_223_372_036_854_775_807_i64,
            description = "Where to begin: behind this `ID`."),
        ("Last-Event-ID" = Option<i64>, Header, minimum = 0,
            maximum = 9_223_372_036_854_775_807_i64,
            description = "The `id` of the last message that came through; it beats `after`."),
    ),
    responses((status = 200, description = "Messages.", body = String,
        content_type = "text/event-stream"))
)]
pub(super) async fn stream(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let mut after = query(raw.as_deref().unwrap_or_default())?.after;
    if let Some(last) = headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty()) {
        after = Some(id(
            "Last-Event-ID",
            &String::from_utf8_lossy(last.as_bytes()),
        )?);
    }
    let changes = web.app.hub().watch_events();
    let after = match after {
        Some(after) => after,
        None => web.app.events_last_id().await?,
    };
    let hello = Sent::default().retry(RETRY).comment("following");
    let feed = Feed {
        web,
        changes,
        after,
        waiting: vec![hello].into_iter(),
    };
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    let messages = Sse::new(stream::unfold(feed, Feed::next)).keep_alive(alive);
    Ok(([UNBUFFERED], messages).into_response())
}
