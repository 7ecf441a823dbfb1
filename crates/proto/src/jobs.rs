//! The scan and the auto-cycle in `snake_case`: `/api/v1/admin/ips/scan`, `/admin/auto-cycle`.
//! Times are RFC 3339 text and null until they happen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// How far the scan for free floating IPs is, or how the last one ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanStatus {
    /// `idle`, `clearing` (auto-cycle only), `listing`, `enqueuing`, `done`, `error`, `cancelled`.
    #[schema(schema_with = words::scan_state)]
    pub state: String,
    /// Whether it is under way.
    pub running: bool,
    /// Whether it only counts.
    pub dry_run: bool,
    /// Pages that were read.
    pub pages: u64,
    /// Different floating IPs that were read, free or not.
    pub discovered: u64,
    /// Of these, free ones.
    pub free: u64,
    /// Free ones that were not in the queue.
    pub added: u64,
    /// Free ones that were finished; a new attempt begins.
    pub requeued: u64,
    /// Free ones that were waiting.
    pub reordered: u64,
    /// Free ones that are being checked.
    pub skipped_in_progress: u64,
    /// When it began.
    #[schema(format = DateTime, required)]
    pub started_at: Option<String>,
    /// When it ended.
    #[schema(format = DateTime, required)]
    pub finished_at: Option<String>,
    /// Why it failed or was broken off.
    pub error: String,
}

/// What a scan that was waited for has found and enqueued.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scanned {
    /// Free floating IPs.
    pub scanned_free: u64,
    /// Were not in the queue.
    pub added: Vec<String>,
    /// Were finished; a new attempt begins.
    pub requeued: Vec<String>,
    /// Were waiting.
    pub reordered: Vec<String>,
    /// Are being checked; untouched.
    pub skipped_in_progress: Vec<String>,
}

/// The auto-cycle: its parameters, where it is, how its last round ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AutoCycle {
    /// Whether it is on.
    pub enabled: bool,
    /// The pause between two rounds, in seconds; at least 60.
    pub interval_seconds: u32,
    /// How long the checks of a round are waited for, in seconds; 0: without limit.
    pub max_run_seconds: u32,
    /// `idle`, `running`, `waiting`.
    #[schema(schema_with = words::cycle_phase)]
    pub phase: String,
    /// When the round under way began.
    #[schema(format = DateTime, required)]
    pub run_started_at: Option<String>,
    /// When the next round begins, while it waits.
    #[schema(format = DateTime, required)]
    pub next_run_at: Option<String>,
    /// When the last round began.
    #[schema(format = DateTime, required)]
    pub last_run_started_at: Option<String>,
    /// When the last round ended.
    #[schema(format = DateTime, required)]
    pub last_run_finished_at: Option<String>,
    /// `completed`, `no_free_ips`, `timeout`, `error`, `stopped`, or empty before the first end.
    #[schema(schema_with = words::cycle_outcome)]
    pub last_outcome: String,
    /// The reason of `error`.
    pub last_error: String,
    /// Free floating IPs that the scan of the last round found.
    pub last_scanned_free: u64,
    /// Rounds that ended `completed`.
    pub runs_total: u64,
}

/// New parameters of the auto-cycle; what is left out or null stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoCycleChange {
    /// The pause between two rounds, in seconds: 60 to 4294967295.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 60, maximum = 4_294_967_295_i64)]
    pub interval_seconds: Option<i64>,
    /// How long the checks of a round are waited for, in seconds: 0 (no limit) to 4294967295.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 4_294_967_295_i64)]
    pub max_run_seconds: Option<i64>,
}
