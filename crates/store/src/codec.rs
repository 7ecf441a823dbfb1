//! Columns to words and back: names of states, times, addresses. Reading is strict: what no
//! version could have written is an error that names the column.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use civ_types::{Address, Utc};
use rusqlite::types::Type;
use rusqlite::{Row, RowIndex};

fn bad(text: &str, why: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    let why = format!("{text:?}: {}", why.into());
    // The number of the column is not known for named ones; the text says more anyway.
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}

/// Rows that cannot be and were complained of: what is read every second is not told every second.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// How many of them are remembered. Behind that many, nobody misses a further one.
const TOLD_MAX: usize = 1_000;

/// Puts table and key in front of what cannot be.
pub(crate) fn named<T>(
    table: &str,
    key: impl Display,
    read: rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    read.map_err(|error| match error {
        rusqlite::Error::FromSqlConversionFailure(column, of, what) => {
            let what = format!("table {table}, row {key}: {what}");
            rusqlite::Error::FromSqlConversionFailure(column, of, what.into())
        }
        other => other,
    })
}

/// Says once that a row cannot be and is passed over.
pub(crate) fn complain(what: &str) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() < TOLD_MAX && told.insert(what.to_owned()) {
        tracing::error!(
            what,
            "a row of the database cannot be and is passed over: see control-api doctor"
        );
    }
}

/// The rows that can be read: one that cannot be must not stop the others.
pub(crate) fn readable<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
) -> rusqlite::Result<Vec<T>> {
    let mut good = Vec::new();
    for row in rows {
        match row {
            Ok(row) => good.push(row),
            Err(rusqlite::Error::FromSqlConversionFailure(_, _, what)) => {
                complain(&what.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(good)
}

/// A text column that is parsed into something of ours.
pub(crate) fn text<T, E>(
    row: &Row<'_>,
    column: impl RowIndex,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> rusqlite::Result<T>
where
    E: Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    parse(&text).map_err(|why| bad(&text, why))
}

/// The same for a column that may be null.
pub(crate) fn maybe<T, E>(
    row: &Row<'_>,
    column: impl RowIndex,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> rusqlite::Result<Option<T>>
where
    E: Error + Send + Sync + 'static,
{
    let text: Option<String> = row.get(column)?;
    text.map(|text| parse(&text).map_err(|why| bad(&text, why)))
        .transpose()
}

/// A word of a closed list.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: impl RowIndex,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| bad(&text, "not a word of this column"))
}

/// A word of a closed list, or null.
pub(crate) fn maybe_word<T>(
    row: &Row<'_>,
    column: impl RowIndex,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| parse(&text).ok_or_else(|| bad(&text, "not a word of this column")))
        .transpose()
}

/// An address.
pub(crate) fn address(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Address> {
    text(row, column, Address::parse)
}

/// A moment.
pub(crate) fn utc(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Utc> {
    row.get(column).map(Utc::from_micros)
}

/// A moment, or null.
pub(crate) fn maybe_utc(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Option<Utc>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Utc::from_micros))
}

/// A moment as it is stored.
pub(crate) fn micros(moment: Option<Utc>) -> Option<i64> {
    moment.map(Utc::as_micros)
}
