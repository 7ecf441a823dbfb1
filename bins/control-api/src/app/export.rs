//! Exports: whole tables, page by page. Each page is a short read of its own.

use civ_store::export;
// Handed on as they are read: an export decides nothing about a row.
pub use civ_store::export::{CheckLine, RegistryLine};
use civ_types::{Address, Utc};

use super::{App, AppError};

/// Rows of one page: at 6 kB for the largest possible row, 3 MB at once.
const PAGE_ROWS: u32 = 500;

/// Which results are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckFilter {
    /// Of this address.
    pub address: Option<Address>,
    /// Received at this moment or later.
    pub since: Option<Utc>,
    /// Received before this moment.
    pub until: Option<Utc>,
}

impl CheckFilter {
    fn means(&self, moment: Utc) -> bool {
        self.since.is_none_or(|since| since <= moment)
            && self.until.is_none_or(|until| moment < until)
    }
}

/// Rows, and where the next page begins; `None`: this was the last one.
#[derive(Debug, Clone)]
pub struct Page<T, K> {
    /// The rows; none on a page where a filter left none.
    pub rows: Vec<T>,
    /// The key to go on from.
    pub next: Option<K>,
}

fn full(rows: usize) -> bool {
    u32::try_from(rows).is_ok_and(|rows| rows == PAGE_ROWS)
}

impl App {
    /// A page of the registry, in the order of the addresses' text; the first one is after `""`.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn export_registry(
        &self,
        after: String,
    ) -> Result<Page<RegistryLine, String>, AppError> {
        let rows = self
            .read(move |conn| export::registry(conn, &after, PAGE_ROWS))
            .await
            .map_err(AppError::Store)?;
        let last = rows.last().map(|row| row.address.clone());
        Ok(Page {
            next: last.filter(|_| full(rows.len())),
            rows,
        })
    }

    /// A page of all results, in the order of their numbers; the first one is after 0.
    ///
    /// The times are no key of the table: they filter what a page has read, so that each page is
    /// as short a read as any other.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn export_checks(
        &self,
        filter: CheckFilter,
        after: i64,
    ) -> Result<Page<CheckLine, i64>, AppError> {
        let address = filter.address;
        let rows = self
            .read(move |conn| export::checks(conn, address, after, PAGE_ROWS))
            .await
            .map_err(AppError::Store)?;
        let last = rows.last().map(|row| row.id);
        Ok(Page {
            next: last.filter(|_| full(rows.len())),
            rows: rows
                .into_iter()
                .filter(|row| filter.means(row.received_at))
                .collect(),
        })
    }
}
