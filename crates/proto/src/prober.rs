//! Methods for prober: `/api/v1/probers/…`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// `POST /probers/register`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ProberRegister, examples(json!({"site_id": "site_01", "hostname": "probe-01"})))]
pub struct Register {
    /// As configured in control-api.
    #[schema(schema_with = words::name)]
    pub site_id: String,
    /// Name of the host, for people.
    #[serde(default)]
    pub hostname: Option<String>,
}

/// One element of `GET /probers/{site_id}/assignments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SiteAssignment, examples(json!({
    "ip_id": 42, "ip_address": "203.0.113.10", "ports": [22, 80, 443, 8080], "icmp": true,
    "attempt_number": 1, "fence": 17
})))]
pub struct Assignment {
    /// Names the address in every report.
    pub ip_id: i64,
    /// The address to probe.
    pub ip_address: String,
    /// TCP ports to check; 22 adds `ssh`, 443 adds `tls-443`.
    pub ports: Vec<u16>,
    /// Whether to send echo requests.
    pub icmp: bool,
    /// Which attempt this is (ours).
    #[serde(default)]
    pub attempt_number: i64,
    /// Which claim this is; to be sent back in every result (ours).
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// One result of an inbound check.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = InboundResult)]
pub struct CheckResult {
    /// The address it is about.
    #[serde(deserialize_with = "crate::lenient::whole")]
    pub ip_id: i64,
    /// The address again, for people and as a cross-check.
    #[serde(default)]
    pub ip_address: Option<String>,
    /// `tcp-<port>`, `icmp`, `ssh`, `tls-443`.
    #[schema(schema_with = words::check_name)]
    pub check_type: String,
    /// Passed or failed.
    pub success: bool,
    /// Of the step that the check is about, in milliseconds.
    #[serde(default, deserialize_with = "crate::lenient::whole_ms")]
    #[schema(value_type = Option<f64>)]
    pub latency_ms: Option<i64>,
    /// How long the whole check took, in milliseconds (ours).
    #[serde(
        default,
        deserialize_with = "crate::lenient::whole_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<f64>)]
    pub duration_ms: Option<i64>,
    /// A stable code, then what was seen (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// RFC 3339; replaced by the server's time if it is missing or does not parse.
    #[serde(default)]
    pub checked_at: Option<String>,
    /// On one result of the last batch: the site has finished with this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// The claim, from the assignment.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// `POST /probers/{site_id}/results`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = InboundResults, examples(json!({
    "results": [{
        "ip_id": 42, "ip_address": "203.0.113.10", "check_type": "tcp-443", "success": true,
        "latency_ms": 12, "checked_at": "2026-01-02T03:04:05Z", "complete": true, "fence": 17
    }]
})))]
pub struct Results {
    /// At least none; each row stands for itself. Missing or null: none.
    #[serde(default, deserialize_with = "crate::lenient::list")]
    #[schema(value_type = Option<Vec<CheckResult>>)]
    pub results: Vec<CheckResult>,
}
