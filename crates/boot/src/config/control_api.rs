//! The section `control_api`, which agent and prober share.

use serde::Deserialize;
use url::Url;

use super::Report;
use crate::secrets::SecretSource;

/// As it stands in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawControlApi {
    /// Base address of control-api; must be given.
    pub url: Option<String>,
    /// Name of the variable that holds the agent token.
    pub token_env: Option<String>,
    /// Path of a file that holds the agent token; wins over the variable.
    pub token_file: Option<String>,
    /// PEM file of a private certificate authority.
    pub ca_file: Option<String>,
    /// PEM file of the certificate to show; with `key_file`.
    pub cert_file: Option<String>,
    /// PEM file of its private key.
    pub key_file: Option<String>,
}

impl Default for RawControlApi {
    fn default() -> Self {
        Self {
            url: None,
            token_env: Some("CONTROL_API_AGENT_TOKEN".to_owned()),
            token_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
        }
    }
}

/// How to reach control-api.
#[derive(Debug, Clone)]
pub struct ControlApi {
    /// `http` or `https`, with a host, without query and fragment.
    pub url: Url,
    /// Where the agent token is; read it with [`SecretSource::read`].
    pub token: SecretSource,
    /// PEM file of a private certificate authority; `None`: the system's roots alone.
    pub ca_file: Option<std::path::PathBuf>,
    /// PEM file of the certificate to show; there is a `key_file`, then.
    pub cert_file: Option<std::path::PathBuf>,
    /// PEM file of its private key.
    pub key_file: Option<std::path::PathBuf>,
}

impl ControlApi {
    /// Builds the section that stands at `control_api`.
    pub fn build(raw: &RawControlApi, report: &mut Report) -> Option<Self> {
        let token = report.secret(
            "control_api.token",
            raw.token_env.as_deref(),
            raw.token_file.as_deref(),
        );
        let ca_file = report.path("control_api.ca_file", raw.ca_file.as_deref());
        let cert_file = report.path("control_api.cert_file", raw.cert_file.as_deref());
        let key_file = report.path("control_api.key_file", raw.key_file.as_deref());
        match (&cert_file, &key_file) {
            (Some(_), None) => report.fault("control_api.cert_file", "needs `key_file` beside it"),
            (None, Some(_)) => report.fault("control_api.key_file", "needs `cert_file` beside it"),
            _ => {}
        }
        let Some(text) = raw.url.as_deref() else {
            report.fault(
                "control_api.url",
                "must be given: where control-api is, such as http://control-api.internal:8080",
            );
            return None;
        };
        let url = report.http_url("control_api.url", text)?;
        if url.query().is_some() || url.fragment().is_some() {
            report.fault(
                "control_api.url",
                "must be a base address, without `?` and `#`",
            );
        }
        Some(Self {
            url,
            token,
            ca_file,
            cert_file,
            key_file,
        })
    }
}
