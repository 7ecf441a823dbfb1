//! Keystone v3: discovery, tokens by password and application credential, the catalog.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::reply::{Asked, Reply};
use crate::setup::Setup;

const DOMAIN_ID: &str = "default";
const DOMAIN_NAME: &str = "Default";

/// Keystone's own limit (`max_request_body_size`), in bytes.
const BODY_BYTES_MAX: usize = 114_688;

/// How somebody logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Password,
    AppCredential,
}

/// A token that was given out.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    method: Method,
    is_scoped: bool,
    ends_at: Instant,
    issued: Timestamp,
    expires: Timestamp,
    pub(crate) writer: String,
}

/// The tokens that were given out and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    grants: BTreeMap<String, Grant>,
}

impl Tokens {
    /// Who this token is from, if it still is good.
    pub(crate) fn grant(&self, token: &str) -> Option<&Grant> {
        let grant = self.grants.get(token)?;
        (Instant::now() < grant.ends_at).then_some(grant)
    }

    pub(crate) fn expire_all(&mut self) {
        self.grants.clear();
    }

    fn issue(&mut self, method: Method, is_scoped: bool, setup: &Setup) -> (String, &Grant) {
        let now = Instant::now();
        self.grants.retain(|_, grant| now < grant.ends_at);
        let issued = Timestamp::now();
        let life = SignedDuration::try_from(setup.token_ttl).unwrap_or(SignedDuration::MAX);
        let grant = Grant {
            method,
            is_scoped,
            ends_at: now + setup.token_ttl,
            issued,
            expires: issued.checked_add(life).unwrap_or(Timestamp::MAX),
            writer: match method {
                Method::Password => setup.username.clone(),
                Method::AppCredential => "application_credential".to_owned(),
            },
        };
        let random: String = (0..6)
            .map(|_| Uuid::new_v4().simple().to_string())
            .collect();
        let token: String = format!("gAAAAA{random}").chars().take(183).collect();
        let grant = self
            .grants
            .entry(token.clone())
            .insert_entry(grant)
            .into_mut();
        (token, grant)
    }
}

impl Grant {
    /// Whether it names a project: Neutron shows nothing to others.
    pub(crate) const fn is_scoped(&self) -> bool {
        self.is_scoped
    }
}

/// Answers what is under `/v3`; `None` if there is no such thing.
pub(crate) fn answer(asked: &Asked, setup: &Setup, tokens: &mut Tokens) -> Option<Reply> {
    let base = base_url(asked, setup);
    Some(match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/v3" | "/v3/") => Reply::json(200, &json!({"version": version(&base)})),
        ("POST", "/v3/auth/tokens") => log_in(asked, setup, tokens),
        ("GET" | "HEAD" | "DELETE", "/v3/auth/tokens") => about_token(asked, setup, tokens),
        _ => return None,
    })
}

/// Where clients reach us.
pub(crate) fn base_url(asked: &Asked, setup: &Setup) -> String {
    let given = setup
        .public_url
        .as_deref()
        .map(|url| url.trim_end_matches('/').to_owned());
    given.unwrap_or_else(|| asked.base_url())
}

fn version(base: &str) -> Value {
    json!({
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{base}/v3/")}],
        "media-types": [{"base": "application/json",
                         "type": "application/vnd.openstack.identity-v3+json"}],
    })
}

fn log_in(asked: &Asked, setup: &Setup, tokens: &mut Tokens) -> Reply {
    if asked.body.len() > BODY_BYTES_MAX {
        return Reply::html(413, "Request Entity Too Large");
    }
    let bad = |why: &str| Reply::keystone(400, "Bad Request", why);
    if !asked
        .header("content-type")
        .is_some_and(|kind| kind.contains("json"))
    {
        return bad("Expecting to find application/json in Content-Type header.");
    }
    let Some(body) = asked.json::<Value>() else {
        return bad("Malformed JSON in request body.");
    };
    let auth = &body["auth"];
    let identity = &auth["identity"];
    let Some([method]) = identity["methods"].as_array().map(Vec::as_slice) else {
        return bad("Invalid input for field 'identity/methods'.");
    };
    let base = base_url(asked, setup);
    let checked = match method.as_str() {
        Some("password") => by_password(auth, setup, &base),
        Some("application_credential") => by_credential(auth, setup, &base),
        _ => Err(Reply::unauthorized(&base)),
    };
    match checked {
        Ok((method, is_scoped)) => {
            let (token, grant) = tokens.issue(method, is_scoped, setup);
            let has_catalog = asked.param("nocatalog").is_none();
            Reply::json(201, &token_body(grant, setup, &base, has_catalog))
                .with("x-subject-token", token)
                .with("vary", "X-Auth-Token")
        }
        Err(reply) => reply,
    }
}

fn by_password(auth: &Value, setup: &Setup, base: &str) -> Result<(Method, bool), Reply> {
    let user = &auth["identity"]["password"]["user"];
    let is_user = names(user, &setup.username, &user_id(setup));
    if !is_user || user["password"].as_str() != Some(setup.password.as_str()) {
        return Err(Reply::unauthorized(base));
    }
    let Some(scope) = auth.get("scope") else {
        return Ok((Method::Password, false));
    };
    if !names(&scope["project"], &setup.project, &project_id(setup)) {
        return Err(Reply::unauthorized(base));
    }
    Ok((Method::Password, true))
}

fn by_credential(auth: &Value, setup: &Setup, base: &str) -> Result<(Method, bool), Reply> {
    if auth.get("scope").is_some() {
        let message = "Application credentials cannot request a scope.";
        return Err(Reply::keystone(401, "Unauthorized", message));
    }
    let credential = &auth["identity"]["application_credential"];
    let is_known = match credential["id"].as_str() {
        Some(id) => id == setup.app_credential_id,
        None => {
            credential["name"].as_str() == Some(setup.app_credential_name.as_str())
                && names(&credential["user"], &setup.username, &user_id(setup))
        }
    };
    if !is_known {
        let id = credential["id"].as_str().unwrap_or_default();
        let message = format!("Could not find Application Credential: {id}.");
        return Err(Reply::keystone(404, "Not Found", &message));
    }
    if credential["secret"].as_str() != Some(setup.app_credential_secret.as_str()) {
        return Err(Reply::unauthorized(base));
    }
    Ok((Method::AppCredential, true))
}

/// Whether a user or project is named by id, or by name and our domain.
fn names(value: &Value, name: &str, id: &str) -> bool {
    if let Some(given) = value["id"].as_str() {
        return given == id;
    }
    let domain = &value["domain"];
    let in_domain = domain["id"] == DOMAIN_ID || domain["name"] == DOMAIN_NAME;
    value["name"].as_str() == Some(name) && in_domain
}

fn about_token(asked: &Asked, setup: &Setup, tokens: &mut Tokens) -> Reply {
    let base = base_url(asked, setup);
    let asking = asked
        .header("x-auth-token")
        .and_then(|token| tokens.grant(token));
    if asking.is_none() {
        return Reply::unauthorized(&base);
    }
    let subject = asked.header("x-subject-token").unwrap_or_default();
    let Some(grant) = tokens.grant(subject) else {
        return Reply::keystone(404, "Not Found", "Could not find token.");
    };
    match asked.method.as_str() {
        "DELETE" => {
            tokens.grants.remove(subject);
            Reply::empty(204)
        }
        _ => Reply::json(200, &token_body(grant, setup, &base, true))
            .with("x-subject-token", subject),
    }
}

fn token_body(grant: &Grant, setup: &Setup, base: &str, has_catalog: bool) -> Value {
    let domain = json!({"id": DOMAIN_ID, "name": DOMAIN_NAME});
    let time = |moment: Timestamp| {
        // Six digits that are all zero, as Keystone writes them.
        format!("{}.000000Z", moment.strftime("%Y-%m-%dT%H:%M:%S"))
    };
    let methods = match grant.method {
        Method::Password => "password",
        Method::AppCredential => "application_credential",
    };
    let mut token = json!({
        "methods": [methods],
        "user": {"domain": domain, "id": user_id(setup), "name": setup.username,
                 "password_expires_at": null},
        "audit_ids": ["c2ltdWxhdGVk"],
        "expires_at": time(grant.expires), "issued_at": time(grant.issued),
    });
    if grant.method == Method::AppCredential {
        token["application_credential"] = json!({"id": setup.app_credential_id,
            "name": setup.app_credential_name, "restricted": true});
    }
    if grant.is_scoped {
        token["project"] = json!({"domain": domain, "id": project_id(setup),
            "name": setup.project});
        token["is_domain"] = json!(false);
        token["roles"] = json!([{"id": hex_id("member"), "name": "member"},
            {"id": hex_id("reader"), "name": "reader"}]);
    }
    if grant.is_scoped && has_catalog {
        let identity = format!("{base}/v3/");
        token["catalog"] = json!([
            service("network", "neutron", base, setup),
            service("identity", "keystone", &identity, setup)
        ]);
    }
    json!({ "token": token })
}

fn service(kind: &str, name: &str, url: &str, setup: &Setup) -> Value {
    let endpoint = |interface: &str| {
        json!({"id": hex_id(&format!("{kind}-{interface}")), "interface": interface,
            "region_id": setup.region, "url": url, "region": setup.region})
    };
    let endpoints: Vec<Value> = ["public", "internal", "admin"].map(endpoint).into();
    json!({"endpoints": endpoints, "id": hex_id(name), "type": kind, "name": name})
}

fn user_id(setup: &Setup) -> String {
    hex_id(&format!("user {}", setup.username))
}

pub(crate) fn project_id(setup: &Setup) -> String {
    hex_id(&format!("project {}", setup.project))
}

/// 32 hex digits that are the same in every run: FNV-1a (draft-eastlake-fnv), 128 bits.
pub(crate) fn hex_id(name: &str) -> String {
    let basis: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13B);
    format!("{:032x}", name.bytes().fold(basis, step))
}
