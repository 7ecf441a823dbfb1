//! Blocks of the queue: 1,024 sequence numbers each.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::gram::Tally;
use super::search::Part;
use super::{Counts, add_counts, search, text};

/// A sequence number shifted by this is the number of its block.
pub(crate) const SHIFT: u32 = 10;

/// Changes of membership by block: an address that came or went.
type Members = BTreeMap<i64, Vec<(String, i64)>>;

pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    const COUNTS: [&str; 2] = [
        "INSERT INTO ips_counts (block, class, n) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
        "DELETE FROM ips_counts WHERE block = ?1 AND class = ?2 AND n = 0",
    ];
    let (counts, members) = moves(connection)?;
    if counts.is_empty() {
        return Ok(());
    }
    add_counts(connection, COUNTS, &counts)?;
    let mut grams = Vec::new();
    let mut tally = Tally::new();
    for (block, members) in &members {
        for (address, by) in members {
            tally.add(address, *by);
        }
        let changes = tally.take();
        grams.extend(changes.into_iter().map(|(gram, by)| (gram, *block, by)));
        set_text(connection, *block, members)?;
    }
    // In the order of the table, which is kinder to it.
    grams.sort_unstable();
    add_grams(connection, &grams)?;
    connection.execute("DELETE FROM ips_moves", [])?;
    Ok(())
}

/// What has changed; what came and went again is no change of membership.
fn moves(connection: &Connection) -> rusqlite::Result<(Counts, Members)> {
    let mut counts = Counts::new();
    let mut net: BTreeMap<i64, BTreeMap<String, i64>> = BTreeMap::new();
    let mut statement =
        connection.prepare_cached("SELECT sign, block, class, address FROM ips_moves")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (sign, block): (i64, i64) = (row.get(0)?, row.get(1)?);
        *counts.entry((block, row.get(2)?)).or_default() += sign;
        *net.entry(block)
            .or_default()
            .entry(row.get(3)?)
            .or_default() += sign;
    }
    let changed = |net: BTreeMap<String, i64>| -> Vec<(String, i64)> {
        net.into_iter().filter(|(_, by)| *by != 0).collect()
    };
    let members = net
        .into_iter()
        .map(|(block, net)| (block, changed(net)))
        .filter(|(_, members)| !members.is_empty());
    Ok((counts, members.collect()))
}

fn add_grams(connection: &Connection, grams: &[(u16, i64, i64)]) -> rusqlite::Result<()> {
    const ADD: &str = "INSERT INTO ips_grams (gram, block, n) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET n = n + excluded.n";
    const CLEAR: &str = "DELETE FROM ips_grams WHERE gram = ?1 AND block = ?2 AND n = 0";
    let mut add = connection.prepare_cached(ADD)?;
    let mut clear = connection.prepare_cached(CLEAR)?;
    for (gram, block, by) in grams {
        add.execute(params![gram, block, by])?;
        if *by < 0 {
            clear.execute(params![gram, block])?;
        }
    }
    Ok(())
}

/// Changes the text of a block, and shortens what its addresses have in common to what the new
/// ones have, too. Addresses that left make it no longer: it stays true, which is all that is
/// needed.
fn set_text(
    connection: &Connection,
    block: i64,
    members: &[(String, i64)],
) -> rusqlite::Result<()> {
    const FIND: &str = "SELECT common, addresses FROM ips_texts WHERE block = ?1";
    const SET: &str = "INSERT INTO ips_texts (block, common, addresses) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET common = excluded.common, addresses = excluded.addresses";
    const CLEAR: &str = "DELETE FROM ips_texts WHERE block = ?1";
    let mut statement = connection.prepare_cached(FIND)?;
    let known: Option<(String, String)> = statement
        .query_row([block], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (known, addresses) = known.unzip();
    let changes = members.iter().map(|(address, by)| (address.as_str(), *by));
    let addresses = text::apply(&addresses.unwrap_or_default(), changes.collect());
    if addresses.is_empty() {
        connection.prepare_cached(CLEAR)?.execute([block])?;
        return Ok(());
    }
    let came = members.iter().filter(|(_, by)| 0 < *by);
    let common = came.fold(known, |common, (address, _)| {
        Some(match common {
            Some(common) => search::common(&common, address).to_owned(),
            None => address.clone(),
        })
    });
    connection
        .prepare_cached(SET)?
        .execute(params![block, common, addresses])?;
    Ok(())
}

/// How many addresses of a block have what is looked for in them.
pub(crate) fn count(
    connection: &Connection,
    part: &Part<i64>,
    finder: &Finder<'_>,
) -> rusqlite::Result<u64> {
    const SQL: &str = "SELECT addresses FROM ips_texts WHERE block = ?1";
    let mut statement = connection.prepare_cached(SQL)?;
    let count = |row: &rusqlite::Row<'_>| Ok(text::count(row.get_ref(0)?.as_bytes()?, finder));
    Ok(statement
        .query_row([part.id], count)
        .optional()?
        .unwrap_or(0))
}

/// Those addresses, in no order.
pub(crate) fn matches(
    connection: &Connection,
    part: &Part<i64>,
    finder: &Finder<'_>,
) -> rusqlite::Result<Vec<String>> {
    const SQL: &str = "SELECT addresses FROM ips_texts WHERE block = ?1";
    let mut statement = connection.prepare_cached(SQL)?;
    let found = statement.query_row([part.id], |row| {
        Ok(text::matches(row.get_ref(0)?.as_str()?, finder))
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// Whether changes wait that were not worked in yet, which only the transaction that made them
/// can see.
pub(crate) fn is_behind(connection: &Connection) -> rusqlite::Result<bool> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM ips_moves)";
    connection
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))
}

/// How many rows there are of each class, state and result with a slash between.
pub(crate) fn classes(connection: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    const SQL: &str = "SELECT class, sum(n) FROM ips_counts GROUP BY class";
    let mut statement = connection.prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The parts of the list, in order of claiming: of rows of the classes that fit, with `q` in their
/// address if it is given.
pub(crate) fn parts(
    connection: &Connection,
    fits: impl Fn(&str) -> bool,
    q: Option<&str>,
) -> rusqlite::Result<Vec<Part<i64>>> {
    const COUNTS: &str = "SELECT block, class, n FROM ips_counts ORDER BY block";
    const GRAM: &str = "SELECT block, n FROM ips_grams WHERE gram = ?1";
    const COMMON: &str = "SELECT common FROM ips_texts WHERE block = ?1";
    let mut blocks: Vec<search::Block<i64>> = Vec::new();
    let mut statement = connection.prepare_cached(COUNTS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (block, n): (i64, u64) = (row.get(0)?, row.get(2)?);
        let counted = if fits(row.get_ref(1)?.as_str()?) {
            n
        } else {
            0
        };
        match blocks.last_mut().filter(|last| last.id == block) {
            Some(last) => {
                last.n += n;
                last.fits += counted;
            }
            None => blocks.push(search::Block {
                id: block,
                key: block,
                n,
                fits: counted,
            }),
        }
    }
    let Some(q) = q.filter(|q| !q.is_empty()) else {
        return Ok(search::without_text(blocks));
    };
    let bounds = search::bounds(q, |gram| {
        let mut statement = connection.prepare_cached(GRAM)?;
        let rows = statement.query_map([gram], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    })?;
    search::with_text(&blocks, q, (search::Of::All, &bounds), |at, blocks| {
        let Some(block) = blocks.get(at) else {
            return Ok(String::new());
        };
        let mut statement = connection.prepare_cached(COMMON)?;
        let common = statement.query_row([block.id], |row| row.get(0));
        Ok(common.optional()?.unwrap_or_default())
    })
}
