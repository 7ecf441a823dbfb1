//! The history as a stream that can be followed: entries in the order of their ids, without gaps.

use civ_store::events::{self, Filter, Severity};
use civ_types::Address;

use super::ips::Event;
use super::{App, AppError};

/// Which entries are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// With ids above this; `None`: the latest ones.
    pub after: Option<i64>,
    /// Entries at most.
    pub limit: u32,
    /// Of this type.
    pub event_type: Option<String>,
    /// Of this severity, one of [`severities`].
    pub severity: Option<String>,
    /// Of this address.
    pub address: Option<Address>,
}

/// The severities there are, the least first.
#[must_use]
pub fn severities() -> [&'static str; 3] {
    Severity::ALL.map(Severity::as_str)
}

impl App {
    /// The entries that a query means, oldest first.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn events(&self, query: Query) -> Result<Vec<Event>, AppError> {
        let severity = query.severity.as_deref();
        let filter = Filter {
            event_type: query.event_type.clone(),
            severity: Severity::ALL
                .into_iter()
                .find(|one| Some(one.as_str()) == severity),
            address: query.address,
        };
        let rows = self
            .read(move |conn| match query.after {
                Some(after) => events::after(conn, &filter, after, query.limit),
                None => events::tail(conn, &filter, query.limit),
            })
            .await
            .map_err(AppError::Store)?;
        Ok(rows.into_iter().map(Event::from).collect())
    }

    /// The id of the latest entry; zero if there is none.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn events_last_id(&self) -> Result<i64, AppError> {
        self.read(events::last_id).await.map_err(AppError::Store)
    }
}
