//! The auto-cycle: its parameters, on and off.

use civ_orch::cycle::{Cycle, Event, INTERVAL_SECS_MIN};
use civ_store::cycle;

use super::{App, AppError};

/// A number of seconds from `least` on.
fn seconds(field: &str, value: Option<i64>, least: u32) -> Result<Option<u32>, AppError> {
    let Some(value) = value else { return Ok(None) };
    let seconds = u32::try_from(value).ok().filter(|secs| least <= *secs);
    let wrong = || {
        let most = u32::MAX;
        AppError::BadInput(format!(
            "{field}: {value} is not allowed: a whole number of seconds from {least} to {most}"
        ))
    };
    seconds.map(Some).ok_or_else(wrong)
}

impl App {
    /// The auto-cycle as it stands.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn auto_cycle(&self) -> Result<Cycle, AppError> {
        self.read(cycle::load).await.map_err(AppError::Store)
    }

    /// Changes what is given: the pause between two rounds (from the next pause on) and the limit
    /// of the wait for the checks (at once), in seconds.
    ///
    /// # Errors
    /// [`AppError::BadInput`] if either is out of range; then nothing is applied.
    pub async fn auto_cycle_change(
        &self,
        interval: Option<i64>,
        max_run: Option<i64>,
    ) -> Result<Cycle, AppError> {
        let interval = seconds("interval_seconds", interval, INTERVAL_SECS_MIN)?;
        let max_run = seconds("max_run_seconds", max_run, 0)?;
        self.write(move |tx| cycle::configure(tx, interval, max_run))
            .await
            .map_err(AppError::Store)
    }

    /// Turns it on; the first round begins at its next step. One that is on goes on.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn auto_cycle_start(&self) -> Result<Cycle, AppError> {
        self.auto_cycle_step(Event::Start).await
    }

    /// Turns it off. A scan that has not come to the queue yet is broken off, checks go on.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn auto_cycle_stop(&self) -> Result<Cycle, AppError> {
        let cycle = self.auto_cycle_step(Event::Stop).await?;
        self.scans().cancel_cycle();
        Ok(cycle)
    }

    async fn auto_cycle_step(&self, event: Event) -> Result<Cycle, AppError> {
        let stepped = self.write(move |tx| cycle::step(tx, &event)).await;
        match stepped.map_err(AppError::Store)? {
            Some(cycle) => Ok(cycle),
            // Neither is ever refused.
            None => self.auto_cycle().await,
        }
    }
}
