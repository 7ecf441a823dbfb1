//! The section `auth`, and the tokens themselves, which are read when the process starts.

use std::collections::BTreeMap;

use civ_boot::config::Report;
use civ_boot::secrets::{Environment, SecretError, SecretSource};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Shortest token that `auth.required` lets pass, in characters.
const TOKEN_CHARS_MIN: usize = 16;

/// Where the tokens are, and what they protect.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Good for `/api/v1/admin/*`.
    pub admin_token: SecretSource,
    /// Good for the writes of agents and probers.
    pub agent_token: SecretSource,
    /// Refuse to start without tokens, or with short ones.
    pub required: bool,
    /// Put the open agent and prober methods behind the agent token too.
    pub protect_open_methods: bool,
}

/// The tokens of both levels. A level without a token is open.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// Each is accepted; two during a rotation.
    pub admin: Vec<SecretString>,
    /// Each is accepted; two during a rotation.
    pub agent: Vec<SecretString>,
    /// What the operator should know: levels that are open, tokens that are short.
    pub warnings: Vec<String>,
}

/// Why control-api does not start with the tokens it was given.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A token's file or variable cannot be read.
    #[error("cannot read a token")]
    Secret(#[from] SecretError),
    /// `auth.required` and no token.
    #[error("auth.required is true, but {0} holds no token: set it, or set auth.required to false")]
    Missing(String),
    /// `auth.required` and a short token.
    #[error(
        "auth.required is true, but {0} holds a token shorter than {TOKEN_CHARS_MIN} characters"
    )]
    Short(String),
    /// Three or more parts between commas.
    #[error("{0} holds more than two tokens: a comma separates the old one from the new one")]
    TooMany(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    admin_token_env: Option<String>,
    admin_token_file: Option<String>,
    agent_token_env: Option<String>,
    agent_token_file: Option<String>,
    required: bool,
    protect_open_methods: bool,
    per_agent_tokens: BTreeMap<String, IgnoredAny>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            admin_token_env: Some("CONTROL_API_ADMIN_TOKEN".to_owned()),
            admin_token_file: None,
            agent_token_env: Some("CONTROL_API_AGENT_TOKEN".to_owned()),
            agent_token_file: None,
            required: false,
            protect_open_methods: false,
            per_agent_tokens: BTreeMap::new(),
        }
    }
}

impl Auth {
    pub(super) fn build(raw: &Raw, report: &mut Report) -> Self {
        report.not_available("auth.per_agent_tokens", !raw.per_agent_tokens.is_empty());
        Self {
            admin_token: report.secret(
                "auth.admin_token",
                raw.admin_token_env.as_deref(),
                raw.admin_token_file.as_deref(),
            ),
            agent_token: report.secret(
                "auth.agent_token",
                raw.agent_token_env.as_deref(),
                raw.agent_token_file.as_deref(),
            ),
            required: raw.required,
            protect_open_methods: raw.protect_open_methods,
        }
    }

    /// Reads the tokens; called once, at start.
    ///
    /// # Errors
    /// [`TokenError`] if a place cannot be read, holds more than two tokens, or does not hold what
    /// `required` asks for.
    pub fn read_tokens(&self, environment: &dyn Environment) -> Result<Tokens, TokenError> {
        let mut warnings = Vec::new();
        let mut level = |source: &SecretSource, opens: &str| {
            let tokens = split(source, source.read(environment)?)?;
            if tokens.is_empty() {
                if self.required {
                    return Err(TokenError::Missing(source.place()));
                }
                warnings.push(format!("{} holds no token: {opens}", source.place()));
            }
            if tokens.iter().any(is_short) {
                if self.required {
                    return Err(TokenError::Short(source.place()));
                }
                warnings.push(format!(
                    "{} holds a token shorter than {TOKEN_CHARS_MIN} characters: \
                     it can be guessed",
                    source.place()
                ));
            }
            Ok(tokens)
        };
        let admin = level(
            &self.admin_token,
            "anybody who reaches this port can administer",
        )?;
        let agent = level(
            &self.agent_token,
            "anybody who reaches this port can report results",
        )?;
        Ok(Tokens {
            admin,
            agent,
            warnings,
        })
    }
}

fn is_short(token: &SecretString) -> bool {
    token.expose_secret().chars().count() < TOKEN_CHARS_MIN
}

fn split(
    source: &SecretSource,
    secret: Option<SecretString>,
) -> Result<Vec<SecretString>, TokenError> {
    let Some(secret) = secret else {
        return Ok(Vec::new());
    };
    let parts = secret.expose_secret().split(',').map(str::trim);
    let tokens: Vec<SecretString> = parts
        .filter(|part| !part.is_empty())
        .map(SecretString::from)
        .collect();
    if tokens.len() > 2 {
        return Err(TokenError::TooMany(source.place()));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(required: bool) -> Auth {
        let source = |key: &str, name: &str| SecretSource {
            key: key.to_owned(),
            env: Some(name.to_owned()),
            file: None,
        };
        Auth {
            admin_token: source("auth.admin_token", "ADMIN"),
            agent_token: source("auth.agent_token", "AGENT"),
            required,
            protect_open_methods: false,
        }
    }

    fn environment(admin: &str, agent: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("ADMIN".to_owned(), admin.to_owned()),
            ("AGENT".to_owned(), agent.to_owned()),
        ])
    }

    #[test]
    fn without_required_a_missing_or_short_token_is_a_warning() {
        let tokens = auth(false).read_tokens(&environment("", "short")).unwrap();
        assert_eq!((tokens.admin.len(), tokens.agent.len()), (0, 1));
        assert_eq!(tokens.warnings.len(), 2);
    }

    #[test]
    fn required_refuses_missing_and_short_tokens() {
        let read = |admin, agent| auth(true).read_tokens(&environment(admin, agent));
        assert!(matches!(
            read("", "0123456789abcdef"),
            Err(TokenError::Missing(_))
        ));
        assert!(matches!(
            read("0123456789abcdef", "0123456789abcde"),
            Err(TokenError::Short(_))
        ));
        assert!(read("0123456789abcdef", "0123456789abcdef").is_ok());
    }

    #[test]
    fn a_comma_separates_the_old_token_from_the_new_one() {
        let pair = "0123456789abcdef, fedcba9876543210";
        let tokens = auth(true).read_tokens(&environment(pair, pair)).unwrap();
        let both: Vec<&str> = tokens.admin.iter().map(|t| t.expose_secret()).collect();
        assert_eq!(both, ["0123456789abcdef", "fedcba9876543210"]);
        assert!(matches!(
            auth(false).read_tokens(&environment("a,b,c", "")),
            Err(TokenError::TooMany(_))
        ));
    }

    #[test]
    fn no_message_tells_a_token() {
        let error = auth(true)
            .read_tokens(&environment("hunter2", "hunter2"))
            .unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
