//! What is checked, and how its text is read. Pure; resolves nothing.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// Longest accepted target, in bytes.
const TARGET_BYTES_MAX: usize = 2048;

/// The kinds of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Echo request and reply (RFC 792, RFC 4443).
    Icmp,
    /// Connect.
    Tcp,
    /// Identification and start of the key exchange (RFC 4253 §4.2, §7.1).
    Ssh,
    /// Full handshake, certificate not judged.
    Tls,
    /// Request over TLS, certificate judged.
    Https,
    /// Request in the clear.
    Http,
}

impl Kind {
    /// The kind that a check type of the contract names: `icmp`, `tcp`, `tcp-<port>`, `ssh`,
    /// `tls`, `tls-443`, `https`, `http`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (word, port) = match name.split_once('-') {
            Some((word, port)) => (word, Some(port.parse::<u16>().ok().filter(|p| *p > 0)?)),
            None => (name, None),
        };
        match word {
            "tcp" => Some(Self::Tcp),
            "tls" => Some(Self::Tls),
            _ if port.is_some() => None,
            "icmp" => Some(Self::Icmp),
            "ssh" => Some(Self::Ssh),
            "https" => Some(Self::Https),
            "http" => Some(Self::Http),
            _ => None,
        }
    }

    /// The plain word, without a port.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Ssh => "ssh",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// The port where none is named. TCP has none, ICMP needs none.
    const fn default_port(self) -> Option<u16> {
        match self {
            Self::Icmp => Some(0),
            Self::Tcp => None,
            Self::Ssh => Some(22),
            Self::Tls | Self::Https => Some(443),
            Self::Http => Some(80),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A parsed target: host, port, and for HTTP the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: Host<String>,
    port: u16,
    url: Option<Url>,
}

/// Why a text is not a target of that kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Empty or longer than 2,048 bytes.
    #[error("the target is empty or longer than {TARGET_BYTES_MAX} bytes")]
    Length,
    /// The host is neither a name nor an address.
    #[error("{0:?} names no host: give a name, an address or a URL")]
    Host(String),
    /// The port is missing or not 1 to 65535.
    #[error("{0:?} has no valid port: give host:port with a port of 1 to 65535")]
    Port(String),
    /// Not a URL, or of a scheme that the check does not speak.
    #[error("{text:?} is not a URL for {kind}: {why}")]
    Url {
        /// The kind of check.
        kind: Kind,
        /// The text.
        text: String,
        /// What is wrong.
        why: String,
    },
}

impl Target {
    /// Reads `text` in the form that `kind` asks for: a host or a URL for ICMP, `host:port` or a
    /// URL for TCP, `host[:22]` for SSH, `host[:443]` or a URL for TLS, a URL (or a bare
    /// `host[:port]`, completed to one) for HTTP and HTTPS. IPv6 addresses with a port stand in
    /// brackets. Inbound targets come from [`Target::addr`] instead.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong with it.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        if text.is_empty() || text.len() > TARGET_BYTES_MAX {
            return Err(TargetError::Length);
        }
        if text.contains("://") {
            return Self::parse_url(kind, text);
        }
        match kind {
            Kind::Http | Kind::Https => Self::parse_url(kind, &format!("{kind}://{text}")),
            _ => Self::parse_host_port(kind, text),
        }
    }

    /// One address and port: what an inbound check looks at. ICMP ignores the port.
    #[must_use]
    pub fn addr(ip: IpAddr, port: u16) -> Self {
        let host = match ip {
            IpAddr::V4(ip) => Host::Ipv4(ip),
            IpAddr::V6(ip) => Host::Ipv6(ip),
        };
        Self {
            host,
            port,
            url: None,
        }
    }

    fn parse_url(kind: Kind, text: &str) -> Result<Self, TargetError> {
        let bad = |why: String| TargetError::Url {
            kind,
            text: text.to_owned(),
            why,
        };
        let url = Url::parse(text).map_err(|e| bad(e.to_string()))?;
        let is_http = matches!(kind, Kind::Http | Kind::Https);
        if is_http && url.scheme() != kind.as_str() {
            return Err(bad(format!("the scheme must be {kind}")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("user names and passwords are not sent".to_owned()));
        }
        let Some(host) = url.host() else {
            return Err(TargetError::Host(text.to_owned()));
        };
        // Other schemes than the web's give their host as an opaque text.
        let host = parse_host(&host.to_string(), text)?;
        let known = if url.scheme() == "ssh" {
            Some(22)
        } else {
            None
        };
        let port = url
            .port_or_known_default()
            .or(known)
            .or_else(|| kind.default_port());
        match port {
            Some(port) if port > 0 || kind == Kind::Icmp => Ok(Self {
                host,
                port,
                url: is_http.then_some(url),
            }),
            _ => Err(TargetError::Port(text.to_owned())),
        }
    }

    fn parse_host_port(kind: Kind, text: &str) -> Result<Self, TargetError> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return match kind.default_port() {
                Some(port) => Ok(Self::addr(ip, port)),
                None => Err(TargetError::Port(text.to_owned())),
            };
        }
        let has_port = text.ends_with(']').then_some(false);
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if has_port.is_none() => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|p| *p > 0),
            None => kind.default_port(),
        };
        let port = port.ok_or_else(|| TargetError::Port(text.to_owned()))?;
        Ok(Self {
            host: parse_host(host, text)?,
            port,
            url: None,
        })
    }

    /// The port; 0 for ICMP.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address, if it is one and no name.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        }
    }

    /// The name, if it is one and no address.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Domain(name) => Some(name),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// The URL to request; made of address and port for a target without one.
    pub(crate) fn url(&self, kind: Kind) -> Result<Url, TargetError> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let text = format!("{kind}://{self}/");
        Url::parse(&text).map_err(|e| TargetError::Url {
            kind,
            text,
            why: e.to_string(),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.url, self.port) {
            (Some(url), _) => write!(f, "{url}"),
            (None, 0) => write!(f, "{}", self.host),
            (None, port) => write!(f, "{}:{port}", self.host),
        }
    }
}

/// Name, IPv4 or IPv6 address (in brackets); `whole` is what the error shows.
fn parse_host(text: &str, whole: &str) -> Result<Host<String>, TargetError> {
    match Host::parse(text) {
        Ok(Host::Domain(name)) if name.len() > 253 => Err(TargetError::Host(whole.to_owned())),
        Ok(host) => Ok(host),
        Err(_why) => Err(TargetError::Host(whole.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Kind, Target, TargetError};

    fn shown(kind: Kind, text: &str) -> String {
        Target::parse(kind, text).unwrap().to_string()
    }

    #[test]
    fn each_kind_reads_its_forms() {
        assert_eq!(shown(Kind::Icmp, "example.org"), "example.org");
        let of_url = Target::parse(Kind::Icmp, "https://example.org/x").unwrap();
        assert_eq!(of_url.name(), Some("example.org"));
        assert_eq!(shown(Kind::Tcp, "example.org:22"), "example.org:22");
        assert_eq!(shown(Kind::Tcp, "[2001:db8::1]:22"), "[2001:db8::1]:22");
        assert_eq!(shown(Kind::Tcp, "http://example.org"), "example.org:80");
        assert_eq!(shown(Kind::Ssh, "example.org"), "example.org:22");
        assert_eq!(shown(Kind::Ssh, "ssh://example.org"), "example.org:22");
        assert_eq!(shown(Kind::Ssh, "2001:db8::1"), "[2001:db8::1]:22");
        assert_eq!(shown(Kind::Tls, "[2001:db8::1]"), "[2001:db8::1]:443");
        assert_eq!(shown(Kind::Tls, "https://example.org/"), "example.org:443");
        assert_eq!(
            shown(Kind::Https, "https://example.org/a?b"),
            "https://example.org/a?b"
        );
        assert_eq!(shown(Kind::Https, "example.org"), "https://example.org/");
    }

    #[test]
    fn wrong_forms_are_refused() {
        let refused = |kind, text: &str| Target::parse(kind, text).unwrap_err();
        assert!(matches!(
            refused(Kind::Tcp, "example.org"),
            TargetError::Port(_)
        ));
        assert!(matches!(
            refused(Kind::Tcp, "192.0.2.1"),
            TargetError::Port(_)
        ));
        assert!(matches!(refused(Kind::Tcp, "a:0"), TargetError::Port(_)));
        assert!(matches!(
            refused(Kind::Tcp, "a:65536"),
            TargetError::Port(_)
        ));
        assert!(matches!(refused(Kind::Tcp, "a b:1"), TargetError::Host(_)));
        assert!(matches!(refused(Kind::Ssh, ":22"), TargetError::Host(_)));
        assert!(matches!(refused(Kind::Icmp, "  "), TargetError::Length));
        assert!(matches!(
            refused(Kind::Https, "http://a/"),
            TargetError::Url { .. }
        ));
        assert!(matches!(
            refused(Kind::Https, "https://u:p@a/"),
            TargetError::Url { .. }
        ));
    }

    #[test]
    fn names_of_check_types() {
        assert_eq!(Kind::from_name("tcp-22"), Some(Kind::Tcp));
        assert_eq!(Kind::from_name("tls-443"), Some(Kind::Tls));
        assert_eq!(Kind::from_name("https"), Some(Kind::Https));
        assert_eq!(Kind::from_name("tcp-0"), None);
        assert_eq!(Kind::from_name("icmp-1"), None);
        assert_eq!(Kind::from_name("dns"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_what_is_taken_reads_the_same_again(
            text in "[a-z0-9.:/\\[\\]%@ é-]{0,40}|\\PC{0,40}",
        ) {
            for kind in [Kind::Icmp, Kind::Tcp, Kind::Ssh, Kind::Tls, Kind::Https, Kind::Http] {
                if let Ok(target) = Target::parse(kind, &text) {
                    let again = Target::parse(kind, &target.to_string());
                    prop_assert_eq!(again.as_ref(), Ok(&target));
                    prop_assert!(kind == Kind::Icmp || target.port() > 0);
                }
            }
        }
    }
}
