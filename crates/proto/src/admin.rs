//! Administrative bodies and answers in `snake_case`: `/api/v1/admin/…`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// `POST /admin/ips`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"addresses": ["203.0.113.10", "203.0.113.16/29"]})))]
pub struct Addresses {
    /// Addresses, CIDR prefixes and ranges, in the order of claiming.
    #[schema(schema_with = words::address_list)]
    pub addresses: Vec<String>,
}

/// What became of each address of `POST /admin/ips`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "added": ["203.0.113.10"], "requeued": [], "reordered": [], "skipped_in_progress": []
})))]
pub struct Enqueued {
    /// Were not in the queue.
    pub added: Vec<String>,
    /// Were finished; a new attempt begins.
    pub requeued: Vec<String>,
    /// Were waiting; now stand in the order of this list.
    pub reordered: Vec<String>,
    /// Are being checked; untouched.
    pub skipped_in_progress: Vec<String>,
}

/// `POST /admin/ips/delete`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"addresses": ["203.0.113.10", "203.0.113.16/29"]})))]
pub struct Removal {
    /// Addresses, CIDR prefixes and ranges. What is none of these is in no queue, and told so.
    #[schema(min_items = 1)]
    pub addresses: Vec<String>,
}

/// What became of each address of `POST /admin/ips/delete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// Were in the queue, and are no longer.
    pub deleted: Vec<String>,
    /// Were not in the queue, which is no error.
    pub not_found: Vec<String>,
}

/// What `POST /admin/ips/clear` took out of the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleared {
    /// All addresses, in the order of the queue.
    pub deleted: Vec<String>,
}

/// `GET /admin/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "total_ips": 3, "ips_by_state": {"done": 2, "queued": 1},
    "results_by_overall": {"pass": 1, "partial": 0, "fail": 1, "cancelled": 0},
    "total_validators": 2
})))]
pub struct Status {
    /// Addresses in the queue, whatever their state.
    pub total_ips: u64,
    /// State to count; states without an address are left out.
    pub ips_by_state: BTreeMap<String, u64>,
    /// Result to count.
    pub results_by_overall: ResultCounts,
    /// Validators in the configuration, whatever their state.
    pub total_validators: u64,
    /// The periodic backups; left out if none are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
}

/// How the periodic backups stand. What has not happened is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// When the latest one was made.
    #[schema(format = DateTime, required)]
    pub last_at: Option<String>,
    /// Its file, on the machine of control-api.
    #[schema(required)]
    pub last_file: Option<String>,
    /// Its size.
    #[schema(required)]
    pub last_bytes: Option<u64>,
    /// When the next one is due.
    #[schema(format = DateTime, required)]
    pub next_at: Option<String>,
    /// Why the last try failed; null after one that did not.
    #[schema(required)]
    pub error: Option<String>,
    /// When it did.
    #[schema(format = DateTime, required)]
    pub failed_at: Option<String>,
}

/// How many addresses ended how; all four are always present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultCounts {
    /// All expected checks succeeded.
    pub pass: u64,
    /// Some did.
    pub partial: u64,
    /// None did, or the retries were used up.
    pub fail: u64,
    /// Broken off by an operator.
    pub cancelled: u64,
}

/// One page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The rows of this page.
    pub items: Vec<T>,
    /// Rows after filtering, on all pages.
    pub total: u64,
    /// As asked for.
    pub limit: u32,
    /// As asked for.
    pub offset: u64,
}
