//! Exports: whole tables, page by page. Each page is a short read of its own.

use civ_store::export;
use civ_types::{Address, Utc};

use super::{App, AppError};

/// Rows of one page: at 6 kB for the largest possible row, 3 MB at once.
const PAGE_ROWS: u32 = 500;

/// An address that was ever enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryLine {
    /// The address.
    pub address: String,
    /// When it was first enqueued.
    pub first_seen_at: Utc,
    /// When it was last enqueued.
    pub last_seen_at: Utc,
    /// How often it was enqueued.
    pub total_cycles: i64,
    /// The latest result there is, `""` before.
    pub last_result: String,
    /// When that was.
    pub last_checked_at: Option<Utc>,
    /// Its state in the queue, if it is in it.
    pub state: Option<String>,
}

/// A stored result, of whatever cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// Its number.
    pub id: i64,
    /// The address in the queue at that time.
    pub ip: i64,
    /// The address.
    pub address: String,
    /// Which enqueueing.
    pub cycle: i64,
    /// Which attempt.
    pub attempt: i64,
    /// `egress` or `inbound`.
    pub source: String,
    /// The site; empty for egress.
    pub site: String,
    /// The check type.
    pub name: String,
    /// The target; empty for inbound.
    pub target: String,
    /// Passed or failed.
    pub success: bool,
    /// Milliseconds of the step that the check is about.
    pub latency_ms: i64,
    /// Milliseconds of the whole check, if told.
    pub duration_ms: Option<i64>,
    /// What was seen.
    pub detail: String,
    /// When, by the reporter's clock.
    pub checked_at: Utc,
    /// When it came in, by our clock.
    pub received_at: Utc,
}

impl From<export::RegistryLine> for RegistryLine {
    fn from(row: export::RegistryLine) -> Self {
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

impl From<export::CheckLine> for CheckLine {
    fn from(row: export::CheckLine) -> Self {
        Self {
            id: row.id,
            ip: row.ip,
            address: row.address,
            cycle: row.cycle,
            attempt: row.attempt,
            source: row.source,
            site: row.site,
            name: row.name,
            target: row.target,
            success: row.success,
            latency_ms: row.latency_ms,
            duration_ms: row.duration_ms,
            detail: row.detail,
            checked_at: row.checked_at,
            received_at: row.received_at,
        }
    }
}

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
            rows: rows.into_iter().map(RegistryLine::from).collect(),
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
                .map(CheckLine::from)
                .collect(),
        })
    }
}
