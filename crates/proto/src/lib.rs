//! The HTTP contract of control-api as data: the only serde types of `/api/v1`.
//!
//! Structs have public fields and no behaviour; converting from and to the domain is the job of
//! whoever serves or calls the contract. Agent and prober bodies ignore unknown fields (a newer
//! agent talks to an older server), administrative bodies refuse them.
#![warn(missing_docs)]

pub mod admin;
pub mod agent;
pub mod config;
pub mod export;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod jobs;
mod lenient;
pub mod notify;
pub mod prober;
pub mod read_model;
pub mod registry;
pub mod words;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every error of the service: `{"error":"text"}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Error, examples(json!({
    "error": "limit: \"0\" is not allowed: a whole number from 1 to 1000"
})))]
pub struct ErrorBody {
    /// A sentence that says what is wrong, where, and what is allowed.
    pub error: String,
}

/// The header in which a responder names its validator.
pub const VALIDATOR_HEADER: &str = "x-validator-id";
/// The header in which it shows the nonce of the claim that the validator holds.
pub const NONCE_HEADER: &str = "x-validator-nonce";

/// What only the validator of a claim serves: 16 to 128 ASCII letters and digits. It shows itself
/// in no log.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, min_length = 16, max_length = 128, pattern = "^[0-9A-Za-z]*$")]
pub struct Nonce(pub String);

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// `{"ok":true}`, the answer of a write that has nothing else to say.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Done, description = "The write is done; there is nothing else to say.")]
pub struct Ok {
    /// Always true: a failure is an [`ErrorBody`].
    #[schema(schema_with = words::yes)]
    pub ok: bool,
}

impl Ok {
    /// The one value.
    pub const YES: Self = Self { ok: true };
}

/// Answer to `register` of an agent or a prober.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// Always true.
    #[schema(schema_with = words::yes)]
    pub ok: bool,
    /// Advice: how often to ask when nothing is known, in seconds.
    pub poll_interval_seconds: u32,
}

/// Answer to `heartbeat` of an agent or a prober.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always true.
    #[schema(schema_with = words::yes)]
    pub ok: bool,
    /// False, and only then on the wire: the entry was made anew and waits for `register` (ours).
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub registered: bool,
}

const fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
const fn is_true(value: &bool) -> bool {
    *value
}

/// Body of `events` of an agent or a prober.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({"event_type": "config_received", "ip_id": 42, "payload": "{}"})))]
pub struct EventReport {
    /// What happened: `config_received`, `check_inconclusive`, … 1 to 64 characters.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"[^\s\u0000-\u001f\u007f-\u009f]"
    )]
    pub event_type: String,
    /// The address it is about, if any.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub ip_id: Option<i64>,
    /// Free text, by custom a JSON document in a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 65536)]
    pub payload: Option<String>,
    /// The claim it belongs to (from the assignment); left out by clients of the old contract.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// Payload of the event `check_inconclusive`: a check that could not be carried out for a reason
/// of ours.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Inconclusive {
    /// The check type, as in a result.
    pub check_type: String,
    /// The target of an egress check; empty for inbound.
    #[serde(default)]
    pub target: String,
    /// The stable code of the reason (`permission`, `source_unavailable`, …) and what was seen.
    pub code: String,
}

/// Answer to `results`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResultsAccepted {
    /// Always true: the rows that count are durable.
    #[schema(schema_with = words::yes)]
    pub ok: bool,
    /// Rows that were dropped, since their address is not (or no longer) this caller's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stale: u32,
    /// What was put right on the way in, for instance a `checked_at` that does not parse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}
