//! What a commit has changed, for those who wait. May be lost: whoever waits looks again anyway.

use civ_types::{SiteId, ValidatorId};

/// Who should look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The assignment of this validator has changed.
    Validator(ValidatorId),
    /// The list of addresses in `checking`, or what is checked of them, has changed.
    Sites,
    /// The outbox has something new for the cloud.
    Outbox,
    /// The history has new entries.
    Events,
    /// This validator claims nothing until its next report.
    Silenced(ValidatorId),
    /// This name was given or taken away: what memory knows of the validator is over.
    ValidatorReset(ValidatorId),
    /// This name was given or taken away: what memory knows of the site is over.
    SiteReset(SiteId),
    /// The depth of the history has changed: what is too old can be cut.
    Retention,
    /// An address or a validator may have become free, or a deadline has moved.
    Schedule,
    /// There is something new to tell a receiver.
    Notifications,
}
