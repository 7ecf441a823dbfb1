//! Keystone: logging in, the catalog, and one token that all calls share.
//!
//! **Invariant:** at most one login is under way, and calls that found the same token refused or
//! old cause one login together. A login that failed answers everybody who waited for it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Url};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use civ_types::Utc;

use crate::fault::ReadFault;
use crate::http::{Http, exchange};
use crate::openstack::{Auth, Domain, OpenStackConfig, Scope, User};
use crate::wire::{Project, Service, TokenOne};

/// A token is renewed this long before it ends, or at three quarters of a shorter life.
const MARGIN_MAX: Duration = Duration::from_secs(120);

/// While the old token still lives, a failed renewal is tried again only after this long.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// A token and what came with it.
#[derive(Debug)]
pub(crate) struct Token {
    /// `X-Auth-Token`, marked as sensitive: its `Debug` and HTTP traces do not show it.
    pub(crate) header: HeaderValue,
    /// Neutron's address, without `/v2.0`.
    pub(crate) network_url: Url,
    /// The project that it is for.
    pub(crate) project: Project,
    /// Names of the roles in it.
    pub(crate) roles: Vec<String>,
    /// Which login of this process it is from, counted from 1.
    pub(crate) generation: u64,
    renew_at: Instant,
    pub(crate) ends_at: Instant,
}

#[derive(Debug, Default)]
struct State {
    token: Option<Arc<Token>>,
    generation: u64,
    /// The last login, if it failed: when that was known, and why.
    failure: Option<(Instant, ReadFault)>,
}

/// Logs in when needed and hands out the token.
#[derive(Debug)]
pub(crate) struct Session {
    http: Http,
    config: OpenStackConfig,
    tokens_url: Url,
    network_url: Option<Url>,
    /// Held while a login is under way: that is what makes it the only one.
    state: Mutex<State>,
}

impl Session {
    pub(crate) fn new(
        http: Http,
        config: OpenStackConfig,
        tokens_url: Url,
        network_url: Option<Url>,
    ) -> Self {
        Self {
            http,
            config,
            tokens_url,
            network_url,
            state: Mutex::new(State::default()),
        }
    }

    /// A token that is not about to end and is not of generation `refused`.
    pub(crate) async fn token(&self, refused: Option<u64>) -> Result<Arc<Token>, ReadFault> {
        let asked_at = Instant::now();
        let mut state = self.state.lock().await;
        let usable = state
            .token
            .clone()
            .filter(|token| refused != Some(token.generation) && Instant::now() < token.ends_at);
        let failed_at = state.failure.as_ref().map(|(at, _)| *at);
        if let Some(token) = &usable {
            let paused = failed_at.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE);
            if Instant::now() < token.renew_at || paused {
                return Ok(Arc::clone(token));
            }
        } else if let Some((at, fault)) = &state.failure
            && *at >= asked_at
        {
            return Err(fault.clone());
        }
        match self.log_in(state.generation + 1).await {
            Ok(token) => {
                let token = Arc::new(token);
                *state = State {
                    generation: token.generation,
                    token: Some(Arc::clone(&token)),
                    failure: None,
                };
                Ok(token)
            }
            Err(fault) => {
                state.failure = Some((Instant::now(), fault.clone()));
                // Keystone may be away for a moment while Neutron still takes the old token.
                usable.ok_or(fault)
            }
        }
    }

    async fn log_in(&self, generation: u64) -> Result<Token, ReadFault> {
        let started = Instant::now();
        let body = request_body(&self.config.auth);
        let sent = exchange(
            &self.http,
            Method::POST,
            self.tokens_url.clone(),
            |request| request.json(&body),
        );
        let answer = sent.await.map_err(|lost| ReadFault::passing(lost.text))?;
        if !answer.is_success() {
            return Err(ReadFault::refused(&answer.refusal()));
        }
        let odd = |what: &str| ReadFault::lasting(format!("Keystone's answer to the login {what}"));
        let header = answer.headers.get("x-subject-token").cloned();
        let mut header = header.ok_or_else(|| odd("has no X-Subject-Token"))?;
        header.set_sensitive(true);
        let TokenOne { token: row } = serde_json::from_slice(&answer.body)
            .map_err(|error| odd(&format!("is not understood: {error}")))?;
        // Neutron lists nothing at all for a token without a project, and reports no error.
        let Some(project) = row.project else {
            return Err(odd("names no project: give a project to log in to"));
        };
        let moment = |text: &str| Utc::parse(text).map_err(|error| odd(&format!("says {error}")));
        // By the server's own clock, so that ours may be wrong.
        let life = moment(&row.expires_at)?.since(moment(&row.issued_at)?);
        let network_url = match &self.network_url {
            Some(url) => url.clone(),
            None => self.network_endpoint(&row.catalog)?,
        };
        Ok(Token {
            header,
            network_url,
            project,
            roles: row.roles.into_iter().map(|role| role.name).collect(),
            generation,
            renew_at: started + (life - MARGIN_MAX.min(life / 4)),
            ends_at: started + life,
        })
    }

    fn network_endpoint(&self, catalog: &[Service]) -> Result<Url, ReadFault> {
        let OpenStackConfig {
            region, interface, ..
        } = &self.config;
        let services = catalog.iter().filter(|service| service.kind == "network");
        let mut endpoints = services.flat_map(|service| &service.endpoints);
        let found = endpoints.find(|endpoint| {
            let place = endpoint.region_id.as_ref().or(endpoint.region.as_ref());
            let same_region = region.is_none() || region.as_ref() == place;
            // Keystone v2 catalogs spelled it publicURL, and clouds.yaml files still do.
            same_region && interface.trim_end_matches("URL") == endpoint.interface
        });
        let found = found.ok_or_else(|| {
            let place = region.as_deref().unwrap_or("any");
            ReadFault::lasting(format!(
                "the catalog has no network endpoint with interface {interface} in region {place}"
            ))
        })?;
        neutron_base(&found.url).ok_or_else(|| {
            ReadFault::lasting(format!(
                "the catalog's network endpoint {:?} is no URL",
                found.url
            ))
        })
    }
}

/// Neutron's address as a base to which `/v2.0/…` is added: without a final slash or version.
pub(crate) fn neutron_base(text: &str) -> Option<Url> {
    let bare = text.trim().trim_end_matches('/');
    let bare = bare.strip_suffix("/v2.0").unwrap_or(bare);
    http_url(bare)
}

/// Keystone's `/v3/auth/tokens`, from an address that may end in `/v3`.
pub(crate) fn tokens_url(auth_url: &str) -> Option<Url> {
    let bare = auth_url.trim().trim_end_matches('/');
    let bare = bare.strip_suffix("/v3").unwrap_or(bare);
    http_url(&format!("{bare}/v3/auth/tokens"))
}

fn http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

fn request_body(auth: &Auth) -> Value {
    match auth {
        Auth::Password {
            user,
            password,
            scope,
        } => {
            let mut who = user_value(user);
            who["password"] = json!(password.expose_secret());
            let identity = json!({"methods": ["password"], "password": {"user": who}});
            json!({"auth": {"identity": identity, "scope": scope_value(scope)}})
        }
        Auth::AppCredential { id, secret } => {
            app_credential(&json!({"id": id, "secret": secret.expose_secret()}))
        }
        Auth::AppCredentialByName { name, user, secret } => app_credential(&json!({
            "name": name, "user": user_value(user), "secret": secret.expose_secret(),
        })),
    }
}

/// Never with a scope: Keystone refuses even the right one.
fn app_credential(credential: &Value) -> Value {
    let methods = ["application_credential"];
    json!({"auth": {"identity": {"methods": methods, "application_credential": credential}}})
}

fn user_value(user: &User) -> Value {
    match user {
        User::Id(id) => json!({"id": id}),
        User::Name { name, domain } => json!({"name": name, "domain": domain_value(domain)}),
    }
}

fn scope_value(scope: &Scope) -> Value {
    match scope {
        Scope::ProjectId(id) => json!({"project": {"id": id}}),
        Scope::ProjectName { name, domain } => {
            json!({"project": {"name": name, "domain": domain_value(domain)}})
        }
    }
}

fn domain_value(domain: &Domain) -> Value {
    match domain {
        Domain::Id(id) => json!({"id": id}),
        Domain::Name(name) => json!({"name": name}),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn addresses_are_taken_with_and_without_version() {
        for text in [
            "http://k:5000",
            "http://k:5000/",
            "http://k:5000/v3",
            "http://k:5000/v3/",
        ] {
            assert_eq!(
                tokens_url(text).unwrap().as_str(),
                "http://k:5000/v3/auth/tokens"
            );
        }
        for text in ["https://n/net", "https://n/net/v2.0", "https://n/net/v2.0/"] {
            assert_eq!(neutron_base(text).unwrap().as_str(), "https://n/net");
        }
        assert_eq!(neutron_base("ftp://n"), None);
        assert_eq!(tokens_url("keystone"), None);
    }

    #[test]
    fn an_application_credential_asks_for_no_scope() {
        let body = request_body(&Auth::AppCredentialByName {
            name: "cred".to_owned(),
            user: User::Id("u".to_owned()),
            secret: SecretString::from("s3cret"),
        });
        assert!(body["auth"].get("scope").is_none());
        let credential = &body["auth"]["identity"]["application_credential"];
        assert_eq!(
            *credential,
            json!({"name": "cred", "user": {"id": "u"}, "secret": "s3cret"})
        );
    }
}
