//! The read models of `/admin/ips*` and `/admin/validators`, in `PascalCase`.
//!
//! Documented asymmetry of the contract: clients depend on these names, so they live here and
//! nowhere else. Times are RFC 3339 text and null until they happen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// An address in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    #[schema(schema_with = words::ip_state)]
    pub state: String,
    #[schema(schema_with = words::result)]
    pub overall_result: String,
    #[serde(rename = "CycleID")]
    pub cycle_id: i64,
    pub attempt_number: i64,
    pub retry_count: i64,
    #[serde(rename = "ValidatorID")]
    #[schema(required)]
    pub validator_id: Option<String>,
    #[serde(rename = "FIPID")]
    #[schema(required)]
    pub fip_id: Option<String>,
    #[schema(format = DateTime, required)]
    pub lease_expires_at: Option<String>,
    #[schema(format = DateTime, required)]
    pub assigned_at: Option<String>,
    #[serde(rename = "FIPAssociatedAt")]
    #[schema(format = DateTime, required)]
    pub fip_associated_at: Option<String>,
    #[schema(format = DateTime, required)]
    pub checking_started_at: Option<String>,
    pub egress_complete: bool,
    pub sites_complete: BTreeMap<String, bool>,
    #[schema(format = DateTime, required)]
    pub aggregated_at: Option<String>,
    #[serde(rename = "FIPReleasedAt")]
    #[schema(format = DateTime, required)]
    pub fip_released_at: Option<String>,
    pub last_error: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    #[schema(schema_with = words::source)]
    pub source: String,
    #[serde(rename = "SiteID")]
    #[schema(required)]
    pub site_id: Option<String>,
    pub check_type: String,
    pub target: String,
    pub success: bool,
    pub latency_ms: i64,
    #[serde(default)]
    pub duration_ms: Option<i64>,
    pub detail: String,
    #[schema(format = DateTime)]
    pub checked_at: String,
    #[schema(format = DateTime)]
    pub received_at: String,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[expect(
    missing_docs,
    reason = "the names are the contract's; docs/API.md explains each"
)]
pub struct Event {
    #[serde(rename = "ID")]
    pub id: i64,
    #[serde(rename = "IPID")]
    #[schema(required)]
    pub ip_id: Option<i64>,
    #[serde(rename = "IPAddress")]
    #[schema(required)]
    pub ip_address: Option<String>,
    #[serde(rename = "CycleID")]
    #[schema(required)]
    pub cycle_id: Option<i64>,
    #[serde(rename = "ValidatorID")]
    #[schema(required)]
    pub validator_id: Option<String>,
    #[serde(rename = "SiteID")]
    #[schema(required)]
    pub site_id: Option<String>,
    pub event_type: String,
    #[schema(schema_with = words::severity)]
    pub severity: String,
    pub payload: String,
    #[schema(format = DateTime)]
    pub occurred_at: String,
}

/// A validator and what it is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    #[schema(schema_with = words::validator_state)]
    pub state: String,
    #[serde(rename = "CurrentIPID")]
    #[schema(required)]
    pub current_ip_id: Option<i64>,
    #[schema(format = DateTime, required)]
    pub last_heartbeat_at: Option<String>,
    /// Why this validator claims nothing at present (ours); empty when nothing is wrong.
    #[serde(default)]
    pub paused_because: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
}

/// `GET /admin/ips/{ip}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IpDetails {
    /// The address.
    pub ip: Ip,
    /// Results of the current attempt.
    pub checks: Vec<Check>,
    /// Everything that happened to the address, oldest first.
    pub events: Vec<Event>,
}
