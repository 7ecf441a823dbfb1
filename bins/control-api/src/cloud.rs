//! How to log in to OpenStack: from a cloud of `clouds.yaml`, or from variables and files.
//!
//! Finds and reads what the settings point at; what a file means is [`civ_cloud::clouds`]'.

use std::fmt;
use std::path::{Path, PathBuf};

use civ_boot::secrets::{Environment, SecretError, SecretSource};
use civ_cloud::clouds::{Clouds, CloudsError, Profile};
use civ_cloud::{Auth, Budget, Domain, OpenStackConfig, Scope, User};
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::{Interface, OpenStack as CloudSettings};

/// Suffixes under which OpenStack's tools keep their files; JSON is YAML, too.
const SUFFIXES: [&str; 3] = ["yaml", "yml", "json"];

/// Largest file that is read: thousands of clouds, and no mistaken path fills memory.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where a login is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A cloud of a file.
    File {
        name: String,
        path: PathBuf,
        secure: Option<PathBuf>,
    },
    /// Variables, or files that stand for them.
    Variables,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, path, secure } => {
                write!(f, "the cloud {name:?} of {}", path.display())?;
                match secure {
                    Some(secure) => write!(f, " with {}", secure.display()),
                    None => Ok(()),
                }
            }
            Self::Variables => f.write_str("the variables of the section openstack"),
        }
    }
}

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLogin {
    /// A variable or a file that stands for it.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The file of clouds.
    #[error(transparent)]
    Clouds(#[from] CloudsError),
    /// Nothing where something is needed.
    #[error(
        "{place} is empty: it is needed to log in to OpenStack (or name a cloud of clouds.yaml in \
         openstack.cloud)"
    )]
    Missing { place: String },
    /// Two logins.
    #[error(
        "OS_CLOUD and {other} are both set: unset one of them, or name the cloud of clouds.yaml in \
         openstack.cloud"
    )]
    Both { other: String },
    /// No file of clouds anywhere.
    #[error(
        "there is no clouds.yaml for the cloud {name:?}; looked for: {}",
        shown(tried)
    )]
    NoFile { name: String, tried: Vec<PathBuf> },
    /// A file of clouds that cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// No file of clouds.
    #[error("{} is larger than a file of clouds may be: is it the right one?", path.display())]
    TooLarge { path: PathBuf },
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// The configuration of the client, and where its login is from.
///
/// # Errors
/// [`NoLogin`] says what is missing, and where to put it.
pub(crate) fn config(
    settings: &CloudSettings,
    environment: &dyn Environment,
) -> Result<(OpenStackConfig, Source), NoLogin> {
    let variables = Variables { environment };
    let name = match &settings.cloud {
        Some(name) => Some(name.clone()),
        None => named_by_variable(settings, &variables)?,
    };
    let (profile, source) = match name {
        Some(name) => from_file(&name, &variables)?,
        None => (from_variables(settings, &variables)?, Source::Variables),
    };
    let config = OpenStackConfig {
        auth: profile.auth,
        auth_url: profile.auth_url,
        region: profile.region.or(variables.plain(&settings.region)?),
        interface: settings
            .interface
            .map(|one| Interface::as_str(one).to_owned())
            .or(profile.interface)
            .unwrap_or_else(|| "public".to_owned()),
        ca_file: settings
            .ca_file
            .clone()
            .or(profile.ca_file)
            .or(variables.plain(&settings.cacert)?.map(PathBuf::from)),
        floating_network: settings.floating_network.clone(),
        endpoint_override: settings
            .network_endpoint
            .clone()
            .or(profile.network_endpoint),
        request_timeout: settings.request_timeout,
        list_page_size: settings.list_page_size,
    };
    Ok((config, source))
}

/// What may be asked of the cloud.
pub(crate) const fn budget(settings: &CloudSettings) -> Budget {
    Budget {
        parallel: settings.max_parallel_requests,
        per_second: settings.max_requests_per_second,
    }
}

/// `OS_CLOUD`, as OpenStack's own tools take it, unless variables name a login as well.
fn named_by_variable(
    settings: &CloudSettings,
    variables: &Variables<'_>,
) -> Result<Option<String>, NoLogin> {
    let Some(name) = variables.named("OS_CLOUD")? else {
        return Ok(None);
    };
    for source in [
        &settings.auth_url,
        &settings.password,
        &settings.application_credential_id,
    ] {
        if variables.plain(source)?.is_some() {
            let other = source.place();
            return Err(NoLogin::Both { other });
        }
    }
    Ok(Some(name))
}

/// Where values are read from.
struct Variables<'a> {
    environment: &'a dyn Environment,
}

impl Variables<'_> {
    fn secret(&self, source: &SecretSource) -> Result<Option<SecretString>, NoLogin> {
        Ok(source.read(self.environment)?)
    }

    fn plain(&self, source: &SecretSource) -> Result<Option<String>, NoLogin> {
        let value = self.secret(source)?;
        Ok(value.map(|value| value.expose_secret().to_owned()))
    }

    fn named(&self, name: &str) -> Result<Option<String>, NoLogin> {
        let value = self.environment.get(name)?;
        Ok(value.filter(|value| !value.is_empty()))
    }

    fn domain(&self, id: &SecretSource, name: &SecretSource) -> Result<Domain, NoLogin> {
        if let Some(id) = self.plain(id)? {
            return Ok(Domain::Id(id));
        }
        let name = self.plain(name)?;
        Ok(name.map_or_else(|| Domain::Id("default".to_owned()), Domain::Name))
    }
}

fn needed<T>(value: Option<T>, source: &SecretSource) -> Result<T, NoLogin> {
    value.ok_or_else(|| NoLogin::Missing {
        place: source.place(),
    })
}

fn from_variables(settings: &CloudSettings, variables: &Variables<'_>) -> Result<Profile, NoLogin> {
    let auth = match variables.plain(&settings.application_credential_id)? {
        Some(id) => {
            let source = &settings.application_credential_secret;
            let secret = needed(variables.secret(source)?, source)?;
            Auth::AppCredential { id, secret }
        }
        None => by_password(settings, variables)?,
    };
    let url = &settings.auth_url;
    Ok(Profile {
        auth,
        auth_url: needed(variables.plain(url)?, url)?,
        region: None,
        interface: None,
        ca_file: None,
        network_endpoint: None,
    })
}

fn by_password(settings: &CloudSettings, variables: &Variables<'_>) -> Result<Auth, NoLogin> {
    let user = match variables.plain(&settings.user_id)? {
        Some(id) => User::Id(id),
        None => User::Name {
            name: needed(variables.plain(&settings.username)?, &settings.username)?,
            domain: variables.domain(&settings.user_domain_id, &settings.user_domain_name)?,
        },
    };
    let scope = match variables.plain(&settings.project_id)? {
        Some(id) => Scope::ProjectId(id),
        None => Scope::ProjectName {
            name: needed(
                variables.plain(&settings.project_name)?,
                &settings.project_name,
            )?,
            domain: variables.domain(&settings.project_domain_id, &settings.project_domain_name)?,
        },
    };
    let password = &settings.password;
    Ok(Auth::Password {
        user,
        password: needed(variables.secret(password)?, password)?,
        scope,
    })
}

fn from_file(name: &str, variables: &Variables<'_>) -> Result<(Profile, Source), NoLogin> {
    let home = variables.named("HOME")?.map(PathBuf::from);
    let tried = places(variables, home.as_deref())?;
    let no_file = || NoLogin::NoFile {
        name: name.to_owned(),
        tried: tried.clone(),
    };
    let path = tried
        .iter()
        .find(|path| path.exists())
        .ok_or_else(no_file)?;
    let secure = match variables.named("OS_CLIENT_SECURE_FILE")? {
        Some(path) => Some(PathBuf::from(path)),
        None => SUFFIXES
            .iter()
            .map(|suffix| path.with_file_name(format!("secure.{suffix}")))
            .find(|path| path.exists()),
    };
    let text = read(path)?;
    let hidden = secure.as_deref().map(read).transpose()?;
    let both = secure.as_deref().zip(hidden.as_deref());
    let profile = Clouds::parse((path, &text), both)?.profile(name, home.as_deref())?;
    let source = Source::File {
        name: name.to_owned(),
        path: path.clone(),
        secure,
    };
    Ok((profile, source))
}

/// Where OpenStack's own tools look, in their order. A file that a variable names is the only
/// place: another one would be a surprise.
fn places(variables: &Variables<'_>, home: Option<&Path>) -> Result<Vec<PathBuf>, NoLogin> {
    if let Some(path) = variables.named("OS_CLIENT_CONFIG_FILE")? {
        return Ok(vec![PathBuf::from(path)]);
    }
    let own = match variables.named("XDG_CONFIG_HOME")? {
        Some(folder) => Some(PathBuf::from(folder)),
        None => home.map(|home| home.join(".config")),
    };
    let mut folders = vec![PathBuf::from(".")];
    folders.extend(own.map(|folder| folder.join("openstack")));
    folders.push(PathBuf::from("/etc/openstack"));
    let files = folders.iter().flat_map(|folder| {
        let named = |suffix| folder.join(format!("clouds.{suffix}"));
        SUFFIXES.iter().map(named)
    });
    Ok(files.collect())
}

fn read(path: &Path) -> Result<String, NoLogin> {
    use std::io::Read as _;
    let unreadable = |source| NoLogin::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let n = file
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if n as u64 > FILE_BYTES_MAX {
        let path = path.to_owned();
        return Err(NoLogin::TooLarge { path });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
