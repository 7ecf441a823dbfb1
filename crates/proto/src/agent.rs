//! Methods for validator-agent: `/api/v1/agents/…`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// `POST /agents/register`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentRegister, examples(json!({
    "validator_id": "validator_01", "hostname": "vm-01", "agent_version": "0.1.0"
})))]
pub struct Register {
    /// As configured in control-api.
    #[schema(schema_with = words::name)]
    pub validator_id: String,
    /// Name of the host, for people.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Version of the agent, for people.
    #[serde(default)]
    pub agent_version: Option<String>,
    /// What the agent can do beyond the contract: `responder`, if it serves the nonce of its
    /// assignment. A server that does not know a word ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// With `responder`: the ports on which it answers over HTTP, at most 16; 80 and 8080 if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::few_ports, required = false)]
    pub responder_ports: Option<Vec<u16>>,
}

/// `POST /agents/{id}/heartbeat`; the body may be missing altogether.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentHeartbeat, examples(json!({"local_state": "idle"})))]
pub struct Heartbeat {
    /// `idle`, `self_check`, `checking`: for people who read along; not kept.
    #[serde(default)]
    pub local_state: Option<String>,
}

/// What an agent is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Prove that traffic leaves through the address.
    AwaitingSelfCheck,
    /// The self-check has passed: run the checks.
    Checking,
}

/// One check type with its targets, resolved from groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckConfig {
    /// `https`, `icmp`, `tcp`, `ssh`, `tls`.
    #[serde(rename = "type")]
    pub check_type: String,
    /// What to check, in the form that the type asks for.
    pub targets: Vec<String>,
    /// Options of the check type, where any are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<serde_json::Value>,
}

/// 200 of `GET /agents/{id}/assignment`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentAssignment, examples(json!({
    "ip_id": 42, "ip_address": "203.0.113.10", "phase": "checking",
    "check_config": [{"type": "https", "targets": ["https://github.com"]}],
    "attempt_number": 1, "fence": 17, "revision": 0
})))]
pub struct Assignment {
    /// Names the address in every report.
    pub ip_id: i64,
    /// The floating address.
    pub ip_address: String,
    /// What to do.
    pub phase: Phase,
    /// The checks to run in `checking`.
    pub check_config: Vec<CheckConfig>,
    /// Which attempt this is (ours).
    #[serde(default)]
    pub attempt_number: i64,
    /// Which claim this is; to be sent back in every report (ours). An older server has none.
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
    /// What the responder of this validator is to serve while it has this assignment (ours); only
    /// for an agent that has said that it runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<crate::Nonce>,
}

/// `POST /agents/{id}/self-check`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "ip_id": 42, "detected_egress_ip": "203.0.113.10", "success": true, "fence": 17
})))]
pub struct SelfCheck {
    /// The address it is about.
    #[serde(deserialize_with = "crate::lenient::whole")]
    pub ip_id: i64,
    /// What the IP-echo service saw.
    #[serde(default)]
    pub detected_egress_ip: Option<String>,
    /// Did traffic leave through the address?
    pub success: bool,
    /// For people.
    #[serde(default)]
    pub detail: Option<String>,
    /// The claim, from the assignment.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// One result of an egress check.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = EgressResult)]
pub struct CheckResult {
    /// The address it is about.
    #[serde(deserialize_with = "crate::lenient::whole")]
    pub ip_id: i64,
    /// As in `check_config`.
    #[schema(schema_with = words::check_name)]
    pub check_type: String,
    /// As in `check_config`.
    #[serde(default)]
    #[schema(max_length = 2048)]
    pub target: Option<String>,
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
    /// A stable code, then what was seen.
    #[serde(default)]
    pub detail: Option<String>,
    /// RFC 3339; replaced by the server's time if it is missing or does not parse.
    #[serde(default)]
    pub checked_at: Option<String>,
    /// The claim, from the assignment.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// `POST /agents/{id}/results`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = EgressResults, examples(json!({
    "results": [{
        "ip_id": 42, "check_type": "https", "target": "https://github.com", "success": true,
        "latency_ms": 87, "detail": "200", "checked_at": "2026-01-02T03:04:05Z", "fence": 17
    }]
})))]
pub struct Results {
    /// At least none; each row stands for itself. Missing or null: none.
    #[serde(default, deserialize_with = "crate::lenient::list")]
    #[schema(value_type = Option<Vec<CheckResult>>)]
    pub results: Vec<CheckResult>,
    /// The claim of all rows that name none themselves.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
}

/// `POST /agents/{id}/complete`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({"ip_id": 42, "fence": 17, "revision": 0})))]
pub struct Complete {
    /// The address whose egress checks are all done.
    #[serde(deserialize_with = "crate::lenient::whole")]
    pub ip_id: i64,
    /// The claim, from the assignment.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub fence: Option<i64>,
    /// The list of checks that is done, from the assignment: what was added since does not count
    /// unless it was reported.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<i64>,
}
