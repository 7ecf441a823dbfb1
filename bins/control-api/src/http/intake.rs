//! What agents and probers send, turned into the words of the domain: bounded, and generous where
//! the contract is.

use civ_proto::{EventReport, Inconclusive, agent, prober};
use civ_types::{CheckName, ClaimNo, IpId, Utc};

use super::error::ApiError;
use crate::app::agents::{CheckReport, Event};
use crate::app::probers::Knows;

/// Longest detail that is kept, in bytes: evidence, not a dump. Longer ones are cut.
const DETAIL_BYTES_MAX: usize = 4_096;

/// Longest target, in characters: the longest URL that is used in practice.
const TARGET_CHARS_MAX: usize = 2_048;

/// Longest event type and longest payload, in characters, which is what the published schemas
/// count.
const EVENT_TYPE_CHARS_MAX: usize = 64;
const PAYLOAD_CHARS_MAX: usize = 65_536;

/// The event by which an agent or prober says that it could not carry out a check.
const INCONCLUSIVE: &str = "check_inconclusive";

/// Most ports of one responder: probers try them one after the other.
const RESPONDER_PORTS_MAX: usize = 16;

/// The ports of a responder that says nothing of them.
const RESPONDER_PORTS: [u16; 2] = [80, 8080];

fn says(capabilities: Option<&[String]>, word: &str) -> bool {
    capabilities.is_some_and(|words| words.iter().any(|said| said == word))
}

/// The ports on which an agent answers with its nonce, if it says that it does.
pub(super) fn responder(
    capabilities: Option<&[String]>,
    ports: Option<Vec<u16>>,
) -> Result<Option<Vec<u16>>, ApiError> {
    if !says(capabilities, "responder") {
        return Ok(None);
    }
    let mut ports = ports.unwrap_or_else(|| RESPONDER_PORTS.to_vec());
    ports.sort_unstable();
    ports.dedup();
    if RESPONDER_PORTS_MAX < ports.len() || ports.contains(&0) {
        let text =
            format!("responder_ports: must be at most {RESPONDER_PORTS_MAX} ports from 1 to 65535");
        return Err(ApiError::bad_input(text));
    }
    // Without a port there is nothing to ask.
    Ok(Some(ports).filter(|ports| !ports.is_empty()))
}

/// What a prober knows beyond the contract.
pub(super) fn knows(capabilities: Option<&[String]>) -> Knows {
    Knows {
        identity: says(capabilities, "identity"),
        closed_ports: says(capabilities, "closed_ports"),
    }
}

fn longer(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_some()
}

pub(super) fn cut(mut text: String) -> String {
    if DETAIL_BYTES_MAX < text.len() {
        text.truncate(text.floor_char_boundary(DETAIL_BYTES_MAX));
    }
    text
}

/// The time of a check; a warning if it had to be replaced.
fn checked_at(text: Option<&str>, row: usize, warnings: &mut Vec<String>) -> Option<Utc> {
    match text.map(Utc::parse) {
        Some(Ok(at)) => return Some(at),
        Some(Err(error)) => warnings.push(format!("results[{row}].checked_at: {error}")),
        None => warnings.push(format!("results[{row}].checked_at is missing")),
    }
    None
}

fn name(text: &str, row: usize) -> Result<CheckName, ApiError> {
    CheckName::parse(text).map_err(|error| {
        ApiError::bad_input(format!("results[{row}].check_type: {text:?} {error}"))
    })
}

/// Rows as they are stored, with warnings.
type Taken = (Vec<CheckReport>, Vec<String>);

pub(super) fn egress(body: agent::Results) -> Result<Taken, ApiError> {
    let mut warnings = Vec::new();
    let mut rows = Vec::with_capacity(body.results.len());
    for (n, row) in body.results.into_iter().enumerate() {
        let target = row.target.unwrap_or_default();
        if longer(&target, TARGET_CHARS_MAX) {
            let text = format!("results[{n}].target: longer than {TARGET_CHARS_MAX} characters");
            return Err(ApiError::bad_input(text));
        }
        rows.push(CheckReport {
            ip: IpId(row.ip_id),
            fence: row.fence.or(body.fence).map(ClaimNo),
            name: name(&row.check_type, n)?,
            target,
            success: row.success,
            latency_ms: row.latency_ms.unwrap_or(0),
            duration_ms: row.duration_ms,
            detail: cut(row.detail.unwrap_or_default()),
            checked_at: checked_at(row.checked_at.as_deref(), n, &mut warnings),
            complete: false,
            revision: None,
        });
    }
    Ok((rows, warnings))
}

pub(super) fn inbound(body: prober::Results) -> Result<Taken, ApiError> {
    let mut warnings = Vec::new();
    let mut rows = Vec::with_capacity(body.results.len());
    for (n, row) in body.results.into_iter().enumerate() {
        rows.push(CheckReport {
            ip: IpId(row.ip_id),
            fence: row.fence.map(ClaimNo),
            name: name(&row.check_type, n)?,
            target: String::new(),
            success: row.success,
            latency_ms: row.latency_ms.unwrap_or(0),
            duration_ms: row.duration_ms,
            detail: cut(row.detail.unwrap_or_default()),
            checked_at: checked_at(row.checked_at.as_deref(), n, &mut warnings),
            complete: row.complete.unwrap_or(false),
            revision: row.revision,
        });
    }
    Ok((rows, warnings))
}

pub(super) fn event(body: EventReport) -> Result<Event, ApiError> {
    // As in the published schema: one character at least that can be seen.
    let seen = |c: char| !c.is_whitespace() && !c.is_control();
    if !body.event_type.contains(seen) || longer(&body.event_type, EVENT_TYPE_CHARS_MAX) {
        let text = format!(
            "event_type: must have 1 to {EVENT_TYPE_CHARS_MAX} characters, not only white space"
        );
        return Err(ApiError::bad_input(text));
    }
    let payload = body.payload.unwrap_or_default();
    if longer(&payload, PAYLOAD_CHARS_MAX) {
        return Err(ApiError::bad_input(format!(
            "payload: longer than {PAYLOAD_CHARS_MAX} characters"
        )));
    }
    let inconclusive = if body.event_type == INCONCLUSIVE {
        inconclusive(&payload)
    } else {
        None
    };
    Ok(Event {
        event_type: body.event_type,
        ip: body.ip_id.map(IpId),
        fence: body.fence.map(ClaimNo),
        payload,
        inconclusive,
    })
}

/// A payload that does not say which check is meant is kept as it is and changes no count.
fn inconclusive(payload: &str) -> Option<(CheckName, String, String)> {
    let said: Inconclusive = serde_json::from_str(payload).ok()?;
    let name = CheckName::parse(&said.check_type).ok()?;
    (!longer(&said.target, TARGET_CHARS_MAX)).then(|| (name, said.target, cut(said.code)))
}
