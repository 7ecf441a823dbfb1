//! From blocks to pages and totals.

use std::collections::BTreeMap;

use super::gram;
use crate::ips::Window;

/// What is known of a block before anything is looked for in it.
#[derive(Debug)]
pub(super) struct Block<K> {
    pub(super) id: i64,
    /// Where it begins.
    pub(super) key: K,
    /// Rows.
    pub(super) n: u64,
    /// Rows of the classes that are asked for.
    pub(super) fits: u64,
}

/// A block with rows that are, or may be, meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<K> {
    /// The block.
    pub(super) id: i64,
    /// Where it begins.
    pub(crate) key: K,
    /// Whether all its rows are of the classes that are asked for.
    pub(crate) is_whole: bool,
    /// How many rows are meant; `None`: to be counted.
    pub(crate) n: Option<u64>,
}

/// What two texts both begin with.
pub(super) fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let n = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
    // Addresses are ASCII; anything else has nothing in common.
    one.get(..n.count()).unwrap_or_default()
}

/// How many rows of a block can have a text in them at most; blocks without any are left out.
pub(super) type Bounds = BTreeMap<i64, u64>;

/// Blocks left over, at which reading the lists of further pieces pays no more.
const FEW: usize = 2;

/// Reads the bounds from the counts of the text's pieces; for a text that is a piece they are
/// exact.
pub(super) fn bounds(
    q: &str,
    mut of_gram: impl FnMut(u16) -> rusqlite::Result<Vec<(i64, u64)>>,
) -> rusqlite::Result<Bounds> {
    let mut bounds: Option<Bounds> = None;
    for gram in gram::of_search(q).unwrap_or_default() {
        let mut of_block = Bounds::new();
        for (block, n) in of_gram(gram)? {
            *of_block.entry(block).or_default() += n;
        }
        let narrowed = match bounds {
            None => of_block,
            Some(before) => before
                .into_iter()
                .filter_map(|(block, n)| Some((block, n.min(*of_block.get(&block)?))))
                .collect(),
        };
        let few = narrowed.len() <= FEW;
        bounds = Some(narrowed);
        if few {
            break;
        }
    }
    Ok(bounds.unwrap_or_default())
}

/// Parts of a list that is not searched.
pub(super) fn without_text<K>(blocks: Vec<Block<K>>) -> Vec<Part<K>> {
    let blocks = blocks.into_iter().filter(|block| block.fits != 0);
    blocks
        .map(|block| Part {
            id: block.id,
            is_whole: block.fits == block.n,
            key: block.key,
            n: Some(block.fits),
        })
        .collect()
}

/// What rows the bounds are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// All rows of a block.
    All,
    /// Those of the classes that are asked for.
    Fitting,
}

/// Parts of a list that is searched for `q`. `common` says what all addresses of a block begin
/// with.
pub(super) fn with_text<K: Clone>(
    blocks: &[Block<K>],
    q: &str,
    (of, bounds): (Of, &Bounds),
    common: impl Fn(usize, &[Block<K>]) -> rusqlite::Result<String>,
) -> rusqlite::Result<Vec<Part<K>>> {
    let is_piece = q.len() <= gram::LONGEST;
    let mut parts = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let bound = bounds.get(&block.id).copied().unwrap_or(0);
        if block.fits == 0 || bound == 0 {
            continue;
        }
        let has_every = if is_piece {
            bound == block.n
        } else {
            common(at, blocks)?.contains(q)
        };
        let n = if is_piece && (of == Of::Fitting || block.fits == block.n) {
            Some(bound)
        } else if has_every {
            Some(block.fits)
        } else {
            None
        };
        parts.push(Part {
            id: block.id,
            key: block.key.clone(),
            is_whole: block.fits == block.n,
            n,
        });
    }
    Ok(parts)
}

/// Looks into blocks.
pub(crate) trait Found<K> {
    /// What rows are fetched by.
    type Row;
    /// How many rows of a block are meant.
    fn count(&self, part: &Part<K>) -> rusqlite::Result<u64>;
    /// The rows of a block that are meant, in order, without the first `skip` ones and at most
    /// `limit`.
    fn rows(&self, part: &Part<K>, skip: u64, limit: u64) -> rusqlite::Result<Vec<Self::Row>>;
}

/// How many rows are meant.
pub(crate) fn total<K, F: Found<K>>(parts: &[Part<K>], found: &F) -> rusqlite::Result<u64> {
    let mut total = 0;
    for part in parts {
        total += part.n.map_or_else(|| found.count(part), Ok)?;
    }
    Ok(total)
}

/// The rows of a window, and how many rows are meant in all.
pub(crate) fn page<K, F: Found<K>>(
    parts: &[Part<K>],
    found: &F,
    window: Window,
) -> rusqlite::Result<(Vec<F::Row>, u64)> {
    let limit = u64::from(window.limit);
    let mut rows: Vec<F::Row> = Vec::new();
    let mut total = 0;
    for part in parts {
        let n = part.n.map_or_else(|| found.count(part), Ok)?;
        let wanted = limit - rows.len() as u64;
        // A block without any is not looked into: a rare text would cost as much as a scan.
        if n != 0 && wanted != 0 && window.offset < total + n {
            let skip = window.offset.saturating_sub(total);
            rows.extend(found.rows(part, skip, wanted)?);
        }
        total += n;
    }
    Ok((rows, total))
}
