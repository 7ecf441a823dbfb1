//! The file of a copy: it has a name of its own until it is complete and on the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::BackupError;

/// Only the owner reads the copy: tokens are not in it, but addresses and events are.
const MODE: u32 = 0o600;

/// A copy to which nobody has written for so long is nobody's: reading it back, the one pause in a
/// copy, takes seconds for each gigabyte.
const ABANDONED: Duration = Duration::from_secs(6 * 3_600);

/// A file that is being made. Dropped before it is published, it goes.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    to: PathBuf,
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// Makes the names in the folder of `path` survive a loss of power.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

impl Partial {
    /// Makes an empty file beside `to`.
    pub(crate) fn create(to: &Path) -> Result<Self, BackupError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".partial-{}", std::process::id()));
        let made = Self {
            path: folder(to).join(name),
            to: to.to_owned(),
        };
        // One that an earlier process of this number has left, or others long ago.
        made.remove();
        Self::sweep(to, ABANDONED);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(&made.path);
        match file {
            Ok(_) => Ok(made),
            Err(source) => Err(made.unwritable(source)),
        }
    }

    /// Removes what killed processes have left of copies with the name `to`: files that nobody has
    /// written to for so long.
    pub(crate) fn sweep(to: &Path, silent: Duration) {
        let mut begin = std::ffi::OsString::from(".");
        begin.push(to.file_name().unwrap_or_default());
        begin.push(".partial-");
        let entries = fs::read_dir(folder(to)).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let is_copy = name
                .as_encoded_bytes()
                .starts_with(begin.as_encoded_bytes());
            let written = entry.metadata().and_then(|file| file.modified());
            let is_left = written.is_ok_and(|at| at.elapsed().is_ok_and(|age| silent <= age));
            if is_copy && is_left {
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn unwritable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> BackupError {
        BackupError::Unwritable {
            path: self.to.clone(),
            source: source.into(),
        }
    }

    pub(super) fn differs(&self, what: String) -> BackupError {
        BackupError::Differs {
            path: self.to.clone(),
            what,
        }
    }

    /// Everything is on the disk when this returns; says how many bytes.
    pub(crate) fn sync(&self) -> Result<u64, BackupError> {
        let sync = || {
            let file = File::open(&self.path)?;
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        sync().map_err(|source: io::Error| self.unwritable(source))
    }

    /// Gives it its name.
    pub(crate) fn publish(self, replace: bool) -> Result<(), BackupError> {
        let named = if replace {
            fs::rename(&self.path, &self.to)
        } else {
            name_unless_there(&self.path, &self.to)
        };
        match named.and_then(|()| sync_folder(&self.to)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(BackupError::Exists {
                to: self.to.clone(),
            }),
            Err(source) => Err(self.unwritable(source)),
        }
    }

    fn remove(&self) {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            // Mostly there is none.
            drop(fs::remove_file(name));
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A second name cannot replace a file that came there meanwhile, a new one could; where a file can
/// have but one name, a look before it must do.
fn name_unless_there(path: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(path, to) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            if to.symlink_metadata().is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(path, to)
        }
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_goes_once_nobody_can_be_at_it() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("copy.db");
        let left = |n: u32| folder.path().join(format!(".copy.db.partial-{n}"));
        let other = folder.path().join(".other.db.partial-1");
        for path in [&left(1), &left(2), &other] {
            fs::write(path, "x").unwrap();
        }
        let old = File::options().write(true).open(left(1)).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let partial = Partial::create(&to).unwrap();
        assert!(!left(1).exists() && left(2).exists());
        Partial::sweep(&to, Duration::ZERO);
        assert!(!left(2).exists() && other.exists());
        drop(partial);
    }
}
