//! Backups of one database in a folder, each named after the database and its moment; nothing else
//! in the folder is touched.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use civ_types::Utc;

/// How the name of a backup ends.
const SUFFIX: &str = ".db";

/// The backups of a database in a folder.
#[derive(Debug, Clone)]
pub struct Series {
    folder: PathBuf,
    /// `control-api-`
    begin: OsString,
}

impl Series {
    /// Of this database, in that folder. Nothing is looked at yet.
    #[must_use]
    pub fn new(folder: &Path, database: &Path) -> Self {
        let mut begin = database.file_stem().unwrap_or_default().to_owned();
        begin.push("-");
        Self {
            folder: folder.to_owned(),
            begin,
        }
    }

    /// `control-api-20261201T033411Z.db`: the name of the backup of a moment.
    #[must_use]
    pub fn name_at(&self, moment: Utc) -> PathBuf {
        let mut name = self.begin.clone();
        name.push(moment.compact());
        name.push(SUFFIX);
        self.folder.join(name)
    }

    /// The moment that a name is of; `None` for names that are not of this series.
    fn moment(&self, name: &OsString) -> Option<Utc> {
        let rest = name.to_str()?.strip_prefix(self.begin.to_str()?)?;
        Utc::parse_compact(rest.strip_suffix(SUFFIX)?)
    }

    /// All of them, the oldest first; a folder that is not there has none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<(Utc, PathBuf)>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            let moment = self.moment(&entry.file_name());
            if let Some(moment) = moment.filter(|_| entry.path().is_file()) {
                all.push((moment, entry.path()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Makes the folder if need be, for its owner alone, and removes what a killed process has left
    /// of a copy. Only one process at a time makes backups of a series.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn prepare(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let copied = name.to_str().and_then(|name| name.strip_prefix('.'));
            let copied = copied.and_then(|name| Some(name.split_once(".partial-")?.0));
            if copied.is_some_and(|name| self.moment(&name.into()).is_some()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the oldest ones beyond the latest `keep`; says how many.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn prune(&self, keep: usize) -> io::Result<usize> {
        let all = self.list()?;
        let n_over = all.len().saturating_sub(keep);
        for (_, path) in all.iter().take(n_over) {
            fs::remove_file(path)?;
        }
        Ok(n_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_series_are_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let series = Series::new(
            &folder.path().join("new"),
            Path::new("/data/control-api.db"),
        );
        assert_eq!(series.list().unwrap(), []);
        series.prepare().unwrap();
        let at = |day: u32| Utc::parse(&format!("2026-12-{day:02}T03:34:11Z")).unwrap();
        let ours: Vec<PathBuf> = (1..=5).map(|day| series.name_at(at(day))).collect();
        assert!(ours[0].ends_with("new/control-api-20261201T033411Z.db"));
        let others = [
            "control-api.db",
            "control-api-20261201T033411Z.db.gz",
            "control-api-2026-12-01.db",
            "other-20261201T033411Z.db",
            "control-api-20261301T033411Z.db",
            ".control-api.db.partial-7",
        ];
        let others = others.map(|name| folder.path().join("new").join(name));
        let left = folder
            .path()
            .join("new/.control-api-20261201T033411Z.db.partial-7");
        for path in ours.iter().chain(&others).chain([&left]) {
            fs::write(path, "x").unwrap();
        }
        series.prepare().unwrap();
        assert!(!left.exists());
        assert_eq!(series.prune(5).unwrap(), 0);
        assert_eq!(series.prune(2).unwrap(), 3);
        let listed = series.list().unwrap();
        let days: Vec<Utc> = listed.iter().map(|(moment, _)| *moment).collect();
        assert_eq!(days, [at(4), at(5)]);
        assert!(others.iter().all(|path| path.exists()));
    }
}
