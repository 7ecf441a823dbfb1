//! What must hold for the first bytes of an SSH server, whatever they are.

use super::parse::{Parser, Refusal, Server};
use super::{SHOWN_MAX, refused, shown};
use crate::fuzzing::cuts;

/// More than the longest line, packet and length field together.
const HELD_MAX: usize = 36_000;

/// Identification, lines before it, and the begin of the key exchange.
pub fn ssh(bytes: &[u8]) {
    let [first, others @ ..] = cuts(bytes);
    let said = talk(bytes, first);
    for step in others {
        assert_eq!(talk(bytes, step), said, "in pieces of {step}");
    }
    match said {
        Ok(Some(server)) => {
            let is_named = ["SSH-2.0-", "SSH-1.99-"].map(|word| server.banner.starts_with(word));
            assert!(is_named.contains(&true), "{server:?}");
            assert!(bytes.windows(4).any(|window| window == b"SSH-"));
            assert!(server.prelude_lines <= 50, "{server:?}");
            assert!(!server.host_keys.is_empty() && !shown(&server).is_empty());
        }
        Ok(None) => {}
        Err(refusal) => {
            let facts = refused(&refusal).facts;
            assert!(facts.len() <= SHOWN_MAX * 2, "{facts}");
            assert!(!facts.chars().any(char::is_control), "{facts:?}");
        }
    }
}

fn talk(bytes: &[u8], step: usize) -> Result<Option<Server>, Refusal> {
    let mut parser = Parser::default();
    for piece in bytes.chunks(step) {
        match parser.feed(piece) {
            Ok(None) => assert!(parser.held() <= HELD_MAX, "{} held", parser.held()),
            said => return said,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::talk;

    #[test]
    fn what_servers_say_arrives() {
        let openssh = include_bytes!("../../../../fuzz/seeds/ssh/openssh");
        let dropbear = include_bytes!("../../../../fuzz/seeds/ssh/dropbear");
        for seed in [&openssh[..], dropbear] {
            let server = talk(seed, 7).unwrap().unwrap();
            assert!(server.host_keys.contains(&"ssh-ed25519".to_owned()));
        }
    }
}
