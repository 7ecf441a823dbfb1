//! Exports: whole tables as CSV or JSON lines, streamed page by page. However large the table, a
//! page is all that is held; a client that goes away ends the work with the page under way.

use std::future::Future;
use std::io;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use civ_proto::export::{CheckLine, RegistryLine};
use civ_types::{Address, Utc};
use futures_util::stream;
use serde::Serialize;

use super::Web;
use super::error::ApiError;
use super::listing::bad;
use super::query::{ChecksExport, RegistryExport};
use crate::app::AppError;
use crate::app::export::{self, CheckFilter, Page};

/// How a row is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Format {
    /// RFC 4180, with a line of names.
    #[default]
    Csv,
    /// One JSON object a line.
    Jsonl,
}

impl Format {
    fn parse(value: &str) -> Result<Self, ApiError> {
        match value {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::Jsonl),
            _ => Err(bad("format", value, "csv or jsonl")),
        }
    }

    /// A text as it may stand in a cell: spreadsheets take one that begins like a formula for one,
    /// and what agents report is not ours. A quote in front makes it a text again.
    fn text(self, text: String) -> String {
        if self == Self::Csv && text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
            return format!("'{text}");
        }
        text
    }

    fn headers(self, name: &str) -> [(header::HeaderName, HeaderValue); 2] {
        let (kind, end) = match self {
            Self::Csv => ("text/csv; charset=utf-8; header=present", "csv"),
            Self::Jsonl => ("application/jsonl", "jsonl"),
        };
        let file = HeaderValue::from_str(&format!("attachment; filename=\"{name}.{end}\""));
        let file = file.unwrap_or(HeaderValue::from_static("attachment"));
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (header::CONTENT_DISPOSITION, file),
        ]
    }

    fn begin(self, columns: &[&str]) -> Bytes {
        match self {
            Self::Csv => format!("{}\r\n", columns.join(",")).into(),
            Self::Jsonl => Bytes::new(),
        }
    }

    fn write<T: Serialize>(self, lines: impl Iterator<Item = T>) -> io::Result<Bytes> {
        match self {
            Self::Csv => {
                let mut writer = csv::WriterBuilder::new()
                    .has_headers(false)
                    .terminator(csv::Terminator::CRLF)
                    .from_writer(Vec::new());
                for line in lines {
                    writer.serialize(line).map_err(io::Error::other)?;
                }
                let bytes = writer.into_inner().map_err(|error| error.into_error())?;
                Ok(bytes.into())
            }
            Self::Jsonl => {
                let mut bytes = Vec::new();
                for line in lines {
                    serde_json::to_writer(&mut bytes, &line)?;
                    bytes.push(b'\n');
                }
                Ok(bytes.into())
            }
        }
    }
}

/// Columns of the registry: the fields of [`RegistryLine`].
const REGISTRY: [&str; 8] = [
    "ip_address",
    "first_seen_at",
    "last_seen_at",
    "total_cycles",
    "last_result",
    "last_checked_at",
    "in_queue",
    "current_state",
];

/// Columns of the results: the fields of [`CheckLine`].
const CHECKS: [&str; 15] = [
    "id",
    "ip_id",
    "ip_address",
    "cycle_id",
    "attempt_number",
    "source",
    "site_id",
    "check_type",
    "target",
    "success",
    "latency_ms",
    "duration_ms",
    "detail",
    "checked_at",
    "received_at",
];

fn registry_line(row: export::RegistryLine) -> RegistryLine {
    RegistryLine {
        ip_address: row.address,
        first_seen_at: row.first_seen_at.to_string(),
        last_seen_at: row.last_seen_at.to_string(),
        total_cycles: row.total_cycles,
        last_result: row.last_result,
        last_checked_at: row.last_checked_at.map(|at| at.to_string()),
        in_queue: row.state.is_some(),
        current_state: row.state.unwrap_or_default(),
    }
}

fn check_line(row: export::CheckLine, format: Format) -> CheckLine {
    CheckLine {
        id: row.id,
        ip_id: row.ip,
        ip_address: row.address,
        cycle_id: row.cycle,
        attempt_number: row.attempt,
        source: row.source,
        site_id: format.text(row.site),
        check_type: format.text(row.name),
        target: format.text(row.target),
        success: row.success,
        latency_ms: row.latency_ms,
        duration_ms: row.duration_ms,
        detail: format.text(row.detail),
        checked_at: row.checked_at.to_string(),
        received_at: row.received_at.to_string(),
    }
}

/// What is left to send.
enum Rest<T, K> {
    Names(Page<T, K>),
    Rows(Page<T, K>),
    From(K),
    Nothing,
}

/// A body that fetches a page when the one before has gone out.
fn body<T, K, F>(
    web: Web,
    names: Bytes,
    first: Page<T, K>,
    fetch: impl Fn(K) -> F + Send + 'static,
    write: impl Fn(Vec<T>) -> io::Result<Bytes> + Send + 'static,
) -> Body
where
    T: Send + 'static,
    K: Send + 'static,
    F: Future<Output = Result<Page<T, K>, AppError>> + Send,
{
    let rest = (Rest::Names(first), fetch, write);
    Body::from_stream(stream::try_unfold(rest, move |(mut rest, fetch, write)| {
        let (web, names) = (web.clone(), names.clone());
        async move {
            loop {
                if web.shutdown.is_cancelled() {
                    return Err(io::Error::other("control-api is about to end"));
                }
                let page = match rest {
                    Rest::Names(page) => {
                        return Ok(Some((names, (Rest::Rows(page), fetch, write))));
                    }
                    Rest::Rows(page) => page,
                    Rest::From(key) => fetch(key).await.map_err(io::Error::other)?,
                    Rest::Nothing => return Ok::<_, io::Error>(None),
                };
                rest = page.next.map_or(Rest::Nothing, Rest::From);
                if !page.rows.is_empty() {
                    let bytes = write(page.rows)?;
                    return Ok(Some((bytes, (rest, fetch, write))));
                }
            }
        }
    }))
}

fn moment(field: &str, value: &str) -> Result<Utc, ApiError> {
    // A plus sign that was not encoded arrives as a space.
    Utc::parse(&value.replace(' ', "+"))
        .map_err(|_error| bad(field, value, "a time such as 2026-01-02T03:04:05Z"))
}

fn query(raw: Option<&str>) -> Result<(Format, CheckFilter), ApiError> {
    let mut format = Format::default();
    let mut filter = CheckFilter::default();
    for (name, value) in url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "format" => format = Format::parse(&value)?,
            "address" => {
                let wrong = |error| ApiError::bad_input(format!("address: {error}"));
                filter.address = Some(Address::parse(&value).map_err(wrong)?);
            }
            "since" => filter.since = Some(moment("since", &value)?),
            "until" => filter.until = Some(moment("until", &value)?),
            _ => {}
        }
    }
    Ok((format, filter))
}

/// The registry as a file
///
/// Every address ever enqueued, in the order of their text: CSV with a line of names and CRLF
/// (RFC 4180), or a JSON object `RegistryLine` a line. An export that breaks off has no last chunk:
/// it is not to be taken for a whole one.
#[utoipa::path(
    get, path = "/admin/registry/export", tag = "history", operation_id = "registry_export",
    params(RegistryExport),
    responses((status = 200, description = "The file.", content(
        (String = "text/csv"), (String = "application/jsonl")),
        headers(("Content-Disposition" = String, description = "Names the file."))))
)]
pub(super) async fn registry(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let (format, _) = query(raw.as_deref())?;
    // The first page is read before the answer begins: a database that fails is still a 503.
    let first = web.app.export_registry(String::new()).await?;
    let app = web.app.clone();
    let fetch = move |after| {
        let app = app.clone();
        async move { app.export_registry(after).await }
    };
    let write = move |rows: Vec<_>| format.write(rows.into_iter().map(registry_line));
    let body = body(web, format.begin(&REGISTRY), first, fetch, write);
    Ok((format.headers("registry"), body).into_response())
}

/// All results as a file
///
/// In the order of their ids, as CSV or a JSON object `CheckLine` a line; those of deleted
/// addresses and former cycles too, as far as they are kept. In CSV a text that begins with `=`,
/// `+`, `-`, `@`, a tab or a carriage return gets a single quote in front, so that no spreadsheet
/// takes it for a formula.
#[utoipa::path(
    get, path = "/admin/checks/export", tag = "history", operation_id = "checks_export",
    params(ChecksExport),
    responses((status = 200, description = "The file.", content(
        (String = "text/csv"), (String = "application/jsonl")),
        headers(("Content-Disposition" = String, description = "Names the file."))))
)]
pub(super) async fn checks(
    State(web): State<Web>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let (format, filter) = query(raw.as_deref())?;
    let first = web.app.export_checks(filter.clone(), 0).await?;
    let app = web.app.clone();
    let fetch = move |after| {
        let (app, filter) = (app.clone(), filter.clone());
        async move { app.export_checks(filter, after).await }
    };
    let write =
        move |rows: Vec<_>| format.write(rows.into_iter().map(|row| check_line(row, format)));
    let body = body(web, format.begin(&CHECKS), first, fetch, write);
    Ok((format.headers("checks"), body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(detail: &str) -> export::CheckLine {
        export::CheckLine {
            id: 1,
            ip: 2,
            address: "203.0.113.10".to_owned(),
            cycle: 1,
            attempt: 1,
            source: "egress".to_owned(),
            site: String::new(),
            name: "https".to_owned(),
            target: "https://example.org/?a=1,2".to_owned(),
            success: true,
            latency_ms: 87,
            duration_ms: None,
            detail: detail.to_owned(),
            checked_at: Utc::EPOCH,
            received_at: Utc::EPOCH,
        }
    }

    fn csv(detail: &str) -> String {
        let lines = [check_line(row(detail), Format::Csv)];
        let bytes = Format::Csv.write(lines.into_iter()).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn cells_are_quoted_as_rfc_4180_says() {
        let line = csv("a \"b\",\r\nc");
        assert!(
            line.contains(r#","https://example.org/?a=1,2",true,87,,"#),
            "{line}"
        );
        assert!(line.contains("\"a \"\"b\"\",\r\nc\""), "{line}");
        assert!(line.ends_with("Z\r\n"), "{line}");
    }

    #[test]
    fn no_cell_begins_like_a_formula() {
        for evil in ["=1+1", "+1", "-1", "@sum(a1)", "\t=1", "\r=1"] {
            let line = csv(evil);
            assert!(line.contains(&format!("'{evil}")), "{line:?}");
        }
        let lines = [check_line(row("=1+1"), Format::Jsonl)];
        let bytes = Format::Jsonl.write(lines.into_iter()).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(line["detail"], "=1+1");
    }

    #[test]
    fn the_names_of_the_columns_are_those_of_the_fields() {
        let texts = [
            serde_json::to_string(&check_line(row(""), Format::Jsonl)).unwrap(),
            serde_json::to_string(&registry_line(export::RegistryLine {
                address: String::new(),
                first_seen_at: Utc::EPOCH,
                last_seen_at: Utc::EPOCH,
                total_cycles: 1,
                last_result: String::new(),
                last_checked_at: None,
                state: None,
            }))
            .unwrap(),
        ];
        for (text, columns) in texts.iter().zip([CHECKS.as_slice(), REGISTRY.as_slice()]) {
            let places: Vec<_> = columns
                .iter()
                .map(|name| text.find(&format!("\"{name}\":")).unwrap())
                .collect();
            assert!(places.is_sorted(), "{text}");
            assert_eq!(text.matches("\":").count(), columns.len());
        }
    }

    #[test]
    fn an_offset_whose_plus_was_not_encoded_is_understood() {
        let (_, filter) = query(Some("since=2026-01-02T03:04:05+02:00")).unwrap();
        assert_eq!(filter.since, Utc::parse("2026-01-02T01:04:05Z").ok());
        assert!(query(Some("since=yesterday")).is_err());
        assert!(query(Some("format=xml")).is_err());
    }
}
