//! What can go wrong with the database.

use std::error::Error;
use std::path::{Path, PathBuf};

use civ_types::Utc;

type Source = Box<dyn Error + Send + Sync>;

/// The database cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened, created or prepared.
    #[error(
        "cannot open the database {}: check that the folder exists and is writable",
        path.display()
    )]
    Open {
        /// Which file.
        path: PathBuf,
        /// What SQLite said.
        source: Source,
    },
    /// Another process works on the database.
    #[error(
        "another process works on the database {}: stop it first, or set database.path to another \
         file",
        path.display()
    )]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// A later version of this program has changed the database.
    #[error(
        "the database has schema version {found}, this program knows {known}: \
         start the newer program, or restore a backup from before the upgrade"
    )]
    Newer {
        /// Version in the file.
        found: i64,
        /// Latest version of this program.
        known: i64,
    },
    /// Pages or rows are not as SQLite or this program could have left them.
    #[error(
        "the database {} is damaged: {what}. Nothing was changed. Keep a copy of it and of its -wal \
         file, then restore a backup (control-api restore --config FILE --from BACKUP), or save what \
         can be read, as docs/OPERATIONS.md says under Recovery",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file is a database of something else.
    #[error(
        "{} is a database, but not of control-api: set database.path to another file",
        path.display()
    )]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// Writes that were answered are not in the file.
    #[error(
        "the database {} ends at {ends}, but writes were answered up to {noted}: its -wal file was \
         cut short or taken away, or an older file was put in its place. Nothing was changed. Put \
         the -wal file that belongs to it back if there is one, else restore a backup (control-api \
         restore --config FILE --from BACKUP), or go on without those writes (control-api doctor \
         --config FILE --fix)",
        path.display()
    )]
    LostWrites {
        /// Which file.
        path: PathBuf,
        /// The last write that it has, as RFC 3339; `nothing` if it has none.
        ends: String,
        /// The last write that was answered.
        noted: Utc,
    },
    /// There is no database where one was in use.
    #[error(
        "the database {} is not there, though it was in use until {noted}: put it back, or restore \
         a backup (control-api restore --config FILE --from BACKUP). To begin with an empty \
         one, remove the file of the same name with .lock behind it",
        path.display()
    )]
    Gone {
        /// Which file.
        path: PathBuf,
        /// The last write that was answered.
        noted: Utc,
    },
    /// A migration failed; the database is as it was before it.
    #[error("migration {name} failed")]
    Migration {
        /// File name of the migration.
        name: &'static str,
        /// What SQLite said.
        source: Source,
    },
    /// The readers cannot be opened.
    #[error("cannot open the database for reading")]
    Readers {
        /// What the pool said.
        source: Source,
    },
    /// The writing thread cannot be started.
    #[error("cannot start the writing thread")]
    Thread {
        /// What the system said.
        source: Source,
    },
}

impl OpenError {
    /// What SQLite said of the file, or of what is in it.
    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if is_damage(&source) {
            let what = source.to_string();
            return Self::Damaged { path, what };
        }
        Self::Open {
            path,
            source: source.into(),
        }
    }
}

/// Whether SQLite speaks of what is in the file, rather than of getting at it.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}

/// A read or a write failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite refused: the disk is full, read-only or broken, or a statement is wrong.
    #[error("the database refused")]
    Database {
        /// What SQLite said.
        source: Source,
    },
    /// A row that no version of this program could have written.
    #[error("the database holds a row that cannot be: {what}")]
    Corrupt {
        /// Which one, and why it cannot be.
        what: String,
    },
    /// No connection, or the writing thread has ended.
    #[error("the database is not available")]
    Unavailable {
        /// Why.
        source: Source,
    },
}

impl StoreError {
    pub(crate) const fn no_reader(source: Source) -> Self {
        Self::Unavailable { source }
    }

    pub(crate) const fn stopped(source: Source) -> Self {
        Self::Unavailable { source }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, source) => Self::Corrupt {
                what: source.to_string(),
            },
            other => Self::Database {
                source: other.into(),
            },
        }
    }
}
