//! Faults that are planted into the product, one at a time, to prove that the simulation finds
//! them.
//!
//! It owns the list of them and which one is active; it knows nothing of what they are about.
//! Without the feature `planted-faults` [`is!`] is `false`: no name, no look, no variable.
#![warn(missing_docs)]

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident = $name:literal, $rule:literal;)+) => {
        /// A fault that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Planted {
            $($(#[doc = $doc])+ $fault,)+
        }

        impl Planted {
            /// All of them, in the order of the rules.
            pub const ALL: &[Self] = &[$(Self::$fault),+];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)+
                }
            }

            /// The rule that it breaks: a number from 1 to 12, or a word.
            #[must_use]
            pub const fn rule(self) -> &'static str {
                match self {
                    $(Self::$fault => $rule,)+
                }
            }

            /// What is wrong, in a sentence.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self {
                    $(Self::$fault => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

faults! {
    /// A validator that has a lease claims again, over it.
    ClaimsOverLease = "claims_over_lease", "1";
    /// A foreign port counts as none.
    TakesForeign = "takes_foreign", "2";
    /// Addresses are bound without a condition on their revision.
    WritesUnconditionally = "writes_unconditionally", "2";
    /// Nobody looks whether somebody else wrote at the same time.
    TrustsItsWrite = "trusts_its_write", "2";
    /// A requeue forgets the lease instead of releasing it.
    RequeueForgets = "requeue_forgets", "3";
    /// A cancelled attempt leaves its lease behind.
    CancelLeavesLease = "cancel_leaves_lease", "3";
    /// An association's order is removed before the answer.
    OrderRemovedEarly = "order_removed_early", "3";
    /// A release whose answer was lost counts as done.
    LostReleaseIsDone = "lost_release_is_done", "3";
    /// What hangs on our ports without an owner stays there.
    OrphansIgnored = "orphans_ignored", "3";
    /// What was taken off our ports is not noticed.
    DetachedIgnored = "detached_ignored", "3";
    /// Two calls are made for one claim at the same time.
    TwoCallsAClaim = "two_calls_a_claim", "3";
    /// A release does not look at the port.
    ReleasesForeign = "releases_foreign", "4";
    /// A release that failed ends the lease all the same.
    FailedReleaseEnds = "failed_release_ends", "5";
    /// A write is answered as done although its commit failed.
    AnswersUncommitted = "answers_uncommitted", "6";
    /// Results that come before the self-check's answer are accepted and dropped.
    EarlyResultsDropped = "early_results_dropped", "6";
    /// The fence of a report is not compared.
    FenceIgnored = "fence_ignored", "7";
    /// Results of an earlier claim count.
    OldResultsCount = "old_results_count", "7";
    /// Failed self-checks and expired leases are not counted.
    RetryNotCounted = "retry_not_counted", "8";
    /// The window of the checks never ends.
    WindowForgotten = "window_forgotten", "8";
    /// A release that does not come is waited for without end.
    GraceForgotten = "grace_forgotten", "8";
    /// A lease never expires.
    LeaseForgotten = "lease_forgotten", "8";
    /// The history of an address goes with the address.
    HistoryDeleted = "history_deleted", "9";
    /// Deadlines are not moved by the time that the process was down.
    DownTimeCounts = "down_time_counts", "10";
    /// Associations that were ordered are forgotten at a restart.
    RestartDropsOrders = "restart_drops_orders", "10";
    /// The newest address is claimed first.
    NewestFirst = "newest_first", "11";
    /// A requeued address keeps its place in front of the others.
    RequeueKeepsPlace = "requeue_keeps_place", "11";
    /// A fault of the cloud uses up a retry of the address.
    CloudFaultIsRetry = "cloud_fault_is_retry", "12";
    /// A fault of a port uses up a retry of the address.
    PortFaultIsRetry = "port_fault_is_retry", "12";
    /// Claims go on while the cloud is away.
    GateStaysOpen = "gate_stays_open", "12";
    /// A lease that expires in silence uses up a retry.
    SilenceIsRetry = "silence_is_retry", "claims";
    /// A validator without a sign of life claims.
    UnreachableClaims = "unreachable_claims", "claims";
    /// A silent validator goes on claiming.
    SilentClaims = "silent_claims", "claims";
    /// A fresh association is handed out before its pause is over.
    PauseIgnored = "pause_ignored", "pause";
    /// A self-check through another address passes.
    OtherAddressPasses = "other_address_passes", "verdict";
    /// Missing checks count as passed.
    MissingPasses = "missing_passes", "verdict";
    /// Checks that could not be carried out count as passed.
    InconclusivePasses = "inconclusive_passes", "verdict";
    /// A check that was removed from the configuration still counts.
    RemovedCounts = "removed_counts", "verdict";
}

#[cfg(feature = "planted-faults")]
mod active {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Planted;

    /// Its place in the list, from 1; 0: none.
    static ACTIVE: AtomicUsize = AtomicUsize::new(0);

    /// Plants a fault, or none, in this process.
    pub fn plant(fault: Option<Planted>) {
        ACTIVE.store(
            fault.map_or(0, |fault| fault as usize + 1),
            Ordering::SeqCst,
        );
    }

    /// Whether this fault is planted.
    ///
    /// # Panics
    /// Never; the text is what a shipped build is searched for.
    #[must_use]
    pub fn is_planted(fault: Planted) -> bool {
        let active = ACTIVE.load(Ordering::Relaxed);
        assert!(active <= Planted::ALL.len(), "CIV_PLANTED_FAULTS: {active}");
        active == fault as usize + 1
    }
}

#[cfg(feature = "planted-faults")]
pub use active::{is_planted, plant};

/// Whether this fault of [`Planted`] is planted.
#[cfg(feature = "planted-faults")]
#[macro_export]
macro_rules! is {
    ($fault:ident) => {
        $crate::is_planted($crate::Planted::$fault)
    };
}

/// Whether this fault of [`Planted`] is planted: never, in this build.
#[cfg(not(feature = "planted-faults"))]
#[macro_export]
macro_rules! is {
    ($fault:ident) => {
        false
    };
}
