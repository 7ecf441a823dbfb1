//! Addresses as they are queued: single ones, CIDR prefixes and ranges, all expanded in order.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// A public address under test. Prints in canonical form, so that one address has one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(IpAddr);

/// Why a text is not an address, prefix or range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddrError {
    /// Not an IPv4 or IPv6 address.
    #[error("{0:?} is not an IP address")]
    NotAnAddress(String),
    /// `address/length` whose length is not a number that fits the family.
    #[error("{0:?} is not a CIDR prefix")]
    BadPrefix(String),
    /// `first-last` with the last before the first, or of two families.
    #[error("{0:?} is not a range: the last address must follow the first")]
    BadRange(String),
    /// More addresses than one call may name.
    #[error("{0:?} makes the list longer than {1} addresses")]
    TooMany(String, usize),
}

impl Address {
    /// Takes `203.0.113.10` or `2001:db8::1`; white space around it is dropped.
    ///
    /// # Errors
    /// [`AddrError::NotAnAddress`] for anything else.
    pub fn parse(text: &str) -> Result<Self, AddrError> {
        let ip: IpAddr = text
            .trim()
            .parse()
            .map_err(|_e| AddrError::NotAnAddress(text.to_owned()))?;
        Ok(Self::from_ip(ip))
    }

    /// Wraps an address; an IPv4 address mapped into IPv6 becomes the IPv4 address.
    #[must_use]
    pub fn from_ip(ip: IpAddr) -> Self {
        Self(ip.to_canonical())
    }

    /// The address itself.
    #[must_use]
    pub const fn ip(self) -> IpAddr {
        self.0
    }

    /// IPv4 or IPv6.
    #[must_use]
    pub const fn family(self) -> Family {
        match self.0 {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    fn to_bits(self) -> u128 {
        match self.0 {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        }
    }

    fn from_bits(family: Family, bits: u128) -> Option<Self> {
        Some(match family {
            Family::V4 => Self(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).ok()?))),
            Family::V6 => Self(IpAddr::V6(Ipv6Addr::from_bits(bits))),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// First and last address of one entry of a list: of an address, a prefix or a range.
///
/// # Errors
/// [`AddrError`] says what is wrong with it.
pub fn bounds(entry: &str) -> Result<(Address, Address), AddrError> {
    let entry = entry.trim();
    if let Some((base, length)) = entry.split_once('/') {
        let bad = || AddrError::BadPrefix(entry.to_owned());
        let base = Address::parse(base).map_err(|_e| bad())?;
        let width: u32 = if base.family() == Family::V4 { 32 } else { 128 };
        let length: u32 = length.parse().map_err(|_e| bad())?;
        let free = width.checked_sub(length).ok_or_else(bad)?;
        let mask = 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        let first = base.to_bits() & !mask;
        let make = |bits| Address::from_bits(base.family(), bits).ok_or_else(bad);
        return Ok((make(first)?, make(first | mask)?));
    }
    if let Some((first, last)) = entry.split_once('-') {
        let (first, last) = (Address::parse(first)?, Address::parse(last)?);
        if first.family() != last.family() || last < first {
            return Err(AddrError::BadRange(entry.to_owned()));
        }
        return Ok((first, last));
    }
    let one = Address::parse(entry)?;
    Ok((one, one))
}

/// Expands a list of addresses, prefixes (first and last address included) and ranges, in list
/// order, each address once.
///
/// # Errors
/// All entries that are wrong, not only the first; or the entry that goes over `max` addresses.
pub fn parse_list<S: AsRef<str>>(
    entries: &[S],
    max: usize,
) -> Result<Vec<Address>, Vec<AddrError>> {
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    let mut wrong = Vec::new();
    for entry in entries.iter().map(AsRef::as_ref) {
        let (first, last) = match bounds(entry) {
            Ok(bounds) => bounds,
            Err(error) => {
                wrong.push(error);
                continue;
            }
        };
        if last.to_bits() - first.to_bits() >= max as u128 {
            wrong.push(AddrError::TooMany(entry.to_owned(), max));
            continue;
        }
        let family = first.family();
        let each = (first.to_bits()..=last.to_bits())
            .filter_map(|bits| Address::from_bits(family, bits))
            .filter(|address| seen.insert(*address));
        list.extend(each);
        if list.len() > max {
            wrong.push(AddrError::TooMany(entry.to_owned(), max));
            break;
        }
    }
    if wrong.is_empty() {
        Ok(list)
    } else {
        Err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(entries: &[&str]) -> Vec<String> {
        parse_list(entries, 65_536)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_list_keeps_its_order_and_counts_duplicates_once() {
        assert_eq!(
            expanded(&["203.0.113.9", " 203.0.113.8", "203.0.113.9"]),
            ["203.0.113.9", "203.0.113.8"]
        );
    }

    #[test]
    fn prefixes_and_ranges_include_their_ends() {
        assert_eq!(
            expanded(&["203.0.113.4/30"]),
            ["203.0.113.4", "203.0.113.5", "203.0.113.6", "203.0.113.7"]
        );
        assert_eq!(
            expanded(&["203.0.113.255-203.0.114.0"]),
            ["203.0.113.255", "203.0.114.0"]
        );
        assert_eq!(expanded(&["2001:db8::/127"]), ["2001:db8::", "2001:db8::1"]);
    }

    #[test]
    fn every_bad_entry_is_named() {
        let wrong = parse_list(
            &[
                "1.2.3",
                "10.0.0.0/33",
                "10.0.0.2-10.0.0.1",
                "::/0",
                "10.0.0.1",
            ],
            65_536,
        );
        assert_eq!(wrong.unwrap_err().len(), 4);
    }

    #[test]
    fn a_list_is_bounded() {
        assert_eq!(parse_list(&["10.0.0.0/16"], 65_536).unwrap().len(), 65_536);
        assert!(parse_list(&["10.0.0.0/16", "11.0.0.1"], 65_536).is_err());
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        assert_eq!(
            Address::parse("::ffff:203.0.113.1").unwrap().to_string(),
            "203.0.113.1"
        );
    }
}
