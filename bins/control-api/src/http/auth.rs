//! Two static bearer tokens, compared in constant time. Neither is good for the other level.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::error::ApiError;
use super::{Web, body};

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All of `/api/v1/admin/*`, and the status page.
    Admin,
    /// Writes of agents and probers.
    Agent,
}

/// The tokens of both levels; a level without one is open. Two are accepted during a rotation.
#[derive(Debug, Default)]
pub struct Tokens {
    /// For [`Level::Admin`].
    pub admin: Vec<SecretString>,
    /// For [`Level::Agent`].
    pub agent: Vec<SecretString>,
    /// Whether the open agent and prober methods ask for the agent token too.
    pub protect_open_methods: bool,
}

impl Tokens {
    fn of(&self, level: Level) -> &[SecretString] {
        match level {
            Level::Admin => &self.admin,
            Level::Agent => &self.agent,
        }
    }

    /// Whether `sent` opens `level`. All tokens are compared, whichever fits.
    #[must_use]
    pub fn open(&self, level: Level, sent: Option<&str>) -> bool {
        let tokens = self.of(level);
        if tokens.is_empty() {
            return true;
        }
        let Some(sent) = sent else { return false };
        let fits = |token: &SecretString| token.expose_secret().as_bytes().ct_eq(sent.as_bytes());
        tokens
            .iter()
            .fold(false, |any, token| any | bool::from(fits(token)))
    }
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1; the scheme's case does not matter).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized() -> Response {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized")
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        .into_response()
}

async fn check(level: Level, web: &Web, request: Request, next: Next) -> Response {
    if web.tokens.open(level, bearer(request.headers())) {
        next.run(request).await
    } else {
        // Whoever is still sending gets to read the refusal.
        body::discard(request.into_body(), web.body_limit).await;
        unauthorized()
    }
}

/// The paths that are for administrators alone, whether there is such a path or not.
const ADMIN_AREA: &str = "/api/v1/admin/";

/// Lets only administrators into their area: not even what is there is told to others.
pub(super) async fn admin_area(State(web): State<Web>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(ADMIN_AREA) {
        check(Level::Admin, &web, request, next).await
    } else {
        next.run(request).await
    }
}

/// Lets only administrators through.
pub(super) async fn admin(State(web): State<Web>, request: Request, next: Next) -> Response {
    check(Level::Admin, &web, request, next).await
}

/// Lets only agents and probers through.
pub(super) async fn agent(State(web): State<Web>, request: Request, next: Next) -> Response {
    check(Level::Agent, &web, request, next).await
}

/// Lets everybody through, unless `auth.protect_open_methods` is on.
pub(super) async fn open(State(web): State<Web>, request: Request, next: Next) -> Response {
    if web.tokens.protect_open_methods {
        check(Level::Agent, &web, request, next).await
    } else {
        next.run(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_open_to_its_own_tokens_only() {
        let tokens = Tokens {
            admin: vec!["old".into(), "new".into()],
            agent: vec!["agent".into()],
            protect_open_methods: false,
        };
        for (level, sent, opens) in [
            (Level::Admin, Some("old"), true),
            (Level::Admin, Some("new"), true),
            (Level::Admin, Some("agent"), false),
            (Level::Admin, Some("ol"), false),
            (Level::Admin, None, false),
            (Level::Agent, Some("agent"), true),
            (Level::Agent, Some("new"), false),
        ] {
            assert_eq!(tokens.open(level, sent), opens, "{level:?} {sent:?}");
        }
        assert!(Tokens::default().open(Level::Admin, None));
    }
}
