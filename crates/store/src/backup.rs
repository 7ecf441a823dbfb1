//! A copy of the database as it was at one moment, made while others work on it, and proved.
//!
//! The copy is read in one snapshot, in steps: the one who writes goes on, what it writes meanwhile
//! is not in the copy, and memory holds a few pages. Only a copy that was read back whole gets its
//! name. `VACUUM INTO` would make a smaller file, but sorts every index anew and tells of no
//! progress.

mod file;
mod series;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use civ_types::Utc;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::{conn, integrity, migrate, schema};
pub(crate) use file::{Partial, sync_folder};
pub use series::Series;

/// Pages of a step: 1 MB, so that a disk that others wait for is soon theirs again.
const STEP_PAGES: i32 = 256;

/// Pause after a step, which leaves the disk to those who write.
const STEP_PAUSE: Duration = Duration::from_millis(2);

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// So many bytes of so many are copied.
    Copying {
        /// Until now.
        done: u64,
        /// In all.
        total: u64,
    },
    /// The copy is read back.
    Verifying,
}

/// Is told how far it is, and says whether to go on.
pub type Watch<'w> = &'w mut dyn FnMut(Stage) -> ControlFlow<()>;

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its size.
    pub bytes: u64,
    /// Its tables.
    pub tables: usize,
    /// Rows of all of them.
    pub rows: u64,
    /// The last write that it has; `None` if nobody has worked on it yet.
    pub last_write: Option<Utc>,
    /// Rows that speak of rows that are not there, as in the original.
    pub dangling: Vec<String>,
}

/// Why there is no copy. Nothing that was there before has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is a file of that name.
    #[error("{} is there already: choose another name, or replace it with --force", to.display())]
    Exists {
        /// Which file.
        to: PathBuf,
    },
    /// The name is that of the database itself.
    #[error("{} is the database itself: choose another name", to.display())]
    Itself {
        /// Which file.
        to: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read the database {}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What SQLite or the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It is damaged.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// It is not one of ours.
    #[error("{} is no database of control-api: {why}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// A later version of this program has written it.
    #[error(
        "{} has schema version {found}, this program knows {known}: use the newer program",
        path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Version in the file.
        found: i64,
        /// Latest version of this program.
        known: i64,
    },
    /// The copy cannot be written.
    #[error(
        "cannot write {}: check that its folder exists, is writable and has room", path.display()
    )]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// What SQLite or the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The copy is not what it was copied from.
    #[error("the copy {} is not what it was made of: {what}. It was removed", path.display())]
    Differs {
        /// Which file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// Somebody wanted it to stop.
    #[error("stopped before the copy was complete")]
    Stopped,
}

/// The database as it was at one moment, of which a copy is made.
pub(crate) struct Snapshot {
    path: PathBuf,
    connection: Connection,
    /// The version of its schema.
    pub(crate) version: i64,
}

/// Rows by table.
type Counts = BTreeMap<String, u64>;

impl Snapshot {
    /// Opens it for reading and makes sure that it is a database of this program.
    pub(crate) fn open(path: &Path) -> Result<Self, BackupError> {
        let failed = |source| unreadable(path, source);
        let file = std::fs::metadata(path).map_err(|source| BackupError::Unreadable {
            path: path.to_owned(),
            source: source.into(),
        })?;
        let foreign = |why: String| BackupError::Foreign {
            path: path.to_owned(),
            why,
        };
        if !file.is_file() || file.len() == 0 {
            return Err(foreign("it is empty, or no file".to_owned()));
        }
        let connection = conn::open_to_look(path).map_err(failed)?;
        connection.execute_batch("BEGIN").map_err(failed)?;
        // The first read makes the snapshot.
        let version = schema::version(&connection).map_err(failed)?;
        let known = migrate::known();
        if known < version {
            return Err(BackupError::Newer {
                path: path.to_owned(),
                found: version,
                known,
            });
        }
        if version < 1 {
            return Err(foreign("it has no version of ours".to_owned()));
        }
        let drift = schema::drift(&connection, version).map_err(failed)?;
        if !drift.missing.is_empty() {
            return Err(foreign(format!("it lacks {}", drift.missing.join(", "))));
        }
        Ok(Self {
            path: path.to_owned(),
            connection,
            version,
        })
    }

    /// Copies it into the file that is being made, and proves the copy.
    pub(crate) fn copy(&self, to: &Partial, watch: Watch<'_>) -> Result<Made, BackupError> {
        let failed = |source| unreadable(&self.path, source);
        let counts = counts(&self.connection).map_err(failed)?;
        let last_write = integrity::last_write(&self.connection).map_err(failed)?;
        self.copy_pages(to, watch)?;
        go_on(watch(Stage::Verifying))?;
        let dangling = verify(to, &counts)?;
        Ok(Made {
            bytes: to.sync()?,
            tables: counts.len(),
            rows: counts.values().sum(),
            last_write,
            dangling,
        })
    }

    fn copy_pages(&self, to: &Partial, watch: Watch<'_>) -> Result<(), BackupError> {
        let failed = |source: rusqlite::Error| match crate::error::is_damage(&source) {
            true => unreadable(&self.path, source),
            false => to.unwritable(source),
        };
        let mut target = open_copy(to).map_err(failed)?;
        let page: u64 = self
            .connection
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .map_err(failed)?;
        let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * page;
        {
            let backup = Backup::new(&self.connection, &mut target).map_err(failed)?;
            loop {
                let step = backup.step(STEP_PAGES).map_err(failed)?;
                let at = backup.progress();
                let total = bytes(at.pagecount);
                let done = bytes(at.pagecount.saturating_sub(at.remaining));
                go_on(watch(Stage::Copying { done, total }))?;
                if step == StepResult::Done {
                    break;
                }
                #[expect(clippy::disallowed_methods, reason = "on a thread of its own")]
                std::thread::sleep(STEP_PAUSE);
            }
        }
        // The copy is one file: it needs no log beside it, and can be read where nobody may write.
        let mode: String = target
            .pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))
            .map_err(failed)?;
        if mode != "delete" {
            let what = format!("its journal mode stays {mode}");
            return Err(to.differs(what));
        }
        target.close().map_err(|(_open, source)| failed(source))
    }
}

const fn go_on(wish: ControlFlow<()>) -> Result<(), BackupError> {
    match wish {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BackupError::Stopped),
    }
}

fn unreadable(path: &Path, source: rusqlite::Error) -> BackupError {
    let path = path.to_owned();
    if source.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) {
        let why = source.to_string();
        return BackupError::Foreign { path, why };
    }
    if crate::error::is_damage(&source) {
        let what = source.to_string();
        return BackupError::Damaged { path, what };
    }
    BackupError::Unreadable {
        path,
        source: source.into(),
    }
}

fn open_copy(to: &Partial) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(to.path(), flags)?;
    // Nobody sees the file before it is synced as a whole.
    connection.pragma_update(None, "synchronous", "off")?;
    Ok(connection)
}

fn counts(connection: &Connection) -> rusqlite::Result<Counts> {
    let mut counts = Counts::new();
    for table in integrity::tables(connection)? {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        let n: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        counts.insert(table, u64::try_from(n).unwrap_or(0));
    }
    Ok(counts)
}

/// Reads the copy back; says which rows dangle.
fn verify(copy: &Partial, expected: &Counts) -> Result<Vec<String>, BackupError> {
    let failed = |source: rusqlite::Error| copy.differs(source.to_string());
    let connection = conn::open_to_look(copy.path()).map_err(failed)?;
    let faults = integrity::everything(&connection).map_err(failed)?;
    if !faults.is_empty() {
        return Err(copy.differs(faults.join("; ")));
    }
    let found = counts(&connection).map_err(failed)?;
    for (table, n) in expected {
        let there = found.get(table).copied().unwrap_or(0);
        if there != *n {
            return Err(copy.differs(format!("table {table} has {there} rows instead of {n}")));
        }
    }
    integrity::foreign_keys(&connection).map_err(failed)
}

/// Makes a copy of the database `from` under the name `to`. A file of that name is replaced only
/// with `replace`, and only by a copy that is complete, proved and on the disk.
///
/// Blocks for as long as it takes: not to be called on an async worker.
///
/// # Errors
/// [`BackupError`].
pub fn make(from: &Path, to: &Path, replace: bool, watch: Watch<'_>) -> Result<Made, BackupError> {
    if is_same(from, to) {
        return Err(BackupError::Itself { to: to.to_owned() });
    }
    if !replace && to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { to: to.to_owned() });
    }
    let snapshot = Snapshot::open(from)?;
    let partial = Partial::create(to)?;
    let made = snapshot.copy(&partial, watch)?;
    partial.publish(replace)?;
    Ok(made)
}

/// Whether two names are of one file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_other_rows_than_the_original_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from.db");
        let mut connection = conn::open_writer(&from).unwrap();
        migrate::migrate(&mut connection).unwrap();
        let copy = Partial::create(&folder.path().join("to.db")).unwrap();
        let snapshot = Snapshot::open(&from).unwrap();
        let mut go_on = |_| ControlFlow::Continue(());
        snapshot.copy(&copy, &mut go_on).unwrap();
        let mut expected = counts(&snapshot.connection).unwrap();
        assert!(verify(&copy, &expected).is_ok());
        *expected.get_mut("runtime").unwrap() = 2;
        let text = verify(&copy, &expected).unwrap_err().to_string();
        assert!(
            text.contains("table runtime has 1 rows instead of 2"),
            "{text}"
        );
        expected.clear();
        expected.insert("gone".to_owned(), 7);
        assert!(verify(&copy, &expected).is_err());
    }
}
