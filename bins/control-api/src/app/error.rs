//! Why a use case did not do what was asked, free of any transport.

use std::fmt;

use civ_store::agents::NotAccepted;
use civ_store::{NotAdvanced, StoreError};

/// Why a use case did not do what was asked; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The input is wrong; the text names the field, the value and what is allowed.
    #[error("{0}")]
    BadInput(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The thing is in a state in which this cannot be done.
    #[error("{0}")]
    Conflict(String),
    /// Not now; the text says why.
    #[error("{0}")]
    Unavailable(String),
    /// The cloud failed; the text says how.
    #[error("{0}")]
    Cloud(String),
    /// The database failed. The cause goes to the log, not to the caller.
    #[error("the database failed")]
    Store(#[from] StoreError),
}

impl AppError {
    /// A value that is not allowed for a field.
    pub(super) fn bad(field: &str, value: impl fmt::Debug, allowed: impl fmt::Display) -> Self {
        Self::BadInput(format!("{field}: {value:?} is not allowed: {allowed}"))
    }
}

impl From<NotAccepted> for AppError {
    fn from(error: NotAccepted) -> Self {
        match error {
            NotAccepted::Stale(text) => Self::Conflict(text),
            NotAccepted::Store(error) => Self::Store(error),
        }
    }
}

impl From<NotAdvanced> for AppError {
    fn from(error: NotAdvanced) -> Self {
        match error {
            NotAdvanced::Store(error) => Self::Store(error),
            NotAdvanced::Unknown => Self::NotFound(NotAdvanced::Unknown.to_string()),
            NotAdvanced::Refused(refused) => Self::Conflict(refused.to_string()),
        }
    }
}
