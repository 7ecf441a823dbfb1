//! A certificate as text. Pure.

use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::outcome::printable;

/// Longest subject or issuer in a detail, in bytes.
const NAME_BYTES_MAX: usize = 120;
/// Most alternative names in a detail.
const NAMES_MAX: usize = 5;

/// Subject, issuer, names, end of validity and SHA-256 of a DER certificate.
pub(super) fn facts(der: &[u8]) -> String {
    let fingerprint: String = Sha256::digest(der)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let Ok((_rest, cert)) = X509Certificate::from_der(der) else {
        return format!("certificate does not parse sha256={fingerprint}");
    };
    let quoted = |text: String| printable(&text, NAME_BYTES_MAX);
    let not_after = cert.validity().not_after;
    let not_after = not_after.to_rfc2822().unwrap_or_else(|raw| raw);
    format!(
        "sha256={fingerprint} not_after=\"{not_after}\" subject=\"{}\" issuer=\"{}\" names={}",
        quoted(cert.subject().to_string()),
        quoted(cert.issuer().to_string()),
        names(&cert),
    )
}

fn names(cert: &X509Certificate<'_>) -> String {
    let Ok(Some(extension)) = cert.subject_alternative_name() else {
        return "none".to_owned();
    };
    let all = &extension.value.general_names;
    let mut shown: Vec<String> = all.iter().take(NAMES_MAX).map(name).collect();
    if all.len() > NAMES_MAX {
        shown.push(format!("and {} more", all.len() - NAMES_MAX));
    }
    printable(&shown.join(","), NAME_BYTES_MAX * 2)
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => ip(bytes),
        other => other.to_string(),
    }
}

fn ip(bytes: &[u8]) -> String {
    let v4 = <[u8; 4]>::try_from(bytes).map(|b| std::net::Ipv4Addr::from(b).to_string());
    let v6 = <[u8; 16]>::try_from(bytes).map(|b| std::net::Ipv6Addr::from(b).to_string());
    v4.or(v6).unwrap_or_else(|_| format!("{bytes:02x?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, proptest};

    use super::facts;

    #[test]
    fn a_certificate_shows_its_names_and_digest() {
        let names = ["one.test".to_owned(), "192.0.2.7".to_owned()];
        let cert = rcgen::generate_simple_self_signed(names).unwrap().cert;
        let text = facts(cert.der());
        assert!(text.contains("names=one.test,192.0.2.7"), "{text}");
        assert!(
            text.starts_with("sha256=") && text.contains("not_after="),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(facts(&bytes).contains("sha256="));
        }

        #[test]
        fn any_changed_byte_is_survived(at in 0_usize..1000, byte in any::<u8>()) {
            let names = ["one.test".to_owned()];
            let cert = rcgen::generate_simple_self_signed(names).unwrap().cert;
            let mut der = cert.der().to_vec();
            let at = at % der.len();
            der[at] = byte;
            prop_assert!(facts(&der).contains("sha256="));
        }
    }
}
