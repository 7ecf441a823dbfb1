//! What is checked, and how its text is read. Pure; resolves nothing.

use std::fmt;
use std::net::IpAddr;

use civ_types::CheckName;
use url::{Host, Url};

use crate::dns::{Question, QuestionError};

/// Longest accepted target, in bytes.
const TARGET_BYTES_MAX: usize = 2048;

/// The kinds of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Echo request and reply (RFC 792, RFC 4443).
    Icmp,
    /// Connect.
    Tcp,
    /// Connect, which must not succeed.
    Closed,
    /// Identification and start of the key exchange (RFC 4253 §4.2, §7.1).
    Ssh,
    /// Full handshake, certificate not judged.
    Tls,
    /// Request over TLS, certificate judged.
    Https,
    /// Request in the clear.
    Http,
    /// One question (RFC 1035).
    Dns,
}

impl Kind {
    /// The kind that a check type of the contract names: `icmp`, `tcp`, `tcp-<port>`,
    /// `closed-<port>`, `ssh`, `tls`, `tls-443`, `https`, `http`, `dns`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = CheckName::parse(name).ok().filter(CheckName::is_egress)?;
        match name.word() {
            "tcp" => Some(Self::Tcp),
            "closed" => Some(Self::Closed),
            "tls" => Some(Self::Tls),
            "icmp" => Some(Self::Icmp),
            "ssh" => Some(Self::Ssh),
            "https" => Some(Self::Https),
            "http" => Some(Self::Http),
            "dns" => Some(Self::Dns),
            _ => None,
        }
    }

    /// The plain word, without a port.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Closed => "closed",
            Self::Ssh => "ssh",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Http => "http",
            Self::Dns => "dns",
        }
    }

    /// The port where none is named. TCP has none, ICMP needs none.
    const fn default_port(self) -> Option<u16> {
        match self {
            Self::Icmp => Some(0),
            Self::Tcp | Self::Closed => None,
            Self::Ssh => Some(22),
            Self::Tls | Self::Https => Some(443),
            Self::Http => Some(80),
            Self::Dns => Some(53),
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
    question: Option<Question>,
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
    /// No question that a DNS server can be asked.
    #[error("{0:?} asks nothing: give server[:port]/name, or dns://server/name?type=AAAA: {1}")]
    Question(String, QuestionError),
}

impl Target {
    /// Reads `text` in the form that `kind` asks for: a host or a URL for ICMP, `host:port` or a
    /// URL for TCP and for what must be closed, `host[:22]` for SSH, `host[:443]` or a URL for TLS,
    /// a URL (or a bare `host[:port]`, completed to one) for HTTP and HTTPS, `server[:53]/name` for
    /// DNS. IPv6 addresses with a port stand in brackets. Inbound targets come from
    /// [`Target::addr`] instead.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong with it.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        if text.is_empty() || text.len() > TARGET_BYTES_MAX {
            return Err(TargetError::Length);
        }
        if text.contains("://") && kind != Kind::Dns {
            return Self::parse_url(kind, text);
        }
        match kind {
            Kind::Dns => Self::parse_question(text),
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
            question: None,
        }
    }

    /// Reads a target of the check type `name`: a port in the name is the port of a target that
    /// is only a host.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong with it.
    pub fn parse_named(kind: Kind, name: &CheckName, text: &str) -> Result<Self, TargetError> {
        let Some(port) = name.port() else {
            return Self::parse(kind, text);
        };
        if let Ok(ip) = text.trim().parse::<IpAddr>() {
            return Ok(Self::addr(ip, port));
        }
        match Self::parse(kind, text) {
            Err(TargetError::Port(_)) if !text.contains(':') => {
                Self::parse(kind, &format!("{}:{port}", text.trim()))
            }
            // Here the name says it all: the target's own port would be another check.
            Ok(mut target) if kind == Kind::Closed => {
                target.port = port;
                Ok(target)
            }
            Ok(mut target) if kind == Kind::Tls && !text.contains(':') => {
                target.port = port;
                Ok(target)
            }
            other => other,
        }
    }

    /// `server[:port]/name`, or RFC 4501's `dns://server[:port]/name?type=AAAA`.
    fn parse_question(text: &str) -> Result<Self, TargetError> {
        let bare = text.strip_prefix("dns://").unwrap_or(text);
        let bad = |why| TargetError::Question(text.to_owned(), why);
        let (server, rest) = bare
            .split_once('/')
            .ok_or_else(|| bad(QuestionError::None))?;
        let question = Question::parse(rest).map_err(bad)?;
        let mut target = Self::parse_host_port(Kind::Dns, server)?;
        target.question = Some(question);
        Ok(target)
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
                question: None,
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
            question: None,
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

    /// What to ask a DNS server.
    pub(crate) const fn question(&self) -> Option<&Question> {
        self.question.as_ref()
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
            (Some(url), _) => return write!(f, "{url}"),
            (None, 0) => write!(f, "{}", self.host)?,
            (None, port) => write!(f, "{}:{port}", self.host)?,
        }
        match &self.question {
            Some(question) => write!(f, "/{question}"),
            None => Ok(()),
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

    use super::{CheckName, Kind, Target, TargetError};

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
        assert_eq!(Kind::from_name("closed-25"), Some(Kind::Closed));
        assert_eq!(Kind::from_name("closed"), None);
        assert_eq!(Kind::from_name("telepathy"), None);
    }

    #[test]
    fn the_port_of_a_name_is_the_port_of_a_bare_host() {
        let shown = |name: &str, text: &str| {
            let name = CheckName::parse(name).unwrap();
            let kind = Kind::from_name(name.as_str()).unwrap();
            Target::parse_named(kind, &name, text).unwrap().to_string()
        };
        assert_eq!(shown("tcp-22", "example.org"), "example.org:22");
        assert_eq!(shown("tcp-22", "example.org:2222"), "example.org:2222");
        assert_eq!(shown("tls-8443", "example.org"), "example.org:8443");
        assert_eq!(shown("closed-25", "example.org"), "example.org:25");
        assert_eq!(shown("closed-25", "2001:db8::1"), "[2001:db8::1]:25");
        assert_eq!(shown("closed-25", "https://example.org/"), "example.org:25");
    }

    #[test]
    fn questions_name_a_server_and_a_name() {
        let dns = |text: &str| Target::parse(Kind::Dns, text).map(|t| t.to_string());
        assert_eq!(
            dns("9.9.9.9/example.org").unwrap(),
            "9.9.9.9:53/example.org?type=A"
        );
        let uri = dns("dns://[2001:db8::1]:5353/example.org?type=AAAA").unwrap();
        assert_eq!(uri, "[2001:db8::1]:5353/example.org?type=AAAA");
        for wrong in ["9.9.9.9", "9.9.9.9/", "9.9.9.9/a?type=XX", "9.9.9.9/a..b"] {
            assert!(
                matches!(dns(wrong), Err(TargetError::Question(..))),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_what_is_taken_reads_the_same_again(
            text in "[a-z0-9.:/\\[\\]%@ é-]{0,40}|\\PC{0,40}",
        ) {
            let named = [Kind::Icmp, Kind::Tcp, Kind::Ssh, Kind::Tls, Kind::Https, Kind::Http];
            for kind in named.into_iter().chain([Kind::Dns, Kind::Closed]) {
                if let Ok(target) = Target::parse(kind, &text) {
                    let again = Target::parse(kind, &target.to_string());
                    prop_assert_eq!(again.as_ref(), Ok(&target));
                    prop_assert!(kind == Kind::Icmp || target.port() > 0);
                }
            }
        }
    }
}
