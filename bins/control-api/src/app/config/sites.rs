//! Sites in their slots. Whatever is put into a slot is a new identity.

use civ_store::sites;
use civ_types::SiteId;
use serde_json::{Value, json};

use super::super::audit::{Caller, Change, record};
use super::super::{App, AppError};

fn told(slot: i64, site: Option<&SiteId>) -> Value {
    site.map_or(
        Value::Null,
        |site| json!({"index": slot, "site_id": site.as_str()}),
    )
}

impl App {
    /// Puts a site into a slot.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a slot below 1; [`AppError::Conflict`] if the name stands in
    /// another slot.
    pub async fn config_site_set(
        &self,
        caller: &Caller,
        slot: i64,
        site: SiteId,
    ) -> Result<(), AppError> {
        if slot < 1 {
            return Err(AppError::bad("index", slot, "a whole number from 1"));
        }
        let caller = caller.clone();
        self.write(move |tx| {
            if let Some(other) = sites::slot_of(tx, &site)?.filter(|other| *other != slot) {
                let text = format!(
                    "site_id: {:?} stands in slot {other} already: a name has one slot",
                    site.as_str()
                );
                return Err(AppError::Conflict(text));
            }
            let before = sites::in_slot(tx, slot)?;
            sites::put(tx, slot, &site)?;
            let change = Change {
                event_type: "config_site_set",
                what: format!("config sites {slot}"),
                before: told(slot, before.as_ref()),
                after: told(slot, Some(&site)),
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }

    /// Empties a slot.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if it is empty.
    pub async fn config_site_delete(&self, caller: &Caller, slot: i64) -> Result<(), AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            let before = sites::in_slot(tx, slot)?;
            if before.is_none() {
                return Err(AppError::NotFound(format!("no site stands in slot {slot}")));
            }
            sites::delete(tx, slot)?;
            let change = Change {
                event_type: "config_site_deleted",
                what: format!("config sites {slot}"),
                before: told(slot, before.as_ref()),
                after: Value::Null,
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }
}
