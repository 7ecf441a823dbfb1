//! Blocks of the registry: neighbours in the order of the texts of their addresses.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::gram::{self, Tally};
use super::marks::{self, Marks};
use super::search::{self, Part};
use super::text::{self, Changes};
use super::{Counts, ROWS, ROWS_MAX, add_counts};

/// A change: class, address, and whether it came (1) or went (-1).
type Move = (String, String, i64);

/// A block as it is stored; `next` is where the one behind it begins.
#[derive(Debug)]
struct Stored {
    id: i64,
    first: String,
    next: Option<String>,
    n: i64,
}

/// Changes of counts of pieces: piece, block, place of the class in [`Settling::classes`].
type Grams = Vec<(u16, i64, usize, i64)>;

pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    let moves = moves(connection)?;
    if moves.is_empty() {
        // Most commits: the tables of a tally are large, and need not be made for nothing.
        return Ok(());
    }
    let mut rest = moves.as_slice();
    let mut settling = Settling {
        connection,
        tally: Tally::new(),
        classes: Vec::new(),
        counts: Counts::new(),
        grams: Grams::new(),
        texts: BTreeMap::new(),
        marks: BTreeMap::new(),
    };
    while let Some((_, address, _)) = rest.first() {
        let block = block_of(connection, address)?;
        let n = rest.partition_point(|(_, address, _)| {
            block.next.as_ref().is_none_or(|next| address < next)
        });
        let (here, behind) = rest.split_at(n);
        settling.block(&block, here)?;
        rest = behind;
    }
    if !moves.is_empty() {
        settling.write()?;
        connection.execute("DELETE FROM registry_moves", [])?;
    }
    Ok(())
}

/// What has changed, in the order of the addresses; what came and went again is left out.
fn moves(connection: &Connection) -> rusqlite::Result<Vec<Move>> {
    let mut net: BTreeMap<(String, String), i64> = BTreeMap::new();
    let mut statement =
        connection.prepare_cached("SELECT sign, class, address FROM registry_moves")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sign: i64 = row.get(0)?;
        *net.entry((row.get(2)?, row.get(1)?)).or_default() += sign;
    }
    let changed = net.into_iter().filter(|(_, by)| *by != 0);
    Ok(changed
        .map(|((address, class), by)| (class, address, by))
        .collect())
}

/// The block that an address belongs to; the first one is made here.
fn block_of(connection: &Connection, address: &str) -> rusqlite::Result<Stored> {
    const FIND: &str = "SELECT block, first, n, \
         (SELECT min(first) FROM registry_blocks WHERE first > ?1) \
         FROM registry_blocks WHERE first <= ?1 ORDER BY first DESC LIMIT 1";
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row([address], |row| {
        Ok(Stored {
            id: row.get(0)?,
            first: row.get(1)?,
            n: row.get(2)?,
            next: row.get(3)?,
        })
    });
    if let Some(found) = found.optional()? {
        return Ok(found);
    }
    add_block(connection, "", 0)?;
    block_of(connection, address)
}

fn add_block(connection: &Connection, first: &str, n: usize) -> rusqlite::Result<i64> {
    const SQL: &str = "INSERT INTO registry_blocks (first, block, n) \
         SELECT ?1, coalesce(max(block), 0) + 1, ?2 FROM registry_blocks RETURNING block";
    let mut statement = connection.prepare_cached(SQL)?;
    statement.query_row(params![first, i64::try_from(n).unwrap_or(0)], |row| {
        row.get(0)
    })
}

struct Settling<'c> {
    connection: &'c Connection,
    tally: Tally,
    classes: Vec<String>,
    counts: Counts,
    grams: Grams,
    /// By block and place of the class: addresses that came or went.
    texts: BTreeMap<(i64, usize), Vec<(String, i64)>>,
    marks: BTreeMap<i64, Marks>,
}

impl Settling<'_> {
    fn block(&mut self, block: &Stored, moves: &[Move]) -> rusqlite::Result<()> {
        const SET: &str = "UPDATE registry_blocks SET n = ?2 WHERE first = ?1";
        let n = block.n + moves.iter().map(|(_, _, by)| by).sum::<i64>();
        self.add(
            block.id,
            moves
                .iter()
                .map(|(class, address, by)| (class.as_str(), address.as_str(), *by)),
        );
        let mut n = usize::try_from(n).unwrap_or(0);
        if ROWS_MAX < n {
            n = self.divide(block)?;
        }
        if i64::try_from(n) != Ok(block.n) {
            let mut statement = self.connection.prepare_cached(SET)?;
            statement.execute(params![block.first, i64::try_from(n).unwrap_or(0)])?;
        }
        Ok(())
    }

    /// Counts rows of a block, class by class.
    fn add<'a>(&mut self, block: i64, rows: impl Iterator<Item = (&'a str, &'a str, i64)>) {
        let mut classes: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
        let mut marks = Marks::default();
        for (class, address, by) in rows {
            classes.entry(class).or_default().push((address, by));
        }
        for (class, rows) in classes {
            let mut n = 0;
            let at = self.place_of(class);
            let texts = self.texts.entry((block, at)).or_default();
            for (address, by) in rows {
                self.tally.add(address, by);
                if 0 < by {
                    marks.add(address);
                }
                texts.push((address.to_owned(), by));
                n += by;
            }
            *self.counts.entry((block, class.to_owned())).or_default() += n;
            let changes = self.tally.take().into_iter();
            self.grams
                .extend(changes.map(|(gram, by)| (gram, block, at, by)));
        }
        self.marks.entry(block).or_default().join(&marks);
    }

    fn place_of(&mut self, class: &str) -> usize {
        let known = self.classes.iter().position(|other| other == class);
        known.unwrap_or_else(|| {
            self.classes.push(class.to_owned());
            self.classes.len() - 1
        })
    }

    /// Divides a block that has grown: what is behind its first rows goes to new blocks. Says how
    /// many rows it keeps.
    fn divide(&mut self, block: &Stored) -> rusqlite::Result<usize> {
        const ROWS_OF: &str = "SELECT last_result, address FROM registry \
             WHERE address >= ?1 AND (?2 IS NULL OR address < ?2) ORDER BY address";
        let rows: Vec<(String, String)> = self
            .connection
            .prepare_cached(ROWS_OF)?
            .query_map(params![block.first, block.next], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect::<Result<_, _>>()?;
        let (kept, behind) = rows.split_at(ROWS.min(rows.len()));
        let of_kept = kept.iter().map(|(_, address)| address.as_str());
        self.marks.insert(block.id, Marks::instead(of_kept));
        self.add(
            block.id,
            behind
                .iter()
                .map(|row| (row.0.as_str(), row.1.as_str(), -1)),
        );
        for piece in behind.chunks(ROWS) {
            let Some((_, first)) = piece.first() else {
                continue;
            };
            let id = add_block(self.connection, first, piece.len())?;
            self.add(
                id,
                piece.iter().map(|row| (row.0.as_str(), row.1.as_str(), 1)),
            );
        }
        Ok(kept.len())
    }

    fn write(mut self) -> rusqlite::Result<()> {
        const COUNTS: [&str; 2] = [
            "INSERT INTO registry_counts (block, class, n) VALUES (?1, ?2, ?3) \
             ON CONFLICT DO UPDATE SET n = n + excluded.n",
            "DELETE FROM registry_counts WHERE block = ?1 AND class = ?2 AND n = 0",
        ];
        const ADD: &str = "INSERT INTO registry_grams (gram, block, class, n) \
             VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET n = n + excluded.n";
        const CLEAR: &str = "DELETE FROM registry_grams \
             WHERE gram = ?1 AND block = ?2 AND class = ?3 AND n = 0";
        add_counts(self.connection, COUNTS, &self.counts)?;
        for ((block, at), changes) in &self.texts {
            if let Some(class) = self.classes.get(*at) {
                set_text(self.connection, *block, class, changes)?;
            }
        }
        for (block, marks) in &self.marks {
            marks.write(self.connection, *block)?;
        }
        // In the order of the table, and what comes and goes at once is no change.
        self.grams.sort_unstable();
        let mut add = self.connection.prepare_cached(ADD)?;
        let mut clear = self.connection.prepare_cached(CLEAR)?;
        let same = |a: &(u16, i64, usize, i64), b: &(u16, i64, usize, i64)| {
            (a.0, a.1, a.2) == (b.0, b.1, b.2)
        };
        for same in self.grams.chunk_by(same) {
            let by: i64 = same.iter().map(|(_, _, _, by)| by).sum();
            let Some((gram, block, at, _)) = same.first().filter(|_| by != 0) else {
                continue;
            };
            let class = self.classes.get(*at);
            add.execute(params![gram, block, class, by])?;
            if by < 0 {
                clear.execute(params![gram, block, class])?;
            }
        }
        Ok(())
    }
}

fn set_text(
    connection: &Connection,
    block: i64,
    class: &str,
    members: &[(String, i64)],
) -> rusqlite::Result<()> {
    const FIND: &str = "SELECT addresses FROM registry_texts WHERE block = ?1 AND class = ?2";
    const SET: &str = "INSERT INTO registry_texts (block, class, addresses) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET addresses = excluded.addresses";
    const CLEAR: &str = "DELETE FROM registry_texts WHERE block = ?1 AND class = ?2";
    let mut changes = Changes::new();
    for (address, by) in members {
        *changes.entry(address).or_default() += by;
    }
    let mut statement = connection.prepare_cached(FIND)?;
    let known = statement.query_row(params![block, class], |row| row.get(0));
    let known: String = known.optional()?.unwrap_or_default();
    let addresses = text::apply(&known, changes);
    if addresses.is_empty() {
        let mut statement = connection.prepare_cached(CLEAR)?;
        statement.execute(params![block, class])?;
    } else {
        let mut statement = connection.prepare_cached(SET)?;
        statement.execute(params![block, class, addresses])?;
    }
    Ok(())
}

const TEXTS: &str =
    "SELECT addresses FROM registry_texts WHERE block = ?1 AND (?2 IS NULL OR class = ?2)";

/// How many addresses of a block, of this class or any, have what is looked for in them.
pub(crate) fn count(
    connection: &Connection,
    part: &Part<Bounds>,
    class: Option<&str>,
    finder: &Finder<'_>,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(TEXTS)?;
    let mut rows = statement.query(params![part.id, class])?;
    let mut n = 0;
    while let Some(row) = rows.next()? {
        n += text::count(row.get_ref(0)?.as_bytes()?, finder);
    }
    Ok(n)
}

/// Those addresses, in order.
pub(crate) fn matches(
    connection: &Connection,
    part: &Part<Bounds>,
    class: Option<&str>,
    finder: &Finder<'_>,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(TEXTS)?;
    let mut rows = statement.query(params![part.id, class])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(text::matches(row.get_ref(0)?.as_str()?, finder));
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether changes wait that were not worked in yet, which only the transaction that made them
/// can see.
pub(crate) fn is_behind(connection: &Connection) -> rusqlite::Result<bool> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM registry_moves)";
    connection
        .prepare_cached(SQL)?
        .query_row([], |row| row.get(0))
}

/// The first address of a block, and that of the next one.
pub(crate) type Bounds = (String, Option<String>);

/// The parts of the registry, in order of addresses: of rows with this class, or any, and with
/// `q` in their address if it is given.
pub(crate) fn parts(
    connection: &Connection,
    class: Option<&str>,
    q: Option<&str>,
) -> rusqlite::Result<Vec<Part<Bounds>>> {
    const GRAM: &str = "SELECT block, n FROM registry_grams WHERE gram = ?1";
    const GRAM_OF: &str = "SELECT block, n FROM registry_grams WHERE gram = ?1 AND class = ?2";
    let blocks = blocks(connection, class)?;
    let Some(q) = q.filter(|q| !q.is_empty()) else {
        return Ok(search::without_text(blocks));
    };
    let of_piece = |gram: u16| {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        match class {
            None => connection
                .prepare_cached(GRAM)?
                .query_map([gram], read)?
                .collect(),
            Some(class) => connection
                .prepare_cached(GRAM_OF)?
                .query_map(params![gram, class], read)?
                .collect(),
        }
    };
    // The lists of one class are short, and the marks are of all classes.
    let bounds = if class.is_none() && gram::LONGEST < q.len() {
        marks::having(connection, q)?
    } else {
        search::bounds(q, of_piece)?
    };
    search::with_text(&blocks, q, (search::Of::Fitting, &bounds), |at, blocks| {
        // What lies between two texts begins with what both begin with.
        let ends = blocks.get(at).map(|block| &block.key);
        Ok(ends.map_or(String::new(), |(first, next)| {
            let next = next.as_deref().unwrap_or_default();
            search::common(first, next).to_owned()
        }))
    })
}

fn blocks(
    connection: &Connection,
    class: Option<&str>,
) -> rusqlite::Result<Vec<search::Block<Bounds>>> {
    const ALL: &str = "SELECT block, first, n FROM registry_blocks ORDER BY first";
    const OF: &str = "SELECT block, n FROM registry_counts WHERE class = ?1";
    let of_class: Option<BTreeMap<i64, u64>> = match class {
        None => None,
        Some(class) => {
            let mut statement = connection.prepare_cached(OF)?;
            let rows = statement.query_map([class], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Some(rows.collect::<Result<_, _>>()?)
        }
    };
    let mut blocks: Vec<search::Block<Bounds>> = Vec::new();
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, first, n): (i64, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let Some(last) = blocks.last_mut() {
            last.key.1 = Some(first.clone());
        }
        let fits = match &of_class {
            None => n,
            Some(of_class) => of_class.get(&id).copied().unwrap_or(0),
        };
        blocks.push(search::Block {
            id,
            key: (first, None),
            n,
            fits,
        });
    }
    Ok(blocks)
}
