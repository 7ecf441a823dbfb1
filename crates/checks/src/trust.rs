//! Which certificate authorities this host trusts; loaded once per process.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_pki_types::CertificateDer;

/// The roots that certificates are judged by. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trust {
    verifier: Arc<WebPkiServerVerifier>,
    /// Provider and versions, settled once; each handshake adds its own verifier.
    base: ConfigBuilder<ClientConfig, WantsVerifier>,
    roots: usize,
}

/// No certificate can be judged.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The host has no usable root.
    #[error(
        "no trusted root certificate found ({0}): install ca-certificates or set SSL_CERT_FILE"
    )]
    NoRoots(String),
    /// The verifier refused the roots.
    #[error("the trusted root certificates cannot be used: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
    /// The cryptography that is built in does not fit the versions of TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl Trust {
    /// The roots of this host (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured). Reads files:
    /// call it once, at the start. Roots that cannot be parsed are left out.
    ///
    /// # Errors
    /// [`TrustError::NoRoots`] if there are none.
    pub fn native() -> Result<Self, TrustError> {
        let found = rustls_native_certs::load_native_certs();
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        Self::build(found.certs, &reasons.join("; "))
    }

    /// Exactly these roots.
    ///
    /// # Errors
    /// [`TrustError::NoRoots`] if none of them can be used.
    pub fn of(roots: Vec<CertificateDer<'static>>) -> Result<Self, TrustError> {
        Self::build(roots, "none given that parses")
    }

    fn build(roots: Vec<CertificateDer<'static>>, why: &str) -> Result<Self, TrustError> {
        let mut store = RootCertStore::empty();
        let (added, _ignored) = store.add_parsable_certificates(roots);
        if added == 0 {
            return Err(TrustError::NoRoots(why.to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
                .build()?;
        let base =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(Self {
            verifier,
            base,
            roots: added,
        })
    }

    /// How many roots are in use: for the log at start.
    #[must_use]
    pub const fn roots(&self) -> usize {
        self.roots
    }

    /// Judges chains by the roots.
    pub(crate) fn verifier(&self) -> Arc<WebPkiServerVerifier> {
        Arc::clone(&self.verifier)
    }

    /// Settings of one handshake, TLS 1.3 and 1.2, without a client certificate.
    pub(crate) fn client_config(&self, verifier: Arc<dyn ServerCertVerifier>) -> ClientConfig {
        self.base
            .clone()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth()
    }
}
