//! The memory of all addresses ever enqueued: `/api/v1/admin/registry…`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::read_model::Check;
use crate::words;

/// An address that was ever enqueued, whether or not it is in the queue now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistryEntry {
    /// The address.
    pub ip_address: String,
    /// When it was first enqueued (RFC 3339).
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// When it was last enqueued (RFC 3339).
    #[schema(format = DateTime)]
    pub last_seen_at: String,
    /// How often it was enqueued; its cycles are numbered from 1.
    pub total_cycles: i64,
    /// The latest result there is: `pass`, `partial`, `fail` or `cancelled`; `""` before.
    #[schema(schema_with = words::result)]
    pub last_result: String,
    /// When that was (RFC 3339); null before.
    #[schema(format = DateTime, required)]
    pub last_checked_at: Option<String>,
    /// Whether it is in the queue now.
    pub in_queue: bool,
    /// Its state there; `""` out of the queue.
    #[schema(schema_with = words::current_state)]
    pub current_state: String,
}

/// `GET /admin/registry/{ip}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegistryHistory {
    /// The address.
    pub registry: RegistryEntry,
    /// Results of all cycles that are kept, newest cycle first.
    pub checks: Vec<Check>,
}
