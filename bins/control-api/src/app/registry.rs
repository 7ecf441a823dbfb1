//! Every address ever enqueued, and what is kept of its history.

use civ_orch::attempt::{Outcome, StateName};
use civ_store::{StoreError, ips, registry, results};
use civ_types::{Address, Utc};

use super::ips::Check;
use super::{App, AppError};

/// An address that was ever enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The address.
    pub address: Address,
    /// When it was first enqueued.
    pub first_seen_at: Utc,
    /// When it was last enqueued.
    pub last_seen_at: Utc,
    /// How often it was enqueued.
    pub total_cycles: i64,
    /// The latest result there is; empty before the first.
    pub last_result: String,
    /// When that was.
    pub last_checked_at: Option<Utc>,
    /// Its state in the queue, if it is there.
    pub state: Option<StateName>,
}

impl From<registry::RegistryRow> for Known {
    fn from(row: registry::RegistryRow) -> Self {
        Self {
            address: row.address,
            first_seen_at: row.first_seen_at,
            last_seen_at: row.last_seen_at,
            total_cycles: row.total_cycles,
            last_result: row.last_result,
            last_checked_at: row.last_checked_at,
            state: row.state,
        }
    }
}

/// Which addresses are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// With this in the text of the address.
    pub q: Option<String>,
    /// With this latest result.
    pub last_result: Option<Outcome>,
    /// Rows at most and rows passed over; `None`: all.
    pub window: Option<(u32, u64)>,
}

/// A list, and how many there are in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The rows.
    pub items: Vec<Known>,
    /// After filtering, on all pages.
    pub total: u64,
}

/// One address with all results that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The address.
    pub known: Known,
    /// Newest cycle first.
    pub checks: Vec<Check>,
}

impl App {
    /// The addresses that a query means, in order of their text.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn registry_list(&self, query: Query) -> Result<Listed, AppError> {
        let listed = self.read(move |conn| -> Result<_, StoreError> {
            let filter = registry::Filter {
                q: query.q,
                last_result: query.last_result,
            };
            let window = query
                .window
                .map(|(limit, offset)| ips::Window { limit, offset });
            let (rows, total) = match window {
                Some(window) => registry::page(conn, &filter, window)?,
                None => {
                    let rows = registry::list(conn, &filter, None)?;
                    let total = rows.len() as u64;
                    (rows, total)
                }
            };
            Ok(Listed {
                items: rows.into_iter().map(Known::from).collect(),
                total,
            })
        });
        listed.await.map_err(AppError::Store)
    }

    /// One address with all results that are kept.
    ///
    /// # Errors
    /// [`AppError::NotFound`] if it was never enqueued.
    pub async fn registry_history(&self, address: Address) -> Result<History, AppError> {
        self.read(move |conn| {
            let row = registry::by_address(conn, address)?;
            let unknown = || AppError::NotFound(format!("{address} was never enqueued"));
            let known = row.ok_or_else(unknown)?.into();
            let checks = results::of_address(conn, address)?;
            Ok(History {
                known,
                checks: checks.into_iter().map(Check::from).collect(),
            })
        })
        .await
    }
}
