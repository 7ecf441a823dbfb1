//! The read models of `/admin/ips*` and `/admin/validators`, in `PascalCase`.
//!
//! Documented asymmetry of the contract: clients depend on these names, so they live here and
//! nowhere else. Times are RFC 3339 text and null until they happen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An address in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(
    missing_docs,
    reason = "the names are the contract's; docs/API.md explains each"
)]
pub struct Ip {
    #[serde(rename = "ID")]
    pub id: i64,
    #[serde(rename = "IPAddress")]
    pub ip_address: String,
    pub sequence: i64,
    pub state: String,
    pub overall_result: String,
    #[serde(rename = "CycleID")]
    pub cycle_id: i64,
    pub attempt_number: i64,
    pub retry_count: i64,
    #[serde(rename = "ValidatorID")]
    pub validator_id: Option<String>,
    #[serde(rename = "FIPID")]
    pub fip_id: Option<String>,
    pub lease_expires_at: Option<String>,
    pub assigned_at: Option<String>,
    #[serde(rename = "FIPAssociatedAt")]
    pub fip_associated_at: Option<String>,
    pub checking_started_at: Option<String>,
    pub egress_complete: bool,
    pub sites_complete: BTreeMap<String, bool>,
    pub aggregated_at: Option<String>,
    #[serde(rename = "FIPReleasedAt")]
    pub fip_released_at: Option<String>,
    pub last_error: String,
    pub created_at: String,
    pub updated_at: String,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(
    missing_docs,
    reason = "the names are the contract's; docs/API.md explains each"
)]
pub struct Check {
    #[serde(rename = "ID")]
    pub id: i64,
    #[serde(rename = "IPID")]
    pub ip_id: i64,
    #[serde(rename = "CycleID")]
    pub cycle_id: i64,
    pub attempt_number: i64,
    pub source: String,
    #[serde(rename = "SiteID")]
    pub site_id: Option<String>,
    pub check_type: String,
    pub target: String,
    pub success: bool,
    pub latency_ms: i64,
    #[serde(default)]
    pub duration_ms: Option<i64>,
    pub detail: String,
    pub checked_at: String,
    pub received_at: String,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(
    missing_docs,
    reason = "the names are the contract's; docs/API.md explains each"
)]
pub struct Event {
    #[serde(rename = "ID")]
    pub id: i64,
    #[serde(rename = "IPID")]
    pub ip_id: Option<i64>,
    #[serde(rename = "IPAddress")]
    pub ip_address: Option<String>,
    #[serde(rename = "CycleID")]
    pub cycle_id: Option<i64>,
    #[serde(rename = "ValidatorID")]
    pub validator_id: Option<String>,
    #[serde(rename = "SiteID")]
    pub site_id: Option<String>,
    pub event_type: String,
    pub severity: String,
    pub payload: String,
    pub occurred_at: String,
}

/// A validator and what it is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(
    missing_docs,
    reason = "the names are the contract's; docs/API.md explains each"
)]
pub struct Validator {
    #[serde(rename = "ValidatorID")]
    pub validator_id: String,
    #[serde(rename = "OSPortID")]
    pub os_port_id: String,
    pub hostname: String,
    pub agent_version: String,
    pub state: String,
    #[serde(rename = "CurrentIPID")]
    pub current_ip_id: Option<i64>,
    pub last_heartbeat_at: Option<String>,
    /// Why this validator claims nothing at present (ours); empty when nothing is wrong.
    #[serde(default)]
    pub paused_because: String,
    pub created_at: String,
    pub updated_at: String,
}

/// `GET /admin/ips/{ip}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IpDetails {
    /// The address.
    pub ip: Ip,
    /// Results of the current attempt.
    pub checks: Vec<Check>,
    /// Everything that happened to the address, oldest first.
    pub events: Vec<Event>,
}
