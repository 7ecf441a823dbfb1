//! The whole state as one versioned document: taken, kept in a file, put back.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the documents that are written, and the only one that is read.
pub const SCHEMA_VERSION: u32 = 1;

/// A state, of which cloud it is and how it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// [`SCHEMA_VERSION`] when it was written.
    pub schema_version: u32,
    /// Which simulation, like `openstack`.
    pub cloud: String,
    /// Its state, as it writes it.
    pub state: Value,
}

impl Snapshot {
    /// A document of this version.
    #[must_use]
    pub fn new(cloud: &str, state: Value) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            cloud: cloud.to_owned(),
            state,
        }
    }

    /// The state, if it is one of `cloud` and of this version.
    ///
    /// # Errors
    /// If it is not: the sentence says what it is.
    pub fn state_of(self, cloud: &str) -> anyhow::Result<Value> {
        let version = self.schema_version;
        ensure!(
            version == SCHEMA_VERSION,
            "the snapshot has schema_version {version}, this program reads {SCHEMA_VERSION}"
        );
        ensure!(
            self.cloud == cloud,
            "the snapshot is of cloud {:?}, not of {cloud:?}",
            self.cloud
        );
        Ok(self.state)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or is no snapshot.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read(path).with_context(|| format!("cannot read the snapshot {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is no snapshot"))
    }

    /// Writes a file: whole or not at all, whatever was there before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let draft = path.with_extension("draft");
        let write = || {
            let mut file = fs::File::create(&draft)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&draft, path)?;
            anyhow::Ok(())
        };
        write().with_context(|| format!("cannot write the snapshot {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_brings_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let snapshot = Snapshot::new("x", json!({"a": 1}));
        snapshot.write(&path).unwrap();
        snapshot.write(&path).unwrap();
        assert_eq!(Snapshot::read(&path).unwrap(), snapshot);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft");
    }

    #[test]
    fn other_versions_and_other_clouds_are_refused() {
        let mut snapshot = Snapshot::new("x", json!({}));
        assert!(snapshot.clone().state_of("x").is_ok());
        let error = snapshot.clone().state_of("y").unwrap_err().to_string();
        assert_eq!(error, "the snapshot is of cloud \"x\", not of \"y\"");
        snapshot.schema_version = 99;
        let error = snapshot.state_of("x").unwrap_err().to_string();
        assert!(error.contains("schema_version 99"), "{error}");
    }
}
