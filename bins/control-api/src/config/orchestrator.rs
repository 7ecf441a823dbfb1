//! The section `orchestrator`: the timers. Its `inbound_checks` are a seed, see `seed`.

use civ_boot::config::Report;
use serde::Deserialize;

/// Longest accepted time, in seconds: a week. Longer ones are taken for a slip of the finger.
const SECONDS_MAX: i64 = 7 * 24 * 3600;

/// Most accepted retries of one attempt.
const RETRIES_MAX: i64 = 1000;

/// Most cloud calls at once; a cloud's API limits its clients far below.
const PARALLEL_MAX: i64 = 256;

/// The timers, in seconds where the name says so. `settle + self_check_timeout < lease_ttl` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Advice to agents and probers, and the longest the loop sleeps.
    pub poll_interval_seconds: u32,
    /// From association until the self-check must have passed.
    pub lease_ttl_seconds: u32,
    /// One self-check.
    pub self_check_timeout_seconds: u32,
    /// More failed self-checks and expired leases than that end the attempt.
    pub max_self_check_retries: u32,
    /// More address-specific cloud errors than that end the attempt.
    pub max_assign_retries: u32,
    /// From `checking` to forced aggregation.
    pub checking_window_seconds: u32,
    /// Silence after which a validator or site is `unreachable`.
    pub heartbeat_timeout_seconds: u32,
    /// Seed of the pause after an association; 0: none.
    pub fip_settle_seconds: u32,
    /// Time between two periodic scans; 0: only on request.
    pub fip_scan_interval_seconds: u32,
    /// How long `aggregating` waits for the release.
    pub release_grace_seconds: u32,
    /// Time between two comparisons of cloud and database.
    pub reconcile_interval_seconds: u32,
    /// Associations and disassociations at once.
    pub max_parallel_cloud_calls: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    poll_interval_seconds: i64,
    lease_ttl_seconds: i64,
    self_check_timeout_seconds: i64,
    max_self_check_retries: i64,
    max_assign_retries: i64,
    checking_window_seconds: i64,
    heartbeat_timeout_seconds: i64,
    fip_settle_seconds: i64,
    fip_scan_interval_seconds: i64,
    release_grace_seconds: i64,
    reconcile_interval_seconds: i64,
    max_parallel_cloud_calls: i64,
    pub(super) inbound_checks: super::seed::RawInbound,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            poll_interval_seconds: 5,
            lease_ttl_seconds: 120,
            self_check_timeout_seconds: 30,
            max_self_check_retries: 3,
            max_assign_retries: 3,
            checking_window_seconds: 120,
            heartbeat_timeout_seconds: 30,
            fip_settle_seconds: 0,
            fip_scan_interval_seconds: 0,
            release_grace_seconds: 60,
            reconcile_interval_seconds: 300,
            max_parallel_cloud_calls: 8,
            inbound_checks: super::seed::RawInbound::default(),
        }
    }
}

macro_rules! ints {
    ($report:ident, $raw:ident, $($key:ident: $least:literal to $most:expr;)*) => {
        Self {$(
            $key: $report.int(
                concat!("orchestrator.", stringify!($key)),
                $raw.$key,
                $least..=$most,
            ),
        )*}
    };
}

impl Timers {
    pub(super) fn build(raw: &Raw, report: &mut Report) -> Self {
        let timers = ints! { report, raw,
            poll_interval_seconds: 1 to SECONDS_MAX;
            lease_ttl_seconds: 1 to SECONDS_MAX;
            self_check_timeout_seconds: 1 to SECONDS_MAX;
            max_self_check_retries: 0 to RETRIES_MAX;
            max_assign_retries: 0 to RETRIES_MAX;
            checking_window_seconds: 1 to SECONDS_MAX;
            heartbeat_timeout_seconds: 1 to SECONDS_MAX;
            fip_settle_seconds: 0 to SECONDS_MAX;
            fip_scan_interval_seconds: 0 to SECONDS_MAX;
            release_grace_seconds: 1 to SECONDS_MAX;
            reconcile_interval_seconds: 1 to SECONDS_MAX;
            max_parallel_cloud_calls: 1 to PARALLEL_MAX;
        };
        timers.check_lease(report);
        timers
    }

    fn check_lease(&self, report: &mut Report) {
        const LEASE: &str = "orchestrator.lease_ttl_seconds";
        let parts = [
            "orchestrator.fip_settle_seconds",
            "orchestrator.self_check_timeout_seconds",
        ];
        let needed =
            u64::from(self.fip_settle_seconds) + u64::from(self.self_check_timeout_seconds);
        let readable = !parts.iter().any(|path| report.is_bad(path));
        if readable && needed >= u64::from(self.lease_ttl_seconds) {
            report.fault(
                LEASE,
                format!(
                    "must be more than fip_settle_seconds + self_check_timeout_seconds, which is \
                     {needed}: else no self-check could pass in time"
                ),
            );
        }
    }
}
