//! Connections: pragmas with their reasons, and reading and writing as different types.

use std::cell::Cell;
use std::ops::Deref;
use std::path::Path;

use civ_types::Utc;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use crate::Rules;
use crate::error::OpenError;
use crate::hint::Hint;

/// Prepared statements kept for each connection: a little more than there are in this crate.
const STATEMENTS: usize = 160;

/// Pages that the writer keeps in memory, in KiB: enough for the largest enqueueing, so that its
/// pages are not written and read again before the commit.
const WRITER_CACHE_KIB: i64 = 65_536;

/// Pages of the write-ahead log after which it is folded into the file: 32 MB. Folding waits for
/// the disk several times, and so do those whose commit it follows; it must be rare among commits.
const LOG_PAGES: i64 = 8_000;

/// How much of the file readers map into memory, in bytes: pages of long lists are then read
/// without a call and a copy for each of them. The kernel takes the memory back when it is short.
const MAPPED: i64 = 4 << 30;

/// A connection that may read.
#[derive(Debug)]
pub struct ReadConn<'c>(&'c Connection);

impl<'c> ReadConn<'c> {
    pub(crate) const fn new(connection: &'c Connection) -> Self {
        Self(connection)
    }

    pub(crate) const fn sql(&self) -> &'c Connection {
        self.0
    }
}

/// A transaction that may write. It reads like a [`ReadConn`] and sees its own writes.
#[derive(Debug)]
pub struct WriteTx<'c> {
    read: ReadConn<'c>,
    now: Utc,
    rules: Rules,
    hints: Vec<Hint>,
    /// Set where an event is written, which many do who only look at the transaction.
    history: Cell<bool>,
    /// Set where somebody is to be told of it.
    notified: Cell<bool>,
}

impl<'c> WriteTx<'c> {
    pub(crate) const fn new(connection: &'c Connection, now: Utc, rules: Rules) -> Self {
        Self {
            read: ReadConn::new(connection),
            now,
            rules,
            hints: Vec::new(),
            history: Cell::new(false),
            notified: Cell::new(false),
        }
    }

    /// The moment of this transaction.
    #[must_use]
    pub const fn now(&self) -> Utc {
        self.now
    }

    /// The rules of this process.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// Tells those who wait, after the commit.
    pub fn hint(&mut self, hint: Hint) {
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    /// The history has new entries: wakes those who follow it, after the commit.
    pub(crate) fn history_grew(&self) {
        self.history.set(true);
    }

    /// Wakes those who send notifications, after the commit.
    pub(crate) fn notified(&self) {
        self.notified.set(true);
    }

    pub(crate) fn into_hints(mut self) -> Vec<Hint> {
        if self.history.get() {
            self.hint(Hint::Events);
        }
        if self.notified.get() {
            self.hint(Hint::Notifications);
        }
        self.hints
    }
}

impl<'c> Deref for WriteTx<'c> {
    type Target = ReadConn<'c>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

/// What every connection needs.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // A reader waits out a checkpoint; the one writer never meets another.
    connection.pragma_update(None, "busy_timeout", 5_000)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// The one connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::of(path, source);
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that opens and sets the pragmas"
    )]
    let connection = Connection::open(path).map_err(failed)?;
    let set = || {
        prepare(&connection)?;
        // Readers do not wait for the writer.
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        // An answered write survives the loss of power (rule 6).
        connection.pragma_update(None, "synchronous", "full")
    };
    set().map_err(failed)?;
    Ok(connection)
}

/// A connection that only looks, beside whoever works on the file or without anybody: nothing is
/// migrated or written. It reads as it is told to, by pages or as a whole, and maps nothing: a file
/// that is damaged, or shrinks, is an error and not a signal.
pub(crate) fn open_to_look(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    Ok(connection)
}

/// Opens readers.
pub(crate) fn reader_manager(path: &Path) -> SqliteConnectionManager {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    SqliteConnectionManager::file(path)
        .with_flags(flags)
        .with_init(|connection| {
            connection.pragma_update(None, "mmap_size", MAPPED)?;
            prepare(connection)
        })
}
