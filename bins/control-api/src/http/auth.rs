//! Two static bearer tokens, compared in constant time. Neither is good for the other level.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::error::ApiError;
use super::{Web, body};
use crate::app::Caller;

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

    /// Whether `sent` opens `level`.
    #[must_use]
    pub fn open(&self, level: Level, sent: Option<&str>) -> bool {
        self.label(level, sent).is_some()
    }

    /// What to call whoever opens `level` with `sent`: `open` if it has no token, else the level,
    /// with `-2` for the second token of a rotation. All tokens are compared, whichever fits.
    #[must_use]
    pub fn label(&self, level: Level, sent: Option<&str>) -> Option<&'static str> {
        let tokens = self.of(level);
        if tokens.is_empty() {
            return Some("open");
        }
        let sent = sent?.as_bytes();
        let fits = |token: &SecretString| token.expose_secret().as_bytes().ct_eq(sent).into();
        let fitting: Vec<bool> = tokens.iter().map(fits).collect();
        let place = fitting.iter().position(|fits| *fits)?;
        Some(match (level, place) {
            (Level::Admin, 0) => "admin",
            (Level::Admin, _) => "admin-2",
            (Level::Agent, 0) => "agent",
            (Level::Agent, _) => "agent-2",
        })
    }
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1; the scheme's case does not matter).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whoever is still sending gets to read the refusal.
async fn unauthorized(web: &Web, request: Request) -> Response {
    body::discard(request.into_body(), web.body_limit).await;
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized")
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        .into_response()
}

async fn check(level: Level, web: &Web, request: Request, next: Next) -> Response {
    if web.tokens.open(level, bearer(request.headers())) {
        next.run(request).await
    } else {
        unauthorized(web, request).await
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

/// Lets only administrators through, and tells handlers who it is.
pub(super) async fn admin(
    State(web): State<Web>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(label) = web.tokens.label(Level::Admin, bearer(request.headers())) else {
        return unauthorized(&web, request).await;
    };
    let caller = Caller {
        who: label.to_owned(),
        from: Some(web.proxies.client(peer.ip(), request.headers())),
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
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
        let label = |sent| tokens.label(Level::Admin, Some(sent));
        assert_eq!(label("old"), Some("admin"));
        assert_eq!(label("new"), Some("admin-2"));
        assert_eq!(label("agent"), None);
        assert_eq!(
            Tokens::default().label(Level::Admin, Some("x")),
            Some("open")
        );
    }
}
