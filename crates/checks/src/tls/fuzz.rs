//! What must hold for a TLS server's answer in the clear and for its certificate.

use super::cert;
use super::hello::{Answer, Reader};
use crate::fuzzing::cuts;
use crate::outcome::DETAIL_BYTES_MAX;

/// More than the longest record and all handshake messages that are read.
const HELD_MAX: usize = 128 * 1024;

/// Records, alerts, hello, certificates.
pub fn tls_hello(bytes: &[u8]) {
    let [first, others @ ..] = cuts(bytes);
    let said = talk(bytes, first);
    for step in others {
        assert_eq!(talk(bytes, step), said, "in pieces of {step}");
    }
    let Some(said) = said else { return };
    assert!(said.to_string().len() < 200, "{said}");
    let begins_as_record = matches!(bytes, [21 | 22, 3, ..]);
    match said {
        Answer::Hello { version, leaf, .. } => {
            assert!(begins_as_record && version >> 8 == 3, "{version:#06x}");
            if let Some(leaf) = leaf {
                assert!(leaf.len() < bytes.len());
                certificate(&leaf);
            }
        }
        Answer::Alert(_) => assert!(begins_as_record),
        Answer::NotTls => {}
    }
}

fn talk(bytes: &[u8], step: usize) -> Option<Answer> {
    let mut reader = Reader::default();
    for piece in bytes.chunks(step) {
        if let Some(answer) = reader.feed(piece) {
            return Some(answer);
        }
        assert!(reader.held() <= HELD_MAX, "{} held", reader.held());
    }
    reader.so_far()
}

/// A certificate (DER) becomes printable text that fits into a detail.
pub fn certificate(bytes: &[u8]) {
    let facts = cert::facts(bytes);
    assert!(facts.contains("sha256="), "{facts}");
    assert!(facts.len() <= DETAIL_BYTES_MAX, "{} bytes", facts.len());
    assert!(!facts.chars().any(char::is_control), "{facts:?}");
}

#[cfg(test)]
mod tests {
    use super::{Answer, talk};

    #[test]
    fn what_servers_say_arrives() {
        let rsa = include_bytes!("../../../../fuzz/seeds/tls_hello/openssl-rsa-tls1_2");
        let ec = include_bytes!("../../../../fuzz/seeds/tls_hello/openssl-ec-tls1_2");
        for seed in [&rsa[..], ec] {
            let said = talk(seed, 7);
            assert!(matches!(said, Some(Answer::Hello { leaf: Some(_), .. })));
        }
        let alert = include_bytes!("../../../../fuzz/seeds/tls_hello/openssl-rsa-tls1_3");
        assert!(matches!(talk(alert, 7), Some(Answer::Alert(_))));
    }
}
