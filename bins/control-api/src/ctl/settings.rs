//! Where control-api is and which token opens it: flags, then environment, then file.

use std::path::PathBuf;

use civ_boot::config::{Loaded, Report};
use civ_boot::secrets::{Environment, SecretSource};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::args::Connection;
use super::error::{CtlError, Result};

/// Where control-api listens if its configuration says nothing else.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

const URL_ENV: &str = "CIV_URL";
const CA_FILE_ENV: &str = "CIV_CA_FILE";
const TOKEN_ENV: &str = "CONTROL_API_ADMIN_TOKEN";

/// How to reach control-api.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) url: Url,
    pub(super) token: Option<SecretString>,
    pub(super) ca_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    url: Option<String>,
    token_file: Option<String>,
    ca_file: Option<String>,
}

/// What the file says.
#[derive(Debug, Default)]
struct File {
    url: Option<Url>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl File {
    #[expect(clippy::needless_pass_by_value, reason = "the loader hands it over")]
    fn build(raw: Raw, report: &mut Report) -> Option<Self> {
        let url = raw.url.as_deref();
        Some(Self {
            url: url.and_then(|text| report.http_url("url", text)),
            token_file: report.path("token_file", raw.token_file.as_deref()),
            ca_file: report.path("ca_file", raw.ca_file.as_deref()),
        })
    }
}

fn variable(environment: &dyn Environment, name: &str) -> Result<Option<String>> {
    let value = environment.get(name);
    let value = value.map_err(|error| CtlError::Settings(error.to_string()))?;
    Ok(value.filter(|value| !value.is_empty()))
}

/// The file that was named, or the usual one if it is there.
fn file(named: Option<&PathBuf>, environment: &dyn Environment) -> Result<File> {
    let path = match named {
        Some(path) => path.clone(),
        None => {
            let folder = match variable(environment, "XDG_CONFIG_HOME")? {
                Some(folder) => Some(PathBuf::from(folder)),
                None => {
                    variable(environment, "HOME")?.map(|home| PathBuf::from(home).join(".config"))
                }
            };
            let Some(path) = folder.map(|folder| folder.join("civ/ctl.yaml")) else {
                return Ok(File::default());
            };
            let there = path.try_exists();
            if !there.map_err(|error| CtlError::unreadable(&path, error))? {
                return Ok(File::default());
            }
            path
        }
    };
    let loaded: Loaded<File> = civ_boot::config::load(&path, File::build)
        .map_err(|faults| CtlError::Settings(faults.to_string()))?;
    Ok(loaded.settings)
}

fn token(
    connection: &Connection,
    file: &File,
    environment: &dyn Environment,
) -> Result<Option<SecretString>> {
    let from = |path: Option<&PathBuf>, env: Option<&str>, key: &str| {
        let source = SecretSource {
            key: key.to_owned(),
            env: env.map(str::to_owned),
            file: path.cloned(),
        };
        let read = source.read(environment);
        read.map_err(|error| CtlError::Settings(civ_boot::chain::Chain(&error).to_string()))
    };
    let flag = connection.token_file.as_ref();
    let found = match flag {
        Some(path) => from(Some(path), None, "token")?,
        None => match from(None, Some(TOKEN_ENV), "token")? {
            Some(token) => Some(token),
            None => from(file.token_file.as_ref(), None, "token")?,
        },
    };
    // The variable of the server may hold two during a rotation; either is accepted.
    let first = |token: &SecretString| {
        let mut parts = token.expose_secret().split(',').map(str::trim);
        parts.find(|part| !part.is_empty()).map(SecretString::from)
    };
    let token = found.as_ref().and_then(first);
    if let (Some(path), None) = (flag, &token) {
        return Err(CtlError::unreadable(path, "it holds no token"));
    }
    Ok(token)
}

/// The text itself is not shown: a password may stand in it.
fn url(text: &str, place: &str) -> Result<Url> {
    text.parse()
        .map_err(|error| CtlError::Settings(format!("{place} is no URL: {error}")))
}

/// Puts the settings together.
pub(super) fn read(connection: &Connection, environment: &dyn Environment) -> Result<Settings> {
    let file = file(connection.file.as_ref(), environment)?;
    let from_env = variable(environment, URL_ENV)?;
    let address = match (&connection.url, from_env, &file.url) {
        (Some(text), _, _) => url(text, "--url")?,
        (None, Some(text), _) => url(&text, URL_ENV)?,
        (None, None, Some(url)) => url.clone(),
        (None, None, None) => url(URL_DEFAULT, "the default")?,
    };
    let good = matches!(address.scheme(), "http" | "https") && address.has_host();
    if !good || !address.username().is_empty() || address.password().is_some() {
        let text = "the address of control-api must begin with http:// or https://, name a host, \
                    and hold no user or password";
        return Err(CtlError::Settings(text.to_owned()));
    }
    let ca_file = match &connection.ca_file {
        Some(path) => Some(path.clone()),
        None => variable(environment, CA_FILE_ENV)?
            .map(PathBuf::from)
            .or_else(|| file.ca_file.clone()),
    };
    Ok(Settings {
        token: token(connection, &file, environment)?,
        url: address,
        ca_file,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn table(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
        rows.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn secret(settings: &Settings) -> Option<&str> {
        settings.token.as_ref().map(|token| token.expose_secret())
    }

    #[test]
    fn flags_win_over_environment_over_file_over_default() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir_all(at(".config/civ")).unwrap();
        std::fs::write(at("file-token"), "from file\n").unwrap();
        std::fs::write(at("flag-token"), "from flag\n").unwrap();
        let yaml = format!(
            "url: http://file:1\ntoken_file: {}\nca_file: /file.pem\n",
            at("file-token").display()
        );
        let home_row = ("HOME", home.path().to_str().unwrap());

        let none = read(&Connection::default(), &table(&[home_row])).unwrap();
        assert_eq!(none.url.as_str(), "http://127.0.0.1:8080/");
        assert_eq!((secret(&none), &none.ca_file), (None, &None));

        std::fs::write(at(".config/civ/ctl.yaml"), yaml).unwrap();
        let file = read(&Connection::default(), &table(&[home_row])).unwrap();
        assert_eq!(file.url.as_str(), "http://file:1/");
        assert_eq!(secret(&file), Some("from file"));
        assert_eq!(file.ca_file, Some("/file.pem".into()));

        let rows = [home_row, (URL_ENV, "http://env:1"), (TOKEN_ENV, "old,new")];
        let env = read(&Connection::default(), &table(&rows)).unwrap();
        assert_eq!(env.url.as_str(), "http://env:1/");
        assert_eq!(secret(&env), Some("old"));

        let flags = Connection {
            url: Some("http://flag:1".to_owned()),
            token_file: Some(at("flag-token")),
            ca_file: Some("/flag.pem".into()),
            file: None,
        };
        let flags = read(&flags, &table(&rows)).unwrap();
        assert_eq!(flags.url.as_str(), "http://flag:1/");
        assert_eq!(secret(&flags), Some("from flag"));
        assert_eq!(flags.ca_file, Some("/flag.pem".into()));
    }

    #[test]
    fn a_refused_address_does_not_tell_its_password() {
        for address in ["http://user:hidden@host:99999", "http://user:hidden@host"] {
            let env = read(&Connection::default(), &table(&[(URL_ENV, address)]));
            let flag = Connection {
                url: Some(address.to_owned()),
                ..Connection::default()
            };
            for refused in [env, read(&flag, &table(&[]))] {
                let said = refused.unwrap_err().to_string();
                assert!(!said.contains("hidden"), "{said}");
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let bad = folder.path().join("ctl.yaml");
        std::fs::write(&bad, "token: abc\n").unwrap();
        let with = |file: &std::path::Path, rows| {
            let connection = Connection {
                file: Some(file.to_owned()),
                ..Connection::default()
            };
            read(&connection, &table(rows)).unwrap_err().to_string()
        };
        assert!(
            with(&bad, &[]).contains("unknown key"),
            "{}",
            with(&bad, &[])
        );
        assert!(with(&folder.path().join("none"), &[]).contains("none"));
        let wrong = read(&Connection::default(), &table(&[(URL_ENV, "ftp://a")]));
        assert!(wrong.unwrap_err().to_string().contains("http://"));
    }
}
