//! Counts and short pieces of text, by block of neighbours in a list: what makes pages, totals and
//! searches of long lists cheap.
//!
//! A block has about a thousand rows. For each block it is known how many rows of which class it
//! has, and how many of them have which piece of one to three characters in their address. So a
//! deep offset is found by adding up counts; a total is a sum; a search for up to three characters
//! is read off. A longer one looks only into blocks that have all its pieces (in the registry, by
//! marks for pieces of four), there into one text with all addresses, and not even into blocks
//! whose addresses all have it in what they begin with. It knows nothing of what rows mean.
//!
//! Triggers note every change of a row; [`settle`] works the notes in at the end of the
//! transaction, many at once: a list of 65,536 neighbours has a few thousand pieces in all.

mod gram;
mod marks;
pub(crate) mod queue;
pub(crate) mod registry;
mod search;
mod text;

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

pub(crate) use search::{Found, Part, page, total};

/// Blocks of the registry are divided when they have more rows than this,
const ROWS_MAX: usize = 2_048;
/// into blocks of this many.
const ROWS: usize = 1_024;

/// Works in what has changed since the last time. Part of every transaction that writes.
pub(crate) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    queue::settle(connection)?;
    registry::settle(connection)
}

/// Forgets all counts and pieces; the end of the transaction makes them from the rows.
pub(crate) fn begin_anew(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM ips_counts; DELETE FROM ips_texts; DELETE FROM ips_grams; \
         DELETE FROM ips_moves; \
         INSERT INTO ips_moves (sign, block, class, address) \
             SELECT 1, sequence >> 10, state || '/' || result, address FROM ips; \
         DELETE FROM registry_blocks; DELETE FROM registry_counts; DELETE FROM registry_texts; \
         DELETE FROM registry_grams; DELETE FROM registry_marks; DELETE FROM registry_moves; \
         INSERT INTO registry_moves (sign, class, address) \
             SELECT 1, last_result, address FROM registry;",
    )
}

/// Changes of counts by block and class.
type Counts = BTreeMap<(i64, String), i64>;

fn add_counts(connection: &Connection, sql: [&str; 2], counts: &Counts) -> rusqlite::Result<()> {
    let [add, clear] = sql;
    let mut add = connection.prepare_cached(add)?;
    let mut clear = connection.prepare_cached(clear)?;
    for ((block, class), by) in counts.iter().filter(|(_, by)| **by != 0) {
        add.execute(params![block, class, by])?;
        if *by < 0 {
            clear.execute(params![block, class])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
