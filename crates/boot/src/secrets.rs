//! Secrets: the one reader of environment variables and of the files that stand in for them.

use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;

/// Largest accepted secret file: a token is far shorter, and a mistaken path must not fill memory.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Where variables come from: the process's environment, or a table in a test.
pub trait Environment: Send + Sync + fmt::Debug {
    /// The variable's value; `None` if it is not set.
    ///
    /// # Errors
    /// If the value is not UTF-8.
    fn get(&self, name: &str) -> Result<Option<String>, SecretError>;
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reader of the environment"
    )]
    fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(SecretError::NotUtf8 {
                place: format!("the environment variable {name}"),
            }),
        }
    }
}

/// An environment in memory, for tests.
impl Environment for std::collections::BTreeMap<String, String> {
    fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        Ok(Self::get(self, name).cloned())
    }
}

/// Why a secret could not be read. The value itself is never told.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file of a `_file` key could not be read.
    #[error("{key}: cannot read {}", path.display())]
    Unreadable {
        /// The key of the configuration.
        key: String,
        /// The file that it names.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any secret.
    #[error("{key}: {} is larger than a secret may be: is it the right file?", path.display())]
    TooLarge {
        /// The key of the configuration.
        key: String,
        /// The file that it names.
        path: PathBuf,
    },
    /// The value is not UTF-8.
    #[error("{place} does not hold UTF-8 text")]
    NotUtf8 {
        /// The variable or file.
        place: String,
    },
}

/// Where one secret, or one value that deployments keep beside secrets, is to be found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretSource {
    /// Key path without `_env` or `_file`: `auth.admin_token`.
    pub key: String,
    /// Name of the environment variable.
    pub env: Option<String>,
    /// Path of the file; it wins over the variable.
    pub file: Option<PathBuf>,
}

impl SecretSource {
    /// Reads the file if one is named, else the variable. A trailing newline of a file is cut;
    /// empty counts as unset: `None`.
    ///
    /// # Errors
    /// [`SecretError`] if a named file is unreadable or too large, or the text is not UTF-8.
    pub fn read(&self, environment: &dyn Environment) -> Result<Option<SecretString>, SecretError> {
        let text = match (&self.file, &self.env) {
            (Some(path), _) => Some(self.read_file(path)?),
            (None, Some(name)) => environment.get(name)?,
            (None, None) => None,
        };
        Ok(text.filter(|text| !text.is_empty()).map(SecretString::from))
    }

    /// How to name the place in a message: `the environment variable NAME` or the file.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.file, &self.env) {
            (Some(path), _) => format!("the file {}", path.display()),
            (None, Some(name)) => format!("the environment variable {name}"),
            (None, None) => format!("{}_env or {}_file (neither is set)", self.key, self.key),
        }
    }

    fn read_file(&self, path: &PathBuf) -> Result<String, SecretError> {
        use std::io::Read as _;
        let unreadable = |source| SecretError::Unreadable {
            key: format!("{}_file", self.key),
            path: path.clone(),
            source,
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(SECRET_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > SECRET_BYTES_MAX {
            return Err(SecretError::TooLarge {
                key: format!("{}_file", self.key),
                path: path.clone(),
            });
        }
        let mut text = String::from_utf8(bytes).map_err(|_e| SecretError::NotUtf8 {
            place: self.place(),
        })?;
        while text.ends_with(['\n', '\r']) {
            text.pop();
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use secrecy::ExposeSecret as _;

    use super::*;

    fn source(env: Option<&str>, file: Option<PathBuf>) -> SecretSource {
        SecretSource {
            key: "auth.admin_token".to_owned(),
            env: env.map(str::to_owned),
            file,
        }
    }

    fn read(source: &SecretSource, environment: &[(&str, &str)]) -> Option<String> {
        let table: BTreeMap<String, String> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let secret = source.read(&table).unwrap();
        secret.map(|secret| secret.expose_secret().to_owned())
    }

    #[test]
    fn an_unset_or_empty_variable_is_no_secret() {
        let from = source(Some("TOKEN"), None);
        assert_eq!(read(&from, &[]), None);
        assert_eq!(read(&from, &[("TOKEN", "")]), None);
        assert_eq!(read(&from, &[("TOKEN", "abc")]).unwrap(), "abc");
        assert_eq!(read(&source(None, None), &[("TOKEN", "abc")]), None);
    }

    #[test]
    fn a_file_wins_and_loses_its_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "from file\r\n").unwrap();
        let from = source(Some("TOKEN"), Some(path));
        assert_eq!(read(&from, &[("TOKEN", "abc")]).unwrap(), "from file");
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_key() {
        let from = source(None, Some(PathBuf::from("/nonexistent/token")));
        let error = from.read(&BTreeMap::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "auth.admin_token_file: cannot read /nonexistent/token"
        );
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, vec![b'x'; 64 * 1024 + 1]).unwrap();
        let error = source(None, Some(path)).read(&BTreeMap::new());
        assert!(matches!(error, Err(SecretError::TooLarge { .. })));
    }

    #[test]
    fn debug_output_of_a_secret_hides_it() {
        let table = BTreeMap::from([("TOKEN".to_owned(), "swordfish".to_owned())]);
        let secret = source(Some("TOKEN"), None).read(&table).unwrap();
        assert!(!format!("{secret:?}").contains("swordfish"));
    }
}
