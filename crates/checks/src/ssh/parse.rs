//! What an SSH server sends first, byte by byte. Pure: knows no sockets and no time.

/// Most lines before the identification. RFC 4253 §4.2 allows any number; tarpits use that.
const PRELUDE_LINES_MAX: usize = 50;
/// Most bytes before the end of the identification.
const PRELUDE_BYTES_MAX: usize = 8 * 1024;
/// Longest line with its end, in bytes (RFC 4253 §4.2).
const LINE_BYTES_MAX: usize = 255;
/// Longest packet that has to be supported (RFC 4253 §6.1), in bytes.
const PACKET_BYTES_MAX: u32 = 35_000;
/// Padding length, message number, cookie, two name lists' lengths: no KEXINIT is shorter.
const PACKET_BYTES_MIN: u32 = 1 + 1 + 16 + 4 + 4;
/// Least padding (RFC 4253 §6).
const PADDING_MIN: u8 = 4;
/// `SSH_MSG_KEXINIT` (RFC 4253 §12).
const KEXINIT: u8 = 20;
/// What sshd says instead of its identification when it has too many open log-ins, or (OpenSSH
/// 9.8 and later) when our address has earned a penalty: that is no dead server.
const BUSY: [&str; 2] = ["Exceeded MaxStartups", "Not allowed at this time"];

/// What a server has told about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// Identification without its line end.
    pub(super) banner: String,
    /// Offered host-key algorithms, in its order.
    pub(super) host_keys: Vec<String>,
    /// Lines before the identification.
    pub(super) prelude_lines: usize,
}

/// It is no SSH 2 server that we can talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Why, with what was seen.
    NotSsh(String),
    /// Its identification.
    V1Only(String),
    /// What it said.
    Busy(String),
}

/// Takes what the server sends in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Not consumed yet.
    pending: Vec<u8>,
    prelude_bytes: usize,
    prelude_lines: usize,
    first_line: Option<String>,
    banner: Option<String>,
}

impl Parser {
    /// Takes `bytes`; the server, once enough is known.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Server>, Refusal> {
        self.pending.extend_from_slice(bytes);
        while self.banner.is_none() {
            let Some(line) = self.take_line()? else {
                return Ok(None);
            };
            self.line(line)?;
        }
        let Some(host_keys) = host_keys(&self.pending)? else {
            return Ok(None);
        };
        Ok(Some(Server {
            banner: self.banner.clone().unwrap_or_default(),
            host_keys,
            prelude_lines: self.prelude_lines,
        }))
    }

    /// The identification, once it is complete.
    pub(super) fn banner(&self) -> Option<&str> {
        self.banner.as_deref()
    }

    /// The first line that is no identification.
    pub(super) fn first_line(&self) -> Option<&str> {
        self.first_line.as_deref()
    }

    /// How many bytes are kept for later.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) const fn held(&self) -> usize {
        self.pending.len()
    }

    /// One line without CR LF or LF.
    fn take_line(&mut self) -> Result<Option<String>, Refusal> {
        let end = self.pending.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.pending.len(), |at| at + 1);
        if length > LINE_BYTES_MAX {
            let start = self.pending.get(..64).unwrap_or_default();
            let start = String::from_utf8_lossy(start);
            return Err(Refusal::NotSsh(format!(
                "a line of more than 255 bytes: {start:?}"
            )));
        }
        if end.is_none() {
            return Ok(None);
        }
        let rest = self.pending.split_off(length);
        let line = std::mem::replace(&mut self.pending, rest);
        self.prelude_bytes += length;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(String::from_utf8_lossy(line).into_owned()))
    }

    fn line(&mut self, line: String) -> Result<(), Refusal> {
        if line.starts_with("SSH-") {
            if line.starts_with("SSH-2.0-") || line.starts_with("SSH-1.99-") {
                self.banner = Some(line);
                return Ok(());
            }
            return Err(if line.starts_with("SSH-1.") {
                Refusal::V1Only(line)
            } else {
                Refusal::NotSsh(format!("an unknown protocol version: {line:?}"))
            });
        }
        if BUSY.iter().any(|text| line.starts_with(text)) {
            return Err(Refusal::Busy(line));
        }
        self.prelude_lines += 1;
        let first = self.first_line.get_or_insert(line);
        if self.prelude_lines > PRELUDE_LINES_MAX || self.prelude_bytes > PRELUDE_BYTES_MAX {
            let why = format!("more than 50 lines or 8 KiB before it (tarpit?): {first:?}");
            return Err(Refusal::NotSsh(why));
        }
        Ok(())
    }
}

/// The second name list of a KEXINIT, once `bytes` reaches that far.
fn host_keys(bytes: &[u8]) -> Result<Option<Vec<String>>, Refusal> {
    let mut reader = Reader { rest: bytes };
    let (Some(length), Some(padding), Some(kind)) = (reader.number(), reader.byte(), reader.byte())
    else {
        return Ok(None);
    };
    let sane = (PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&length)
        && padding >= PADDING_MIN
        && kind == KEXINIT;
    if !sane {
        return Err(Refusal::NotSsh(format!(
            "no key exchange after the identification: length {length}, padding {padding}, \
             message {kind}"
        )));
    }
    // Cookie; then the key exchange methods, which say nothing about the host.
    let mut room = length - PACKET_BYTES_MIN;
    if reader.take(16).is_none() {
        return Ok(None);
    }
    for wanted in [false, true] {
        let Some(list) = reader.number() else {
            return Ok(None);
        };
        let Some(left) = room.checked_sub(list) else {
            return Err(Refusal::NotSsh(
                "a name list longer than its packet".to_owned(),
            ));
        };
        room = left;
        let Some(names) = reader.take(usize::try_from(list).unwrap_or(usize::MAX)) else {
            return Ok(None);
        };
        if wanted {
            let names = String::from_utf8_lossy(names);
            return Ok(Some(names.split(',').map(str::to_owned).collect()));
        }
    }
    Ok(None)
}

/// Takes from the front; `None` if there is not enough.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Parser, Refusal, Server};

    /// A KEXINIT with these host-key algorithms.
    fn kexinit(host_keys: &str) -> Vec<u8> {
        let mut payload = vec![20];
        payload.extend([7; 16]);
        for list in ["curve25519-sha256", host_keys, "aes256-ctr"] {
            payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
            payload.extend(list.as_bytes());
        }
        let length = u32::try_from(payload.len() + 1 + 4).unwrap();
        let mut packet = length.to_be_bytes().to_vec();
        packet.push(4);
        packet.extend(payload);
        packet.extend([0; 4]);
        packet
    }

    fn feed_all(bytes: &[u8], step: usize) -> Result<Option<Server>, Refusal> {
        let mut parser = Parser::default();
        for piece in bytes.chunks(step) {
            if let Some(server) = parser.feed(piece)? {
                return Ok(Some(server));
            }
        }
        Ok(None)
    }

    #[test]
    fn single_bytes_and_one_piece_say_the_same() {
        let mut bytes = b"hello\r\nwelcome\nSSH-2.0-OpenSSH_9.2p1\r\n".to_vec();
        bytes.extend(kexinit("ssh-ed25519,rsa-sha2-512"));
        let expected = Server {
            banner: "SSH-2.0-OpenSSH_9.2p1".to_owned(),
            host_keys: vec!["ssh-ed25519".to_owned(), "rsa-sha2-512".to_owned()],
            prelude_lines: 2,
        };
        for step in [1, 2, 7, bytes.len()] {
            assert_eq!(
                feed_all(&bytes, step),
                Ok(Some(expected.clone())),
                "step {step}"
            );
        }
    }

    #[test]
    fn bare_line_feeds_and_1_99_are_taken() {
        let mut bytes = b"SSH-1.99-Cisco-1.25\n".to_vec();
        bytes.extend(kexinit("ssh-rsa"));
        let server = feed_all(&bytes, 1).unwrap().unwrap();
        assert_eq!(server.banner, "SSH-1.99-Cisco-1.25");
    }

    #[test]
    fn others_are_refused() {
        let refused = |text: &str| feed_all(text.as_bytes(), 1).unwrap_err();
        assert!(matches!(refused("SSH-1.5-old\n"), Refusal::V1Only(_)));
        assert!(matches!(refused("SSH-3.0-new\n"), Refusal::NotSsh(_)));
        assert!(matches!(
            refused("Exceeded MaxStartups\r\n"),
            Refusal::Busy(_)
        ));
        assert!(matches!(refused(&"x".repeat(256)), Refusal::NotSsh(_)));
        assert!(matches!(refused(&"x\n".repeat(51)), Refusal::NotSsh(_)));
        assert!(matches!(
            refused("SSH-2.0-x\nHTTP/1.1 400"),
            Refusal::NotSsh(_)
        ));
    }

    #[test]
    fn fifty_lines_and_a_line_of_255_bytes_are_fine() {
        let mut text = "x\n".repeat(50);
        text.push_str(&format!("SSH-2.0-{}\r\n", "y".repeat(255 - 10)));
        let mut bytes = text.into_bytes();
        bytes.extend(kexinit("ssh-ed25519"));
        assert_eq!(feed_all(&bytes, 1).unwrap().unwrap().prelude_lines, 50);
    }

    #[test]
    fn lists_must_fit_into_their_packet() {
        let mut bytes = b"SSH-2.0-x\n".to_vec();
        let mut packet = kexinit("ssh-ed25519");
        packet.splice(22..26, u32::MAX.to_be_bytes());
        bytes.extend(packet);
        assert!(matches!(feed_all(&bytes, 1), Err(Refusal::NotSsh(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let whole = feed_all(&bytes, bytes.len().max(1));
            let single = feed_all(&bytes, 1);
            // A refusal may come earlier in single bytes, but never another answer.
            prop_assert_eq!(whole.is_err(), single.is_err());
        }

        #[test]
        fn any_bytes_after_the_banner_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            length in 0_u32..40_000,
        ) {
            let mut all = b"SSH-2.0-x\r\n".to_vec();
            all.extend(length.to_be_bytes());
            all.extend([4, 20]);
            all.extend(&bytes);
            let result = feed_all(&all, 1);
            prop_assert!(result.is_err() || length >= 26);
            prop_assert_eq!(result, feed_all(&all, all.len()));
        }
    }
}
