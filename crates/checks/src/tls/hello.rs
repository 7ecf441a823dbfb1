//! Our own offer of old versions and weak suites, and what a server answers in the clear: for
//! servers that the TLS library does not talk to. Pure; nothing is ever agreed upon, so no key is
//! made and no weak suite used.

use std::fmt;

/// Content types of records (RFC 5246 §6.2.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Handshake messages (RFC 5246 §7.4).
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const SERVER_HELLO_DONE: u8 = 14;
/// Longest record with its expansion, in bytes (RFC 5246 §6.2.3).
const RECORD_BYTES_MAX: usize = 16_384 + 2048;
/// Most bytes of handshake messages that are read: certificate chains are far shorter.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Suites of TLS 1.2 and before, strong ones first, with the names of the IANA registry. What the
/// library refuses is exactly the point of offering them.
const SUITES: [(u16, &str); 42] = [
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x0032, "TLS_DHE_DSS_WITH_AES_128_CBC_SHA"),
    (0x0038, "TLS_DHE_DSS_WITH_AES_256_CBC_SHA"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0041, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0084, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc011, "TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
    (0x0007, "TLS_RSA_WITH_IDEA_CBC_SHA"),
    (0x0009, "TLS_RSA_WITH_DES_CBC_SHA"),
    (0x0034, "TLS_DH_anon_WITH_AES_128_CBC_SHA"),
    (0x003b, "TLS_RSA_WITH_NULL_SHA256"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
];

/// What a server said in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It chose a version and a suite.
    Hello {
        version: u16,
        suite: u16,
        /// The leaf certificate (DER), which comes in the clear up to TLS 1.2.
        leaf: Option<Vec<u8>>,
    },
    /// It refused, with this description (RFC 8446 §6).
    Alert(u8),
    /// Not a TLS record.
    NotTls,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello { version, suite, .. } => {
                match version {
                    0x0300 => f.write_str("SSL3.0")?,
                    0x0301 => f.write_str("TLS1.0")?,
                    0x0302 => f.write_str("TLS1.1")?,
                    0x0303 => f.write_str("TLS1.2")?,
                    other => write!(f, "version {other:#06x}")?,
                }
                let named = SUITES.iter().find(|(number, _)| number == suite);
                match named {
                    Some((_, name)) => write!(f, " {name}"),
                    None => write!(f, " suite {suite:#06x}"),
                }
            }
            Self::Alert(description) => {
                let name = super::alert::name((*description).into());
                write!(f, "alert {name} to old versions and weak suites, too")
            }
            Self::NotTls => f.write_str("no TLS record"),
        }
    }
}

/// A `ClientHello` that offers everything up to TLS 1.2 (RFC 5246 §7.4.1.2), with SNI if there is
/// a name (RFC 6066 §3).
pub(super) fn client_hello(name: Option<&str>, random: &[u8; 32]) -> Vec<u8> {
    let mut body = vec![0x03, 0x03];
    body.extend(random);
    body.push(0); // No session to resume.
    let suites: Vec<u8> = SUITES.iter().flat_map(|(n, _)| n.to_be_bytes()).collect();
    body.extend(with_length(&suites));
    body.extend([1, 0]); // No compression.
    let mut extensions = Vec::new();
    let mut add = |kind: u16, data: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend(with_length(data));
    };
    if let Some(name) = name {
        let entry = [&[0][..], &with_length(name.as_bytes())].concat();
        add(0, &with_length(&entry));
    }
    // Groups x25519, P-256, P-384, P-521, ffdhe2048; uncompressed points.
    add(10, &with_length(&[0, 29, 0, 23, 0, 24, 0, 25, 1, 0]));
    add(11, &[1, 0]);
    // Signatures: ECDSA and RSA with SHA-256 to SHA-512, PSS, SHA-1, DSA.
    let signatures = [
        4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 8, 6, 4, 1, 5, 1, 6, 1, 2, 3, 2, 1, 4, 2, 2, 2,
    ];
    add(13, &with_length(&signatures));
    body.extend(with_length(&extensions));
    let length = u32::try_from(body.len()).unwrap_or_default().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    // The oldest record version, as some old servers want it (RFC 5246 appendix E.1).
    [&[HANDSHAKE, 3, 1][..], &with_length(&message)].concat()
}

/// `data` behind its length in two bytes; all that is made here is far shorter than 64 KiB.
fn with_length(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
    let mut out = length.to_be_bytes().to_vec();
    out.extend(data);
    out
}

/// Takes what the server sends in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Reader {
    records: Vec<u8>,
    messages: Vec<u8>,
    /// Bytes of handshake messages so far, those done with included.
    n_taken: usize,
    hello: Option<(u16, u16)>,
}

impl Reader {
    /// Takes `bytes`; the answer, once it is complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<Answer> {
        self.records.extend_from_slice(bytes);
        loop {
            let (kind, major) = (*self.records.first()?, self.records.get(1).copied());
            if !matches!(kind, ALERT | HANDSHAKE) || major.is_some_and(|major| major != 3) {
                return Some(self.so_far().unwrap_or(Answer::NotTls));
            }
            let length = self.records.get(3..5)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            if length > RECORD_BYTES_MAX || length == 0 {
                return Some(self.so_far().unwrap_or(Answer::NotTls));
            }
            if self.records.len() < 5 + length {
                return None;
            }
            let rest = self.records.split_off(5 + length);
            let record = std::mem::replace(&mut self.records, rest);
            let payload = record.get(5..).unwrap_or_default();
            if kind == ALERT {
                let said = payload
                    .get(1)
                    .map(|description| Answer::Alert(*description));
                return Some(self.so_far().or(said).unwrap_or(Answer::NotTls));
            }
            self.n_taken += payload.len();
            if self.n_taken > HANDSHAKE_BYTES_MAX {
                return Some(self.so_far().unwrap_or(Answer::NotTls));
            }
            self.messages.extend_from_slice(payload);
            if let Some(answer) = self.messages() {
                return Some(answer);
            }
        }
    }

    /// What is known if nothing more comes.
    pub(super) fn so_far(&self) -> Option<Answer> {
        let (version, suite) = self.hello?;
        Some(Answer::Hello {
            version,
            suite,
            leaf: None,
        })
    }

    /// How many bytes are kept for later.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) const fn held(&self) -> usize {
        self.records.len() + self.messages.len()
    }

    fn messages(&mut self) -> Option<Answer> {
        loop {
            let kind = *self.messages.first()?;
            let length = self.messages.get(1..4)?;
            let length = u32::from_be_bytes([0, length[0], length[1], length[2]]);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > HANDSHAKE_BYTES_MAX {
                return Some(self.so_far().unwrap_or(Answer::NotTls));
            }
            let message = self.messages.get(4..4 + length)?;
            match (kind, self.hello) {
                (SERVER_HELLO, None) => {
                    let Some(hello) = server_hello(message) else {
                        return Some(Answer::NotTls);
                    };
                    self.hello = Some(hello);
                }
                (CERTIFICATE, Some((version, suite))) => {
                    return Some(Answer::Hello {
                        version,
                        suite,
                        leaf: leaf(message),
                    });
                }
                (_, None) => return Some(Answer::NotTls),
                (SERVER_HELLO_DONE, Some(_)) => return self.so_far(),
                (_, Some(_)) => {}
            }
            self.messages.drain(..4 + length);
        }
    }
}

/// Version and suite (RFC 5246 §7.4.1.3).
fn server_hello(message: &[u8]) -> Option<(u16, u16)> {
    let version = u16::from_be_bytes(message.get(..2)?.try_into().ok()?);
    let session = usize::from(*message.get(34)?);
    let suite = message.get(35 + session..37 + session)?;
    let is_version = version >> 8 == 3 && session <= 32;
    is_version.then_some((version, u16::from_be_bytes(suite.try_into().ok()?)))
}

/// The first certificate of the chain (RFC 5246 §7.4.2).
fn leaf(message: &[u8]) -> Option<Vec<u8>> {
    let length = message.get(3..6)?;
    let length = u32::from_be_bytes([0, length[0], length[1], length[2]]);
    let leaf = message.get(6..6 + usize::try_from(length).ok()?)?;
    (!leaf.is_empty()).then(|| leaf.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Answer, Reader, SUITES, client_hello};

    fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind, 3, 1][..], &length, payload].concat()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind][..], &length[1..], body].concat()
    }

    fn hello(version: u16, suite: u16) -> Vec<u8> {
        let mut body = version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.extend([4, 1, 2, 3, 4]);
        body.extend(suite.to_be_bytes());
        body.push(0);
        message(2, &body)
    }

    fn certificate(der: &[u8]) -> Vec<u8> {
        let one = [&[0, 0, u8::try_from(der.len()).unwrap()][..], der].concat();
        let all = [&[0, 0, u8::try_from(one.len()).unwrap()][..], &one].concat();
        message(11, &all)
    }

    fn fed(bytes: &[u8], step: usize) -> Option<Answer> {
        let mut reader = Reader::default();
        let answer = bytes
            .chunks(step.max(1))
            .find_map(|piece| reader.feed(piece));
        answer.or_else(|| reader.so_far())
    }

    #[test]
    fn old_servers_are_read_in_pieces_of_any_size() {
        let whole = record(22, &[hello(0x0301, 0x002f), certificate(b"leaf")].concat());
        let split = [
            record(22, &hello(0x0301, 0x002f)),
            record(22, &certificate(b"leaf")),
        ]
        .concat();
        for bytes in [whole, split] {
            for step in [1, 3, bytes.len()] {
                let answer = fed(&bytes, step).unwrap();
                let leaf = Some(b"leaf".to_vec());
                let expected = Answer::Hello {
                    version: 0x0301,
                    suite: 0x002f,
                    leaf,
                };
                assert_eq!(answer, expected);
                assert_eq!(answer.to_string(), "TLS1.0 TLS_RSA_WITH_AES_128_CBC_SHA");
            }
        }
    }

    #[test]
    fn what_is_compiled_out_everywhere_is_read_from_bytes() {
        let shown = |version, suite| {
            fed(&record(22, &hello(version, suite)), 1)
                .unwrap()
                .to_string()
        };
        assert_eq!(shown(0x0300, 0x0004), "SSL3.0 TLS_RSA_WITH_RC4_128_MD5");
        assert_eq!(
            shown(0x0303, 0x000a),
            "TLS1.2 TLS_RSA_WITH_3DES_EDE_CBC_SHA"
        );
        assert_eq!(shown(0x0302, 0xabcd), "TLS1.1 suite 0xabcd");
    }

    #[test]
    fn alerts_and_noise_are_told_apart() {
        assert_eq!(fed(&record(21, &[2, 40]), 1), Some(Answer::Alert(40)));
        assert_eq!(
            fed(b"HTTP/1.1 400 Bad Request\r\n", 1),
            Some(Answer::NotTls)
        );
        assert_eq!(
            fed(&record(22, &message(1, &[0; 40])), 5),
            Some(Answer::NotTls)
        );
        assert_eq!(fed(&[22, 3], 1), None);
    }

    #[test]
    fn a_server_that_never_comes_to_its_certificate_is_heard_to_a_bound() {
        let mut reader = Reader::default();
        assert_eq!(reader.feed(&record(22, &hello(0x0303, 0x002f))), None);
        // Empty messages, each of them allowed.
        let more = record(22, &message(4, &[]).repeat(1024));
        let answer = (0..1000).find_map(|_| reader.feed(&more));
        let leaf = None;
        let (version, suite) = (0x0303, 0x002f);
        let expected = Answer::Hello {
            version,
            suite,
            leaf,
        };
        assert_eq!(answer, Some(expected));
    }

    #[test]
    fn the_offer_is_well_formed() {
        let bytes = client_hello(Some("old.test"), &[9; 32]);
        assert_eq!(bytes[..3], [22, 3, 1]);
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        assert_eq!(length, bytes.len() - 5);
        assert!(bytes.windows(8).any(|w| w == b"old.test"));
        let none = client_hello(None, &[9; 32]);
        assert!(none.len() + 8 < bytes.len());
        let mut numbers: Vec<u16> = SUITES.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), SUITES.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(fed(&bytes, 1).is_some(), fed(&bytes, bytes.len()).is_some());
        }

        #[test]
        fn any_changed_byte_is_survived(
            at in 0_usize..80,
            byte in any::<u8>(),
            cut in 0_usize..80,
        ) {
            let mut bytes = record(22, &[hello(0x0301, 0x2f), certificate(b"leaf")].concat());
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut % bytes.len());
            prop_assert_eq!(fed(&bytes, 1), fed(&bytes, 7));
        }

        #[test]
        fn any_handshake_is_survived(body in prop::collection::vec(any::<u8>(), 1..300)) {
            let answer = fed(&record(22, &body), 1);
            prop_assert!(answer.is_none() || !answer.unwrap().to_string().is_empty());
        }
    }
}
