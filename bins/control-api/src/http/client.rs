//! Who is calling: the peer, or whom a trusted proxy names.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::IpNet;

/// Proxies whose `X-Forwarded-For` counts.
#[derive(Debug, Default)]
pub struct Proxies(pub Vec<IpNet>);

impl Proxies {
    fn trusts(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&ip))
    }

    /// The client: the last address in `X-Forwarded-For` that is not a trusted proxy's, if the
    /// peer itself is one; the peer otherwise. Whatever a client writes into the header itself
    /// stands further left and is not looked at.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let named: Vec<_> = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|part| part.trim().parse::<IpAddr>().map(|ip| ip.to_canonical()))
            .collect();
        let mut client = peer;
        for ip in named.into_iter().rev() {
            let Ok(ip) = ip else { break };
            client = ip;
            if !self.trusts(ip) {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies = Proxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let client = |peer: &str, forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            proxies.client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("192.0.2.1", "198.51.100.9"), "192.0.2.1");
        assert_eq!(client("10.0.0.1", "198.51.100.9"), "198.51.100.9");
        assert_eq!(
            client("10.0.0.1", "1.1.1.1, 198.51.100.9, 10.0.0.2"),
            "198.51.100.9"
        );
        assert_eq!(client("10.0.0.1", "rubbish"), "10.0.0.1");
        assert_eq!(client("::ffff:10.0.0.1", "198.51.100.9"), "198.51.100.9");
    }
}
