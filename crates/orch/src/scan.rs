//! The phases of a scan: from the first page to the last enqueued address.

use std::fmt;

use civ_types::Utc;

/// Where a scan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// There was none in this process.
    #[default]
    Idle,
    /// The auto-cycle clears the queue before it.
    Clearing,
    /// Pages are read.
    Listing,
    /// Everything was read; what is free goes to the queue.
    Enqueuing,
    /// It is complete.
    Done,
    /// It failed.
    Error,
    /// It was broken off before anything was enqueued.
    Cancelled,
}

impl Phase {
    /// All of them, in the order of a scan's life.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Clearing,
        Self::Listing,
        Self::Enqueuing,
        Self::Done,
        Self::Error,
        Self::Cancelled,
    ];

    /// The word of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Clearing => "clearing",
            Self::Listing => "listing",
            Self::Enqueuing => "enqueuing",
            Self::Done => "done",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a scan is under way.
    #[must_use]
    pub const fn is_running(self) -> bool {
        match self {
            Self::Clearing | Self::Listing | Self::Enqueuing => true,
            Self::Idle | Self::Done | Self::Error | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many addresses became what when they were enqueued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Were not in the queue.
    pub added: u64,
    /// Were finished; a new attempt begins.
    pub requeued: u64,
    /// Were waiting.
    pub reordered: u64,
    /// Are being checked.
    pub skipped: u64,
}

impl Tally {
    /// Both together.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            added: self.added.saturating_add(more.added),
            requeued: self.requeued.saturating_add(more.requeued),
            reordered: self.reordered.saturating_add(more.reordered),
            skipped: self.skipped.saturating_add(more.skipped),
        }
    }
}

/// What happens to a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It begins: with clearing for the auto-cycle, else with the first page.
    Begin {
        /// Nothing is to be enqueued.
        dry_run: bool,
        /// The auto-cycle clears the queue first.
        clears: bool,
    },
    /// The queue is clear.
    Cleared,
    /// One more page was read.
    Page {
        /// Different floating IPs so far.
        discovered: u64,
        /// Of these, free ones.
        free: u64,
    },
    /// The listing is complete.
    Listed,
    /// Some more were enqueued.
    Enqueued(Tally),
    /// All were enqueued.
    Finished,
    /// It cannot go on.
    Failed(String),
    /// It is no longer wanted.
    Cancel,
}

/// An event that does not fit the phase; nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a scan in the phase {0} has no such step")]
pub struct Refused(pub Phase);

/// A scan, as far as it got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Where it is.
    pub phase: Phase,
    /// Nothing is enqueued, only counted.
    pub dry_run: bool,
    /// Pages that were read.
    pub pages: u64,
    /// Different floating IPs that were read.
    pub discovered: u64,
    /// Of these, free ones.
    pub free: u64,
    /// What became of the free ones.
    pub tally: Tally,
    /// When it began.
    pub started_at: Option<Utc>,
    /// When it ended.
    pub finished_at: Option<Utc>,
    /// Why it failed or was broken off.
    pub error: String,
}

impl Scan {
    /// The scan after `event`.
    ///
    /// What was read is never enqueued in part: a scan that fails or is cancelled before
    /// [`Event::Listed`] has changed nothing, and after it it cannot be cancelled any more.
    ///
    /// # Errors
    /// [`Refused`] if the phase has no such step.
    pub fn step(&self, event: &Event, now: Utc) -> Result<Self, Refused> {
        let mut next = self.clone();
        match (self.phase, event) {
            (
                Phase::Idle | Phase::Done | Phase::Error | Phase::Cancelled,
                Event::Begin { dry_run, clears },
            ) => {
                next = Self {
                    phase: if *clears {
                        Phase::Clearing
                    } else {
                        Phase::Listing
                    },
                    dry_run: *dry_run,
                    started_at: Some(now),
                    ..Self::default()
                };
            }
            (Phase::Clearing, Event::Cleared) => next.phase = Phase::Listing,
            (Phase::Listing, Event::Page { discovered, free }) => {
                next.pages = self.pages.saturating_add(1);
                next.discovered = *discovered;
                next.free = *free;
            }
            (Phase::Listing, Event::Listed) if self.dry_run => next.end(Phase::Done, now),
            (Phase::Listing, Event::Listed) => next.phase = Phase::Enqueuing,
            (Phase::Enqueuing, Event::Enqueued(more)) => next.tally = self.tally.plus(*more),
            (Phase::Enqueuing, Event::Finished) => next.end(Phase::Done, now),
            (Phase::Clearing | Phase::Listing | Phase::Enqueuing, Event::Failed(why)) => {
                next.error.clone_from(why);
                next.end(Phase::Error, now);
            }
            (Phase::Clearing | Phase::Listing, Event::Cancel) => {
                "it was broken off before anything was enqueued".clone_into(&mut next.error);
                next.end(Phase::Cancelled, now);
            }
            (phase, _) => return Err(Refused(phase)),
        }
        Ok(next)
    }

    const fn end(&mut self, phase: Phase, now: Utc) {
        self.phase = phase;
        self.finished_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<(&'static str, Event)> {
        let begin = |dry_run, clears| Event::Begin { dry_run, clears };
        vec![
            ("begin", begin(false, false)),
            ("begin (dry run)", begin(true, false)),
            ("begin (clearing)", begin(false, true)),
            ("cleared", Event::Cleared),
            (
                "page",
                Event::Page {
                    discovered: 5,
                    free: 2,
                },
            ),
            ("listed", Event::Listed),
            (
                "enqueued",
                Event::Enqueued(Tally {
                    added: 2,
                    ..Tally::default()
                }),
            ),
            ("finished", Event::Finished),
            ("failed", Event::Failed("why".to_owned())),
            ("cancel", Event::Cancel),
        ]
    }

    fn in_phase(phase: Phase) -> Scan {
        let begin = |clears| Event::Begin {
            dry_run: false,
            clears,
        };
        let way = match phase {
            Phase::Idle => vec![],
            Phase::Clearing => vec![begin(true)],
            Phase::Listing => vec![begin(false)],
            Phase::Enqueuing => vec![begin(false), Event::Listed],
            Phase::Done => vec![begin(false), Event::Listed, Event::Finished],
            Phase::Error => vec![begin(false), Event::Failed(String::new())],
            Phase::Cancelled => vec![begin(false), Event::Cancel],
        };
        let start = Scan::default();
        way.iter()
            .fold(start, |scan, event| scan.step(event, Utc::EPOCH).unwrap())
    }

    const MATRIX: &str = "\
event               idle       clearing   listing    enqueuing  done       error      cancelled
begin               listing    -          -          -          listing    listing    listing
begin (dry run)     listing    -          -          -          listing    listing    listing
begin (clearing)    clearing   -          -          -          clearing   clearing   clearing
cleared             -          listing    -          -          -          -          -
page                -          -          =          -          -          -          -
listed              -          -          enqueuing  -          -          -          -
enqueued            -          -          -          =          -          -          -
finished            -          -          -          done       -          -          -
failed              -          error      error      error      -          -          -
cancel              -          cancelled  cancelled  -          -          -          -
";

    #[test]
    fn every_event_in_every_phase() {
        let mut text = format!("{:<20}", "event");
        for phase in Phase::ALL {
            text.push_str(&format!("{:<11}", phase.as_str()));
        }
        for (label, event) in events() {
            text.truncate(text.trim_end().len());
            text.push_str(&format!("\n{label:<20}"));
            for phase in Phase::ALL {
                let scan = in_phase(phase);
                assert_eq!(scan.phase, phase);
                let cell = match scan.step(&event, Utc::EPOCH) {
                    Err(refused) => {
                        assert_eq!(refused, Refused(phase));
                        "-"
                    }
                    Ok(next) if next.phase == phase => "=",
                    Ok(next) => next.phase.as_str(),
                };
                text.push_str(&format!("{cell:<11}"));
            }
        }
        assert_eq!(format!("{}\n", text.trim_end()), MATRIX);
    }

    #[test]
    fn a_dry_run_ends_with_the_listing_and_a_new_scan_forgets_the_last() {
        let at = |n| Utc::EPOCH.plus_secs(n);
        let dry = Event::Begin {
            dry_run: true,
            clears: false,
        };
        let scan = in_phase(Phase::Error).step(&dry, at(1)).unwrap();
        assert_eq!(scan.error, "");
        let page = Event::Page {
            discovered: 7,
            free: 3,
        };
        let scan = scan
            .step(&page, at(2))
            .unwrap()
            .step(&Event::Listed, at(3))
            .unwrap();
        assert_eq!((scan.phase, scan.pages, scan.free), (Phase::Done, 1, 3));
        assert_eq!(
            (scan.started_at, scan.finished_at),
            (Some(at(1)), Some(at(3)))
        );
        assert!(!scan.phase.is_running());
    }
}
