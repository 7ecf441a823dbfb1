//! The other door: to storage and back.

use std::fmt;

use civ_types::Utc;

use super::lease::{Lease, Place};
use super::state::{
    Aggregating, AssigningFip, Attempt, AwaitingSelfCheck, Checking, Done, Failed, Head, Occupied,
    Queued,
};
use crate::expected::Verdict;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant),*
        }

        impl $name {
            /// All of them, in the order of the life of an address.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The one word for it, in code, database, JSON, metrics and documents.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            /// The other way round; `None` for any other word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// The name of a state.
    StateName {
        /// See [`Queued`].
        Queued = "queued",
        /// See [`AssigningFip`].
        AssigningFip = "assigning_fip",
        /// See [`AwaitingSelfCheck`].
        AwaitingSelfCheck = "awaiting_self_check",
        /// See [`Checking`].
        Checking = "checking",
        /// See [`Aggregating`].
        Aggregating = "aggregating",
        /// See [`Done`].
        Done = "done",
        /// See [`Failed`].
        Failed = "failed",
        /// See [`Occupied`].
        Occupied = "occupied",
    }
}

impl StateName {
    /// Does the attempt end here?
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Occupied)
    }
}

words! {
    /// Why an attempt is `failed`.
    Cause {
        /// By an operator.
        Cancelled = "cancelled",
        /// Too many address-specific cloud errors.
        AssignRetries = "assign_retries",
        /// Too many failed self-checks and expired leases.
        SelfCheckRetries = "self_check_retries",
    }
}

words! {
    /// `overall_result` of the contract.
    Outcome {
        /// All expected checks succeeded.
        Pass = "pass",
        /// Some did.
        Partial = "partial",
        /// None did, or the retries were used up.
        Fail = "fail",
        /// Broken off by an operator.
        Cancelled = "cancelled",
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Partial => Self::Partial,
            Verdict::Fail => Self::Fail,
        }
    }
}

/// An attempt as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What every state knows.
    pub head: Head,
    /// Which state.
    pub state: StateName,
    /// The state's deadline: one column for all timers, so that "what is due" is one index.
    pub due_at: Option<Utc>,
    /// From `aggregating` on.
    pub verdict: Option<Verdict>,
    /// In `failed`.
    pub cause: Option<Cause>,
}

impl Row {
    /// The contract's `overall_result`: none while open and for `occupied`.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            StateName::Done => self.verdict.map(Outcome::from),
            StateName::Failed => Some(match self.cause {
                Some(Cause::Cancelled) => Outcome::Cancelled,
                Some(Cause::AssignRetries | Cause::SelfCheckRetries) | None => Outcome::Fail,
            }),
            StateName::Queued
            | StateName::AssigningFip
            | StateName::AwaitingSelfCheck
            | StateName::Checking
            | StateName::Aggregating
            | StateName::Occupied => None,
        }
    }
}

/// A stored row that no state could have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address that is {state} has no {missing}")]
pub struct CorruptRow {
    /// The state that the row names.
    pub state: StateName,
    /// The column that this state needs.
    pub missing: &'static str,
}

impl Attempt {
    /// As it is stored.
    #[must_use]
    pub fn to_row(&self) -> Row {
        let mut row = Row {
            head: self.head().clone(),
            state: self.name(),
            due_at: None,
            verdict: None,
            cause: None,
        };
        match self {
            Self::Queued(_) | Self::Occupied(_) => {}
            Self::AssigningFip(state) => row.due_at = Some(state.answer_due),
            Self::AwaitingSelfCheck(state) => row.due_at = Some(state.lease_ends),
            Self::Checking(state) => row.due_at = Some(state.window_ends),
            Self::Aggregating(state) => {
                row.due_at = Some(state.grace_ends);
                row.verdict = Some(state.verdict);
            }
            Self::Done(state) => row.verdict = Some(state.verdict),
            Self::Failed(state) => row.cause = Some(state.cause),
        }
        row
    }

    /// From storage.
    ///
    /// # Errors
    /// [`CorruptRow`] names the column that is missing; nothing is guessed.
    pub fn from_row(row: Row) -> Result<Self, CorruptRow> {
        let Row {
            head,
            state,
            due_at,
            verdict,
            cause,
        } = row;
        let need = |missing| CorruptRow { state, missing };
        let due = due_at.ok_or_else(|| need("due_at"));
        let lease = |place: Option<Place>| {
            let place = place.ok_or_else(|| need("validator_id"))?;
            Ok(Lease::new(head.claim, place))
        };
        Ok(match state {
            StateName::Queued => Queued { head }.into(),
            StateName::AssigningFip => {
                let lease = lease(head.place.clone())?;
                AssigningFip {
                    head,
                    lease,
                    answer_due: due?,
                }
                .into()
            }
            StateName::AwaitingSelfCheck => {
                let lease = lease(head.place.clone())?;
                let associated_at = head
                    .stamps
                    .associated
                    .ok_or_else(|| need("fip_associated_at"))?;
                AwaitingSelfCheck {
                    head,
                    lease,
                    associated_at,
                    lease_ends: due?,
                }
                .into()
            }
            StateName::Checking => {
                let lease = lease(head.place.clone())?;
                Checking {
                    head,
                    lease,
                    window_ends: due?,
                }
                .into()
            }
            StateName::Aggregating => {
                let verdict = verdict.ok_or_else(|| need("verdict"))?;
                Aggregating {
                    head,
                    verdict,
                    grace_ends: due?,
                }
                .into()
            }
            StateName::Done => Done {
                head,
                verdict: verdict.ok_or_else(|| need("verdict"))?,
            }
            .into(),
            StateName::Failed => Failed {
                head,
                cause: cause.ok_or_else(|| need("cause"))?,
            }
            .into(),
            StateName::Occupied => Occupied { head }.into(),
        })
    }

    /// What every state knows, for the next attempt.
    pub(super) fn into_head(self) -> Head {
        match self {
            Self::Queued(state) => state.head,
            Self::AssigningFip(state) => state.head,
            Self::AwaitingSelfCheck(state) => state.head,
            Self::Checking(state) => state.head,
            Self::Aggregating(state) => state.head,
            Self::Done(state) => state.head,
            Self::Failed(state) => state.head,
            Self::Occupied(state) => state.head,
        }
    }
}
