//! How the whole stands: counts, and whether the process is fit for work.

use std::collections::BTreeMap;
use std::time::Duration;

use civ_store::{ips, runtime};

use super::{App, AppError};

/// Rounds of the loop that may be missed before the process is said to be unfit; a loop that is
/// only waiting goes round at least every `poll_interval_seconds`.
const MISSED_MAX: u32 = 2;

/// Room for a slow disk on top.
const ROUND_SLACK: Duration = Duration::from_secs(5);

/// Counts of the whole queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// State to count; states without an address are left out.
    pub states: BTreeMap<String, u64>,
    /// Result to count; those without a result are left out.
    pub results: BTreeMap<String, u64>,
    /// Validators in the configuration.
    pub validators: u64,
}

impl App {
    /// Counts by state and result.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn counts(&self) -> Result<Counts, AppError> {
        let ips::Counts {
            states,
            mut results,
            validators,
        } = self.read(ips::counts).await.map_err(AppError::Store)?;
        results.remove("");
        Ok(Counts {
            states,
            results,
            validators,
        })
    }

    /// Whether the database answers and the loop goes round.
    ///
    /// # Errors
    /// [`AppError::Unavailable`] with the reason.
    pub async fn ready(&self) -> Result<(), AppError> {
        self.read(runtime::size_bytes)
            .await
            .map_err(|_error| AppError::Unavailable("the database does not answer".to_owned()))?;
        let poll = Duration::from_secs(self.timers().poll_interval_seconds.into());
        let silent = self.now().since(self.last_round());
        if poll * MISSED_MAX + ROUND_SLACK < silent {
            let text = format!(
                "the orchestrator's loop has not gone round for {} seconds",
                silent.as_secs()
            );
            return Err(AppError::Unavailable(text));
        }
        Ok(())
    }
}
