//! TLS of the link: the host's roots plus those of one file.
//!
//! The certificate of control-api is always judged; there is no switch that turns it off.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::client::Endpoint;
use crate::error::ClientError;

/// Builds the configuration for one control-api.
pub(crate) fn config(endpoint: &Endpoint) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ClientError::Tls)?
        .with_root_certificates(roots(endpoint.ca_file.as_deref())?);
    let (Some(cert), Some(key)) = (&endpoint.cert_file, &endpoint.key_file) else {
        return Ok(builder.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| ClientError::Pem {
        path: key.clone(),
        source,
    })?;
    let chain = certificates(cert)?;
    builder
        .with_client_auth_cert(chain, private)
        .map_err(ClientError::Tls)
}

/// The roots of the host (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured) and those of `ca_file`.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let mut store = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "a root certificate of this host cannot be read");
    }
    store.add_parsable_certificates(native.certs);
    if let Some(path) = ca_file {
        for cert in certificates(path)? {
            store.add(cert).map_err(ClientError::Tls)?;
        }
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let pem = |source| ClientError::Pem {
        path: path.to_owned(),
        source,
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(pem)?.collect();
    let all = all.map_err(pem)?;
    if all.is_empty() {
        return Err(ClientError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(all)
}
