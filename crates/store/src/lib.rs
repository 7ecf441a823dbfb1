//! The only home of SQL: SQLite with one writing thread, group commit and a pool of readers.
//!
//! A write that was answered is durable (`synchronous=FULL`). Functions are grouped by what they
//! are about and take a [`ReadConn`] or a [`WriteTx`]; no SQLite type stands in a public
//! signature. It knows no HTTP and no cloud.
#![warn(missing_docs)]

mod advance;
pub mod agents;
pub mod backup;
mod blocks;
#[cfg(feature = "bulk")]
pub mod bulk;
pub mod check_types;
mod codec;
mod conn;
pub mod cycle;
pub mod doctor;
mod error;
pub mod events;
pub mod export;
mod hint;
pub mod identity;
#[cfg(feature = "inline")]
pub mod inline;
mod integrity;
pub mod ips;
pub mod leases;
mod lock;
mod migrate;
pub mod notifications;
pub mod peek;
#[cfg(test)]
mod plans;
pub mod queue;
mod record;
pub mod registry;
pub mod restore;
pub mod results;
pub mod retention;
pub mod runtime;
pub mod scan;
mod schema;
pub mod seed;
pub mod settings;
pub mod sites;
pub mod targets;
pub mod validators;
mod writer;

use std::path::Path;
use std::sync::Arc;

use civ_orch::attempt::Policy;
use civ_types::Clock;
use r2d2_sqlite::SqliteConnectionManager;

pub use advance::{Advanced, NotAdvanced, advance};
pub use conn::{ReadConn, WriteTx};
pub use error::{OpenError, StoreError};
pub use hint::Hint;

/// Readers at once: enough for the pages of a few operators beside the long polls, which hold no
/// connection while they wait.
const READERS: u32 = 8;

/// The rules of this process, from YAML.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Timers and limits.
    pub policy: Policy,
    /// `aggregation.missing_counts_as_fail`.
    pub missing_counts: bool,
}

/// What is called after each commit with the hints of what it changed. It must not block.
pub type OnCommit = Box<dyn Fn(Vec<Hint>) + Send>;

/// The database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    writer: writer::Writer,
    readers: Readers,
    /// Held as long as any clone lives; the system gives it back however the process ends.
    _lock: Option<Arc<lock::Lock>>,
}

/// Where is read.
#[derive(Debug, Clone)]
enum Readers {
    /// On connections of their own, off the async workers.
    Pool(r2d2::Pool<SqliteConnectionManager>),
    /// Where is written, too.
    #[cfg(feature = "inline")]
    Here(Arc<inline::Here>),
}

impl Store {
    /// Opens or creates the database, applies what is missing of the migrations and starts the
    /// writing thread.
    ///
    /// # Errors
    /// [`OpenError`]: the file cannot be opened or is not ours, or a newer version wrote it.
    pub fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        rules: Rules,
        on_commit: OnCommit,
    ) -> Result<Self, OpenError> {
        let lock = Arc::new(lock::Lock::take(path)?);
        let mut write = open_checked(path, &lock)?;
        migrate::migrate(&mut write)?;
        opened(path, &mut write)?;
        let manager = conn::reader_manager(path);
        let readers = r2d2::Pool::builder().max_size(READERS).build(manager);
        let readers = readers.map_err(|source| OpenError::Readers {
            source: source.into(),
        })?;
        let pen = lock::Lock::pen(path).map_err(|source| OpenError::Open {
            path: path.to_owned(),
            source: source.into(),
        })?;
        let writer = writer::Writer::start(write, pen, clock, rules, on_commit)?;
        Ok(Self {
            writer,
            readers: Readers::Pool(readers),
            _lock: Some(lock),
        })
    }

    #[cfg(feature = "inline")]
    const fn inline(writer: writer::Writer, here: Arc<inline::Here>) -> Self {
        Self {
            writer,
            readers: Readers::Here(here),
            _lock: None,
        }
    }

    /// Carries out `job` in a transaction; the answer comes after the commit.
    ///
    /// An error of `job` undoes what it did and nothing else.
    ///
    /// # Errors
    /// What `job` returns, or [`StoreError`] when the database cannot commit.
    pub async fn write<T, E>(
        &self,
        job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.run(writer::Company::Any, job).await
    }

    /// The same for a job that changes many thousands of rows: it is committed by itself.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub async fn write_alone<T, E>(
        &self,
        job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.run(writer::Company::Alone, job).await
    }

    /// Carries out `job` on a read-only connection, off the async workers.
    ///
    /// # Errors
    /// What `job` returns, or [`StoreError::Unavailable`] when no connection can be had.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&ReadConn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let readers = match &self.readers {
            Readers::Pool(readers) => readers.clone(),
            #[cfg(feature = "inline")]
            Readers::Here(here) => {
                here.way_there().await;
                let answer = here.read(|connection| snapshot(connection, job));
                here.way_back().await;
                return answer;
            }
        };
        let done = tokio::task::spawn_blocking(move || {
            let connection = readers
                .get()
                .map_err(|source| StoreError::no_reader(source.into()))?;
            snapshot(&connection, job)
        });
        match done.await {
            Ok(answer) => answer,
            Err(stopped) => Err(StoreError::stopped(stopped.into()).into()),
        }
    }

    /// Folds the write-ahead log into the database file, as far as no reader is in the way.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.writer.checkpoint().await
    }

    /// Ends when the writing thread has ended, which it does only by a panic or when every clone
    /// of the store is gone.
    pub async fn closed(&self) {
        self.writer.closed().await;
    }
}

/// Opens the one connection that writes, and looks at what is there before anything is changed.
fn open_checked(path: &Path, lock: &lock::Lock) -> Result<rusqlite::Connection, OpenError> {
    let is_new = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
    if let Some(noted) = lock.noted().filter(|_| is_new) {
        return Err(OpenError::Gone {
            path: path.to_owned(),
            noted,
        });
    }
    if !is_new {
        // A connection that cannot write leaves file and log as they are when it closes.
        let look = conn::open_to_look(path).map_err(|source| OpenError::of(path, source))?;
        integrity::at_start(path, &look, lock)?;
    }
    conn::open_writer(path)
}

/// One snapshot for all that the job reads; it is only ever rolled back.
fn snapshot<T, E>(
    connection: &rusqlite::Connection,
    job: impl FnOnce(&ReadConn<'_>) -> Result<T, E>,
) -> Result<T, E>
where
    E: From<StoreError>,
{
    let snapshot = connection
        .unchecked_transaction()
        .map_err(StoreError::from)?;
    job(&ReadConn::new(&snapshot))
}

/// What is to be done before the first job.
fn opened(path: &Path, connection: &mut rusqlite::Connection) -> Result<(), OpenError> {
    catch_up(connection).map_err(|source| OpenError::of(path, source))
}

/// Works in what a migration, or another program, has left to the first commit.
fn catch_up(connection: &mut rusqlite::Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    blocks::settle(&tx)?;
    tx.commit()
}
