//! The settings of control-api: what `control-api.yaml` may say, and what it means.
//!
//! It knows neither the store nor the cloud nor the machine of one address: whoever starts those
//! turns these plain structs into theirs.

mod auth;
mod backup;
mod notifications;
mod openstack;
mod orchestrator;
mod seed;
mod server;

use std::path::{Path, PathBuf};

use civ_boot::config::{Faults, Loaded, Report};
use serde::Deserialize;

pub use auth::{Auth, TokenError, Tokens};
pub use backup::Backup;
pub use notifications::Receiver;
pub use openstack::{Interface, OpenStack};
pub use orchestrator::Timers;
pub use seed::{CheckTypeSeed, Inbound, Seed, TargetsSeed, ValidatorSeed, is_target};
pub use server::{Server, ServerTls};

/// Everything control-api needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The HTTP side.
    pub server: Server,
    /// Where the tokens are, and what they protect.
    pub auth: Auth,
    /// The SQLite file; its folder is made at start if need be.
    pub database_path: PathBuf,
    /// Periodic backups of it, if any.
    pub backup: Option<Backup>,
    /// Whether the status page is served at `/`.
    pub dashboard_enabled: bool,
    /// How to reach the cloud.
    pub openstack: OpenStack,
    /// The timers of the orchestrator.
    pub timers: Timers,
    /// Whether an expected check that nobody reported counts as failed.
    pub missing_counts_as_fail: bool,
    /// What fills the tables that are still empty, and the addresses to queue at each start.
    pub seed: Seed,
    /// Who is told of events.
    pub notifications: Vec<Receiver>,
}

/// Loads and checks `control-api.yaml`.
///
/// # Errors
/// All faults of the file.
pub fn load(path: &Path) -> Result<Loaded<Settings>, Faults> {
    civ_boot::config::load(path, Settings::build)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    server: server::Raw,
    auth: auth::Raw,
    database: RawDatabase,
    dashboard: RawDashboard,
    cloud: RawCloud,
    openstack: openstack::Raw,
    orchestrator: orchestrator::Raw,
    aggregation: RawAggregation,
    validators: Vec<seed::RawValidator>,
    sites: Vec<seed::RawSite>,
    targets: seed::RawTargets,
    check_types: Vec<seed::RawCheckType>,
    ip_addresses: Vec<String>,
    notifications: Vec<notifications::Raw>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawDatabase {
    path: String,
    backup: backup::Raw,
}

impl Default for RawDatabase {
    fn default() -> Self {
        Self {
            path: "data/control-api.db".to_owned(),
            backup: backup::Raw::default(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawDashboard {
    enabled: bool,
}

impl Default for RawDashboard {
    fn default() -> Self {
        Self { enabled: true }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawCloud {
    provider: String,
}

impl Default for RawCloud {
    fn default() -> Self {
        Self {
            provider: "openstack".to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawAggregation {
    missing_counts_as_fail: bool,
}

impl Default for RawAggregation {
    fn default() -> Self {
        Self {
            missing_counts_as_fail: true,
        }
    }
}

impl Settings {
    fn build(raw: Raw, report: &mut Report) -> Option<Self> {
        let provider = report.word(
            "cloud.provider",
            &raw.cloud.provider,
            &["openstack", "simulated"],
        );
        report.not_available("cloud.provider", provider == Some("simulated"));
        let server = Server::build(&raw.server, report);
        let auth = Auth::build(&raw.auth, report);
        let database_path = report.path("database.path", Some(&raw.database.path));
        let backup = Backup::build(&raw.database.backup, report);
        let openstack = OpenStack::build(raw.openstack, report);
        let inbound = Inbound::build(&raw.orchestrator.inbound_checks, report);
        let timers = Timers::build(&raw.orchestrator, report);
        let seed = Seed {
            validators: seed::validators(&raw.validators, report),
            sites: seed::sites(&raw.sites, report),
            targets: seed::targets(&raw.targets, report),
            check_types: seed::check_types(&raw.check_types, &raw.targets, report),
            inbound,
            ip_addresses: seed::ip_addresses(&raw.ip_addresses, report),
        };
        let notifications = notifications::build(&raw.notifications, report);
        Some(Self {
            server: server?,
            auth,
            database_path: database_path?,
            backup,
            dashboard_enabled: raw.dashboard.enabled,
            openstack: openstack?,
            timers,
            missing_counts_as_fail: raw.aggregation.missing_counts_as_fail,
            seed,
            notifications,
        })
    }
}
