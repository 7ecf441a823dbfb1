//! What a check says: verdict, stable code, times, printable detail. Knows no sockets.

use std::fmt;
use std::time::Duration;

/// Longest [`Outcome::detail`], in bytes.
pub(crate) const DETAIL_BYTES_MAX: usize = 1024;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Passed, failed, or not carried out for a reason of ours.
    pub verdict: Verdict,
    /// Of the step that the check is about: echo round trip (mean), TCP connect, SSH banner after
    /// connect, TLS handshake after connect, first HTTP response byte after the request.
    pub latency: Option<Duration>,
    /// Wall time from the start of the socket work (resolving included); waiting is apart.
    pub duration: Duration,
    /// Time spent waiting for a slot of this process before and between the socket work.
    pub waited: Duration,
    /// The stable code (`ok` on success), then facts. Printable, at most 1 KiB.
    pub detail: String,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The target answered as it should.
    Passed,
    /// The network or the target's fault.
    Failed(Code),
    /// Could not be carried out for a reason that says nothing about the address.
    Inconclusive(Code),
}

impl Verdict {
    /// `true` for [`Verdict::Passed`].
    #[must_use]
    pub const fn passed(self) -> bool {
        matches!(self, Self::Passed)
    }

    /// The code, if it did not pass.
    #[must_use]
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Passed => None,
            Self::Failed(code) | Self::Inconclusive(code) => Some(code),
        }
    }
}

/// Why a check did not pass. `Display` gives the stable text.
///
/// | code | seen |
/// |---|---|
/// | `dns_failed` | the name does not resolve within the budget |
/// | `no_address_in_family` | it has no address of the family under test |
/// | `refused` | RST in answer to SYN |
/// | `reset` | RST later |
/// | `timeout_connect` | no answer to SYN |
/// | `timeout_read` | no (complete) answer after connecting, or to an echo request |
/// | `unreachable_host`, `unreachable_net` | ICMP says so, or the route is missing |
/// | `admin_prohibited`, `ttl_exceeded`, `packet_too_big` | ICMP error to an echo request |
/// | `closed_early` | the peer closed before it had answered |
/// | `not_ssh`, `ssh_v1_only` | the answer is not SSH, or only SSH 1 |
/// | `tls_alert:<name>` | the peer sent this TLS alert |
/// | `not_tls` | the answer is no TLS record |
/// | `tls_failed` | TLS is spoken, but the handshake came to no result |
/// | `cert_invalid` | the certificate is not valid for the name (https only) |
/// | `not_http` | the answer is no HTTP/1 response |
/// | `http_status:<n>` | final status 400 or above |
/// | `http_geo_blocked` | 451, or 403 with a known block page |
/// | `too_many_redirects` | more than five |
/// | `server_busy` | inconclusive: the server says that it is overloaded |
/// | `permission` | inconclusive: this process may not send that |
/// | `source_unavailable` | inconclusive: the source address is not on this host |
/// | `internal` | inconclusive: no descriptors, full buffers, own drops |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The name does not resolve.
    DnsFailed,
    /// No address of the family under test.
    NoAddressInFamily,
    /// RST in answer to SYN.
    Refused,
    /// RST on an established connection.
    Reset,
    /// No answer to SYN.
    TimeoutConnect,
    /// No or no complete answer.
    TimeoutRead,
    /// Host unreachable.
    UnreachableHost,
    /// Network unreachable.
    UnreachableNet,
    /// A router or firewall says that it is not allowed.
    AdminProhibited,
    /// A routing loop, or too many hops.
    TtlExceeded,
    /// A path MTU below our packet.
    PacketTooBig,
    /// The peer closed before it had answered.
    ClosedEarly,
    /// The answer is not SSH.
    NotSsh,
    /// The server speaks SSH 1 only.
    SshV1Only,
    /// The peer sent this alert (RFC 8446 §6).
    TlsAlert(&'static str),
    /// The answer is no TLS record.
    NotTls,
    /// TLS is spoken, but no handshake came about.
    TlsFailed,
    /// The certificate is not valid.
    CertInvalid,
    /// The answer is no HTTP/1 response.
    NotHttp,
    /// Final status 400 or above.
    HttpStatus(u16),
    /// The service refuses the address for legal or regional reasons.
    HttpGeoBlocked,
    /// More than five redirects.
    TooManyRedirects,
    /// The server says that it is overloaded.
    ServerBusy,
    /// This process may not send that.
    Permission,
    /// The source address is not on this host.
    SourceUnavailable,
    /// Another reason of ours.
    Internal,
}

impl Code {
    /// Is it a reason that says nothing about the address?
    #[must_use]
    pub const fn is_inconclusive(self) -> bool {
        matches!(
            self,
            Self::ServerBusy | Self::Permission | Self::SourceUnavailable | Self::Internal
        )
    }

    /// The verdict that goes with it.
    pub(crate) const fn verdict(self) -> Verdict {
        if self.is_inconclusive() {
            Verdict::Inconclusive(self)
        } else {
            Verdict::Failed(self)
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::DnsFailed => "dns_failed",
            Self::NoAddressInFamily => "no_address_in_family",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimeoutConnect => "timeout_connect",
            Self::TimeoutRead => "timeout_read",
            Self::UnreachableHost => "unreachable_host",
            Self::UnreachableNet => "unreachable_net",
            Self::AdminProhibited => "admin_prohibited",
            Self::TtlExceeded => "ttl_exceeded",
            Self::PacketTooBig => "packet_too_big",
            Self::ClosedEarly => "closed_early",
            Self::NotSsh => "not_ssh",
            Self::SshV1Only => "ssh_v1_only",
            Self::TlsAlert(name) => return write!(f, "tls_alert:{name}"),
            Self::NotTls => "not_tls",
            Self::TlsFailed => "tls_failed",
            Self::CertInvalid => "cert_invalid",
            Self::NotHttp => "not_http",
            Self::HttpStatus(status) => return write!(f, "http_status:{status}"),
            Self::HttpGeoBlocked => "http_geo_blocked",
            Self::TooManyRedirects => "too_many_redirects",
            Self::ServerBusy => "server_busy",
            Self::Permission => "permission",
            Self::SourceUnavailable => "source_unavailable",
            Self::Internal => "internal",
        };
        f.write_str(word)
    }
}

/// Success of a probe, before it becomes an [`Outcome`].
#[derive(Debug)]
pub(crate) struct Seen {
    /// Of the step that the check is about.
    pub(crate) latency: Duration,
    /// What was seen, without the leading `ok`.
    pub(crate) facts: String,
}

/// Anything but success of a probe, before it becomes an [`Outcome`].
#[derive(Debug)]
pub(crate) struct Fault {
    /// Why.
    pub(crate) code: Code,
    /// What was seen, without the leading code.
    pub(crate) facts: String,
    /// Of the step that the check is about, if it came that far.
    pub(crate) latency: Option<Duration>,
}

impl Fault {
    /// A fault without a latency.
    pub(crate) fn new(code: Code, facts: impl Into<String>) -> Self {
        Self {
            code,
            facts: facts.into(),
            latency: None,
        }
    }

    /// The same, with `text` in front of the facts.
    pub(crate) fn context(mut self, text: &str) -> Self {
        self.facts = format!("{text} {}", self.facts);
        self
    }
}

/// Builds the outcome: code first, then facts, printable and bounded.
pub(crate) fn outcome(
    result: Result<Seen, Fault>,
    duration: Duration,
    waited: Duration,
) -> Outcome {
    let (verdict, latency, head, facts) = match result {
        Ok(seen) => (
            Verdict::Passed,
            Some(seen.latency),
            "ok".to_owned(),
            seen.facts,
        ),
        Err(fault) => (
            fault.code.verdict(),
            fault.latency,
            fault.code.to_string(),
            fault.facts,
        ),
    };
    let detail = printable(format!("{head} {facts}").trim_end(), DETAIL_BYTES_MAX);
    Outcome {
        verdict,
        latency,
        duration,
        waited,
        detail,
    }
}

/// `text` with control and odd characters escaped, cut at a character border to `max` bytes.
///
/// Peers choose what stands in banners and certificates; it ends in logs, terminals and pages.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let odd = c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
        let shown = if odd {
            c.escape_default().to_string()
        } else {
            c.to_string()
        };
        // Three bytes stay free for the mark that something was cut.
        if out.len() + shown.len() > max.saturating_sub(3) {
            out.push_str("...");
            break;
        }
        out.push_str(&shown);
    }
    out
}

/// Milliseconds with two decimals, as all details print them.
pub(crate) fn millis(duration: Duration) -> String {
    format!("{:.2}ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    use super::{Code, Duration, Fault, Verdict, outcome, printable};

    #[test]
    fn detail_begins_with_the_code_and_is_printable() {
        let fault = Fault::new(
            Code::TlsAlert("handshake_failure"),
            "from\u{1b}[31m\r\nhere",
        );
        let out = outcome(Err(fault), Duration::ZERO, Duration::ZERO);
        assert_eq!(
            out.verdict,
            Verdict::Failed(Code::TlsAlert("handshake_failure"))
        );
        assert_eq!(
            out.detail,
            "tls_alert:handshake_failure from\\u{1b}[31m\\r\\nhere"
        );
    }

    #[test]
    fn printable_is_bounded_at_a_character_border() {
        let long = "ä".repeat(2000);
        let cut = printable(&long, 1024);
        assert!(cut.len() <= 1024 && cut.ends_with("..."));
        assert!(cut.starts_with("ää"));
    }

    #[test]
    fn only_reasons_of_ours_are_inconclusive() {
        assert!(Code::Permission.is_inconclusive());
        assert!(Code::ServerBusy.is_inconclusive());
        assert!(!Code::Refused.is_inconclusive());
        assert!(!Code::HttpStatus(503).is_inconclusive());
    }

    proptest! {
        #[test]
        fn any_text_becomes_printable_and_bounded(text in any::<String>(), max in 3_usize..200) {
            let shown = printable(&text, max);
            prop_assert!(shown.len() <= max);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
