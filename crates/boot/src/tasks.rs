//! Every task of a process: named, counted, its end watched.
//!
//! A panic in any task, and the end of an essential one before the shutdown, end the process: a
//! half-dead process is worse than a restart, which changes nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns tasks and knows which are running. Clones share one list.
#[derive(Debug, Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    state: Mutex<State>,
}

/// Protected by one lock that is never held across an await; as large as there are names.
#[derive(Debug, Default)]
struct State {
    running: BTreeMap<&'static str, usize>,
    /// The first fault, in a sentence.
    fault: Option<String>,
}

/// Counts a task out however it ends: by itself, aborted, or with its runtime.
struct Running {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(count) = state.running.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(self.name);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, text: String) {
        tracing::error!("{text}");
        self.lock().fault.get_or_insert(text);
        self.shutdown.cancel();
    }
}

impl Tasks {
    /// An empty list whose faults cancel `shutdown`.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                tracker: TaskTracker::new(),
                shutdown,
                state: Mutex::new(State::default()),
            }),
        }
    }

    /// Spawns a task that may end at any time. Its panic ends the process.
    ///
    /// The caller does not need the handle: the task is waited for at shutdown.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(name, false, future)
    }

    /// Spawns a task that must run until the shutdown: its end before that ends the process.
    pub fn spawn_essential<F>(&self, name: &'static str, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(name, true, future)
    }

    /// The token that is cancelled when the process is to end.
    #[must_use]
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shared.shutdown
    }

    /// Names of the running tasks, with how many there are of each.
    #[must_use]
    pub fn running(&self) -> Vec<(&'static str, usize)> {
        let state = self.shared.lock();
        state.running.iter().map(|(name, n)| (*name, *n)).collect()
    }

    /// What ended the process, if a task did: a sentence.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.shared.lock().fault.clone()
    }

    /// Waits until no task is running. Tasks can still be spawned.
    pub async fn ended(&self) {
        self.shared.tracker.close();
        self.shared.tracker.wait().await;
    }

    fn start<F>(&self, name: &'static str, essential: bool, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        *self.shared.lock().running.entry(name).or_default() += 1;
        let running = Running {
            shared: Arc::clone(&self.shared),
            name,
        };
        let watched = async move {
            let ended = AssertUnwindSafe(future).catch_unwind().await;
            let shared = &running.shared;
            match ended {
                Err(panic) => {
                    let why = panic_text(panic.as_ref());
                    shared.fail(format!("task {name} panicked: {why}"));
                }
                Ok(()) if essential && !shared.shutdown.is_cancelled() => {
                    shared.fail(format!("task {name} ended although it must not"));
                }
                Ok(()) => {}
            }
            drop(running);
        };
        self.shared.tracker.spawn(watched).abort_handle()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn tasks() -> Tasks {
        Tasks::new(CancellationToken::new())
    }

    #[tokio::test]
    async fn tasks_are_counted_by_name() {
        let tasks = tasks();
        let (first, second) = (
            tasks.spawn("poll", pending()),
            tasks.spawn("poll", pending()),
        );
        assert_eq!(tasks.running(), [("poll", 2)]);
        first.abort();
        second.abort();
        tasks.ended().await;
        assert_eq!(tasks.running(), []);
        assert_eq!(tasks.fault(), None);
    }

    #[tokio::test]
    async fn a_panic_ends_the_process() {
        let tasks = tasks();
        tasks.spawn("writer", async { panic!("no more {}", "ink") });
        tasks.shutdown().cancelled().await;
        assert_eq!(tasks.fault().unwrap(), "task writer panicked: no more ink");
    }

    #[tokio::test]
    async fn the_end_of_an_essential_task_ends_the_process() {
        let tasks = tasks();
        tasks.spawn("errand", async {});
        tasks.ended().await;
        assert!(!tasks.shutdown().is_cancelled());
        tasks.spawn_essential("loop", async {});
        tasks.shutdown().cancelled().await;
        assert_eq!(
            tasks.fault().unwrap(),
            "task loop ended although it must not"
        );
    }

    #[tokio::test]
    async fn an_essential_task_may_end_at_shutdown() {
        let tasks = tasks();
        let stop = tasks.shutdown().clone();
        tasks.spawn_essential("loop", async move { stop.cancelled().await });
        tasks.shutdown().cancel();
        tasks.ended().await;
        assert_eq!(tasks.fault(), None);
    }
}
