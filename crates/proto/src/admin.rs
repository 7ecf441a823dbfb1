//! Administrative bodies and answers in `snake_case`: `/api/v1/admin/…`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `POST /admin/ips`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addresses {
    /// Addresses, CIDR prefixes and ranges, in the order of claiming.
    pub addresses: Vec<String>,
}

/// What became of each address of `POST /admin/ips`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// `GET /admin/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Addresses in the queue, whatever their state.
    pub total_ips: u64,
    /// State to count; states without an address are left out.
    pub ips_by_state: BTreeMap<String, u64>,
    /// Result to count.
    pub results_by_overall: ResultCounts,
    /// Validators in the configuration, whatever their state.
    pub total_validators: u64,
}

/// How many addresses ended how; all four are always present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
