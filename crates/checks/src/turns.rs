//! Few at a time for one target, whatever the slots of this process. Knows no sockets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The targets that are being checked, each with its turns.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
    targets: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Turns {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            at_once,
            targets: Mutex::new(HashMap::new()),
        }
    }

    /// Waits for a turn at `target`, which is over when the permit is dropped.
    pub(crate) async fn take(&self, target: &str) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
            // Who holds or waits for a turn holds the semaphore; the others are forgotten.
            targets.retain(|_, turns| Arc::strong_count(turns) > 1);
            let new = || Arc::new(Semaphore::new(self.at_once));
            Arc::clone(targets.entry(target.to_owned()).or_insert_with(new))
        };
        turns.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::Turns;

    #[tokio::test]
    async fn one_target_has_so_many_turns_and_others_have_theirs() {
        let turns = Turns::new(2);
        let (first, _second) = (turns.take("a").await, turns.take("a").await);
        assert!(turns.take("a").now_or_never().is_none());
        assert!(turns.take("b").now_or_never().is_some());
        drop(first);
        assert!(turns.take("a").now_or_never().is_some());
    }

    #[tokio::test]
    async fn targets_without_checks_are_forgotten() {
        let turns = Turns::new(1);
        for target in ["a", "b", "c"] {
            drop(turns.take(target).await);
        }
        assert!(turns.targets.lock().unwrap().len() <= 1);
    }
}
