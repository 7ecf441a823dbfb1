//! The auto-cycle: its parameters, on and off.

use civ_orch::cycle::{Cycle, Event, INTERVAL_SECS_MIN};
use civ_store::cycle;
use serde_json::{Value, json};

use super::audit::{Caller, Change, record};
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

/// The parameters as an event shows them.
fn shown(cycle: &Cycle) -> Value {
    json!({
        "interval_seconds": cycle.interval_secs,
        "max_run_seconds": cycle.max_run_secs,
    })
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
        caller: &Caller,
        interval: Option<i64>,
        max_run: Option<i64>,
    ) -> Result<Cycle, AppError> {
        let interval = seconds("interval_seconds", interval, INTERVAL_SECS_MIN)?;
        let max_run = seconds("max_run_seconds", max_run, 0)?;
        let caller = caller.clone();
        self.write(move |tx| {
            let before = cycle::load(tx)?;
            let after = cycle::configure(tx, interval, max_run)?;
            let change = Change {
                event_type: "auto_cycle_configured",
                what: "auto-cycle".to_owned(),
                before: shown(&before),
                after: shown(&after),
            };
            record(tx, &caller, &change)?;
            Ok(after)
        })
        .await
        .map_err(AppError::Store)
    }

    /// Turns it on; the first round begins at its next step. One that is on goes on.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn auto_cycle_start(&self, caller: &Caller) -> Result<Cycle, AppError> {
        self.auto_cycle_switch(caller, Event::Start, "admin_auto_cycle_started")
            .await
    }

    /// Turns it off. A scan that has not come to the queue yet is broken off, checks go on.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn auto_cycle_stop(&self, caller: &Caller) -> Result<Cycle, AppError> {
        let stopped = self.auto_cycle_switch(caller, Event::Stop, "admin_auto_cycle_stopped");
        let cycle = stopped.await?;
        self.scans().cancel_cycle();
        Ok(cycle)
    }

    async fn auto_cycle_switch(
        &self,
        caller: &Caller,
        event: Event,
        event_type: &'static str,
    ) -> Result<Cycle, AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            let before = cycle::load(tx)?;
            // Neither is ever refused.
            let after = cycle::step(tx, &event)?.unwrap_or_else(|| before.clone());
            let change = Change {
                event_type,
                what: "auto-cycle".to_owned(),
                before: json!({"enabled": before.enabled}),
                after: json!({"enabled": after.enabled}),
            };
            record(tx, &caller, &change)?;
            Ok(after)
        })
        .await
        .map_err(AppError::Store)
    }
}
