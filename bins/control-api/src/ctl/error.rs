//! What ends a command of `ctl` early, in sentences.

use std::path::Path;

use crate::tls::TlsError;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum CtlError {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The file, the token or the address cannot be used.
    #[error("{0}")]
    Settings(String),
    /// A certificate file cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No answer.
    #[error("{0}")]
    Away(String),
    /// The server said no, or something that is no answer of control-api.
    #[error("{0}")]
    Refused(String),
    /// Standard input cannot be read.
    #[error("cannot read the addresses from standard input")]
    Input(#[source] std::io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
    /// Whoever read the output has gone: no fault.
    #[error("the reader of the output has gone")]
    Closed,
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Http(#[source] reqwest::Error),
    /// No runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// What commands return.
pub(super) type Result<T> = std::result::Result<T, CtlError>;

impl CtlError {
    /// A file of the settings that cannot be read.
    pub(super) fn unreadable(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::Settings(format!("cannot read {}: {why}", path.display()))
    }
}
