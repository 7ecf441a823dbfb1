//! Owns the test CA and the certificates that it signs. Knows no servers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// The CA that the stage's processes trust, and nobody else.
pub(crate) struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

/// A certificate with its key, as files in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    /// The certificate.
    pub(crate) cert: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
}

impl TestCa {
    /// Makes a new CA and writes its certificate to `dir`.
    ///
    /// # Errors
    ///
    /// When the key cannot be made or the file cannot be written.
    pub(crate) fn make(dir: &Path) -> Result<Self> {
        let key = KeyPair::generate().context("the test CA's key cannot be made")?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "CA of the stage");
        let cert = params.self_signed(&key)?;
        let file = dir.join("ca.pem");
        fs::write(&file, cert.pem())
            .with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            file,
        })
    }

    /// The CA's certificate.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Signs a certificate for names and addresses, and writes it as `NAME.pem` and `NAME.key`.
    ///
    /// # Errors
    ///
    /// When a name is no name, or a file cannot be written.
    pub(crate) fn sign(&self, dir: &Path, name: &str, subjects: &[&str]) -> Result<Leaf> {
        let subjects: Vec<_> = subjects.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(subjects)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.signed_by(&key, &self.issuer)?;
        let leaf = Leaf {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}.key")),
        };
        fs::write(&leaf.cert, cert.pem())?;
        fs::write(&leaf.key, key.serialize_pem())?;
        Ok(leaf)
    }
}
