//! Following the pages of a listing: pure, one page in, the next marker out.
//!
//! Neither a short page nor a missing `next` alone ends a listing: servers cap pages, and some
//! forget the link. A marker whose row was deleted meanwhile brings the first page again, without
//! an error (Neutron); then rows may have been passed over, and the walk goes back to the nearest
//! row before it that still exists.

use std::collections::BTreeSet;

use civ_types::FipId;

/// Markers that may vanish in one walk: many more than clients delete while a project is listed,
/// few enough that a server that ignores markers is found out.
const VANISHED_MAX: usize = 100;

/// How often a walk may have to begin at the first page again.
const RESTARTS_MAX: usize = 3;

/// What to do after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask for the page behind this floating IP, or for the first.
    After(Option<FipId>),
    /// Everything was seen.
    End,
}

/// Rows after which a listing is given up: more than any project has, and a server that makes rows
/// up fills no memory.
const ROWS_MAX: usize = 1_000_000;

/// The listing goes in circles, or has rows without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the list of floating IPs does not come to an end: its pages repeat, or there are more than \
     {ROWS_MAX}"
)]
pub struct Endless;

/// Where a walk stands.
#[derive(Debug, Default)]
pub struct Walk {
    /// Rows up to the marker, in the server's order.
    behind: Vec<FipId>,
    /// The same rows, to know them again.
    known: BTreeSet<FipId>,
    /// Markers that vanished one after the other, without a page in between.
    n_steps: u32,
    n_vanished: usize,
    n_restarts: usize,
}

impl Walk {
    /// Takes the ids of the page that was asked for, in its order.
    ///
    /// # Errors
    /// [`Endless`] if the listing will never be complete.
    pub fn take(
        &mut self,
        page: impl IntoIterator<Item = FipId>,
        has_more: bool,
    ) -> Result<Next, Endless> {
        let page: Vec<FipId> = page.into_iter().collect();
        if page.iter().any(|id| self.known.contains(id)) {
            return self.step_back();
        }
        self.n_steps = 0;
        let is_end = page.is_empty() || !has_more;
        // A row that stands twice in a page is one row: going back over it must forget it once.
        for id in page {
            if self.known.insert(id.clone()) {
                self.behind.push(id);
            }
        }
        if ROWS_MAX < self.behind.len() {
            return Err(Endless);
        }
        if is_end {
            return Ok(Next::End);
        }
        Ok(Next::After(self.behind.last().cloned()))
    }

    /// Whether a row belongs to the listing: one that vanished from under a marker does not, any
    /// more. Complete once [`Next::End`] was answered.
    #[must_use]
    pub fn saw(&self, id: &FipId) -> bool {
        self.known.contains(id)
    }

    /// The marker is gone: one row back, then two, four, … of which each may be gone as well.
    fn step_back(&mut self) -> Result<Next, Endless> {
        self.n_vanished += 1;
        let step = 1_usize.checked_shl(self.n_steps).unwrap_or(usize::MAX);
        self.n_steps = self.n_steps.saturating_add(1);
        let kept = self.behind.len().saturating_sub(step);
        for id in self.behind.drain(kept..) {
            self.known.remove(&id);
        }
        if self.behind.is_empty() {
            self.n_restarts += 1;
        }
        if VANISHED_MAX < self.n_vanished || RESTARTS_MAX < self.n_restarts {
            return Err(Endless);
        }
        Ok(Next::After(self.behind.last().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u16) -> FipId {
        FipId::parse(&format!("{n:05}")).unwrap()
    }

    /// A server as Neutron is one, that may delete rows and cap pages.
    fn page(rows: &BTreeSet<FipId>, marker: Option<&FipId>, limit: usize) -> (Vec<FipId>, bool) {
        let marker = marker.filter(|id| rows.contains(*id));
        let behind = rows
            .iter()
            .filter(|id| marker.is_none_or(|marker| marker < *id));
        let page: Vec<FipId> = behind.take(limit).cloned().collect();
        let is_full = page.len() == limit;
        (page, is_full)
    }

    fn walked(
        rows: &mut BTreeSet<FipId>,
        limit: usize,
        mut between: impl FnMut(usize, Option<&FipId>, &mut BTreeSet<FipId>),
    ) -> Result<(BTreeSet<FipId>, usize), Endless> {
        let (mut walk, mut found) = (Walk::default(), BTreeSet::new());
        let (mut marker, mut n_pages) = (None, 0);
        while n_pages < 2_000 {
            between(n_pages, marker.as_ref(), rows);
            let (ids, has_more) = page(rows, marker.as_ref(), limit);
            n_pages += 1;
            found.extend(ids.iter().cloned());
            match walk.take(ids, has_more)? {
                Next::End => {
                    found.retain(|id| walk.saw(id));
                    return Ok((found, n_pages));
                }
                Next::After(id) => marker = id,
            }
        }
        panic!("no end after {n_pages} pages");
    }

    #[test]
    fn a_full_last_page_is_followed_by_one_more_look() {
        let mut rows: BTreeSet<FipId> = (0..6).map(id).collect();
        let (found, n_pages) = walked(&mut rows, 3, |_, _, _| {}).unwrap();
        assert_eq!((found.len(), n_pages), (6, 3));
    }

    #[test]
    fn a_vanished_marker_costs_two_pages_and_not_a_whole_walk() {
        let mut rows: BTreeSet<FipId> = (0..1000).map(id).collect();
        let (found, n_pages) = walked(&mut rows, 10, |n, marker, rows| {
            if n == 90 {
                rows.remove(marker.unwrap());
            }
        })
        .unwrap();
        assert_eq!((found.len(), n_pages), (999, 102));
        assert_eq!(found, rows);
    }

    #[test]
    fn a_row_twice_in_a_page_is_one_row() {
        let mut walk = Walk::default();
        let page = [id(1), id(2), id(2)];
        assert_eq!(walk.take(page, true), Ok(Next::After(Some(id(2)))));
        // The marker has vanished: back to a row that the walk still counts.
        assert_eq!(walk.take([id(1)], true), Ok(Next::After(Some(id(1)))));
        assert!(walk.saw(&id(1)) && !walk.saw(&id(2)));
    }

    #[test]
    fn a_server_that_ignores_markers_is_found_out() {
        let mut walk = Walk::default();
        let first = || (0..3).map(id);
        let outcome = (0..1000).find_map(|_| walk.take(first(), true).err());
        assert_eq!(outcome, Some(Endless));
    }

    #[test]
    fn a_server_that_makes_rows_up_is_found_out() {
        let mut walk = Walk::default();
        let page = |n: usize| {
            let ids = n * 10_000..(n + 1) * 10_000;
            ids.map(|n| FipId::parse(&format!("{n:09}")).unwrap())
        };
        let outcome = (0..200).find_map(|n| walk.take(page(n), true).err());
        assert_eq!(outcome, Some(Endless));
    }

    proptest! {
        /// Whatever is deleted and added between pages, a row that was there all the time is found.
        #[test]
        fn what_stays_is_found(
            n_rows in 0_u16..120,
            limit in 1_usize..20,
            deleted in proptest::collection::vec((0_usize..40, 0_u16..5), 0..12),
            added in proptest::collection::vec((0_usize..40, 0_u16..200), 0..12),
        ) {
            let mut rows: BTreeSet<FipId> = (0..n_rows).map(id).collect();
            let (found, _) = walked(&mut rows, limit, |n, marker, rows| {
                for (_, back) in deleted.iter().filter(|(at, _)| *at == n) {
                    let marker: u16 = marker.map_or(0, |id| id.as_str().parse().unwrap());
                    rows.remove(&id(marker.saturating_sub(*back)));
                }
                for (_, new) in added.iter().filter(|(at, _)| *at == n) {
                    if n_rows <= *new {
                        rows.insert(id(*new));
                    }
                }
            })
            .unwrap();
            let stayed: BTreeSet<FipId> =
                rows.iter().filter(|row| **row < id(n_rows)).cloned().collect();
            prop_assert!(stayed.is_subset(&found));
        }
    }
}
