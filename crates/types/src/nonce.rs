//! The secret of one claim that only its validator serves.

use std::fmt;

/// What the responder of a validator serves while it holds a claim, and what probers compare: a
/// text that nobody guesses, made anew for every claim. It shows itself in no log.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Nonce(String);

impl Nonce {
    /// Accepted lengths, in characters: 80 bits at least in the densest case.
    const CHARS: std::ops::RangeInclusive<usize> = 16..=128;

    /// Takes 16 to 128 ASCII letters and digits: nothing that an HTTP header would mangle.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (plain && Self::CHARS.contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// The nonce that these random bits make.
    #[must_use]
    pub fn of_bits(random: u128) -> Self {
        Self(format!("{random:032x}"))
    }

    /// The text, for whoever serves or compares it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::Nonce;

    #[test]
    fn only_what_fits_a_header_is_taken_and_nothing_shows_it() {
        assert_eq!(
            Nonce::parse(Nonce::of_bits(7).as_str()),
            Some(Nonce::of_bits(7))
        );
        let nonce = Nonce::parse("0123456789abcdef").unwrap();
        assert_eq!(nonce.as_str(), "0123456789abcdef");
        assert_eq!(format!("{nonce:?}"), "Nonce(..)");
        let long = "a".repeat(129);
        for bad in [
            "",
            "0123456789abcde",
            "0123456789abcde\n",
            "0123456789abcdeé",
            &long,
        ] {
            assert_eq!(Nonce::parse(bad), None, "{bad:?}");
        }
    }
}
