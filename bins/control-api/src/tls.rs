//! TLS of the clients in this binary: the host's roots, plus those of one file.
//!
//! Certificates are always judged; there is no switch that turns it off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// The file cannot be read or is not PEM.
    #[error("cannot read certificates from {}: it must be a PEM file", path.display())]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        source: pem::Error,
    },
    /// A PEM file without a certificate.
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// rustls refused.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// The host's roots (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured) and those of `ca_file`.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "a root certificate of this host cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = ca_file {
        for cert in certificates(path)? {
            roots.add(cert)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = |source| TlsError::Pem {
        path: path.to_owned(),
        source,
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(pem)?.collect();
    let all = all.map_err(pem)?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(all)
}
