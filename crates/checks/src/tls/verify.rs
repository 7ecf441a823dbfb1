//! A verifier that keeps what it saw. The handshake signature is always verified, so that the
//! peer proves to hold the key of the certificate that is reported.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::cert;

/// The leaf of one handshake, and what the roots of this host say about it.
#[derive(Debug, Clone)]
pub(super) struct Captured {
    leaf: CertificateDer<'static>,
    invalid: Option<String>,
}

impl Captured {
    /// As the detail shows it.
    pub(super) fn shown(&self) -> String {
        let valid = match &self.invalid {
            None => "valid=yes".to_owned(),
            Some(why) => format!("valid=no ({why})"),
        };
        format!("{valid} {}", cert::facts(&self.leaf))
    }
}

/// Judges by the roots of this host, and lets an invalid certificate pass if it is not to judge.
#[derive(Debug)]
pub(super) struct CapturingVerifier {
    inner: Arc<WebPkiServerVerifier>,
    judge: bool,
    captured: Arc<OnceLock<Captured>>,
}

impl CapturingVerifier {
    pub(super) const fn new(
        inner: Arc<WebPkiServerVerifier>,
        judge: bool,
        captured: Arc<OnceLock<Captured>>,
    ) -> Self {
        Self {
            inner,
            judge,
            captured,
        }
    }
}

impl ServerCertVerifier for CapturingVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.inner.verify_server_cert(leaf, others, name, ocsp, now);
        let invalid = judged.as_ref().err().map(ToString::to_string);
        // One handshake, one certificate: a second call would bring the same.
        self.captured.get_or_init(|| Captured {
            leaf: leaf.clone().into_owned(),
            invalid,
        });
        if self.judge {
            judged
        } else {
            Ok(ServerCertVerified::assertion())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
