//! The domain as the read models of the contract, by named functions.

use std::collections::BTreeMap;

use civ_orch::attempt::{Outcome, StateName};
use civ_orch::cycle::{Cycle, Outcome as RoundOutcome};
use civ_orch::scan::Scan;
use civ_proto::admin::{Backup, Enqueued, ResultCounts, Status};
use civ_proto::config::{CheckTypeEntry, SiteEntry, ValidatorEntry};
use civ_proto::jobs::{AutoCycle, ScanStatus, Scanned};
use civ_proto::read_model;
use civ_proto::registry::{RegistryEntry, RegistryHistory};
use civ_types::{Address, Utc};

use super::error::ApiError;
use crate::app::backup::BackupStatus;
use crate::app::config::CheckType;
use crate::app::ips::{self, Details};
use crate::app::registry::{History, Known};
use crate::app::scan;
use crate::app::status::Counts;
use crate::app::validators::{Site, Validator};

fn time(moment: Option<Utc>) -> Option<String> {
    moment.map(|moment| moment.to_string())
}

pub(super) fn ip(ip: &ips::Ip) -> read_model::Ip {
    let row = &ip.attempt;
    let head = &row.head;
    let lease_expires_at = match row.state {
        StateName::AwaitingSelfCheck => row.due_at,
        StateName::Queued
        | StateName::AssigningFip
        | StateName::Checking
        | StateName::Aggregating
        | StateName::Done
        | StateName::Failed
        | StateName::Occupied => None,
    };
    let place = head.place.as_ref();
    let sites = ip
        .sites_complete
        .iter()
        .map(|(site, through)| (site.to_string(), *through));
    read_model::Ip {
        id: head.ip.0,
        ip_address: head.address.to_string(),
        sequence: head.sequence,
        state: row.state.to_string(),
        overall_result: row.outcome().map_or("", Outcome::as_str).to_owned(),
        cycle_id: head.cycle.0,
        attempt_number: head.attempt.0,
        retry_count: i64::from(head.retries.assign) + i64::from(head.retries.self_check),
        validator_id: place.map(|place| place.validator.to_string()),
        fip_id: place
            .and_then(|place| place.fip.as_ref())
            .map(ToString::to_string),
        lease_expires_at: time(lease_expires_at),
        assigned_at: time(head.stamps.assigned),
        fip_associated_at: time(head.stamps.associated),
        checking_started_at: time(head.stamps.checking),
        egress_complete: ip.egress_complete,
        sites_complete: sites.collect(),
        aggregated_at: time(head.stamps.aggregated),
        fip_released_at: time(head.stamps.released),
        last_error: head.last_error.clone(),
        created_at: ip.created_at.to_string(),
        updated_at: ip.updated_at.to_string(),
    }
}

pub(super) fn check(check: &ips::Check) -> read_model::Check {
    read_model::Check {
        id: check.id,
        ip_id: check.ip.0,
        cycle_id: check.cycle.0,
        attempt_number: check.attempt.0,
        source: check.spec.source.as_str().to_owned(),
        site_id: check.spec.site.as_ref().map(ToString::to_string),
        check_type: check.spec.name.to_string(),
        target: check.spec.target.clone(),
        success: check.success,
        latency_ms: check.latency_ms,
        duration_ms: check.duration_ms,
        detail: check.detail.clone(),
        checked_at: check.checked_at.to_string(),
        received_at: check.received_at.to_string(),
    }
}

pub(super) fn event(event: &ips::Event) -> read_model::Event {
    read_model::Event {
        id: event.id,
        ip_id: event.ip.map(|ip| ip.0),
        ip_address: event.address.clone(),
        cycle_id: event.cycle.map(|cycle| cycle.0),
        validator_id: event.validator.as_ref().map(ToString::to_string),
        site_id: event.site.as_ref().map(ToString::to_string),
        event_type: event.event_type.clone(),
        severity: event.severity.clone(),
        payload: event.payload.clone(),
        occurred_at: event.occurred_at.to_string(),
    }
}

pub(super) fn details(details: &Details) -> read_model::IpDetails {
    read_model::IpDetails {
        ip: ip(&details.ip),
        checks: details.checks.iter().map(check).collect(),
        events: details.events.iter().map(event).collect(),
    }
}

pub(super) fn validator(validator: &Validator) -> read_model::Validator {
    read_model::Validator {
        validator_id: validator.id.to_string(),
        os_port_id: validator.port.to_string(),
        hostname: validator.hostname.clone(),
        agent_version: validator.agent_version.clone(),
        state: validator.state.to_string(),
        current_ip_id: validator.owns.map(|(ip, _)| ip.0),
        last_heartbeat_at: time(validator.last_seen_at),
        paused_because: validator.paused_because.clone(),
        created_at: validator.created_at.to_string(),
        updated_at: validator.updated_at.to_string(),
    }
}

pub(super) fn validator_entry(validator: &Validator) -> ValidatorEntry {
    ValidatorEntry {
        validator_id: validator.id.to_string(),
        os_port_id: validator.port.to_string(),
        state: validator.state.to_string(),
    }
}

pub(super) fn site_entry(site: &Site) -> SiteEntry {
    SiteEntry {
        index: site.slot,
        site_id: site.id.to_string(),
        hostname: site.hostname.clone(),
        state: site.state.to_string(),
        last_heartbeat_at: time(site.last_seen_at),
    }
}

pub(super) fn check_type_entry(kind: CheckType) -> Result<CheckTypeEntry, ApiError> {
    let options = kind.options.map(|text| serde_json::from_str(&text));
    let options = options.transpose().map_err(|error| {
        tracing::error!(check_type = %kind.name, %error, "stored options are not JSON");
        ApiError::unavailable(format!(
            "the options of check type {} cannot be read",
            kind.name
        ))
    })?;
    Ok(CheckTypeEntry {
        name: kind.name.to_string(),
        enabled: kind.enabled,
        targets: kind.groups,
        options,
    })
}

pub(super) fn registry_entry(known: &Known) -> RegistryEntry {
    RegistryEntry {
        ip_address: known.address.to_string(),
        first_seen_at: known.first_seen_at.to_string(),
        last_seen_at: known.last_seen_at.to_string(),
        total_cycles: known.total_cycles,
        last_result: known.last_result.clone(),
        last_checked_at: time(known.last_checked_at),
        in_queue: known.state.is_some(),
        current_state: known.state.map_or("", StateName::as_str).to_owned(),
    }
}

pub(super) fn registry_history(history: &History) -> RegistryHistory {
    RegistryHistory {
        registry: registry_entry(&history.known),
        checks: history.checks.iter().map(check).collect(),
    }
}

pub(super) fn texts(list: &[Address]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

pub(super) fn enqueued(done: &ips::Enqueued) -> Enqueued {
    Enqueued {
        added: texts(&done.added),
        requeued: texts(&done.requeued),
        reordered: texts(&done.reordered),
        skipped_in_progress: texts(&done.skipped),
    }
}

pub(super) fn scan(scan: &Scan) -> ScanStatus {
    ScanStatus {
        state: scan.phase.to_string(),
        running: scan.phase.is_running(),
        dry_run: scan.dry_run,
        pages: scan.pages,
        discovered: scan.discovered,
        free: scan.free,
        added: scan.tally.added,
        requeued: scan.tally.requeued,
        reordered: scan.tally.reordered,
        skipped_in_progress: scan.tally.skipped,
        started_at: time(scan.started_at),
        finished_at: time(scan.finished_at),
        error: scan.error.clone(),
    }
}

pub(super) fn scanned(outcome: &scan::Scanned) -> Scanned {
    let lists = enqueued(&outcome.enqueued);
    Scanned {
        scanned_free: outcome.free,
        added: lists.added,
        requeued: lists.requeued,
        reordered: lists.reordered,
        skipped_in_progress: lists.skipped_in_progress,
    }
}

pub(super) fn auto_cycle(cycle: &Cycle) -> AutoCycle {
    AutoCycle {
        enabled: cycle.enabled,
        interval_seconds: cycle.interval_secs,
        max_run_seconds: cycle.max_run_secs,
        phase: cycle.phase.name().public().to_owned(),
        run_started_at: time(cycle.run_started_at),
        next_run_at: time(cycle.next_run_at()),
        last_run_started_at: time(cycle.last_started_at),
        last_run_finished_at: time(cycle.last_finished_at),
        last_outcome: cycle
            .last_outcome
            .map_or("", RoundOutcome::as_str)
            .to_owned(),
        last_error: cycle.last_error.clone(),
        last_scanned_free: cycle.last_scanned_free,
        runs_total: cycle.runs_total,
    }
}

pub(super) fn status(counts: Counts, backups: Option<BackupStatus>) -> Status {
    let of = |results: &BTreeMap<String, u64>, outcome: Outcome| {
        results.get(outcome.as_str()).copied().unwrap_or(0)
    };
    Status {
        total_ips: counts.states.values().sum(),
        results_by_overall: ResultCounts {
            pass: of(&counts.results, Outcome::Pass),
            partial: of(&counts.results, Outcome::Partial),
            fail: of(&counts.results, Outcome::Fail),
            cancelled: of(&counts.results, Outcome::Cancelled),
        },
        total_validators: counts.validators,
        ips_by_state: counts.states,
        backup: backups.map(backup),
    }
}

fn backup(of: BackupStatus) -> Backup {
    Backup {
        last_at: time(of.last_at),
        last_file: of.last_file.map(|file| file.display().to_string()),
        last_bytes: of.last_bytes,
        next_at: time(of.next_at),
        error: of.error,
        failed_at: time(of.failed_at),
    }
}
