//! Places at which a process can be made to die as by `kill -9`, exactly there and without luck.
//!
//! It owns the list of them and the dying; it knows nothing of what the steps are about. Without
//! the feature `crash-points` a step is nothing but its work: no name, no look, no variable.
#![warn(missing_docs)]

use std::fmt;

/// The variable that says where to die: [`Point`], or `POINT:N` for its n-th passage (from 1).
pub const VARIABLE: &str = "CIV_CRASH_AT";

macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $step:ident = $name:literal,)+) => {
        /// A step that changes something outside of the process, or asks the cloud.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Step {
            $($(#[doc = $doc])+ $step,)+
        }

        impl Step {
            /// All of them, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$step),+];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)+
                }
            }
        }
    };
}

steps! {
    /// Commit: deadlines are moved and tables filled at the start.
    Resume = "resume",
    /// Commit: signs of life.
    Signs = "signs",
    /// Commit: deadlines are moved by time in which nobody could be heard.
    LostTime = "lost_time",
    /// Commit: what is due is ticked.
    Tick = "tick",
    /// Commit: free validators claim.
    Claim = "claim",
    /// Commit: a part of the history is cut.
    Retention = "retention",
    /// Commit: which floating IP an association is about.
    FipFound = "fip_found",
    /// Commit: how an association went.
    AssociateAnswered = "associate_answered",
    /// Commit: a release is done.
    Released = "released",
    /// Commit: a release is tried again later.
    ReleaseFailed = "release_failed",
    /// Commit: what hangs on our port without an owner gets a lease.
    AdoptOrphan = "adopt_orphan",
    /// Commit: what was taken off our port goes back to the queue.
    Detached = "detached",
    /// Commit: what an earlier scan has only found is forgotten, at the start.
    ScanRecover = "scan_recover",
    /// Commit: the same, before a scan writes down what it has found.
    ScanForget = "scan_forget",
    /// Commit: some of what a scan has found.
    ScanNote = "scan_note",
    /// Commit: what was found becomes the plan.
    ScanPlan = "scan_plan",
    /// Commit: what was found may not be all.
    ScanUnproven = "scan_unproven",
    /// Commit: some of the plan is enqueued, with the last of it the end of the scan.
    ScanChunk = "scan_chunk",
    /// Commit: a scan that only counts has ended.
    ScanCounted = "scan_counted",
    /// Commit: a scan has failed.
    ScanFailed = "scan_failed",
    /// Commit: some of the queue is cleared for a round, with the last of it the step.
    ClearChunk = "clear_chunk",
    /// Commit: the auto-cycle goes on to its next phase.
    CycleTick = "cycle_tick",
    /// Commit: the cloud is away, or back.
    Outage = "outage",
    /// Call: the floating IP of an address is looked for.
    CloudFind = "cloud_find",
    /// Call: one floating IP is read.
    CloudGet = "cloud_get",
    /// Call: what hangs on our ports is listed.
    CloudOnPorts = "cloud_on_ports",
    /// Call: one page of a scan.
    CloudPage = "cloud_page",
    /// Call: how many floating IPs there are by the cloud's count.
    CloudCount = "cloud_count",
    /// Call: a floating IP is bound or freed.
    CloudSetPort = "cloud_set_port",
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// On which side of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// It is about to begin.
    Before,
    /// It is done: the commit is on the disk, the cloud has answered.
    After,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// A place at which the process can die; its text is `before_scan_plan` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// Of which step.
    pub step: Step,
    /// On which side of it.
    pub side: Side,
}

impl Point {
    /// All of them, in the order of the steps.
    pub fn all() -> impl Iterator<Item = Self> {
        let sides = [Side::Before, Side::After];
        let of = move |step: &Step| sides.map(|side| Self { step: *step, side });
        Step::ALL.iter().flat_map(of)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.side, self.step)
    }
}

/// The variable names no point, or no passage of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}={0} is no crash point: write its name, or name and passage as in scan_chunk:2")]
pub struct Unknown(pub String);

/// `POINT` or `POINT:N`.
///
/// # Errors
/// [`Unknown`] if there is no such point, or `N` is no number from 1 on.
pub fn parse(text: &str) -> Result<(Point, u32), Unknown> {
    let (name, passage) = text.split_once(':').unwrap_or((text, "1"));
    let point = Point::all().find(|point| point.to_string() == name);
    let passage = passage.parse().ok().filter(|passage| 1 <= *passage);
    let unknown = || Unknown(text.to_owned());
    Ok((point.ok_or_else(unknown)?, passage.ok_or_else(unknown)?))
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{Point, Side, Step, Unknown, parse};

    static AT: OnceLock<(Point, u32)> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);

    /// Chooses where this process dies; without a text, nowhere.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn arm(text: Option<&str>) -> Result<(), Unknown> {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let chosen = parse(text)?;
            AT.get_or_init(|| chosen);
        }
        Ok(())
    }

    /// Passes a point, or dies at it.
    pub fn pass(step: Step, side: Side) {
        let Some((point, passage)) = AT.get() else {
            return;
        };
        if *point == (Point { step, side }) && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *passage
        {
            die();
        }
    }

    /// The signal is delivered before the call returns: nothing of the process runs after it, and
    /// nothing of it can be caught.
    fn die() {
        let me = rustix::process::getpid();
        if rustix::process::kill_process(me, rustix::process::Signal::KILL).is_err() {
            std::process::abort();
        }
    }
}
#[cfg(feature = "crash-points")]
pub use armed::{arm, pass};

/// Carries out a step: `step!(ScanPlan, work)`. The process can die right before it and right
/// after it.
#[cfg(feature = "crash-points")]
#[macro_export]
macro_rules! step {
    ($step:ident, $work:expr) => {{
        $crate::pass($crate::Step::$step, $crate::Side::Before);
        let done = $work;
        $crate::pass($crate::Step::$step, $crate::Side::After);
        done
    }};
}

/// Carries out a step: nothing but its work.
#[cfg(not(feature = "crash-points"))]
#[macro_export]
macro_rules! step {
    ($step:ident, $work:expr) => {
        $work
    };
}

/// Chooses where the process dies: `arm!(|name| …)?` with what reads a variable.
#[cfg(feature = "crash-points")]
#[macro_export]
macro_rules! arm {
    ($read:expr) => {
        $crate::arm($read($crate::VARIABLE).as_deref())
    };
}

/// Chooses nothing and reads nothing.
#[cfg(not(feature = "crash-points"))]
#[macro_export]
macro_rules! arm {
    ($read:expr) => {
        Ok::<(), std::convert::Infallible>(())
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn points_are_told_apart_by_their_names() {
        let names: BTreeSet<String> = Point::all().map(|point| point.to_string()).collect();
        assert_eq!(names.len(), 2 * Step::ALL.len());
        for point in Point::all() {
            assert_eq!(parse(&point.to_string()), Ok((point, 1)));
            assert_eq!(parse(&format!("{point}:3")), Ok((point, 3)));
        }
    }

    #[test]
    fn what_is_no_point_is_refused() {
        for text in [
            "",
            "scan_plan",
            "before_nothing",
            "before_claim:0",
            "after_claim:x",
        ] {
            assert_eq!(parse(text), Err(Unknown(text.to_owned())));
        }
    }
}
