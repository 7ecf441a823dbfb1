//! What a commit has changed, for those who wait. May be lost: whoever waits looks again anyway.

use civ_types::ValidatorId;

/// Who should look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The assignment of this validator has changed.
    Validator(ValidatorId),
    /// The list of addresses in `checking`, or what is checked of them, has changed.
    Sites,
    /// The outbox has something new for the cloud.
    Outbox,
    /// This validator claims nothing until its next report.
    Silenced(ValidatorId),
    /// An address or a validator may have become free, or a deadline has moved.
    Schedule,
}
