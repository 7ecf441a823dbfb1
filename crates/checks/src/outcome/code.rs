//! The one table of codes: word, meaning, who is to blame, and whether it counts as a failure.

use std::fmt;

use super::{Blame, Verdict};

/// A code with its word, who is to blame, whether it says something about the address, and what
/// was seen. `target`, `path` and `resolver` are the others' fault, `ourselves` is ours.
macro_rules! codes {
    ($(
        $(#[$doc:meta])*
        $name:ident $(($payload:ty = $shown:literal, $example:expr))?
            $word:literal $blame:ident $counts:ident
    )*) => {
        /// Why a check did not pass. `Display` gives the stable text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $( $(#[$doc])* $name $(($payload))?, )*
        }

        impl Code {
            /// Every code once, those with a name or number with an example of it.
            pub const ALL: &'static [Self] = &[
                $( Self::$name $(($example))?, )*
            ];

            /// The stable word, without name or number.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $( Self::$name { .. } => $word, )*
                }
            }

            /// What follows the word: `:<name>`, `:<n>`, or nothing.
            #[must_use]
            pub const fn suffix(self) -> &'static str {
                match self {
                    $( Self::$name { .. } => concat!("" $(, ":<", $shown, ">")?), )*
                }
            }

            /// Does it count as a failure of the address, or could the check not be carried out?
            const fn counts(self) -> bool {
                match self {
                    $( Self::$name { .. } => matches!(Counts::$counts, Counts::Failed), )*
                }
            }

            /// Who is to blame, where nothing is known beyond the code.
            pub(super) const fn usual_blame(self) -> Blame {
                match self {
                    $( Self::$name { .. } => Blame::$blame, )*
                }
            }
        }
    };
}

/// The last column of the table.
enum Counts {
    Failed,
    Inconclusive,
}

codes! {
    /// The name does not resolve within the budget.
    DnsFailed "dns_failed" Resolver Failed
    /// It has no address of the family under test.
    NoAddressInFamily "no_address_in_family" Target Failed
    /// RST in answer to SYN.
    Refused "refused" Target Failed
    /// RST on an established connection.
    Reset "reset" Target Failed
    /// No answer to SYN.
    TimeoutConnect "timeout_connect" Path Failed
    /// No (complete) answer after connecting, or none to an echo request.
    TimeoutRead "timeout_read" Target Failed
    /// ICMP says so, or the route is missing.
    UnreachableHost "unreachable_host" Path Failed
    /// ICMP says so, or the route is missing.
    UnreachableNet "unreachable_net" Path Failed
    /// A router or firewall says that it is not allowed.
    AdminProhibited "admin_prohibited" Path Failed
    /// A routing loop, or too many hops.
    TtlExceeded "ttl_exceeded" Path Failed
    /// A path MTU below our packet.
    PacketTooBig "packet_too_big" Path Failed
    /// The peer closed before it had answered.
    ClosedEarly "closed_early" Target Failed
    /// A port that should be closed accepted the connection.
    UnexpectedlyOpen "unexpectedly_open" Target Failed
    /// The answer is not SSH.
    NotSsh "not_ssh" Target Failed
    /// The server speaks SSH 1 only.
    SshV1Only "ssh_v1_only" Target Failed
    /// The peer sent this alert (RFC 8446 §6).
    TlsAlert(&'static str = "name", "handshake_failure") "tls_alert" Target Failed
    /// The answer is no TLS record.
    NotTls "not_tls" Target Failed
    /// TLS is spoken, but the handshake came to no result.
    TlsFailed "tls_failed" Target Failed
    /// The certificate is not valid for the name (https only).
    CertInvalid "cert_invalid" Target Failed
    /// The answer is no HTTP response, or redirects elsewhere than to http(s).
    NotHttp "not_http" Target Failed
    /// The final status is 400 or above, or not the one that was expected.
    HttpStatus(u16 = "n", 503) "http_status" Target Failed
    /// 451, or 403 with a known block page.
    HttpGeoBlocked "http_geo_blocked" Target Failed
    /// The service wants a proof of being human.
    HttpChallenge "http_challenge" Target Failed
    /// The body is not what was expected.
    BodyMismatch "body_mismatch" Target Failed
    /// Somebody else answered, or what answered did not prove who it is.
    WrongHost "wrong_host" Target Failed
    /// More than five redirects.
    TooManyRedirects "too_many_redirects" Target Failed
    /// The answer is no DNS message, or not one to our question.
    NotDns "not_dns" Target Failed
    /// The DNS server answered with this error (RFC 1035 §4.1.1).
    DnsAnswer(&'static str = "name", "servfail") "dns_answer" Target Failed
    /// The server says that it is overloaded.
    ServerBusy "server_busy" Target Inconclusive
    /// This process may not send that.
    Permission "permission" Ourselves Inconclusive
    /// The source address is not on this host.
    SourceUnavailable "source_unavailable" Ourselves Inconclusive
    /// The target leads to an address that this process is not to check.
    TargetDenied "target_denied" Ourselves Inconclusive
    /// This process has more to do than it can do in time.
    Overloaded "overloaded" Ourselves Inconclusive
    /// No descriptors, full buffers, own drops.
    Internal "internal" Ourselves Inconclusive
}

impl Code {
    /// Is it a reason that says nothing about the address?
    #[must_use]
    pub const fn is_inconclusive(self) -> bool {
        !self.counts()
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
        let word = self.word();
        match self {
            Self::TlsAlert(name) | Self::DnsAnswer(name) => write!(f, "{word}:{name}"),
            Self::HttpStatus(status) => write!(f, "{word}:{status}"),
            _ => f.write_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Code;

    #[test]
    fn only_reasons_that_say_nothing_about_the_address_are_inconclusive() {
        assert!(Code::Permission.is_inconclusive());
        assert!(Code::ServerBusy.is_inconclusive());
        assert!(Code::TargetDenied.is_inconclusive());
        assert!(!Code::Refused.is_inconclusive());
        assert!(!Code::HttpStatus(503).is_inconclusive());
    }

    #[test]
    fn words_are_unique_and_plain() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(words.iter().all(|word| word.chars().all(plain)));
        assert_eq!(Code::TlsAlert("x").to_string(), "tls_alert:x");
    }

    #[test]
    fn the_table_for_operators_has_every_code_and_whether_it_counts() {
        let page = include_str!("../../../../docs/OPERATIONS.md");
        for code in Code::ALL {
            let named = format!("`{}{}`", code.word(), code.suffix());
            let row = page
                .lines()
                .find(|line| line.starts_with("| `") && line.contains(&named));
            let row = row.unwrap_or_else(|| panic!("docs/OPERATIONS.md has no row for {named}"));
            let counts = if code.is_inconclusive() { "no" } else { "yes" };
            let blamed = code.usual_blame().as_str();
            assert!(row.ends_with(&format!("| {blamed} | {counts} |")), "{row}");
        }
    }
}
