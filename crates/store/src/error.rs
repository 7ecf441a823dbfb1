//! What can go wrong with the database.

use std::error::Error;
use std::path::PathBuf;

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
            rusqlite::Error::FromSqlConversionFailure(column, _, source) => Self::Corrupt {
                what: format!("column {column}: {source}"),
            },
            other => Self::Database {
                source: other.into(),
            },
        }
    }
}
