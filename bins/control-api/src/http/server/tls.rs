//! TLS of the listener: the certificate that new connections get, and whose a client's is.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::ServerTls;
use crate::tls::{TlsError, server};

/// The certificate in use. Connections keep the one that they began with.
#[derive(Debug)]
pub struct Tls {
    files: ServerTls,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] if one cannot be read or does not fit the others.
    pub fn load(files: ServerTls) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(server(&files)?));
        Ok(Self { files, current })
    }

    /// Reads the files again, for connections to come.
    ///
    /// # Errors
    /// As [`Self::load`]; what was in use stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(server(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }
}

/// The names in a client's certificate, which the authority vouches for: its DNS names, or the
/// common name if it has none.
#[derive(Debug, Clone)]
pub(in crate::http) struct PeerNames(Arc<[String]>);

impl PeerNames {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(names(certificate).unwrap_or_default().into())
    }

    /// Whether the certificate is that of `id`.
    pub(in crate::http) fn are_of(&self, id: &str) -> bool {
        self.0.iter().any(|name| name == id)
    }
}

fn names(certificate: &CertificateDer<'_>) -> Option<Vec<String>> {
    let (_rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    let alternative = parsed.subject_alternative_name().ok()?;
    let dns = alternative
        .into_iter()
        .flat_map(|found| &found.value.general_names);
    let dns: Vec<String> = dns
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if !dns.is_empty() {
        return Some(dns);
    }
    let common = parsed.subject().iter_common_name();
    Some(
        common
            .filter_map(|name| name.as_str().ok().map(str::to_owned))
            .collect(),
    )
}
