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
    /// What the prober can do beyond the contract: `identity`, `closed_ports`. A check that it has
    /// not named is not expected of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
}

/// What shows that an address leads to the validator that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    /// The validator, as it names itself in `X-Validator-Id`.
    #[schema(schema_with = words::name)]
    pub validator_id: String,
    /// What it serves in `X-Validator-Nonce`.
    pub nonce: crate::Nonce,
    /// The ports on which it answers over HTTP; one that does is enough.
    #[schema(max_items = 16)]
    pub ports: Vec<u16>,
}

/// One element of `GET /probers/{site_id}/assignments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SiteAssignment, examples(json!({
    "ip_id": 42, "ip_address": "203.0.113.10", "ports": [22, 80, 443, 8080], "icmp": true,
    "attempt_number": 1, "fence": 17, "revision": 0
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
    /// TCP ports on which nothing is to answer (ours): `closed-<port>` for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub closed_ports: Vec<u16>,
    /// What to compare in the check `identity` (ours); left out where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
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
    /// Which list of checks this is, of this claim; to be sent back when it is done (ours). An
    /// older server has none.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<i64>,
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
    /// `tcp-<port>`, `icmp`, `ssh`, `tls-443`; ours: `closed-<port>`, `identity`.
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
    /// With `complete`: the list of checks that is done, from the assignment. A site that was
    /// handed out another list since is waited for again (ours).
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<i64>,
}

/// `POST /probers/{site_id}/results`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = InboundResults, examples(json!({
    "results": [{
        "ip_id": 42, "ip_address": "203.0.113.10", "check_type": "tcp-443", "success": true,
        "latency_ms": 12, "checked_at": "2026-01-02T03:04:05Z", "complete": true, "fence": 17,
        "revision": 0
    }]
})))]
pub struct Results {
    /// At least none; each row stands for itself. Missing or null: none.
    #[serde(default, deserialize_with = "crate::lenient::list")]
    #[schema(value_type = Option<Vec<CheckResult>>)]
    pub results: Vec<CheckResult>,
}
