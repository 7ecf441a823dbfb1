//! TLS of the clients in this binary (roots of the host and of one file) and of its listener.
//!
//! Certificates are always judged; there is no switch that turns it off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::config::ServerTls;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
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
    /// The key's file cannot be read or holds none.
    #[error("cannot read a private key from {}: it must be a PEM file", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        source: pem::Error,
    },
    /// The authority of clients is none.
    #[error("server.tls.client_ca_file cannot be used")]
    ClientCa(#[from] VerifierBuilderError),
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

/// TLS 1.2 and 1.3 with this certificate. With an authority of clients, a client that shows a
/// certificate must show a good one of it; whether it must show one is a matter of the route.
pub(crate) fn server(files: &ServerTls) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&files.cert_file)?;
    let key = PrivateKeyDer::from_pem_file(&files.key_file).map_err(|source| TlsError::Key {
        path: files.key_file.clone(),
        source,
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match &files.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for cert in certificates(path)? {
                roots.add(cert)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
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
