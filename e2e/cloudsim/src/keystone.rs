//! Keystone v3: discovery, tokens by password and application credential, the catalog.
//!
//! Users and projects are the set-up's; what they may do is theirs too.

mod tokens;

use civ_simkit::{Asked, Reply};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use tokens::{Caller, Tokens};

use crate::ids::{hex_id, project_id, user_id};
use crate::setup::{Role, Setup, UserSetup};
use crate::shapes;
use tokens::{Grant, Method};

const DOMAIN_ID: &str = "default";
const DOMAIN_NAME: &str = "Default";

/// Keystone's own limit (`max_request_body_size`), in bytes.
const BODY_BYTES_MAX: usize = 114_688;

/// What Keystone has and this has not, so that it is no unknown path.
const COLLECTIONS: [&str; 14] = [
    "auth",
    "users",
    "projects",
    "domains",
    "roles",
    "groups",
    "services",
    "endpoints",
    "regions",
    "credentials",
    "policies",
    "role_assignments",
    "limits",
    "registered_limits",
];

/// Keystone may also be reached below this, with a root of its own.
const PREFIX: &str = "/identity";

/// Whether a path is Keystone's.
pub(crate) fn is_its(path: &str) -> bool {
    [PREFIX, "/v3"].iter().any(|prefix| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Answers; `None` if it asks for something that is not simulated.
pub(crate) fn answer(
    asked: &Asked,
    setup: &Setup,
    tokens: &mut Tokens,
    now: Timestamp,
) -> Option<Reply> {
    let root = base_url(asked, setup);
    let (base, path) = match asked.path.strip_prefix(PREFIX) {
        Some(rest) => (format!("{root}{PREFIX}"), rest),
        None => (root.clone(), asked.path.as_str()),
    };
    let keystone = Keystone {
        asked,
        setup,
        base: &base,
        root: &root,
        now,
    };
    let path = path.trim_end_matches('/');
    Some(match (asked.method.as_str(), path) {
        ("GET", "") => {
            let values = json!({"values": [version(&base)]});
            Reply::json(300, &json!({ "versions": values })).with("location", format!("{base}/v3/"))
        }
        ("GET", "/v3") => Reply::json(200, &json!({"version": version(&base)})),
        ("POST", "/v3/auth/tokens") => keystone.log_in(tokens),
        ("GET" | "HEAD" | "DELETE", "/v3/auth/tokens") => keystone.about_token(tokens),
        ("GET", "/v3/auth/catalog") => keystone.catalog_alone(tokens),
        ("GET", "/v3/auth/projects") => keystone.projects(tokens),
        _ => {
            let mut parts = path.trim_start_matches("/v3/").split('/');
            let is_known = parts.next().is_some_and(|part| COLLECTIONS.contains(&part));
            if is_known {
                return None;
            }
            Reply::html(404, "Not Found")
        }
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

/// The set-up's first user, who has the application credential, and all others.
pub(crate) fn users(setup: &Setup) -> Vec<UserSetup> {
    let mut users = vec![UserSetup {
        name: setup.username.clone(),
        password: setup.password.clone(),
        project: setup.project.clone(),
        role: Role::Member,
    }];
    users.extend(setup.users.iter().cloned());
    users
}

/// One request.
struct Keystone<'a> {
    asked: &'a Asked,
    setup: &'a Setup,
    /// Where Keystone is reached.
    base: &'a str,
    /// Where everything is reached.
    root: &'a str,
    now: Timestamp,
}

impl Keystone<'_> {
    fn log_in(&self, tokens: &mut Tokens) -> Reply {
        if self.asked.body.len() > BODY_BYTES_MAX {
            return Reply::html(413, "Request Entity Too Large");
        }
        let bad = |why: &str| shapes::keystone(400, "Bad Request", why);
        let kind = self.asked.header("content-type");
        if !kind.is_some_and(|kind| kind.contains("json")) {
            return bad("Expecting to find application/json in Content-Type header.");
        }
        let Some(body) = self.asked.json::<Value>() else {
            return bad("Malformed JSON in request body.");
        };
        let auth = &body["auth"];
        let Some([method]) = auth["identity"]["methods"].as_array().map(Vec::as_slice) else {
            return bad("Invalid input for field 'identity/methods'.");
        };
        let checked = match method.as_str() {
            Some("password") => self.by_password(auth),
            Some("application_credential") => self.by_credential(auth),
            Some("token") => self.by_token(auth, tokens),
            _ => Err(shapes::unauthorized(self.base)),
        };
        match checked {
            Ok((method, user, project)) => {
                let grant = Grant::new(method, &user, project, self.setup, self.now);
                let token = tokens.issue(grant.clone(), self.now);
                let has_catalog = self.asked.param("nocatalog").is_none();
                Reply::json(201, &self.token_body(&grant, has_catalog))
                    .with("x-subject-token", token)
                    .with("vary", "X-Auth-Token")
            }
            Err(reply) => reply,
        }
    }

    fn by_password(&self, auth: &Value) -> Result<(Method, UserSetup, Option<String>), Reply> {
        let refused = || shapes::unauthorized(self.base);
        let given = &auth["identity"]["password"]["user"];
        let found = users(self.setup).into_iter().find(|user| {
            names(given, &user.name, &user_id(&user.name))
                && given["password"].as_str() == Some(user.password.as_str())
        });
        let user = found.ok_or_else(refused)?;
        let project = self.scope(auth, &user)?;
        Ok((Method::Password, user, project))
    }

    /// The project that is asked for; `None`: none is.
    fn scope(&self, auth: &Value, user: &UserSetup) -> Result<Option<String>, Reply> {
        match auth.get("scope") {
            None => Ok(None),
            Some(scope) if names(&scope["project"], &user.project, &project_id(&user.project)) => {
                Ok(Some(user.project.clone()))
            }
            Some(_) => Err(shapes::unauthorized(self.base)),
        }
    }

    /// A token for another scope, or for the same.
    fn by_token(
        &self,
        auth: &Value,
        tokens: &Tokens,
    ) -> Result<(Method, UserSetup, Option<String>), Reply> {
        let given = auth["identity"]["token"]["id"].as_str().unwrap_or_default();
        let grant = tokens.valid(given, self.now);
        let user = grant.and_then(|grant| {
            let mut all = users(self.setup).into_iter();
            all.find(|user| user.name == grant.user)
        });
        let user = user.ok_or_else(|| shapes::unauthorized(self.base))?;
        let project = self.scope(auth, &user)?;
        Ok((Method::Token, user, project))
    }

    fn by_credential(&self, auth: &Value) -> Result<(Method, UserSetup, Option<String>), Reply> {
        if auth.get("scope").is_some() {
            let message = "Application credentials cannot request a scope.";
            return Err(shapes::keystone(401, "Unauthorized", message));
        }
        let setup = self.setup;
        let credential = &auth["identity"]["application_credential"];
        let is_known = match credential["id"].as_str() {
            Some(id) => id == setup.app_credential_id,
            None => {
                let user = &credential["user"];
                credential["name"].as_str() == Some(setup.app_credential_name.as_str())
                    && names(user, &setup.username, &user_id(&setup.username))
            }
        };
        if !is_known {
            let id = credential["id"].as_str().unwrap_or_default();
            let message = format!("Could not find Application Credential: {id}.");
            return Err(shapes::keystone(404, "Not Found", &message));
        }
        if credential["secret"].as_str() != Some(setup.app_credential_secret.as_str()) {
            return Err(shapes::unauthorized(self.base));
        }
        let user = users(setup).swap_remove(0);
        let project = user.project.clone();
        Ok((Method::AppCredential, user, Some(project)))
    }

    /// Who asks, by `X-Auth-Token`.
    fn asking<'t>(&self, tokens: &'t Tokens) -> Option<&'t Grant> {
        tokens.valid(self.asked.header("x-auth-token")?, self.now)
    }

    fn about_token(&self, tokens: &mut Tokens) -> Reply {
        if self.asking(tokens).is_none() {
            return shapes::unauthorized(self.base);
        }
        let subject = self.asked.header("x-subject-token").unwrap_or_default();
        let Some(grant) = tokens.valid(subject, self.now).cloned() else {
            return shapes::keystone(404, "Not Found", "Could not find token.");
        };
        if self.asked.method == "DELETE" {
            tokens.revoke(subject, self.now);
            return Reply::empty(204);
        }
        let has_catalog = self.asked.param("nocatalog").is_none();
        Reply::json(200, &self.token_body(&grant, has_catalog))
            .with("x-subject-token", subject)
            .with("vary", "X-Auth-Token")
    }

    fn catalog_alone(&self, tokens: &Tokens) -> Reply {
        match self.asking(tokens) {
            None => shapes::unauthorized(self.base),
            Some(grant) => {
                let catalog = match grant.project {
                    Some(_) => self.catalog(),
                    None => json!([]),
                };
                let links = json!({"self": format!("{}/v3/auth/catalog", self.base)});
                Reply::json(200, &json!({"catalog": catalog, "links": links}))
            }
        }
    }

    /// The projects that the caller may have a token for.
    fn projects(&self, tokens: &Tokens) -> Reply {
        let Some(grant) = self.asking(tokens) else {
            return shapes::unauthorized(self.base);
        };
        let mut all = users(self.setup).into_iter();
        let user = all.find(|user| user.name == grant.user);
        let projects = user.map(|user| {
            let id = project_id(&user.project);
            let url = format!("{}/v3/projects/{id}", self.base);
            json!({"id": id, "name": user.project, "domain_id": DOMAIN_ID, "enabled": true,
                "description": "", "parent_id": DOMAIN_ID, "is_domain": false, "tags": [],
                "options": {}, "links": {"self": url}})
        });
        let url = format!("{}/v3/auth/projects", self.base);
        let links = json!({"next": null, "self": url, "previous": null});
        let projects: Vec<Value> = projects.into_iter().collect();
        Reply::json(200, &json!({"projects": projects, "links": links}))
    }

    fn token_body(&self, grant: &Grant, has_catalog: bool) -> Value {
        let domain = json!({"id": DOMAIN_ID, "name": DOMAIN_NAME});
        let time = |moment: Timestamp| {
            // Six digits that are all zero, as Keystone writes them.
            format!("{}.000000Z", moment.strftime("%Y-%m-%dT%H:%M:%S"))
        };
        let mut token = json!({
            "methods": [grant.method.text()],
            "user": {"domain": domain, "id": user_id(&grant.user), "name": grant.user,
                     "password_expires_at": null},
            "audit_ids": [grant.audit_id()],
            "expires_at": time(grant.expires), "issued_at": time(grant.issued),
        });
        if grant.method == Method::AppCredential {
            token["application_credential"] = json!({"id": self.setup.app_credential_id,
                "name": self.setup.app_credential_name, "restricted": true});
        }
        if let Some(project) = &grant.project {
            token["project"] =
                json!({"domain": domain, "id": project_id(project), "name": project});
            token["is_domain"] = json!(false);
            token["roles"] = json!(roles(grant.role));
            if has_catalog {
                token["catalog"] = self.catalog();
            }
        }
        json!({ "token": token })
    }

    fn catalog(&self) -> Value {
        let (root, setup) = (self.root, self.setup);
        let identity = format!("{}/v3/", self.base);
        let mut services = vec![
            service("network", "neutron", root, setup),
            service("identity", "keystone", &identity, setup),
        ];
        if setup.has_compute {
            let url = format!("{root}/compute/v2.1");
            services.push(service("compute", "nova", &url, setup));
        }
        Value::Array(services)
    }
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

/// The roles of a token: a greater one implies the lesser.
fn roles(role: Role) -> Vec<Value> {
    let all = [
        (Role::Admin, "admin"),
        (Role::Member, "member"),
        (Role::Reader, "reader"),
    ];
    let has = all.into_iter().filter(|(lesser, _)| *lesser <= role);
    has.map(|(_, name)| json!({"id": hex_id(name), "name": name}))
        .collect()
}

fn service(kind: &str, name: &str, url: &str, setup: &Setup) -> Value {
    let endpoint = |interface: &str| {
        json!({"id": hex_id(&format!("{kind}-{interface}")), "interface": interface,
            "region_id": setup.region, "url": url, "region": setup.region})
    };
    let endpoints: Vec<Value> = ["public", "internal", "admin"].map(endpoint).into();
    json!({"endpoints": endpoints, "id": hex_id(name), "type": kind, "name": name})
}
