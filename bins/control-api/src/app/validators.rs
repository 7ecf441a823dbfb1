//! Validators and sites, and what they are doing.

use civ_orch::attempt::StateName;
use civ_orch::presence::{Presence, presence};
use civ_store::{sites, validators};
use civ_types::{IpId, PortId, SiteId, Utc, ValidatorId};

use super::{App, AppError};

/// A validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// Its name.
    pub id: ValidatorId,
    /// Its port.
    pub port: PortId,
    /// As the agent told.
    pub hostname: String,
    /// As the agent told.
    pub agent_version: String,
    /// What it is, seen from its signs of life and what it owns.
    pub state: Presence,
    /// The address it owns.
    pub owns: Option<(IpId, StateName)>,
    /// Its last sign of life.
    pub last_seen_at: Option<Utc>,
    /// Why it claims nothing at present; empty when nothing is wrong.
    pub paused_because: String,
    /// When it was added.
    pub created_at: Utc,
    /// When it last changed.
    pub updated_at: Utc,
}

/// A site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its slot, from 1.
    pub slot: i64,
    /// Its name.
    pub id: SiteId,
    /// As the prober told.
    pub hostname: String,
    /// `unregistered`, `idle` or `unreachable`.
    pub state: Presence,
    /// Its last sign of life.
    pub last_seen_at: Option<Utc>,
}

/// Why a validator claims nothing although its agent is there; empty if it does.
fn paused_because(row: &validators::ValidatorRow, now: Utc) -> String {
    if row.paused_until.is_some_and(|until| now < until) {
        return row.paused_why.clone();
    }
    if row.silenced_at.is_some() {
        return "its agent let an address expire without a single report: it claims again after \
                its next report or registration, or after five minutes"
            .to_owned();
    }
    if row.releasing && row.owns.is_none() {
        return "what was on its port is still to be released".to_owned();
    }
    String::new()
}

impl App {
    /// All validators, in order of name.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn validators(&self) -> Result<Vec<Validator>, AppError> {
        let rows = self.read(validators::list).await.map_err(AppError::Store)?;
        let (now, timeout) = (self.now(), self.timers().heartbeat_timeout_seconds);
        let with_state = |row: validators::ValidatorRow| {
            let seen = self
                .presence()
                .last_of_validator(&row.id)
                .max(row.last_seen_at);
            let holds = row.owns.map(|(_, state)| state);
            Validator {
                state: presence(row.registered, seen, holds, now, timeout),
                last_seen_at: seen,
                paused_because: paused_because(&row, now),
                id: row.id,
                port: row.port,
                hostname: row.hostname,
                agent_version: row.agent_version,
                owns: row.owns,
                created_at: row.created_at,
                updated_at: row.updated_at,
            }
        };
        Ok(rows.into_iter().map(with_state).collect())
    }

    /// All sites, in order of slot.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn sites(&self) -> Result<Vec<Site>, AppError> {
        let rows = self.read(sites::list).await.map_err(AppError::Store)?;
        let (now, timeout) = (self.now(), self.timers().heartbeat_timeout_seconds);
        let with_state = |row: sites::SiteRow| {
            let seen = self.presence().last_of_site(&row.id).max(row.last_seen_at);
            Site {
                state: presence(row.registered, seen, None, now, timeout),
                last_seen_at: seen,
                slot: row.slot,
                id: row.id,
                hostname: row.hostname,
            }
        };
        Ok(rows.into_iter().map(with_state).collect())
    }
}
