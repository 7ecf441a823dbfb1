//! Who changed what: one event for each administrative write, in the transaction of the write.

use std::net::IpAddr;

use civ_store::events::{self, NewEvent};
use civ_store::{StoreError, WriteTx};
use serde_json::{Value, json};

/// Texts of a list that an event names; their number is always told.
const LISTED_MAX: usize = 50;

/// Who asks for an administrative write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The label of the token (`admin`, `admin-2`), `open` without tokens, or the part of the
    /// service that acts by itself. Never the token.
    pub who: String,
    /// The client's address, if it came over the network.
    pub from: Option<IpAddr>,
}

impl Caller {
    /// A part of the service that acts by itself.
    #[must_use]
    pub fn service(part: &str) -> Self {
        Self {
            who: part.to_owned(),
            from: None,
        }
    }
}

/// A write as it is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    /// The type of the event.
    pub(super) event_type: &'static str,
    /// The thing, by the words of the contract.
    pub(super) what: String,
    /// What it was; null if it was not there.
    pub(super) before: Value,
    /// What it is; null if it is gone.
    pub(super) after: Value,
}

/// Appends the event of a write.
pub(super) fn record(tx: &WriteTx<'_>, caller: &Caller, change: &Change) -> Result<(), StoreError> {
    let from = caller.from.map(|ip| ip.to_string());
    let payload = json!({
        "who": caller.who,
        "from": from,
        "what": change.what,
        "before": change.before,
        "after": change.after,
    });
    tracing::info!(
        who = caller.who,
        from,
        what = change.what,
        "{}",
        change.event_type
    );
    let event = NewEvent {
        payload: payload.to_string(),
        ..NewEvent::new(change.event_type)
    };
    events::append(tx, &event)
}

/// A list for an event: how many, and the first of them.
pub(super) fn listed<T: ToString>(list: &[T]) -> Value {
    let first: Vec<_> = list.iter().take(LISTED_MAX).map(T::to_string).collect();
    json!({"count": list.len(), "first": first})
}
