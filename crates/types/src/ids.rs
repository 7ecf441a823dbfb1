//! One registry of id kinds. Names are parsed once, at the edge; numbers wrap what the database
//! gives out.

use std::fmt;

/// Longest accepted name of a validator, site, port or floating IP, in characters.
///
/// OpenStack's ids are 36; the rest is room for names that people invent. Characters, since that
/// is what JSON Schema counts: the published contract says exactly what is accepted.
const NAME_CHARS_MAX: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing, or nothing but white space.
    #[error("must not be empty")]
    Empty,
    /// Longer than the limit of its kind: 128 for names, 64 for check types.
    #[error("must be at most {0} characters long")]
    TooLong(usize),
    /// Not the letters of a check type.
    #[error("may hold lower-case letters, digits, - and _ alone")]
    NotPlain,
    /// A control character, or a slash, which could not stand in a path of the API.
    #[error("must not contain control characters or slashes")]
    BadCharacter,
}

fn checked(text: &str) -> Result<String, IdError> {
    if text.trim().is_empty() {
        return Err(IdError::Empty);
    }
    if text.chars().count() > NAME_CHARS_MAX {
        return Err(IdError::TooLong(NAME_CHARS_MAX));
    }
    if text.chars().any(|c| c.is_control() || c == '/') {
        return Err(IdError::BadCharacter);
    }
    Ok(text.to_owned())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes a text of 1 to 128 characters without control characters and slashes.
            ///
            /// # Errors
            /// [`IdError`] says what is wrong with it.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                checked(text).map(Self)
            }

            /// The text as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// A validator: one port of a validator VM and the agent that serves it.
    ValidatorId
    /// An outside site from which a prober checks addresses.
    SiteId
    /// A Neutron port (`ports/{id}`).
    PortId
    /// A Neutron floating IP (`floatingips/{id}`), not its address.
    FipId
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

numbers! {
    /// An address in the queue: from 1, never used again after a delete.
    IpId
    /// Which attempt at an address this is: from 1, grows when an operator enqueues it again.
    AttemptNo
    /// Which claim this is (`fence` on the wire): new at every claim, never used twice.
    ClaimNo
    /// Which enqueueing of an address this is: from 1, unique for that address for ever.
    CycleId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(
            ValidatorId::parse("validator_01").unwrap().as_str(),
            "validator_01"
        );
        assert_eq!(ValidatorId::parse(" "), Err(IdError::Empty));
        assert_eq!(SiteId::parse("a/b"), Err(IdError::BadCharacter));
        assert_eq!(SiteId::parse("a\nb"), Err(IdError::BadCharacter));
        assert_eq!(PortId::parse(&"p".repeat(129)), Err(IdError::TooLong(128)));
        assert!(PortId::parse(&"\u{e9}".repeat(128)).is_ok());
    }
}
