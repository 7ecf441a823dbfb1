//! The section `openstack`: where the credentials are, and how to read lists.

use std::path::PathBuf;
use std::time::Duration;

use civ_boot::config::Report;
use civ_boot::secrets::SecretSource;
use serde::Deserialize;

/// Which of a service's endpoints in the Keystone catalogue to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// `public`.
    Public,
    /// `internal`.
    Internal,
    /// `admin`.
    Admin,
}

impl Interface {
    /// The word in the catalogue.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// How to reach the cloud. The sources are read when the process starts.
#[derive(Debug, Clone)]
pub struct OpenStack {
    /// The name of a cloud in `clouds.yaml`; then the sources are not read.
    pub cloud: Option<String>,
    /// Keystone's address.
    pub auth_url: SecretSource,
    /// User of password authentication.
    pub username: SecretSource,
    /// The same by id, which needs no domain.
    pub user_id: SecretSource,
    /// Their password.
    pub password: SecretSource,
    /// Project to be scoped to.
    pub project_name: SecretSource,
    /// The same by id, which needs no domain.
    pub project_id: SecretSource,
    /// Domain of the user.
    pub user_domain_name: SecretSource,
    /// The same by id.
    pub user_domain_id: SecretSource,
    /// Domain of the project.
    pub project_domain_name: SecretSource,
    /// The same by id.
    pub project_domain_id: SecretSource,
    /// Application credential instead of a user and password.
    pub application_credential_id: SecretSource,
    /// Its secret.
    pub application_credential_secret: SecretSource,
    /// Region in the catalogue.
    pub region: SecretSource,
    /// Path of a PEM file, as OpenStack's tools name it; `ca_file` wins.
    pub cacert: SecretSource,
    /// Which endpoint to use; `None`: what `clouds.yaml` says, else the public one.
    pub interface: Option<Interface>,
    /// PEM file of a private certificate authority.
    pub ca_file: Option<PathBuf>,
    /// Neutron's address, instead of the catalogue's.
    pub network_endpoint: Option<String>,
    /// Id or name of the external network whose addresses alone count; `None`: all.
    pub floating_network: Option<String>,
    /// Rows of one page of a list: 1 to 1000.
    pub list_page_size: u32,
    /// Time for one request: 1 to 600 s.
    pub request_timeout: Duration,
    /// How often a page of a scan is asked for again: 0 to 100.
    pub page_retries: u32,
    /// Requests under way at once: 1 to 256.
    pub max_parallel_requests: u32,
    /// Whether what we hold is marked in its description.
    pub mark_description: bool,
    /// Requests begun a second: 1 to 10,000.
    pub max_requests_per_second: u32,
}

macro_rules! raw {
    ($($source:ident: $env:ident = $default:literal, $file:ident;)*) => {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Raw {
            $($env: Option<String>, $file: Option<String>,)*
            cloud: Option<String>,
            interface: Option<String>,
            ca_file: Option<String>,
            network_endpoint_override: Option<String>,
            floating_network: Option<String>,
            list_page_size: i64,
            request_timeout_seconds: i64,
            page_retries: i64,
            mark_description: bool,
            max_parallel_requests: i64,
            max_requests_per_second: i64,
        }

        impl Default for Raw {
            fn default() -> Self {
                Self {
                    $($env: Some($default.to_owned()), $file: None,)*
                    cloud: None,
                    interface: None,
                    ca_file: None,
                    network_endpoint_override: None,
                    floating_network: None,
                    list_page_size: 200,
                    request_timeout_seconds: 60,
                    page_retries: 5,
                    mark_description: false,
                    max_parallel_requests: 16,
                    max_requests_per_second: 100,
                }
            }
        }

        struct Sources { $($source: SecretSource,)* }

        impl Sources {
            fn build(raw: &Raw, report: &mut Report) -> Self {
                Self {$(
                    $source: report.secret(
                        concat!("openstack.", stringify!($source)),
                        raw.$env.as_deref(),
                        raw.$file.as_deref(),
                    ),
                )*}
            }
        }
    };
}

raw! {
    auth_url: auth_url_env = "OS_AUTH_URL", auth_url_file;
    username: username_env = "OS_USERNAME", username_file;
    user_id: user_id_env = "OS_USER_ID", user_id_file;
    password: password_env = "OS_PASSWORD", password_file;
    project_name: project_name_env = "OS_PROJECT_NAME", project_name_file;
    project_id: project_id_env = "OS_PROJECT_ID", project_id_file;
    user_domain_name: user_domain_name_env = "OS_USER_DOMAIN_NAME", user_domain_name_file;
    user_domain_id: user_domain_id_env = "OS_USER_DOMAIN_ID", user_domain_id_file;
    project_domain_name: project_domain_name_env = "OS_PROJECT_DOMAIN_NAME",
        project_domain_name_file;
    project_domain_id: project_domain_id_env = "OS_PROJECT_DOMAIN_ID", project_domain_id_file;
    application_credential_id: application_credential_id_env = "OS_APPLICATION_CREDENTIAL_ID",
        application_credential_id_file;
    application_credential_secret: application_credential_secret_env =
        "OS_APPLICATION_CREDENTIAL_SECRET", application_credential_secret_file;
    region: region_env = "OS_REGION_NAME", region_file;
    cacert: cacert_env = "OS_CACERT", cacert_file;
}

impl OpenStack {
    pub(super) fn build(raw: Raw, report: &mut Report) -> Option<Self> {
        let sources = Sources::build(&raw, report);
        let is_blank = |text: &Option<String>| text.as_deref().is_some_and(|t| t.trim().is_empty());
        if is_blank(&raw.cloud) {
            report.fault(
                "openstack.cloud",
                "must be the name of a cloud in clouds.yaml, or left out",
            );
        }
        let network = raw.floating_network;
        if is_blank(&network) {
            report.fault(
                "openstack.floating_network",
                "must be the id or name of a network, or left out",
            );
        }
        let endpoint = raw.network_endpoint_override.as_deref();
        let endpoint =
            endpoint.and_then(|url| report.http_url("openstack.network_endpoint_override", url));
        let timeout = report.int(
            "openstack.request_timeout_seconds",
            raw.request_timeout_seconds,
            1..=600,
        );
        Some(Self {
            cloud: raw.cloud,
            auth_url: sources.auth_url,
            username: sources.username,
            user_id: sources.user_id,
            password: sources.password,
            project_name: sources.project_name,
            project_id: sources.project_id,
            user_domain_name: sources.user_domain_name,
            user_domain_id: sources.user_domain_id,
            project_domain_name: sources.project_domain_name,
            project_domain_id: sources.project_domain_id,
            application_credential_id: sources.application_credential_id,
            application_credential_secret: sources.application_credential_secret,
            region: sources.region,
            cacert: sources.cacert,
            interface: raw
                .interface
                .as_deref()
                .and_then(|text| interface(text, report)),
            ca_file: report.path("openstack.ca_file", raw.ca_file.as_deref()),
            network_endpoint: endpoint.map(Into::into),
            floating_network: network,
            list_page_size: report.int("openstack.list_page_size", raw.list_page_size, 1..=1_000),
            request_timeout: Duration::from_secs(timeout),
            page_retries: report.int("openstack.page_retries", raw.page_retries, 0..=100),
            mark_description: raw.mark_description,
            max_parallel_requests: report.int(
                "openstack.max_parallel_requests",
                raw.max_parallel_requests,
                1..=256,
            ),
            max_requests_per_second: report.int(
                "openstack.max_requests_per_second",
                raw.max_requests_per_second,
                1..=10_000,
            ),
        })
    }
}

fn interface(text: &str, report: &mut Report) -> Option<Interface> {
    let words = ["public", "internal", "admin"];
    Some(match report.word("openstack.interface", text, &words)? {
        "internal" => Interface::Internal,
        "admin" => Interface::Admin,
        _ => Interface::Public,
    })
}
