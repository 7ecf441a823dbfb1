//! OpenStack as a [`Cloud`]: its configuration, and the one object that the rest of us holds.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Certificate, Client, Url, redirect};
use secrecy::SecretString;

use civ_crash::step;
use civ_types::{Address, Family, FipId, PortId};

use crate::budget::Budget;
use crate::cloud::{Cloud, FloatingIp, Page};
use crate::fault::{Fault, ReadFault, WriteFault};
use crate::http::Http;
use crate::keystone::{Session, neutron_base, tokens_url};
use crate::neutron::{Neutron, mark};

/// Idle connections are dropped after this long: uWSGI, which commonly serves OpenStack, closes
/// them after 4 s without announcing it, and a write sent into that would be lost.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// Longest time to make a connection: three SYN packets' worth (RFC 6298: 1 + 2 + 4 s), and less
/// than what a cloud call as a whole may take.
const CONNECT_MAX: Duration = Duration::from_secs(7);

/// Most rows of a page that Neutron's operators commonly allow.
const PAGE_SIZE_MAX: u32 = 1_000;

/// How to log in to Keystone.
#[derive(Debug, Clone)]
pub enum Auth {
    /// By user and password, in a project.
    Password {
        /// Who.
        user: User,
        /// The password.
        password: SecretString,
        /// The project to work in.
        scope: Scope,
    },
    /// By application credential, which brings its own project.
    AppCredential {
        /// Its id.
        id: String,
        /// Its secret.
        secret: SecretString,
    },
    /// By application credential, named by its user's name for it.
    AppCredentialByName {
        /// Its name.
        name: String,
        /// Whose it is.
        user: User,
        /// Its secret.
        secret: SecretString,
    },
}

/// A Keystone user, by id or by name and domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// By id.
    Id(String),
    /// By name.
    Name {
        /// The user's name.
        name: String,
        /// Its domain.
        domain: Domain,
    },
}

/// A Keystone domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// By id, like `default`.
    Id(String),
    /// By name, like `Default`.
    Name(String),
}

/// The project to work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// By id.
    ProjectId(String),
    /// By name.
    ProjectName {
        /// The project's name.
        name: String,
        /// Its domain.
        domain: Domain,
    },
}

/// Everything that has to be known to reach an OpenStack. Plain values: reading files and the
/// environment is the binary's business.
#[derive(Debug, Clone)]
pub struct OpenStackConfig {
    /// How to log in.
    pub auth: Auth,
    /// Keystone's address, with or without the final `/v3`.
    pub auth_url: String,
    /// Which region's network endpoint of the catalog; `None`: the first.
    pub region: Option<String>,
    /// Which interface of the catalog: `public`, `internal` or `admin`.
    pub interface: String,
    /// Certificates (PEM) to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Only floating IPs of this external network, by name or id.
    pub floating_network: Option<String>,
    /// Neutron's address, instead of the one in the catalog.
    pub endpoint_override: Option<String>,
    /// The time that one HTTP request may take.
    pub request_timeout: Duration,
    /// Rows that a page of a listing may have, 1 to 1,000.
    pub list_page_size: u32,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No `http` or `https` URL with a host.
    #[error("the {what} {url:?} is not an http or https URL: write scheme, host and path")]
    Url {
        /// Which address.
        what: &'static str,
        /// As given, without login and query.
        url: String,
    },
    /// A login in the address itself, which would be shown wherever the address is.
    #[error("the {0} holds a user or password: take them out, a login has keys of its own")]
    Login(&'static str),
    /// Keystone's address names a version that is not spoken.
    #[error("the auth URL {0:?} is of an old Identity API: write the address that ends in /v3")]
    OldIdentity(String),
    /// The file of certificates cannot be read.
    #[error("the certificates in {} cannot be read", path.display())]
    CaFile {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file of certificates holds none.
    #[error("{} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// Where.
        path: PathBuf,
    },
    /// A page of no rows, or of too many.
    #[error("a page of {0} rows is out of range: 1 to {PAGE_SIZE_MAX}")]
    PageSize(u32),
    /// The HTTP client cannot be made: TLS is not set up, or a certificate makes no sense.
    #[error("the HTTP client for OpenStack cannot be made")]
    Client(#[source] reqwest::Error),
}

/// OpenStack. Logs in at the first call and whenever its token ends.
#[derive(Debug)]
pub struct OpenStack {
    pub(crate) neutron: Neutron,
    marks: bool,
}

impl OpenStack {
    /// Checks the configuration. Sends nothing, so that a process starts while the cloud is away.
    ///
    /// # Errors
    /// [`ConnectError`] says what of the configuration cannot be used.
    pub fn connect(config: OpenStackConfig) -> Result<Self, ConnectError> {
        Self::within(config, Budget::default())
    }

    /// The same, with a budget of one's own.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn within(config: OpenStackConfig, budget: Budget) -> Result<Self, ConnectError> {
        let bad = |what, url: &str| ConnectError::Url {
            what,
            url: shown(url),
        };
        if config.auth_url.trim_end_matches('/').ends_with("/v2.0") {
            return Err(ConnectError::OldIdentity(shown(&config.auth_url)));
        }
        let tokens: Url =
            tokens_url(&config.auth_url).ok_or_else(|| bad("auth URL", &config.auth_url))?;
        let network = config
            .endpoint_override
            .as_deref()
            .map(|url| neutron_base(url).ok_or_else(|| bad("network endpoint", url)))
            .transpose()?;
        without_login("auth URL", &tokens)?;
        if let Some(network) = &network {
            without_login("network endpoint", network)?;
        }
        if !(1..=PAGE_SIZE_MAX).contains(&config.list_page_size) {
            return Err(ConnectError::PageSize(config.list_page_size));
        }
        let http = Http::new(client(&config)?, budget);
        let (floating_network, page_size) =
            (config.floating_network.clone(), config.list_page_size);
        let session = Session::new(http.clone(), config, tokens, network);
        Ok(Self {
            neutron: Neutron::new(http, session, floating_network, page_size),
            marks: false,
        })
    }
}

impl OpenStack {
    /// Whether what we hold is marked in its description, if that is empty, and the mark taken off
    /// with the release: in the same call that binds or frees it.
    #[must_use]
    pub const fn marking(mut self, marks: bool) -> Self {
        self.marks = marks;
        self
    }
}

fn without_login(what: &'static str, url: &Url) -> Result<(), ConnectError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(());
    }
    Err(ConnectError::Login(what))
}

/// What of an address may stand in a message: neither a login nor a query. The text need not be a
/// URL, so what is before the last `@` is left out whole.
fn shown(url: &str) -> String {
    let (start, rest) = match url.rsplit_once('@') {
        None => ("", url),
        Some((login, rest)) => {
            let scheme = login.find("://").map_or(0, |at| at + "://".len());
            (login.get(..scheme).unwrap_or_default(), rest)
        }
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{start}{rest}")
}

fn client(config: &OpenStackConfig) -> Result<Client, ConnectError> {
    let mut builder = Client::builder()
        .user_agent(concat!("cloud-ip-validator/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .timeout(config.request_timeout)
        .connect_timeout(config.request_timeout.min(CONNECT_MAX))
        .pool_idle_timeout(IDLE_MAX);
    if let Some(path) = &config.ca_file {
        let pem = std::fs::read(path).map_err(|source| ConnectError::CaFile {
            path: path.clone(),
            source,
        })?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(ConnectError::Client)?;
        if certificates.is_empty() {
            return Err(ConnectError::NoCertificate { path: path.clone() });
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(ConnectError::Client)
}

#[async_trait]
impl Cloud for OpenStack {
    fn families(&self) -> &[Family] {
        // Neutron has no IPv6 floating IPs.
        &[Family::V4]
    }

    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        step!(CloudFind, self.neutron.find(address).await)
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        step!(CloudGet, self.neutron.get(id).await)
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        step!(CloudOnPorts, self.neutron.on_ports(ports).await)
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        step!(CloudPage, self.neutron.page(after, limit).await)
    }

    async fn count(&self) -> Result<Option<u64>, ReadFault> {
        step!(CloudCount, self.neutron.count().await)
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        step!(
            CloudSetPort,
            self.neutron.set_port(id, port, revision, None).await
        )
    }

    async fn bind(
        &self,
        seen: &FloatingIp,
        port: Option<&PortId>,
    ) -> Result<FloatingIp, WriteFault> {
        let description = if self.marks { mark(seen, port) } else { None };
        let (id, revision) = (&seen.id, seen.revision);
        let call = self.neutron.set_port(id, port, revision, description);
        step!(CloudSetPort, call.await)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Auth, ConnectError, OpenStack, OpenStackConfig};

    fn refused(auth_url: &str, endpoint: Option<&str>) -> ConnectError {
        let auth = Auth::AppCredential {
            id: "id".to_owned(),
            secret: "secret".to_owned().into(),
        };
        OpenStack::connect(OpenStackConfig {
            auth,
            auth_url: auth_url.to_owned(),
            region: None,
            interface: "public".to_owned(),
            ca_file: None,
            floating_network: None,
            endpoint_override: endpoint.map(str::to_owned),
            request_timeout: Duration::from_secs(1),
            list_page_size: 200,
        })
        .unwrap_err()
    }

    #[test]
    fn a_refused_address_does_not_tell_its_password() {
        for (address, said) in [
            ("htp://user:hidden@keystone/v3", "htp://keystone/v3"),
            ("user:hid@den?#@keystone/v3", "keystone/v3"),
            (
                "http://user:hidden@keystone:99999/?key=hidden",
                "http://keystone:99999/",
            ),
            ("http://user:hidden@keystone/v2.0/", "http://keystone/v2.0/"),
        ] {
            let fault = refused(address, None).to_string();
            assert!(fault.contains(&format!("\"{said}\"")), "{fault}");
        }
        let fault = refused("http://keystone", Some("user:hidden@neutron")).to_string();
        assert!(fault.contains("\"neutron\""), "{fault}");
    }

    #[test]
    fn an_address_holds_no_login() {
        let address = "http://user:hidden@127.0.0.1:5000/";
        for fault in [
            refused(address, None),
            refused("http://127.0.0.1:5000", Some(address)),
        ] {
            assert!(matches!(fault, ConnectError::Login(_)), "{fault}");
            assert!(!fault.to_string().contains("hidden"), "{fault}");
        }
    }
}
