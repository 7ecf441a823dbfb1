//! Columns to words and back: names of states, times, addresses. Reading is strict: what no
//! version could have written is an error that names the column.

use std::error::Error;

use civ_types::{Address, Utc};
use rusqlite::types::Type;
use rusqlite::{Row, RowIndex};

fn bad(text: &str, why: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    let why = format!("{text:?}: {}", why.into());
    // The number of the column is not known for named ones; the text says more anyway.
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
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
