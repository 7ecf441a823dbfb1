//! What the orchestrator is told through the API, and which inbound checks there are.

use std::collections::BTreeSet;

use civ_store::settings;
use serde_json::json;

use super::super::audit::{Caller, Change, record};
use super::super::{App, AppError};
use super::Inbound;
use crate::config::Timers;

/// What the orchestrator is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orchestrator {
    /// The pause after association, in seconds.
    pub fip_settle_seconds: u32,
    /// Cycles of an address whose checks and events are kept; 0: all.
    pub history_retention_cycles: i64,
}

/// What is to change; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrchestratorChange {
    /// The pause after association, in seconds.
    pub fip_settle_seconds: Option<i64>,
    /// Cycles of an address whose checks and events are kept; 0: all.
    pub history_retention_cycles: Option<i64>,
}

/// The pause, if a self-check could still pass within the lease.
fn settle(seconds: i64, timers: &Timers) -> Result<u32, AppError> {
    let (check, lease) = (timers.self_check_timeout_seconds, timers.lease_ttl_seconds);
    let field = "fip_settle_seconds";
    let Ok(pause) = u32::try_from(seconds) else {
        let allowed = "a whole number of seconds from 0";
        return Err(AppError::bad(field, seconds, allowed));
    };
    if u64::from(lease) <= u64::from(pause) + u64::from(check) {
        let allowed = format!(
            "together with self_check_timeout_seconds ({check}) it must stay below \
             lease_ttl_seconds ({lease})"
        );
        return Err(AppError::bad(field, seconds, allowed));
    }
    Ok(pause)
}

fn told(from: settings::Orchestrator) -> serde_json::Value {
    json!({
        "fip_settle_seconds": from.fip_settle_seconds,
        "history_retention_cycles": from.history_retention_cycles,
    })
}

fn port(number: i64) -> Result<u16, AppError> {
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| AppError::bad("ports", number, "a whole number from 1 to 65535"))
}

impl App {
    /// What the orchestrator is told.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn config_orchestrator(&self) -> Result<Orchestrator, AppError> {
        let read = self.read(settings::orchestrator).await;
        let settings::Orchestrator {
            fip_settle_seconds,
            history_retention_cycles,
        } = read.map_err(AppError::Store)?;
        Ok(Orchestrator {
            fip_settle_seconds,
            history_retention_cycles,
        })
    }

    /// Tells the orchestrator something else, whole or in part.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a negative number, and for a pause that leaves no time for the
    /// self-check; then nothing is applied.
    pub async fn config_orchestrator_set(
        &self,
        caller: &Caller,
        change: OrchestratorChange,
    ) -> Result<(), AppError> {
        let timers = *self.timers();
        let pause = change.fip_settle_seconds.map(|secs| settle(secs, &timers));
        let (pause, keep) = (pause.transpose()?, change.history_retention_cycles);
        if let Some(bad) = keep.filter(|keep| *keep < 0) {
            let allowed = "a whole number of cycles from 0, which keeps all";
            return Err(AppError::bad("history_retention_cycles", bad, allowed));
        }
        let caller = caller.clone();
        self.write(move |tx| {
            let before = settings::orchestrator(tx)?;
            let after = settings::Orchestrator {
                fip_settle_seconds: pause.unwrap_or(before.fip_settle_seconds),
                history_retention_cycles: keep.unwrap_or(before.history_retention_cycles),
            };
            settings::set_orchestrator(tx, after)?;
            let change = Change {
                event_type: "config_orchestrator_set",
                what: "config orchestrator".to_owned(),
                before: told(before),
                after: told(after),
            };
            record(tx, &caller, &change)
        })
        .await
        .map_err(AppError::Store)
    }

    /// What every site checks.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn config_inbound(&self) -> Result<Inbound, AppError> {
        let (ports, icmp) = self
            .read(settings::inbound)
            .await
            .map_err(AppError::Store)?;
        Ok(Inbound { ports, icmp })
    }

    /// Has every site check something else, from now on and in what is being checked.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a port that is none, or that is named twice.
    pub async fn config_inbound_set(
        &self,
        caller: &Caller,
        ports: &[i64],
        icmp: bool,
    ) -> Result<(), AppError> {
        let ports: Vec<u16> = ports.iter().copied().map(port).collect::<Result<_, _>>()?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = ports.iter().find(|port| !seen.insert(**port)) {
            return Err(AppError::bad("ports", twice, "each port once"));
        }
        let caller = caller.clone();
        self.write(move |tx| {
            let (ports_before, icmp_before) = settings::inbound(tx)?;
            settings::set_inbound(tx, &ports, icmp)?;
            let change = Change {
                event_type: "config_inbound_checks_set",
                what: "config inbound-checks".to_owned(),
                before: json!({"ports": ports_before, "icmp": icmp_before}),
                after: json!({"ports": ports, "icmp": icmp}),
            };
            record(tx, &caller, &change)
        })
        .await
        .map_err(AppError::Store)
    }
}
