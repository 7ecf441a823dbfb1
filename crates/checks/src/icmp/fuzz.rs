//! What must hold for ICMP bytes, whatever they are.

use civ_types::Family;

use super::meaning::error_code;
use super::wire::{Numbers, Quoted, Reply, checksum, push_request, read_quoted, read_reply};

/// Echo replies, quoted requests, types and codes of errors, and back from our own encoder.
pub fn icmp(bytes: &[u8]) {
    for family in [Family::V4, Family::V6] {
        if let Some(reply) = read_reply(family, bytes) {
            let said = fields(family, reply.numbers, reply.nonce);
            let stands_there = bytes.windows(said.len()).any(|window| window == said);
            assert!(stands_there, "{reply:?} is nowhere in the bytes");
        }
        if let Some(quoted) = read_quoted(family, bytes) {
            assert_eq!(quoted.nonce.is_some(), bytes.len() >= 16, "{quoted:?}");
            let said = fields(family, quoted.numbers, quoted.nonce.unwrap_or_default());
            let length = if quoted.nonce.is_some() { 12 } else { 4 };
            assert_eq!(bytes.get(4..4 + length), said.get(..length), "{quoted:?}");
        }
        if let Some(code) = bytes
            .first_chunk()
            .and_then(|[kind, code]| error_code(family, *kind, *code))
        {
            assert!(!code.is_inconclusive(), "{code}: a router's word decides");
        }
        round_trip(family, bytes);
    }
}

/// Numbers and nonce as they go over the wire.
fn fields(family: Family, numbers: Numbers, nonce: u64) -> Vec<u8> {
    let mut request = Vec::new();
    push_request(&mut request, family, numbers, nonce, 8);
    request.split_off(4)
}

/// What we send is read again, from a router's quotation and from a reply.
fn round_trip(family: Family, bytes: &[u8]) {
    let Some(([a, b, c, d, nonce @ ..], rest)) = bytes.split_first_chunk::<12>() else {
        return;
    };
    let numbers = Numbers {
        id: u16::from_be_bytes([*a, *b]),
        seq: u16::from_be_bytes([*c, *d]),
    };
    let nonce = u64::from_be_bytes(*nonce);
    let mut message = Vec::new();
    push_request(&mut message, family, numbers, nonce, 8 + rest.len());
    assert_eq!(message.len(), 16 + rest.len());
    let quoted = Quoted {
        numbers,
        nonce: Some(nonce),
    };
    assert_eq!(read_quoted(family, &message), Some(quoted));
    assert_eq!(read_reply(family, &message), None, "a request is no reply");
    if family == Family::V4 {
        assert_eq!(checksum(&message), 0);
    }
    message[0] = if family == Family::V4 { 0 } else { 129 };
    let reply = Some(Reply { numbers, nonce });
    assert_eq!(read_reply(family, &message), reply);
    if family == Family::V4 {
        // The same behind an IP header, with 0 to 40 bytes of options.
        let words = 5 + rest.first().copied().unwrap_or_default() % 11;
        let mut packet = vec![0xee; usize::from(words) * 4];
        packet[0] = 0x40 | words;
        packet[9] = 1;
        packet.extend(message);
        assert_eq!(read_reply(family, &packet), reply);
    }
}
