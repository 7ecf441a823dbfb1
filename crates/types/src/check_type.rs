//! The check types that agents know, by the form of their names, and the options that each takes.

use crate::CheckName;

/// For texts: every egress check type, `PORT` standing for 1 to 65535.
pub const EGRESS_CHECKS: &str =
    "icmp, tcp, tcp-PORT, closed-PORT, ssh, tls, tls-PORT, https, http, dns";

/// Options with the word of the check types that take them, and what they may be.
const OPTIONS: &[(&str, &str, OptionKind)] = &[
    ("http", "expect_body", OptionKind::Pattern),
    ("http", "expect_status", OptionKind::Status),
    ("https", "expect_body", OptionKind::Pattern),
    ("https", "expect_status", OptionKind::Status),
    ("https", "insecure", OptionKind::Flag),
    ("ssh", "ssh_hostkey", OptionKind::Flag),
];

/// What the value of an option may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// An HTTP status, 100 to 599.
    Status,
    /// A regular expression of 1 to 1024 characters.
    Pattern,
}

impl OptionKind {
    /// What is allowed, for a sentence that refuses something else.
    #[must_use]
    pub const fn allowed(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Status => "a whole number from 100 to 599",
            Self::Pattern => "a regular expression of 1 to 1024 characters",
        }
    }
}

impl CheckName {
    /// The word before the port: `tcp` of `tcp-22`.
    #[must_use]
    pub fn word(&self) -> &str {
        self.as_str()
            .split_once('-')
            .map_or(self.as_str(), |(word, _)| word)
    }

    /// The port in the name, if there is one from 1 to 65535.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let (_, port) = self.as_str().split_once('-')?;
        let plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        port.parse().ok().filter(|_| plain)
    }

    /// Whether an agent knows the egress check of this name. Another name would be handed out,
    /// never reported, and fail every address.
    #[must_use]
    pub fn is_egress(&self) -> bool {
        let has_port = self.as_str().contains('-');
        match self.word() {
            "closed" => self.port().is_some(),
            "tcp" | "tls" => !has_port || self.port().is_some(),
            "icmp" | "ssh" | "https" | "http" | "dns" => !has_port,
            _ => false,
        }
    }

    /// What the option of that name may be; `None` if this check type has no such option.
    #[must_use]
    pub fn option(&self, option: &str) -> Option<OptionKind> {
        let row = self.options().find(|(name, _)| *name == option)?;
        Some(row.1)
    }

    /// The options of this check type, in order of name.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, OptionKind)> {
        let word = self.word();
        let own = OPTIONS.iter().filter(move |(of, ..)| *of == word);
        own.map(|(_, name, kind)| (*name, *kind))
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckName, OptionKind};

    fn name(text: &str) -> CheckName {
        CheckName::parse(text).unwrap()
    }

    #[test]
    fn names_with_and_without_ports() {
        for known in [
            "icmp",
            "tcp",
            "tcp-1",
            "tcp-65535",
            "closed-25",
            "ssh",
            "tls",
            "tls-443",
            "https",
            "http",
            "dns",
        ] {
            assert!(name(known).is_egress(), "{known}");
        }
        for unknown in [
            "closed",
            "closed-0",
            "closed-65536",
            "closed-025",
            "tcp-0",
            "tcp-",
            "tcp-x",
            "icmp-1",
            "dns-53",
            "telepathy",
            "closed-1-2",
        ] {
            assert!(!name(unknown).is_egress(), "{unknown}");
        }
        assert_eq!(
            (name("closed-25").word(), name("closed-25").port()),
            ("closed", Some(25))
        );
    }

    #[test]
    fn options_belong_to_their_check_type() {
        assert_eq!(name("https").option("insecure"), Some(OptionKind::Flag));
        assert_eq!(name("http").option("insecure"), None);
        assert_eq!(name("ssh").option("ssh_hostkey"), Some(OptionKind::Flag));
        assert_eq!(name("icmp").options().count(), 0);
    }
}
