//! OpenStack as a [`Cloud`]: its configuration, and the one object that the rest of us holds.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Certificate, Client, Url, redirect};
use secrecy::SecretString;

use civ_types::{Address, Family, FipId, PortId};

use crate::cloud::{Cloud, FloatingIp, Page};
use crate::fault::{Fault, ReadFault, WriteFault};
use crate::keystone::{Session, neutron_base, tokens_url};
use crate::neutron::Neutron;

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
        /// As given.
        url: String,
    },
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
    neutron: Neutron,
}

impl OpenStack {
    /// Checks the configuration. Sends nothing, so that a process starts while the cloud is away.
    ///
    /// # Errors
    /// [`ConnectError`] says what of the configuration cannot be used.
    pub fn connect(config: OpenStackConfig) -> Result<Self, ConnectError> {
        let bad = |what, url: &str| ConnectError::Url {
            what,
            url: url.to_owned(),
        };
        let tokens: Url =
            tokens_url(&config.auth_url).ok_or_else(|| bad("auth URL", &config.auth_url))?;
        let network = config
            .endpoint_override
            .as_deref()
            .map(|url| neutron_base(url).ok_or_else(|| bad("network endpoint", url)));
        if !(1..=PAGE_SIZE_MAX).contains(&config.list_page_size) {
            return Err(ConnectError::PageSize(config.list_page_size));
        }
        let client = client(&config)?;
        let (floating_network, page_size) =
            (config.floating_network.clone(), config.list_page_size);
        let session = Session::new(client.clone(), config, tokens, network.transpose()?);
        Ok(Self {
            neutron: Neutron::new(client, session, floating_network, page_size),
        })
    }
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
        self.neutron.find(address).await
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        self.neutron.get(id).await
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        self.neutron.on_ports(ports).await
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        self.neutron.page(after, limit).await
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        self.neutron.set_port(id, port, revision).await
    }
}
