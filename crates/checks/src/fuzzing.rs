//! What fuzzing runs: one function for each parser of bytes from the network. Each takes any bytes
//! and panics if a property of the parser does not hold; the seeds are in `fuzz/seeds`.
//!
//! Built for tests and with the feature `fuzzing` only: no program has it.

pub use crate::dns::fuzz::dns;
pub use crate::http::fuzz::{http1, http2, ip_echo};
pub use crate::icmp::fuzz::icmp;
pub use crate::ssh::fuzz::ssh;
pub use crate::tls::fuzz::{certificate, tls_hello};

/// A parser must say the same however its bytes are cut: one by one, in odd pieces, all at once.
pub(crate) fn cuts(bytes: &[u8]) -> [usize; 3] {
    [1, 7, bytes.len().max(1)]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Runs `target` on its seeds, on each shorter than it is, and with each byte changed.
    fn seeds_of(name: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/seeds")
            .join(name);
        let mut n_seeds = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let seed = fs::read(entry.unwrap().path()).unwrap();
            n_seeds += 1;
            target(&seed);
            // About 200 of each, whatever the length.
            for at in (0..seed.len()).step_by(seed.len() / 200 + 1) {
                target(&seed[..at]);
                let mut changed = seed.clone();
                changed[at] ^= 0xff;
                target(&changed);
            }
        }
        assert!(n_seeds > 0, "no seeds in {}", folder.display());
    }

    #[test]
    fn properties_hold_for_icmp() {
        seeds_of("icmp", super::icmp);
    }

    #[test]
    fn properties_hold_for_ssh() {
        seeds_of("ssh", super::ssh);
    }

    #[test]
    fn properties_hold_for_tls_hellos() {
        seeds_of("tls_hello", super::tls_hello);
    }

    #[test]
    fn properties_hold_for_certificates() {
        seeds_of("certificate", super::certificate);
    }

    #[test]
    fn properties_hold_for_dns() {
        seeds_of("dns", super::dns);
    }

    #[test]
    fn properties_hold_for_http_1() {
        seeds_of("http1", super::http1);
    }

    #[test]
    fn properties_hold_for_http_2() {
        seeds_of("http2", super::http2);
    }

    #[test]
    fn properties_hold_for_ip_echo_bodies() {
        seeds_of("ip_echo", super::ip_echo);
    }
}
