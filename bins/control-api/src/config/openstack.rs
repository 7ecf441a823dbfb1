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
    /// Keystone's address.
    pub auth_url: SecretSource,
    /// User of password authentication.
    pub username: SecretSource,
    /// Their password.
    pub password: SecretSource,
    /// Project to be scoped to.
    pub project_name: SecretSource,
    /// Domain of the user.
    pub user_domain_name: SecretSource,
    /// Domain of the project.
    pub project_domain_name: SecretSource,
    /// Application credential instead of a user and password.
    pub application_credential_id: SecretSource,
    /// Its secret.
    pub application_credential_secret: SecretSource,
    /// Region in the catalogue.
    pub region: SecretSource,
    /// Which endpoint to use.
    pub interface: Interface,
    /// PEM file of a private certificate authority.
    pub ca_file: Option<PathBuf>,
    /// Id or name of the external network whose addresses alone count; `None`: all.
    pub floating_network: Option<String>,
    /// Rows of one page of a list: 1 to 1000.
    pub list_page_size: u32,
    /// Time for one request: 1 to 600 s.
    pub request_timeout: Duration,
    /// How often a page of a scan is asked for again: 0 to 100.
    pub page_retries: u32,
}

macro_rules! raw {
    ($($source:ident: $env:ident = $default:literal, $file:ident;)*) => {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Raw {
            $($env: Option<String>, $file: Option<String>,)*
            cloud: Option<String>,
            interface: String,
            ca_file: Option<String>,
            floating_network: Option<String>,
            list_page_size: i64,
            request_timeout_seconds: i64,
            page_retries: i64,
        }

        impl Default for Raw {
            fn default() -> Self {
                Self {
                    $($env: Some($default.to_owned()), $file: None,)*
                    cloud: None,
                    interface: "public".to_owned(),
                    ca_file: None,
                    floating_network: None,
                    list_page_size: 200,
                    request_timeout_seconds: 60,
                    page_retries: 5,
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
    password: password_env = "OS_PASSWORD", password_file;
    project_name: project_name_env = "OS_PROJECT_NAME", project_name_file;
    user_domain_name: user_domain_name_env = "OS_USER_DOMAIN_NAME", user_domain_name_file;
    project_domain_name: project_domain_name_env = "OS_PROJECT_DOMAIN_NAME",
        project_domain_name_file;
    application_credential_id: application_credential_id_env = "OS_APPLICATION_CREDENTIAL_ID",
        application_credential_id_file;
    application_credential_secret: application_credential_secret_env =
        "OS_APPLICATION_CREDENTIAL_SECRET", application_credential_secret_file;
    region: region_env = "OS_REGION_NAME", region_file;
}

impl OpenStack {
    pub(super) fn build(raw: Raw, report: &mut Report) -> Option<Self> {
        report.not_available("openstack.cloud", raw.cloud.is_some());
        let sources = Sources::build(&raw, report);
        let words = ["public", "internal", "admin"];
        let interface = match report.word("openstack.interface", &raw.interface, &words) {
            Some("internal") => Interface::Internal,
            Some("admin") => Interface::Admin,
            _ => Interface::Public,
        };
        let network = raw.floating_network;
        if network
            .as_deref()
            .is_some_and(|name| name.trim().is_empty())
        {
            report.fault(
                "openstack.floating_network",
                "must be the id or name of a network, or left out",
            );
        }
        let timeout = report.int(
            "openstack.request_timeout_seconds",
            raw.request_timeout_seconds,
            1..=600,
        );
        Some(Self {
            auth_url: sources.auth_url,
            username: sources.username,
            password: sources.password,
            project_name: sources.project_name,
            user_domain_name: sources.user_domain_name,
            project_domain_name: sources.project_domain_name,
            application_credential_id: sources.application_credential_id,
            application_credential_secret: sources.application_credential_secret,
            region: sources.region,
            interface,
            ca_file: report.path("openstack.ca_file", raw.ca_file.as_deref()),
            floating_network: network,
            list_page_size: report.int("openstack.list_page_size", raw.list_page_size, 1..=1_000),
            request_timeout: Duration::from_secs(timeout),
            page_retries: report.int("openstack.page_retries", raw.page_retries, 0..=100),
        })
    }
}
