//! The queue: adding, cancelling, deleting, listing.

use std::collections::BTreeMap;

use civ_orch::attempt::{Outcome, Row, StateName};
use civ_store::ips::{self, IpRow};
use civ_store::{ReadConn, StoreError, events, queue, results, settings};
use civ_types::{
    AddrError, Address, AttemptNo, CheckSpec, CycleId, IpId, SiteId, Utc, ValidatorId, bounds,
    parse_list,
};
use serde_json::{Value, json};

use super::{App, AppError, Caller, audit};

/// Addresses that one call may name, after prefixes and ranges are expanded: a /16, which is
/// more than any cloud of our users has in one network.
pub const ADDRESSES_MAX: usize = 65_536;

const EMPTY: &str = "addresses: the list is empty: name at least one address";

/// An address in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// What the machine knows.
    pub attempt: Row,
    /// The agent is through.
    pub egress_complete: bool,
    /// Each configured site, and whether it is through.
    pub sites_complete: BTreeMap<SiteId, bool>,
    /// When it was added.
    pub created_at: Utc,
    /// When anything last changed.
    pub updated_at: Utc,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its number.
    pub id: i64,
    /// The address.
    pub ip: IpId,
    /// Which enqueueing.
    pub cycle: CycleId,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// Which check.
    pub spec: CheckSpec,
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
    /// When it came in.
    pub received_at: Utc,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub id: i64,
    /// The address in the queue, if any.
    pub ip: Option<IpId>,
    /// Its address.
    pub address: Option<String>,
    /// Which enqueueing.
    pub cycle: Option<CycleId>,
    /// Which validator, if any.
    pub validator: Option<ValidatorId>,
    /// Which site, if any.
    pub site: Option<SiteId>,
    /// What happened.
    pub event_type: String,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// Free text.
    pub payload: String,
    /// When.
    pub occurred_at: Utc,
}

impl From<events::EventRow> for Event {
    fn from(row: events::EventRow) -> Self {
        Self {
            id: row.id,
            ip: row.ip,
            address: row.address,
            cycle: row.cycle,
            validator: row.validator,
            site: row.site,
            event_type: row.event_type,
            severity: row.severity,
            payload: row.payload,
            occurred_at: row.occurred_at,
        }
    }
}

impl From<results::ResultRow> for Check {
    fn from(row: results::ResultRow) -> Self {
        Self {
            id: row.id,
            ip: row.ip,
            cycle: row.cycle,
            attempt: row.attempt,
            spec: row.result.spec,
            success: row.result.success,
            latency_ms: row.result.latency_ms,
            duration_ms: row.result.duration_ms,
            detail: row.result.detail,
            checked_at: row.result.checked_at,
            received_at: row.received_at,
        }
    }
}

fn join(row: IpRow, sites: &[SiteId], complete: Option<&Vec<SiteId>>) -> Ip {
    let through = |site: &SiteId| complete.is_some_and(|complete| complete.contains(site));
    Ip {
        sites_complete: sites
            .iter()
            .map(|site| (site.clone(), through(site)))
            .collect(),
        attempt: row.attempt,
        egress_complete: row.egress_complete,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

/// Which addresses are meant, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// In one of these states; empty: in any.
    pub states: Vec<StateName>,
    /// With this in the text of the address.
    pub q: Option<String>,
    /// With this result.
    pub result: Option<Outcome>,
    /// The latest verdicts first, instead of the order of the queue.
    pub latest_first: bool,
    /// Rows at most and rows passed over; `None`: all.
    pub window: Option<(u32, u64)>,
}

/// A list, and how many there are in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The rows.
    pub items: Vec<Ip>,
    /// After filtering, on all pages.
    pub total: u64,
}

/// What became of each address of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Were not in the queue.
    pub added: Vec<Address>,
    /// Were finished; a new attempt begins.
    pub requeued: Vec<Address>,
    /// Were waiting; now stand in the order of the list.
    pub reordered: Vec<Address>,
    /// Are being checked; untouched.
    pub skipped: Vec<Address>,
}

/// One address with its results and history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// The address.
    pub ip: Ip,
    /// Results of the current attempt.
    pub checks: Vec<Check>,
    /// Everything that happened, oldest first.
    pub events: Vec<Event>,
}

/// What became of each address of a list that was to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Were in the queue.
    pub deleted: Vec<Address>,
    /// Were not; as they were given if they are no addresses.
    pub not_found: Vec<String>,
}

/// An address in the queue as an event tells it.
fn in_queue(conn: &ReadConn<'_>, address: Address) -> Result<Value, StoreError> {
    let row = ips::by_address(conn, address)?;
    Ok(row.map_or(Value::Null, |row| {
        let result = row.attempt.outcome().map_or("", Outcome::as_str);
        json!({"state": row.attempt.state.as_str(), "overall_result": result})
    }))
}

/// Addresses, prefixes and ranges, expanded, and what is none of these: it is in no queue, which
/// is no error.
fn listed_for_delete(entries: &[String]) -> Result<(Vec<Address>, Vec<String>), AppError> {
    if entries.is_empty() {
        return Err(AppError::BadInput(EMPTY.to_owned()));
    }
    let (mut sound, mut strangers) = (Vec::new(), Vec::new());
    for entry in entries {
        match parse_list(std::slice::from_ref(entry), ADDRESSES_MAX) {
            Err(wrong)
                if !wrong
                    .iter()
                    .any(|why| matches!(why, AddrError::TooMany(..))) =>
            {
                strangers.push(entry.clone());
            }
            Ok(_) | Err(_) => sound.push(entry),
        }
    }
    let list = parse_list(&sound, ADDRESSES_MAX).map_err(|wrong| bad_entries(&wrong))?;
    Ok((list, strangers))
}

fn bad_entries<T: ToString>(wrong: &[T]) -> AppError {
    let wrong: Vec<_> = wrong.iter().map(T::to_string).collect();
    AppError::BadInput(format!("addresses: {}", wrong.join("; ")))
}

fn unknown(address: Address) -> AppError {
    AppError::NotFound(format!("{address} is not in the queue"))
}

impl App {
    fn parse_addresses(&self, entries: &[String]) -> Result<Vec<Address>, AppError> {
        if entries.is_empty() {
            return Err(AppError::BadInput(EMPTY.to_owned()));
        }
        // All bad entries are named in one answer, whatever is wrong with each.
        let mut wrong = Vec::new();
        for entry in entries {
            match bounds(entry) {
                Ok(bounds) if self.families().contains(&bounds.0.family()) => {}
                Ok(_) => {
                    wrong.push(format!(
                        "{entry:?}: the cloud has no floating IPs of this family"
                    ));
                }
                Err(error) => wrong.push(error.to_string()),
            }
        }
        if !wrong.is_empty() {
            return Err(bad_entries(&wrong));
        }
        parse_list(entries, ADDRESSES_MAX).map_err(|wrong| bad_entries(&wrong))
    }

    /// Adds, requeues, reorders, in list order and in one transaction.
    ///
    /// # Errors
    /// [`AppError::BadInput`] names all bad entries; then nothing is applied.
    pub async fn ips_enqueue(
        &self,
        caller: &Caller,
        entries: &[String],
    ) -> Result<Enqueued, AppError> {
        let list = self.parse_addresses(entries)?;
        let caller = caller.clone();
        let done = self
            .write_alone(move |tx| {
                let done = queue::enqueue(tx, &list)?;
                let change = audit::Change {
                    event_type: "admin_ips_enqueued",
                    what: "ips".to_owned(),
                    before: Value::Null,
                    after: json!({
                        "added": audit::listed(&done.added),
                        "requeued": audit::listed(&done.requeued),
                        "reordered": audit::listed(&done.reordered),
                        "skipped_in_progress": audit::listed(&done.skipped),
                    }),
                };
                audit::record(tx, &caller, &change)?;
                Ok(done)
            })
            .await
            .map_err(AppError::Store)?;
        let queue::Enqueued {
            added,
            requeued,
            reordered,
            skipped,
        } = done;
        Ok(Enqueued {
            added,
            requeued,
            reordered,
            skipped,
        })
    }

    /// Breaks off an attempt.
    ///
    /// # Errors
    /// [`AppError::NotFound`], or [`AppError::Conflict`] if it has ended already.
    pub async fn ips_cancel(&self, caller: &Caller, address: Address) -> Result<(), AppError> {
        let caller = caller.clone();
        let done = self
            .write(move |tx| -> Result<_, AppError> {
                let before = in_queue(tx, address)?;
                queue::cancel(tx, address)?;
                let change = audit::Change {
                    event_type: "admin_ip_cancelled",
                    what: format!("ips {address}"),
                    before,
                    after: in_queue(tx, address)?,
                };
                Ok(audit::record(tx, &caller, &change)?)
            })
            .await;
        done.map_err(|error| match error {
            AppError::NotFound(_) => unknown(address),
            AppError::Conflict(_) => AppError::Conflict(format!(
                "{address} is not being checked or waiting: there is nothing to cancel"
            )),
            other => other,
        })
    }

    /// Takes an address out of the queue; its history stays.
    ///
    /// # Errors
    /// [`AppError::NotFound`].
    pub async fn ips_delete(&self, caller: &Caller, address: Address) -> Result<(), AppError> {
        let caller = caller.clone();
        let done = self
            .write(move |tx| -> Result<_, AppError> {
                let before = in_queue(tx, address)?;
                queue::delete(tx, address)?;
                let change = audit::Change {
                    event_type: "admin_ip_deleted",
                    what: format!("ips {address}"),
                    before,
                    after: Value::Null,
                };
                Ok(audit::record(tx, &caller, &change)?)
            })
            .await;
        done.map_err(|error| match error {
            AppError::NotFound(_) => unknown(address),
            other => other,
        })
    }

    /// Takes a list out of the queue, whatever the state of each; what is not there is told.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for an empty list, and for one that is too long.
    pub async fn ips_delete_list(
        &self,
        caller: &Caller,
        entries: &[String],
    ) -> Result<Deleted, AppError> {
        let (list, strangers) = listed_for_delete(entries)?;
        let caller = caller.clone();
        let removed = self
            .write(move |tx| {
                let removed = queue::delete_all(tx, &list)?;
                let change = audit::Change {
                    event_type: "admin_ips_deleted",
                    what: "ips".to_owned(),
                    before: audit::listed(&removed.deleted),
                    after: Value::Null,
                };
                audit::record(tx, &caller, &change)?;
                Ok(removed)
            })
            .await
            .map_err(AppError::Store)?;
        let unknown = removed.not_found.iter().map(ToString::to_string);
        Ok(Deleted {
            not_found: unknown.chain(strangers).collect(),
            deleted: removed.deleted,
        })
    }

    /// Takes everything out of the queue. Says what it was.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn ips_clear(&self, caller: &Caller) -> Result<Vec<Address>, AppError> {
        let caller = caller.clone();
        let cleared = self.write_alone(move |tx| {
            let cleared = queue::clear(tx)?;
            let change = audit::Change {
                event_type: "queue_cleared",
                what: "ips".to_owned(),
                before: audit::listed(&cleared),
                after: Value::Null,
            };
            audit::record(tx, &caller, &change)?;
            Ok(cleared)
        });
        cleared.await.map_err(AppError::Store)
    }

    /// The addresses that a query means.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn ips_list(&self, query: Query) -> Result<Listed, AppError> {
        let listed = self.read(move |conn| -> Result<_, StoreError> {
            let filter = ips::Filter {
                states: query.states,
                q: query.q,
                result: query.result,
            };
            let order = if query.latest_first {
                ips::ListOrder::AggregatedDesc
            } else {
                ips::ListOrder::Sequence
            };
            let window = query
                .window
                .map(|(limit, offset)| ips::Window { limit, offset });
            let (rows, total) = match window {
                Some(window) => ips::page(conn, &filter, order, window)?,
                None => {
                    let rows = ips::list(conn, &filter, order, None)?;
                    let total = rows.len() as u64;
                    (rows, total)
                }
            };
            let sites = settings::site_ids(conn)?;
            // A page asks for its own rows alone: the table grows with the queue.
            let complete = match window {
                None => ips::sites_complete(conn, None)?,
                Some(_) => {
                    let mut complete = BTreeMap::new();
                    for row in &rows {
                        complete.extend(ips::sites_complete(conn, Some(row.attempt.head.ip))?);
                    }
                    complete
                }
            };
            let items = rows
                .into_iter()
                .map(|row| {
                    let id = row.attempt.head.ip;
                    join(row, &sites, complete.get(&id))
                })
                .collect();
            Ok(Listed { items, total })
        });
        listed.await.map_err(AppError::Store)
    }

    /// One address with its results and history.
    ///
    /// # Errors
    /// [`AppError::NotFound`].
    pub async fn ips_details(&self, address: Address) -> Result<Details, AppError> {
        self.read(move |conn| {
            let row = ips::by_address(conn, address)?.ok_or_else(|| unknown(address))?;
            let head = &row.attempt.head;
            let (id, attempt) = (head.ip, head.attempt);
            let checks = results::of_attempt(conn, id, attempt)?;
            let events = events::of_address(conn, address)?;
            let sites = settings::site_ids(conn)?;
            let complete = ips::sites_complete(conn, Some(id))?;
            Ok(Details {
                ip: join(row, &sites, complete.get(&id)),
                checks: checks.into_iter().map(Check::from).collect(),
                events: events.into_iter().map(Event::from).collect(),
            })
        })
        .await
    }

    /// The latest entries of the history, newest first.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn events_latest(&self, limit: u32) -> Result<Vec<Event>, AppError> {
        let rows = self.read(move |conn| events::latest(conn, limit)).await;
        let rows = rows.map_err(AppError::Store)?;
        Ok(rows.into_iter().map(Event::from).collect())
    }
}
