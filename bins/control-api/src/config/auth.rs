//! The section `auth`, and the tokens themselves, which are read when the process starts.

use std::collections::BTreeMap;

use civ_boot::config::Report;
use civ_boot::secrets::{Environment, SecretError, SecretSource};
use civ_types::ValidatorId;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

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
    /// By `validator_id` or `site_id`: the token that is good for this id alone, and without which
    /// nothing is reported in its name.
    pub per_agent_tokens: BTreeMap<String, SecretSource>,
}

/// The tokens of both levels. A level without a token is open.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// Each is accepted; two during a rotation.
    pub admin: Vec<SecretString>,
    /// Each is accepted; two during a rotation.
    pub agent: Vec<SecretString>,
    /// By `validator_id` or `site_id`; one or two each.
    pub own: BTreeMap<String, Vec<SecretString>>,
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
    /// An id that should have a token of its own has none.
    #[error(
        "{0} holds no token: set it, or take the id out of auth.per_agent_tokens, and it uses the \
         agent token again"
    )]
    Empty(String),
    /// A token that should be good for one id alone is good for something else, too.
    #[error(
        "{0} holds a token that {1} holds too: whoever is in auth.per_agent_tokens needs a token that nobody else has"
    )]
    Shared(String, String),
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
    per_agent_tokens: BTreeMap<String, RawOwn>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawOwn {
    token_env: Option<String>,
    token_file: Option<String>,
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
            per_agent_tokens: own(&raw.per_agent_tokens, report),
        }
    }

    /// Reads the tokens; called once, at start.
    ///
    /// # Errors
    /// [`TokenError`] if a place cannot be read, holds more than two tokens, or does not hold what
    /// `required` asks for; if a token of an id's own is missing, or somebody else's too.
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
            self.judge_length(source, &tokens, &mut warnings)?;
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
        let mut tokens = Tokens {
            admin,
            agent,
            own: BTreeMap::new(),
            warnings,
        };
        self.read_own(environment, &mut tokens)?;
        Ok(tokens)
    }

    fn read_own(
        &self,
        environment: &dyn Environment,
        tokens: &mut Tokens,
    ) -> Result<(), TokenError> {
        let shared = [
            (&self.admin_token, &tokens.admin),
            (&self.agent_token, &tokens.agent),
        ];
        let mut owners: Vec<(SecretString, String)> = Vec::new();
        for (source, all) in shared {
            owners.extend(all.iter().map(|token| (token.clone(), source.place())));
        }
        for (id, source) in &self.per_agent_tokens {
            let own = split(source, source.read(environment)?)?;
            if own.is_empty() {
                return Err(TokenError::Empty(source.place()));
            }
            self.judge_length(source, &own, &mut tokens.warnings)?;
            let is_own =
                |(taken, _): &&(SecretString, String)| own.iter().any(|token| same(token, taken));
            if let Some((_, place)) = owners.iter().find(is_own) {
                return Err(TokenError::Shared(source.place(), place.clone()));
            }
            owners.extend(own.iter().map(|token| (token.clone(), source.place())));
            tokens.own.insert(id.clone(), own);
        }
        Ok(())
    }

    fn judge_length(
        &self,
        source: &SecretSource,
        tokens: &[SecretString],
        warnings: &mut Vec<String>,
    ) -> Result<(), TokenError> {
        if !tokens.iter().any(is_short) {
            return Ok(());
        }
        if self.required {
            return Err(TokenError::Short(source.place()));
        }
        warnings.push(format!(
            "{} holds a token shorter than {TOKEN_CHARS_MIN} characters: it can be guessed",
            source.place()
        ));
        Ok(())
    }
}

fn own(raw: &BTreeMap<String, RawOwn>, report: &mut Report) -> BTreeMap<String, SecretSource> {
    let mut sources = BTreeMap::new();
    for (id, raw) in raw {
        let path = format!("auth.per_agent_tokens.{id}");
        // Ids of validators and of sites have one form.
        if let Err(error) = ValidatorId::parse(id) {
            report.fault(
                &path,
                format!("is not under a validator_id or site_id: {error}"),
            );
        }
        if raw.token_env.is_none() && raw.token_file.is_none() {
            report.fault(&path, "must have `token_env` or `token_file`");
        }
        let (env, file) = (raw.token_env.as_deref(), raw.token_file.as_deref());
        let source = report.secret(&format!("{path}.token"), env, file);
        sources.insert(id.clone(), source);
    }
    sources
}

fn same(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
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
            per_agent_tokens: BTreeMap::new(),
        }
    }

    /// Two ids with tokens of their own beside good shared ones.
    fn read_own(required: bool, v1: &str, v2: &str) -> Result<Tokens, TokenError> {
        let mut auth = auth(required);
        let mut all = environment("admin-0123456789", "agent-0123456789");
        for (id, value) in [("v1", v1), ("v2", v2)] {
            let source = SecretSource {
                key: format!("auth.per_agent_tokens.{id}.token"),
                env: Some(id.to_owned()),
                file: None,
            };
            auth.per_agent_tokens.insert(id.to_owned(), source);
            all.insert(id.to_owned(), value.to_owned());
        }
        auth.read_tokens(&all)
    }

    #[test]
    fn a_token_of_its_own_is_nobody_elses() {
        let old = "old-v1-0123456789";
        let tokens = read_own(
            true,
            &format!("{old},new-v1-0123456789"),
            "own-v2-0123456789",
        );
        let tokens = tokens.unwrap();
        assert_eq!((tokens.own["v1"].len(), tokens.own["v2"].len()), (2, 1));
        for taken in ["admin-0123456789", "agent-0123456789", old] {
            let told = read_own(false, old, &format!("own-v2-0123456789,{taken}")).unwrap_err();
            assert!(matches!(told, TokenError::Shared(_, _)), "{told}");
            assert!(!told.to_string().contains(taken), "{told}");
        }
    }

    #[test]
    fn a_token_of_its_own_must_be_there() {
        for required in [false, true] {
            let told = read_own(required, "own-v1-0123456789", " , ");
            assert!(matches!(told, Err(TokenError::Empty(_))));
        }
        let short = read_own(false, "own-v1-0123456789", "short").unwrap();
        assert_eq!(short.warnings.len(), 1);
        let short = read_own(true, "own-v1-0123456789", "short");
        assert!(matches!(short, Err(TokenError::Short(_))));
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
