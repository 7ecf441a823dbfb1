//! Which check is meant: its source, its name, its target.

use std::fmt;

use crate::{IdError, SiteId};

/// Where a check looks from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// From the validator through the address to the outside.
    Egress,
    /// From a site to the address.
    Inbound,
}

impl Source {
    /// The word on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Inbound => "inbound",
        }
    }
}

/// A check type as the contract spells it: `https`, `tcp-22`, `tls-443`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckName(String);

impl CheckName {
    /// Longest accepted name, in bytes: room for `closed-65535` and what may follow.
    pub const BYTES_MAX: usize = 64;

    /// Takes 1 to 64 bytes of lower-case letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`IdError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > Self::BYTES_MAX {
            return Err(IdError::TooLong(Self::BYTES_MAX));
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if !text.chars().all(plain) {
            return Err(IdError::NotPlain);
        }
        Ok(Self(text.to_owned()))
    }

    /// `tcp-<port>`, the reachability check of one port.
    #[must_use]
    pub fn tcp(port: u16) -> Self {
        Self(format!("tcp-{port}"))
    }

    /// `icmp`.
    #[must_use]
    pub fn icmp() -> Self {
        Self("icmp".to_owned())
    }

    /// `ssh`, the identification exchange on port 22.
    #[must_use]
    pub fn ssh() -> Self {
        Self("ssh".to_owned())
    }

    /// `tls-443`, the full handshake on port 443.
    #[must_use]
    pub fn tls_443() -> Self {
        Self("tls-443".to_owned())
    }

    /// `closed-<port>`: that nothing answers on a port.
    #[must_use]
    pub fn closed(port: u16) -> Self {
        Self(format!("closed-{port}"))
    }

    /// `identity`: that the address leads to the validator that holds it.
    #[must_use]
    pub fn identity() -> Self {
        Self("identity".to_owned())
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One check of an attempt: what the unique key of a result is within that attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckSpec {
    /// Egress or inbound.
    pub source: Source,
    /// The site of an inbound check; `None` for egress.
    pub site: Option<SiteId>,
    /// The check type.
    pub name: CheckName,
    /// Target of an egress check as configured; empty for inbound, where it is the address.
    pub target: String,
}

impl CheckSpec {
    /// A check from the validator to `target`.
    #[must_use]
    pub fn egress(name: CheckName, target: &str) -> Self {
        Self {
            source: Source::Egress,
            site: None,
            name,
            target: target.to_owned(),
        }
    }

    /// A check from `site` to the address under test.
    #[must_use]
    pub const fn inbound(site: SiteId, name: CheckName) -> Self {
        Self {
            source: Source::Inbound,
            site: Some(site),
            name,
            target: String::new(),
        }
    }
}

impl fmt::Display for CheckSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Some(site) => write!(f, "{} from {site}", self.name),
            None => write!(f, "{} {}", self.name, self.target),
        }
    }
}
