//! How the whole stands: counts, and whether the process is fit for work.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use civ_orch::attempt::{Outcome, StateName};
use civ_store::{ips, runtime};

use super::{App, AppError};
use crate::metrics::Standing;

/// Rounds of the loop that may be missed before the process is said to be unfit; a loop that is
/// only waiting goes round at least every `poll_interval_seconds`.
const MISSED_MAX: u32 = 2;

/// Room for a slow disk on top.
const ROUND_SLACK: Duration = Duration::from_secs(5);

/// How long a reader may take to say how large the database is: far more than it needs.
const READ_MAX: Duration = Duration::from_secs(3);

/// How old the last write may be. Signs of life are written once a second; the largest jobs of the
/// writing thread take several.
const WRITE_AGE_MAX: Duration = Duration::from_secs(15);

/// How the last write of the process's own sign of life went, by a clock that nobody sets.
#[derive(Debug)]
pub struct Signs(Mutex<Sign>);

#[derive(Debug, Clone, Copy)]
struct Sign {
    last: Instant,
    refused: bool,
}

impl Default for Signs {
    fn default() -> Self {
        Self(Mutex::new(Sign {
            last: Instant::now(),
            refused: false,
        }))
    }
}

impl Signs {
    /// A write has ended, and whether well.
    pub fn written(&self, well: bool) {
        let mut sign = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sign.refused = !well;
        if well {
            sign.last = Instant::now();
        }
    }

    /// Whether the last write was refused, and how long ago one went well.
    fn standing(&self) -> (bool, Duration) {
        let sign = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (sign.refused, sign.last.elapsed())
    }
}

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

    /// What is counted and how the whole stands, for Prometheus.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn metrics_text(&self) -> Result<String, AppError> {
        let counts = self.counts().await?;
        let size = self
            .read(runtime::size_bytes)
            .await
            .map_err(AppError::Store)?;
        let mut now = Standing::default();
        let states = ("civ_addresses", "Addresses of the queue");
        let number = |map: &BTreeMap<String, u64>, word: &str| {
            (word.to_owned(), map.get(word).copied().unwrap_or(0))
        };
        // Each word, also one without an address: a line that comes and goes cannot be watched.
        let rows = StateName::ALL.map(|state| number(&counts.states, state.as_str()));
        now.each(states, "state", rows);
        let results = ("civ_address_results", "Addresses with a result");
        let rows = Outcome::ALL.map(|result| number(&counts.results, result.as_str()));
        now.each(results, "result", rows);
        now.one(
            "civ_validators",
            "Validators of the configuration",
            counts.validators,
        );
        let fresh = self.fresh_validators().len();
        let help = "Validators with a sign of life within the heartbeat's timeout";
        now.one(
            "civ_validators_fresh",
            help,
            u64::try_from(fresh).unwrap_or(0),
        );
        now.one("civ_database_size_bytes", "Size of the database file", size);
        let silent = self.now().since(self.last_round()).as_secs();
        now.one(
            "civ_loop_age_seconds",
            "Since the loop last went round",
            silent,
        );
        let (_refused, age) = self.signs().standing();
        now.one(
            "civ_write_age_seconds",
            "Since a write last went well",
            age.as_secs(),
        );
        let failed = |_error: fmt::Error| AppError::Unavailable("no room for the text".to_owned());
        self.metrics().text(&now).map_err(failed)
    }

    /// Whether the database answers and takes writes, and the loop goes round.
    ///
    /// # Errors
    /// [`AppError::Unavailable`] with the reason.
    pub async fn ready(&self) -> Result<(), AppError> {
        let read = tokio::time::timeout(READ_MAX, self.read(runtime::size_bytes)).await;
        if !matches!(read, Ok(Ok(_))) {
            let text = "the database does not answer".to_owned();
            return Err(AppError::Unavailable(text));
        }
        let poll = Duration::from_secs(self.timers().poll_interval_seconds.into());
        let silent = self.now().since(self.last_round());
        if poll * MISSED_MAX + ROUND_SLACK < silent {
            let text = format!(
                "the orchestrator's loop has not gone round for {} seconds",
                silent.as_secs()
            );
            return Err(AppError::Unavailable(text));
        }
        let (refused, age) = self.signs().standing();
        if refused || WRITE_AGE_MAX < age {
            let text = format!(
                "the database has taken no write for {} seconds: the log says why",
                age.as_secs()
            );
            return Err(AppError::Unavailable(text));
        }
        Ok(())
    }
}
