//! A real SQLite file in a temporary folder, which can be opened again as after a restart.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use civ_store::{Hint, ReadConn, Rules, Store, StoreError, WriteTx, runtime};
use civ_types::Clock;
use tempfile::TempDir;

use crate::{FakeClock, START, rules};

/// A database of its own, with a clock of its own, that goes with the test.
#[derive(Debug)]
pub struct TempStore {
    /// `None` between an end and the next start.
    store: Option<Store>,
    /// The time that the database sees.
    pub clock: Arc<FakeClock>,
    rules: Rules,
    hints: Arc<Mutex<Vec<Hint>>>,
    folder: TempDir,
}

impl TempStore {
    /// An empty database, under [`rules`], at [`START`].
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        Self::with(rules())
    }

    /// The same under other rules.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn with(rules: Rules) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(FakeClock::at(START));
        let hints = Arc::default();
        let store = Some(open(&folder, &clock, rules, &hints));
        Self {
            store,
            clock,
            rules,
            hints,
            folder,
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("test.db")
    }

    /// The database itself, for what [`Self::write`] and [`Self::read`] are too narrow for.
    ///
    /// # Panics
    /// Between an end and the next start.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("a database that is open")
    }

    /// Hints of all commits since the last call.
    #[must_use]
    pub fn take_hints(&self) -> Vec<Hint> {
        std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the process, so to speak.
    pub fn end(&mut self) {
        self.store = None;
    }

    /// Ends the process, so to speak, stays down for a while, starts again and resumes.
    ///
    /// # Panics
    /// If the file cannot be opened again.
    pub async fn restart(&mut self, down: Duration) {
        self.clock.advance(down);
        // Only then is the file free for the next process.
        self.end();
        self.store = Some(open(&self.folder, &self.clock, self.rules, &self.hints));
        let moved = self.write(|tx| runtime::resume(tx)).await;
        moved.expect("a database that resumes");
    }

    /// See [`Store::write`].
    ///
    /// # Errors
    /// As `job` returns them.
    pub async fn write<T, E>(
        &self,
        job: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.store().write(job).await
    }

    /// See [`Store::read`].
    ///
    /// # Errors
    /// As `job` returns them.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&ReadConn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.store().read(job).await
    }
}

impl Default for TempStore {
    fn default() -> Self {
        Self::new()
    }
}

fn open(
    folder: &TempDir,
    clock: &Arc<FakeClock>,
    rules: Rules,
    hints: &Arc<Mutex<Vec<Hint>>>,
) -> Store {
    let told = Arc::clone(hints);
    let on_commit = Box::new(move |new: Vec<Hint>| {
        let mut hints = told.lock().unwrap_or_else(PoisonError::into_inner);
        hints.extend(new);
    });
    let clock: Arc<dyn Clock> = Arc::<FakeClock>::clone(clock);
    let path = folder.path().join("test.db");
    Store::open(&path, clock, rules, on_commit).expect("a database")
}
