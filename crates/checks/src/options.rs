//! What a check may be asked beside its kind and target.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use crate::http::Signature;

/// Most memory of a compiled pattern, in bytes.
const PATTERN_SIZE_MAX: usize = 1024 * 1024;

/// Options of one check; none set by default. Those of another kind of check mean nothing to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// HTTP(S): the final status; else any below 400.
    pub expect_status: Option<u16>,
    /// HTTP(S): what the first 64 KiB of the body must match.
    pub expect_body: Option<Pattern>,
    /// HTTPS: the certificate is not judged.
    pub insecure: bool,
    /// HTTP(S): who must answer, shown by the first answer itself. Not to be had from a
    /// configuration.
    pub signature: Option<Signature>,
    /// SSH: complete the key exchange and report the fingerprint of the host key.
    pub ssh_hostkey: bool,
}

/// A regular expression over bytes; equal if its text is.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// # Errors
    /// [`OptionsError`] if it is none, or a huge one.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let built = RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build();
        built.map(Self).map_err(|e| OptionsError {
            option: "expect_body".to_owned(),
            why: e.to_string(),
        })
    }

    /// Whether it is found in `bytes`.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.0.is_match(bytes)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// An option that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option {option}: {why}")]
pub struct OptionsError {
    /// Its name.
    pub option: String,
    /// What is wrong with it.
    pub why: String,
}

impl Options {
    /// Reads the JSON object of a check's configuration. A name that is not known here is refused:
    /// a check without what was asked for would be another check.
    ///
    /// # Errors
    /// [`OptionsError`] names the option.
    pub fn parse(json: &Value) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        let wrong = |option: &str, why: &str| OptionsError {
            option: option.to_owned(),
            why: why.to_owned(),
        };
        let entries = match json {
            Value::Null => return Ok(options),
            Value::Object(entries) => entries,
            _ => return Err(wrong("options", "not an object")),
        };
        for (name, value) in entries {
            let flag = || {
                value
                    .as_bool()
                    .ok_or_else(|| wrong(name, "not true or false"))
            };
            match name.as_str() {
                "expect_status" => {
                    let status = value.as_u64().and_then(|n| u16::try_from(n).ok());
                    let status = status.filter(|n| (100..=599).contains(n));
                    options.expect_status =
                        Some(status.ok_or_else(|| wrong(name, "not from 100 to 599"))?);
                }
                "expect_body" => {
                    let text = value.as_str().ok_or_else(|| wrong(name, "not a text"))?;
                    options.expect_body = Some(Pattern::parse(text)?);
                }
                "insecure" => options.insecure = flag()?,
                "ssh_hostkey" => options.ssh_hostkey = flag()?,
                _ => return Err(wrong(name, "this version does not know it")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, proptest};
    use serde_json::json;

    use super::{Options, Pattern};

    #[test]
    fn all_options_are_read() {
        let json = json!({"expect_status": 204, "expect_body": "^ok$", "insecure": true});
        let options = Options::parse(&json).unwrap();
        assert_eq!((options.expect_status, options.insecure), (Some(204), true));
        assert!(options.expect_body.unwrap().is_in(b"ok"));
        assert_eq!(Options::parse(&json!(null)).unwrap(), Options::default());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (json, part) in [
            (json!({"expect_status": 99}), "expect_status"),
            (json!({"expect_body": "("}), "expect_body"),
            (json!({"expect_body": "(a{1000}){1000}"}), "expect_body"),
            (json!({"insecure": 1}), "insecure"),
            (json!({"colour": "red"}), "colour"),
            (json!([]), "options"),
        ] {
            let text = Options::parse(&json).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_is_survived(text in "\\PC{0,60}") {
            prop_assert!(Pattern::parse(&text).is_ok_and(|p| p.as_str() == text)
                || Pattern::parse(&text).is_err());
        }
    }
}
