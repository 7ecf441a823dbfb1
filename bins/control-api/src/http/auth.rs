//! Static bearer tokens, compared in constant time: one for each level, neither good for the other,
//! and one for each agent or prober that has its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::RequestExt as _;
use axum::extract::{ConnectInfo, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::error::ApiError;
use super::server::PeerNames;
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
    /// By `validator_id` or `site_id`: nothing else opens [`Level::Agent`] for these ids.
    pub own: BTreeMap<String, Vec<SecretString>>,
    /// Whether agents and probers must show the certificate of their id, whatever else they show.
    pub wants_certificates: bool,
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
        let place = fitting(tokens, sent?)?;
        Some(match (level, place) {
            (Level::Admin, 0) => "admin",
            (Level::Admin, _) => "admin-2",
            (Level::Agent, 0) => "agent",
            (Level::Agent, _) => "agent-2",
        })
    }

    /// Whether `sent` opens [`Level::Agent`] in the name of `id`: its own token if it has one, and
    /// then the shared one does not, nor does that of another id.
    #[must_use]
    pub fn open_for(&self, id: &str, sent: Option<&str>) -> bool {
        match self.own.get(id) {
            Some(own) => sent.is_some_and(|sent| fitting(own, sent).is_some()),
            None => self.open(Level::Agent, sent),
        }
    }

    /// Whether `sent` opens [`Level::Agent`] in anybody's name. All tokens are compared.
    fn open_for_some(&self, sent: Option<&str>) -> bool {
        let shared = self.open(Level::Agent, sent);
        let fits = |own: &Vec<SecretString>| sent.is_some_and(|sent| fitting(own, sent).is_some());
        self.own
            .values()
            .fold(shared, |found, own| fits(own) | found)
    }
}

/// The place of the token that `sent` is. All are compared, whichever fits.
fn fitting(tokens: &[SecretString], sent: &str) -> Option<usize> {
    let sent = sent.as_bytes();
    let fits = |token: &SecretString| token.expose_secret().as_bytes().ct_eq(sent).into();
    let fitting: Vec<bool> = tokens.iter().map(fits).collect();
    fitting.iter().position(|fits| *fits)
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1; the scheme's case does not matter).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refusal() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized")
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// Whoever is still sending gets to read the refusal.
async fn unauthorized(web: &Web, request: Request) -> Response {
    body::discard(request.into_body(), web.body_limit).await;
    refusal().into_response()
}

/// Whether the agent or prober that the path names may ask.
async fn may_act(web: &Web, wants_token: bool, request: &mut Request) -> bool {
    let tokens = &web.tokens;
    if tokens.own.is_empty() && !tokens.wants_certificates {
        return !wants_token || tokens.open(Level::Agent, bearer(request.headers()));
    }
    // A path that is no text names nobody, and the handler says so.
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let id = params.as_ref().and_then(|params| params.iter().next());
    let sent = bearer(request.headers());
    let names = request.extensions().get::<PeerNames>();
    let (has_token, has_certificate) = match id {
        Some((_, id)) => (
            !wants_token || tokens.open_for(id, sent),
            names.is_some_and(|names| names.are_of(id)),
        ),
        // The body names who registers: see `registers`.
        None => (!wants_token || tokens.open_for_some(sent), names.is_some()),
    };
    has_token && (has_certificate || !tokens.wants_certificates)
}

async fn check_agent(web: &Web, wants_token: bool, mut request: Request, next: Next) -> Response {
    if may_act(web, wants_token, &mut request).await {
        next.run(request).await
    } else {
        unauthorized(web, request).await
    }
}

/// Whether the caller may register as `id`, which only the body tells.
///
/// # Errors
/// The refusal, if the open methods are protected and the token is not good for `id`, or if the
/// certificate should be that of `id` and is not.
pub(super) fn registers(
    web: &Web,
    headers: &HeaderMap,
    names: Option<&PeerNames>,
    id: &str,
) -> Result<(), ApiError> {
    let tokens = &web.tokens;
    let has_token = !tokens.protect_open_methods || tokens.open_for(id, bearer(headers));
    let has_certificate = names.is_some_and(|names| names.are_of(id));
    if has_token && (has_certificate || !tokens.wants_certificates) {
        Ok(())
    } else {
        Err(refusal())
    }
}

/// The paths that are for administrators alone, whether there is such a path or not.
const ADMIN_AREA: &str = "/api/v1/admin/";

/// Lets only administrators into their area: not even what is there is told to others.
pub(super) async fn admin_area(State(web): State<Web>, request: Request, next: Next) -> Response {
    let is_inside = request.uri().path().starts_with(ADMIN_AREA);
    if is_inside && !web.tokens.open(Level::Admin, bearer(request.headers())) {
        return unauthorized(&web, request).await;
    }
    next.run(request).await
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
    check_agent(&web, true, request, next).await
}

/// Lets everybody through, unless `auth.protect_open_methods` is on or certificates are wanted.
pub(super) async fn open(State(web): State<Web>, request: Request, next: Next) -> Response {
    check_agent(&web, web.tokens.protect_open_methods, request, next).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_open_to_its_own_tokens_only() {
        let tokens = Tokens {
            admin: vec!["old".into(), "new".into()],
            agent: vec!["agent".into()],
            ..Tokens::default()
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
