//! Bytes of ICMP echoes: building requests, reading replies and quoted requests. Pure.
//!
//! Whatever is read here came from the network and may be anything at all.

use civ_types::Family;

/// Type, code, checksum, identifier, sequence (RFC 792, RFC 4443 §4.1).
const HEADER_BYTES: usize = 8;
/// Our mark, the first bytes of the data.
const NONCE_BYTES: usize = 8;
/// How much of a packet has to be seen: the longest IPv4 header, the echo header, the nonce.
pub(super) const SEEN_BYTES: usize = 60 + HEADER_BYTES + NONCE_BYTES + 52;

/// The numbers of an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) id: u16,
    pub(super) seq: u16,
}

/// An echo reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) numbers: Numbers,
    pub(super) nonce: u64,
}

/// A request as an ICMP error quotes it; a router need quote no more than the header (RFC 792).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) numbers: Numbers,
    pub(super) nonce: Option<u64>,
}

/// Bytes of a request with that much data, without the IP header.
pub(super) const fn request_bytes(data: usize) -> usize {
    HEADER_BYTES + data
}

/// Appends an echo request. The checksum is set for IPv4 only: for IPv6 the kernel does it.
pub(super) fn push_request(
    out: &mut Vec<u8>,
    family: Family,
    numbers: Numbers,
    nonce: u64,
    data: usize,
) {
    let begin = out.len();
    let kind = match family {
        Family::V4 => 8,
        Family::V6 => 128,
    };
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&numbers.id.to_be_bytes());
    out.extend_from_slice(&numbers.seq.to_be_bytes());
    out.extend_from_slice(&nonce.to_be_bytes());
    // What `ping` fills its data with.
    let filling = (0x10..=u8::MAX).chain(0..0x10).cycle();
    out.extend(filling.take(data.saturating_sub(NONCE_BYTES)));
    if family == Family::V4 {
        let sum = checksum(out.get(begin..).unwrap_or_default());
        if let Some(field) = out.get_mut(begin + 2..begin + 4) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// RFC 1071. Zero for bytes that already hold their right checksum.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    // 65,535 bytes are at most 32,768 words: no overflow.
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Reads an echo reply. Raw IPv4 sockets hand out the IP header, ping sockets do not: the content
/// tells, since no echo reply begins like an IPv4 header.
pub(super) fn read_reply(family: Family, bytes: &[u8]) -> Option<Reply> {
    let (kind, message) = match family {
        Family::V4 => (0, after_ip_header(bytes)?),
        Family::V6 => (129, bytes),
    };
    let (numbers, nonce) = read_echo(message, kind)?;
    let nonce = nonce?;
    Some(Reply { numbers, nonce })
}

/// Reads the request that an ICMP error quotes, from its ICMP header on.
pub(super) fn read_quoted(family: Family, bytes: &[u8]) -> Option<Quoted> {
    let kind = match family {
        Family::V4 => 8,
        Family::V6 => 128,
    };
    let (numbers, nonce) = read_echo(bytes, kind)?;
    Some(Quoted { numbers, nonce })
}

/// The ICMP message behind an IPv4 header (RFC 791 §3.1), or all bytes where there is none.
fn after_ip_header(bytes: &[u8]) -> Option<&[u8]> {
    /// Protocol number of ICMP.
    const ICMP: u8 = 1;
    let first = *bytes.first()?;
    if first >> 4 != 4 {
        return Some(bytes);
    }
    let header = usize::from(first & 0x0f) * 4;
    if header < 20 || *bytes.get(9)? != ICMP {
        return None;
    }
    bytes.get(header..)
}

fn read_echo(message: &[u8], kind: u8) -> Option<(Numbers, Option<u64>)> {
    let (header, data) = message.split_first_chunk::<HEADER_BYTES>()?;
    if header[0] != kind || header[1] != 0 {
        return None;
    }
    let numbers = Numbers {
        id: u16::from_be_bytes([header[4], header[5]]),
        seq: u16::from_be_bytes([header[6], header[7]]),
    };
    let nonce = data.first_chunk::<NONCE_BYTES>();
    Some((numbers, nonce.copied().map(u64::from_be_bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::*;

    const NUMBERS: Numbers = Numbers {
        id: 0x1234,
        seq: 0x0007,
    };

    fn request(family: Family, data: usize) -> Vec<u8> {
        let mut out = Vec::new();
        push_request(&mut out, family, NUMBERS, 42, data);
        out
    }

    /// A reply to our request, as a ping socket hands it out.
    fn reply(family: Family) -> Vec<u8> {
        let mut bytes = request(family, 56);
        bytes[0] = if family == Family::V4 { 0 } else { 129 };
        bytes
    }

    fn ip_header(words: u8, protocol: u8) -> Vec<u8> {
        let mut header = vec![0; usize::from(words) * 4];
        header[0] = 0x40 | words;
        header[9] = protocol;
        header
    }

    #[test]
    fn requests_are_as_long_as_said_and_have_a_right_checksum() {
        for data in [NONCE_BYTES, 9, 56, 1472, 65_507] {
            let bytes = request(Family::V4, data);
            assert_eq!(bytes.len(), request_bytes(data));
            assert_eq!(checksum(&bytes), 0, "{data}");
        }
        assert_eq!(request(Family::V6, 56)[2..4], [0, 0]);
    }

    #[test]
    fn replies_are_read_with_and_without_ip_header() {
        let expected = Some(Reply {
            numbers: NUMBERS,
            nonce: 42,
        });
        let plain = reply(Family::V4);
        assert_eq!(read_reply(Family::V4, &plain), expected);
        for words in [5, 6, 15] {
            let packet = [ip_header(words, 1), plain.clone()].concat();
            assert_eq!(read_reply(Family::V4, &packet), expected);
            assert!(packet[..packet.len() - 48].len() <= SEEN_BYTES);
        }
        assert_eq!(read_reply(Family::V6, &reply(Family::V6)), expected);
    }

    #[test]
    fn what_is_no_reply_is_not_read_as_one() {
        let plain = reply(Family::V4);
        // Our own request, as loopback shows it; a reply too short for a nonce; another protocol.
        assert_eq!(read_reply(Family::V4, &request(Family::V4, 56)), None);
        assert_eq!(read_reply(Family::V4, &plain[..15]), None);
        let udp = [ip_header(5, 17), plain.clone()].concat();
        assert_eq!(read_reply(Family::V4, &udp), None);
        let short = [ip_header(4, 1), plain].concat();
        assert_eq!(read_reply(Family::V4, &short), None);
        assert_eq!(read_reply(Family::V6, &reply(Family::V4)), None);
    }

    #[test]
    fn a_quote_may_end_before_the_nonce() {
        let bytes = request(Family::V4, 56);
        let quoted = |nonce| {
            Some(Quoted {
                numbers: NUMBERS,
                nonce,
            })
        };
        assert_eq!(read_quoted(Family::V4, &bytes), quoted(Some(42)));
        assert_eq!(read_quoted(Family::V4, &bytes[..8]), quoted(None));
        assert_eq!(read_quoted(Family::V4, &bytes[..15]), quoted(None));
        assert_eq!(read_quoted(Family::V4, &bytes[..7]), None);
        assert_eq!(read_quoted(Family::V4, &reply(Family::V4)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..200)) {
            for family in [Family::V4, Family::V6] {
                let _reply = read_reply(family, &bytes);
                let _quoted = read_quoted(family, &bytes);
            }
            let _sum = checksum(&bytes);
        }

        #[test]
        fn what_is_sent_is_what_a_reply_brings_back(
            id: u16, seq: u16, nonce: u64, data in 8_usize..2000,
        ) {
            let numbers = Numbers { id, seq };
            for (family, kind) in [(Family::V4, 0), (Family::V6, 129)] {
                let mut bytes = Vec::new();
                push_request(&mut bytes, family, numbers, nonce, data);
                bytes[0] = kind;
                prop_assert_eq!(read_reply(family, &bytes), Some(Reply { numbers, nonce }));
            }
        }
    }
}
