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

/// What every site is to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundChange {
    /// TCP ports that are to answer.
    pub ports: Vec<i64>,
    /// TCP ports on which nothing is to answer; `None`: as before.
    pub closed_ports: Option<Vec<i64>>,
    /// Whether to send echo requests.
    pub icmp: bool,
}

/// A list of ports, each once.
fn ports(field: &str, list: &[i64]) -> Result<Vec<u16>, AppError> {
    let allowed = "a whole number from 1 to 65535";
    let port = |number: &i64| {
        let port = u16::try_from(*number).ok().filter(|port| *port > 0);
        port.ok_or_else(|| AppError::bad(field, number, allowed))
    };
    let ports: Vec<u16> = list.iter().map(port).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    match ports.iter().find(|port| !seen.insert(**port)) {
        Some(twice) => Err(AppError::bad(field, twice, "each port once")),
        None => Ok(ports),
    }
}

/// What is to be checked, if no port is to be open and closed at once.
fn inbound(
    ports: Vec<u16>,
    closed_ports: Vec<u16>,
    icmp: bool,
) -> Result<settings::Inbound, AppError> {
    if let Some(both) = closed_ports.iter().find(|port| ports.contains(port)) {
        let allowed = "a port that is not in ports: it cannot be expected open and closed";
        return Err(AppError::bad("closed_ports", both, allowed));
    }
    Ok(settings::Inbound {
        ports,
        closed_ports,
        icmp,
    })
}

fn inbound_told(from: &settings::Inbound) -> serde_json::Value {
    let mut told = json!({"ports": from.ports, "icmp": from.icmp});
    if let Some(told) = told.as_object_mut()
        && !from.closed_ports.is_empty()
    {
        told.insert("closed_ports".to_owned(), json!(from.closed_ports));
    }
    told
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
        let settings::Inbound {
            ports,
            closed_ports,
            icmp,
        } = self
            .read(settings::inbound)
            .await
            .map_err(AppError::Store)?;
        Ok(Inbound {
            ports,
            closed_ports,
            icmp,
        })
    }

    /// Has every site check something else, from now on and in what is being checked.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a port that is none, that is named twice, or that would be
    /// expected open and closed.
    pub async fn config_inbound_set(
        &self,
        caller: &Caller,
        change: InboundChange,
    ) -> Result<(), AppError> {
        let open = ports("ports", &change.ports)?;
        let closed = change.closed_ports.as_deref();
        let closed = closed.map(|list| ports("closed_ports", list)).transpose()?;
        let caller = caller.clone();
        self.write(move |tx| {
            let before = settings::inbound(tx)?;
            let closed = closed.unwrap_or_else(|| before.closed_ports.clone());
            let after = inbound(open, closed, change.icmp)?;
            settings::set_inbound(tx, &after)?;
            let change = Change {
                event_type: "config_inbound_checks_set",
                what: "config inbound-checks".to_owned(),
                before: inbound_told(&before),
                after: inbound_told(&after),
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }
}
