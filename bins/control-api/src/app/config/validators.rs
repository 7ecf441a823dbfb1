//! Validators and their ports. A lease keeps the port that it was made with, so a change of the
//! port counts from the next claim on.

use civ_store::{leases, validators};
use civ_types::{PortId, ValidatorId};
use serde_json::{Value, json};

use super::super::audit::{Caller, Change, record};
use super::super::{App, AppError};

fn unknown(id: &ValidatorId) -> AppError {
    AppError::NotFound(format!("validator {id} is not configured"))
}

fn taken(port: &PortId, by: &ValidatorId) -> AppError {
    AppError::Conflict(format!(
        "os_port_id: {:?} is the port of validator {by}: each validator needs its own",
        port.as_str()
    ))
}

fn told(id: &ValidatorId, port: &PortId) -> Value {
    json!({"validator_id": id.as_str(), "os_port_id": port.as_str()})
}

impl App {
    /// Adds a validator. What hangs on its port from an earlier life is looked for at once.
    ///
    /// # Errors
    /// [`AppError::Conflict`]: the name exists, or the port is another validator's, also by a
    /// lease that is still open.
    pub async fn config_validator_add(
        &self,
        caller: &Caller,
        id: ValidatorId,
        port: PortId,
    ) -> Result<(), AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            if validators::port(tx, &id)?.is_some() {
                let text = format!("validator_id: {:?} exists already", id.as_str());
                return Err(AppError::Conflict(text));
            }
            if let Some(by) = validators::other_on_port(tx, &port, &id)? {
                return Err(taken(&port, &by));
            }
            validators::insert(tx, &id, &port)?;
            let change = Change {
                event_type: "config_validator_added",
                what: format!("config validators {id}"),
                before: Value::Null,
                after: told(&id, &port),
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await?;
        self.hub().reconcile.notify_one();
        Ok(())
    }

    /// Gives a validator another port.
    ///
    /// # Errors
    /// [`AppError::NotFound`]; [`AppError::Conflict`]: the port is another validator's.
    pub async fn config_validator_set(
        &self,
        caller: &Caller,
        id: ValidatorId,
        port: PortId,
    ) -> Result<(), AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            let before = validators::port(tx, &id)?.ok_or_else(|| unknown(&id))?;
            if let Some(by) = validators::other_on_port(tx, &port, &id)? {
                return Err(taken(&port, &by));
            }
            validators::set_port(tx, &id, &port)?;
            let change = Change {
                event_type: "config_validator_changed",
                what: format!("config validators {id}"),
                before: told(&id, &before),
                after: told(&id, &port),
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await?;
        self.hub().reconcile.notify_one();
        Ok(())
    }

    /// Takes a validator out of the configuration.
    ///
    /// # Errors
    /// [`AppError::NotFound`]; [`AppError::Conflict`] while it owns an address or the release of
    /// its last one is pending.
    pub async fn config_validator_delete(
        &self,
        caller: &Caller,
        id: ValidatorId,
    ) -> Result<(), AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            let before = validators::port(tx, &id)?.ok_or_else(|| unknown(&id))?;
            if let Some(address) = leases::address_of(tx, &id)? {
                let text = format!(
                    "validator {id} owns {address}, or its release is pending: cancel it, or wait \
                     until it is released"
                );
                return Err(AppError::Conflict(text));
            }
            validators::delete(tx, &id)?;
            let change = Change {
                event_type: "config_validator_deleted",
                what: format!("config validators {id}"),
                before: told(&id, &before),
                after: Value::Null,
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }
}
