//! `clouds.yaml`: the file in which OpenStack's own tools keep their clouds, and `secure.yaml`
//! beside it. Takes texts, gives a login; where the files lie is the caller's business.
//!
//! Keys that have nothing to do with reaching Neutron are passed over, as those tools do. What
//! would be passed over at a price is refused: `verify: false`, an old Identity API, two logins.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde_yaml::{Mapping, Value};

use crate::openstack::{Auth, Domain, Scope, User};

/// Why a login cannot be had from the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudsError {
    /// It is no YAML.
    #[error("{} is not YAML: {why}", path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// Line, column and what is wrong there; never a part of the text.
        why: String,
    },
    /// It holds no clouds.
    #[error("{} has no section `clouds`: put the clouds under that key", path.display())]
    NoClouds {
        /// The file.
        path: PathBuf,
    },
    /// It does not hold this cloud.
    #[error("{} has no cloud {name:?}; it has: {}", path.display(), listed(names))]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        name: String,
        /// What there is.
        names: Vec<String>,
    },
    /// One key cannot be used.
    #[error("{}: {key} {text}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Its full path: `clouds.mine.auth.password`.
        key: String,
        /// What is wrong, and what to do.
        text: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

/// What a cloud of the file says about reaching it.
#[derive(Debug, Clone)]
pub struct Profile {
    /// How to log in.
    pub auth: Auth,
    /// `auth.auth_url`.
    pub auth_url: String,
    /// `region_name`.
    pub region: Option<String>,
    /// `interface`: `public`, `internal` or `admin`.
    pub interface: Option<String>,
    /// `cacert`.
    pub ca_file: Option<PathBuf>,
    /// `network_endpoint_override`.
    pub network_endpoint: Option<String>,
}

/// The clouds of a file, with the secrets of the one beside it.
#[derive(Clone)]
pub struct Clouds {
    path: PathBuf,
    clouds: Mapping,
}

/// Names alone: the values are secrets.
impl fmt::Debug for Clouds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clouds")
            .field("path", &self.path)
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}

impl Clouds {
    /// Reads `clouds.yaml`, and over it `secure.yaml`, if there is one.
    ///
    /// # Errors
    /// [`CloudsError`] if one is no YAML, or the first has no section `clouds`.
    pub fn parse(file: (&Path, &str), secure: Option<(&Path, &str)>) -> Result<Self, CloudsError> {
        let mut all = yaml(file)?;
        if let Some(secure) = secure {
            merge(&mut all, yaml(secure)?);
        }
        let path = file.0.to_owned();
        match all {
            Value::Mapping(mut top) => match top.remove("clouds") {
                Some(Value::Mapping(clouds)) => Ok(Self { path, clouds }),
                _ => Err(CloudsError::NoClouds { path }),
            },
            _ => Err(CloudsError::NoClouds { path }),
        }
    }

    /// The names of its clouds, in the file's order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.clouds.keys().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }

    /// The login of one cloud. `home` is what `~` in `cacert` stands for.
    ///
    /// # Errors
    /// [`CloudsError`] names the key that is missing or cannot be used.
    pub fn profile(&self, name: &str, home: Option<&Path>) -> Result<Profile, CloudsError> {
        let unknown = || CloudsError::Unknown {
            path: self.path.clone(),
            name: name.to_owned(),
            names: self.names(),
        };
        let cloud = self.clouds.get(name).ok_or_else(unknown)?;
        let cloud = Section {
            path: &self.path,
            key: format!("clouds.{name}"),
            values: cloud.as_mapping(),
        };
        cloud.check_version()?;
        cloud.check_verify()?;
        let auth = cloud.section("auth")?;
        let login = cloud.login(&auth)?;
        Ok(Profile {
            auth: login,
            auth_url: auth.needed("auth_url", cloud.hint())?,
            region: cloud.region()?,
            interface: cloud.interface()?,
            ca_file: cloud.text("cacert")?.map(|text| at_home(&text, home)),
            network_endpoint: cloud.text("network_endpoint_override")?,
        })
    }
}

fn yaml((path, text): (&Path, &str)) -> Result<Value, CloudsError> {
    serde_yaml::from_str(text).map_err(|error| {
        let place = error.location().map_or_else(String::new, |at| {
            format!("line {}, column {}: ", at.line(), at.column())
        });
        // The parser's own sentence may quote the text, and the text holds secrets.
        CloudsError::NotYaml {
            path: path.to_owned(),
            why: format!("{place}it cannot be read there; check indentation and quotes"),
        }
    })
}

/// Sections are merged, other values of `over` win.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Mapping(under), Value::Mapping(over)) => {
            for (key, value) in over {
                match under.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => {
                        under.insert(key, value);
                    }
                }
            }
        }
        (_, Value::Null) => {}
        (under, over) => *under = over,
    }
}

fn at_home(text: &str, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// A part of the file, with its place for messages.
struct Section<'a> {
    path: &'a Path,
    key: String,
    values: Option<&'a Mapping>,
}

impl<'a> Section<'a> {
    fn bad(&self, key: &str, text: impl Into<String>) -> CloudsError {
        CloudsError::Key {
            path: self.path.to_owned(),
            key: format!("{}.{key}", self.key),
            text: text.into(),
        }
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        let value = self.values?.get(key)?;
        (!value.is_null()).then_some(value)
    }

    fn section(&self, key: &str) -> Result<Self, CloudsError> {
        let values = match self.value(key) {
            None => None,
            Some(Value::Mapping(values)) => Some(values),
            Some(_) => return Err(self.bad(key, "must be a section of keys and values")),
        };
        Ok(Self {
            path: self.path,
            key: format!("{}.{key}", self.key),
            values,
        })
    }

    /// A text; empty counts as not given. A bare number is refused: YAML would have changed it
    /// (`0123`, `1e5`) before anybody could send it.
    fn text(&self, key: &str) -> Result<Option<String>, CloudsError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(self.bad(key, "must be a text: put the value in quotes")),
        }
    }

    /// The first of several names of the same thing.
    fn any(&self, keys: &[&str]) -> Result<Option<String>, CloudsError> {
        for key in keys {
            if let Some(text) = self.text(key)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn needed(&self, key: &str, hint: &str) -> Result<String, CloudsError> {
        self.text(key)?
            .ok_or_else(|| self.bad(key, format!("is missing: {hint}")))
    }

    fn hint(&self) -> &'static str {
        if self.value("profile").is_some() {
            return "profiles of clouds-public.yaml are not read, so write Keystone's address here";
        }
        "write Keystone's address, like https://keystone.example:5000/v3"
    }

    fn check_version(&self) -> Result<(), CloudsError> {
        let text = match self.value("identity_api_version") {
            None => return Ok(()),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => String::new(),
        };
        let major = text.trim_start_matches('v').split('.').next();
        if major == Some("3") {
            return Ok(());
        }
        Err(self.bad(
            "identity_api_version",
            "must be 3: older ones are not spoken",
        ))
    }

    fn check_verify(&self) -> Result<(), CloudsError> {
        match self.value("verify") {
            None | Some(Value::Bool(true)) => Ok(()),
            Some(_) => Err(self.bad(
                "verify",
                "must be true or left out: a login that moves addresses is not sent to whoever \
                 answers; give the certificate of your authority in cacert",
            )),
        }
    }

    fn region(&self) -> Result<Option<String>, CloudsError> {
        if let Some(name) = self.text("region_name")? {
            return Ok(Some(name));
        }
        let names: Vec<&str> = match self.value("regions") {
            Some(Value::Sequence(all)) => all
                .iter()
                .filter_map(|one| one.as_str().or_else(|| one.get("name")?.as_str()))
                .collect(),
            _ => Vec::new(),
        };
        match names.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).to_owned())),
            several => {
                let text = format!(
                    "is missing, and `regions` names several: {}; choose one",
                    several.join(", ")
                );
                Err(self.bad("region_name", text))
            }
        }
    }

    fn interface(&self) -> Result<Option<String>, CloudsError> {
        let Some(text) = self.any(&["interface", "endpoint_type"])? else {
            return Ok(None);
        };
        let bare = text.trim_end_matches("URL");
        if ["public", "internal", "admin"].contains(&bare) {
            return Ok(Some(bare.to_owned()));
        }
        Err(self.bad("interface", "must be public, internal or admin"))
    }

    /// `self` is the cloud, `auth` its section of that name.
    fn login(&self, auth: &Self) -> Result<Auth, CloudsError> {
        let has = |key: &str| auth.value(key).is_some();
        let credential = has("application_credential_id") || has("application_credential_name");
        let kind = self.text("auth_type")?;
        match kind.as_deref() {
            Some("v3applicationcredential") => self.credential(auth),
            Some("password" | "v3password") => self.password(auth),
            Some(_) => Err(self.bad(
                "auth_type",
                "must be password, v3password or v3applicationcredential: no other login is known",
            )),
            None if credential && has("password") => Err(auth.bad(
                "password",
                "stands beside an application credential: keep one of the two, or say which by \
                 auth_type",
            )),
            None if credential => self.credential(auth),
            None => self.password(auth),
        }
    }

    fn credential(&self, auth: &Self) -> Result<Auth, CloudsError> {
        let hint = "write it here, or in secure.yaml beside this file";
        let secret = auth.needed("application_credential_secret", hint)?;
        let secret = SecretString::from(secret);
        if let Some(id) = auth.text("application_credential_id")? {
            return Ok(Auth::AppCredential { id, secret });
        }
        let hint = "write the credential's id (or its name and its user)";
        if auth.value("application_credential_name").is_none() {
            return Err(auth.bad("application_credential_id", format!("is missing: {hint}")));
        }
        Ok(Auth::AppCredentialByName {
            name: auth.needed("application_credential_name", hint)?,
            user: self.user(auth)?,
            secret,
        })
    }

    fn password(&self, auth: &Self) -> Result<Auth, CloudsError> {
        let user = self.user(auth)?;
        let hint = "write it here, or in secure.yaml beside this file";
        let password = auth.needed("password", hint)?;
        let scope = match auth.any(&["project_id", "tenant_id"])? {
            Some(id) => Scope::ProjectId(id),
            None => match auth.any(&["project_name", "tenant_name"])? {
                Some(name) => Scope::ProjectName {
                    name,
                    domain: self.domain(auth, "project")?,
                },
                None => {
                    return Err(auth.bad(
                        "project_name",
                        "is missing: floating IPs belong to a project, so name one (or give \
                         project_id)",
                    ));
                }
            },
        };
        Ok(Auth::Password {
            user,
            password: password.into(),
            scope,
        })
    }

    fn user(&self, auth: &Self) -> Result<User, CloudsError> {
        if let Some(id) = auth.text("user_id")? {
            return Ok(User::Id(id));
        }
        Ok(User::Name {
            name: auth.needed("username", "write the user's name (or give user_id)")?,
            domain: self.domain(auth, "user")?,
        })
    }

    fn domain(&self, auth: &Self, whose: &str) -> Result<Domain, CloudsError> {
        if let Some(id) = auth.text(&format!("{whose}_domain_id"))? {
            return Ok(Domain::Id(id));
        }
        if let Some(name) = auth.text(&format!("{whose}_domain_name"))? {
            return Ok(Domain::Name(name));
        }
        let default = self.text("default_domain")?;
        Ok(Domain::Id(default.unwrap_or_else(|| "default".to_owned())))
    }
}

#[cfg(test)]
mod tests;
