//! What control-api sends to the receivers of `notifications:`; see docs/notifications.md.

use serde::{Deserialize, Serialize};

/// Header with the Unix time of sending, in seconds; part of what is signed.
pub const TIMESTAMP_HEADER: &str = "X-Civ-Timestamp";

/// Header with `sha256=` and the HMAC-SHA256 of `timestamp.body` in lower-case hexadecimal.
pub const SIGNATURE_HEADER: &str = "X-Civ-Signature";

/// Header with the event's id: the same at every try.
pub const EVENT_ID_HEADER: &str = "X-Civ-Event-Id";

/// One event, as the body of a POST.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The event's id: grows with every event, and tells repetitions.
    pub id: i64,
    /// What happened.
    pub event_type: String,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// The address it is about; null if it is about none.
    pub ip_address: Option<String>,
    /// The validator, or null.
    pub validator_id: Option<String>,
    /// The site, or null.
    pub site_id: Option<String>,
    /// Free text, by custom a JSON document in a string; cut at 64 KiB.
    pub payload: String,
    /// RFC 3339 UTC, microseconds.
    pub occurred_at: String,
}
