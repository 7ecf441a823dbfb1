//! The same database without a thread of its own: jobs are carried out by whoever asks, in the
//! order in which they arrive, by the same code. For runs that must be repeatable.
//!
//! How long a job waits before and after, and which commits fail, is decided by a [`Weather`]. It
//! knows nothing of what the jobs are about.

use std::fmt::{Debug, Formatter, Result as Shown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use civ_types::Clock;
use rusqlite::Connection;
use tokio::sync::mpsc;

pub use crate::advance::trace;
use crate::error::OpenError;
use crate::hint::Hint;
use crate::writer::{Desk, Errand, Writer};
use crate::{OnCommit, Rules, Store, conn, migrate, opened};

/// What happens to jobs on their way.
pub trait Weather: Debug + Send + Sync {
    /// How long a job is on its way to the database. Jobs that arrive meanwhile share its commit.
    fn before(&self) -> Duration;
    /// How long the answer is on its way back; what is durable stays so.
    fn after(&self) -> Duration;
    /// Whether the next commit fails, as on a full disk.
    fn breaks(&self) -> bool;
    /// A commit of so many jobs was tried. `told`: it went through, and somebody is to look again.
    fn committed(&self, jobs: usize, told: bool);
}

struct Inner {
    desk: Desk,
    queue: mpsc::Receiver<Errand>,
    held: Option<Errand>,
}

/// Where jobs are carried out.
pub(crate) struct Here {
    inner: Mutex<Inner>,
    weather: Arc<dyn Weather>,
    told: Arc<AtomicBool>,
}

impl Debug for Here {
    fn fmt(&self, f: &mut Formatter<'_>) -> Shown {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

impl Here {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait(time: Duration) {
        if time > Duration::ZERO {
            tokio::time::sleep(time).await;
        }
    }

    /// The way to the database.
    pub(crate) async fn way_there(&self) {
        Self::wait(self.weather.before()).await;
    }

    /// The way back.
    pub(crate) async fn way_back(&self) {
        Self::wait(self.weather.after()).await;
    }

    /// Carries out what waits.
    pub(crate) fn work(&self) {
        loop {
            let jobs = {
                let mut inner = self.inner();
                let Inner { desk, queue, held } = &mut *inner;
                let Some(first) = held.take().or_else(|| queue.try_recv().ok()) else {
                    return;
                };
                desk.turn(first, queue, held)
            };
            let told = self.told.swap(false, Ordering::Relaxed);
            self.weather.committed(jobs, told);
        }
    }

    pub(crate) fn read<T>(&self, job: impl FnOnce(&Connection) -> T) -> T {
        job(self.inner().desk.connection())
    }
}

impl Store {
    /// Opens or creates a database that is worked on inline; `path` may be a URI of SQLite's.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_inline(
        path: &Path,
        clock: Arc<dyn Clock>,
        rules: Rules,
        on_commit: OnCommit,
        weather: Arc<dyn Weather>,
    ) -> Result<Self, OpenError> {
        let mut connection = conn::open_writer(path)?;
        migrate::migrate(&mut connection)?;
        opened(path, &mut connection)?;
        let breaks = Arc::clone(&weather);
        connection
            .commit_hook(Some(move || breaks.breaks()))
            .map_err(|source| OpenError::Open {
                path: path.to_owned(),
                source: source.into(),
            })?;
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let on_commit = Box::new(move |hints: Vec<Hint>| {
            tell.fetch_or(!hints.is_empty(), Ordering::Relaxed);
            on_commit(hints);
        });
        let (writer, queue) = Writer::queue();
        let desk = Desk::new(connection, None, clock, rules, on_commit);
        let held = None;
        let here = Arc::new(Here {
            inner: Mutex::new(Inner { desk, queue, held }),
            weather,
            told,
        });
        Ok(Self::inline(writer.inline(Arc::clone(&here)), here))
    }
}
