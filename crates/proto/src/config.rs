//! The configuration that is changed through the API: `/api/v1/admin/config/…`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::words;

/// A row of `GET /admin/config/validators`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidatorEntry {
    /// Its name.
    pub validator_id: String,
    /// Its Neutron port.
    pub os_port_id: String,
    /// `unregistered`, `idle`, `assigned`, `checking` or `unreachable`.
    #[schema(schema_with = words::validator_state)]
    pub state: String,
}

/// `POST /admin/config/validators`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewValidator {
    /// Its name: 1 to 128 characters without control characters and slashes.
    #[schema(schema_with = words::name)]
    pub validator_id: String,
    /// Its Neutron port, which no other validator may have: 1 to 128 characters without
    /// control characters and slashes.
    #[schema(schema_with = words::name)]
    pub os_port_id: String,
}

/// `PUT /admin/config/validators/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidatorPort {
    /// Its Neutron port from the next claim on; no other validator may have it.
    #[schema(schema_with = words::name)]
    pub os_port_id: String,
}

/// A row of `GET /admin/config/sites`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteEntry {
    /// Its slot, from 1.
    pub index: i64,
    /// Its name.
    pub site_id: String,
    /// Name of the prober's host, as it told at `register`; `""` before.
    pub hostname: String,
    /// `unregistered`, `idle` or `unreachable`.
    #[schema(schema_with = words::site_state)]
    pub state: String,
    /// Its last sign of life (RFC 3339); null before the first.
    #[schema(format = DateTime, required)]
    pub last_heartbeat_at: Option<String>,
}

/// `PUT /admin/config/sites/{index}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteName {
    /// Its name, which no other slot may have: 1 to 128 characters without control characters and
    /// slashes.
    #[schema(schema_with = words::name)]
    pub site_id: String,
}

/// A row of `GET /admin/config/targets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetGroup {
    /// The group's name.
    pub name: String,
    /// URLs, hosts or `host:port`.
    pub targets: Vec<String>,
}

/// `PUT /admin/config/targets/{group}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// URLs, hosts or `host:port`, at least one, without white space.
    #[schema(schema_with = words::target_list)]
    pub targets: Vec<String>,
}

/// A row of `GET /admin/config/check-types`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckTypeEntry {
    /// The check type.
    pub name: String,
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of target groups.
    pub targets: Vec<String>,
    /// Options of the check type (ours), where any are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub options: Option<Value>,
}

/// `PUT /admin/config/check-types/{name}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckTypeBody {
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of target groups, each of which must exist.
    pub targets: Vec<String>,
    /// Options of the check type (ours): left out, they stay as they are; `{}` removes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::check_options, required = false)]
    pub options: Option<Map<String, Value>>,
}

/// `GET /admin/config/orchestrator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orchestrator {
    /// Pause between an association and its self-check, in seconds.
    pub fip_settle_seconds: u32,
    /// Latest cycles of an address whose checks and events are kept; 0: all.
    pub history_retention_cycles: i64,
}

/// `PUT /admin/config/orchestrator`; a field that is left out stays as it is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestratorChange {
    /// Pause between an association and its self-check, in seconds: from 0; together with
    /// `self_check_timeout_seconds` it must stay below `lease_ttl_seconds`.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0)]
    pub fip_settle_seconds: Option<i64>,
    /// Latest cycles of an address whose checks and events are kept, from 0, which keeps all.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_whole",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_i64)]
    pub history_retention_cycles: Option<i64>,
}

/// `GET /admin/config/inbound-checks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InboundChecks {
    /// TCP ports that every site checks.
    pub ports: Vec<u16>,
    /// Whether every site sends echo requests.
    pub icmp: bool,
    /// TCP ports on which nothing is to answer (ours), where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub closed_ports: Vec<u16>,
}

/// `PUT /admin/config/inbound-checks`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InboundChecksBody {
    /// TCP ports that every site checks: 1 to 65535, each once; none is a valid list.
    #[serde(deserialize_with = "crate::lenient::wholes")]
    #[schema(schema_with = words::port_list)]
    pub ports: Vec<i64>,
    /// Whether every site sends echo requests.
    pub icmp: bool,
    /// TCP ports on which nothing is to answer (ours), none of them in `ports`: left out, they stay
    /// as they are; `[]` removes them.
    #[serde(
        default,
        deserialize_with = "crate::lenient::maybe_wholes",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = words::closed_port_list, required = false)]
    pub closed_ports: Option<Vec<i64>>,
}
