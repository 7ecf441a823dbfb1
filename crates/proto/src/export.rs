//! Lines of exports: `/api/v1/admin/registry/export` and `/api/v1/admin/checks/export`.
//!
//! The names are the columns of CSV and the keys of JSON lines.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// An address that was ever enqueued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistryLine {
    /// The address.
    pub ip_address: String,
    /// When it was first enqueued.
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// When it was last enqueued.
    #[schema(format = DateTime)]
    pub last_seen_at: String,
    /// How often it was enqueued.
    pub total_cycles: i64,
    /// The latest result there is, empty before.
    #[schema(schema_with = words::result)]
    pub last_result: String,
    /// When that was.
    #[schema(format = DateTime, required)]
    pub last_checked_at: Option<String>,
    /// Whether it is in the queue.
    pub in_queue: bool,
    /// Its state there, empty out of the queue.
    pub current_state: String,
}

/// A stored result, of whatever cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckLine {
    /// Grows with every first report of a check.
    pub id: i64,
    /// The address in the queue at that time.
    pub ip_id: i64,
    /// The address.
    pub ip_address: String,
    /// Which enqueueing of the address.
    pub cycle_id: i64,
    /// Which attempt.
    pub attempt_number: i64,
    /// Where the check looked from.
    #[schema(schema_with = words::source)]
    pub source: String,
    /// The site of an inbound check, empty for egress.
    pub site_id: String,
    /// The check type.
    pub check_type: String,
    /// The target of an egress check, empty for inbound.
    pub target: String,
    /// Passed or failed.
    pub success: bool,
    /// Of the step that the check is about, in milliseconds.
    pub latency_ms: i64,
    /// How long the whole check took, in milliseconds, if that was told.
    #[schema(required)]
    pub duration_ms: Option<i64>,
    /// What was seen.
    pub detail: String,
    /// When, by the reporter's clock.
    #[schema(format = DateTime)]
    pub checked_at: String,
    /// When it came in, by the server's clock.
    #[schema(format = DateTime)]
    pub received_at: String,
}
