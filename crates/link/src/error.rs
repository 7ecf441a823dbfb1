//! What can go wrong on the link, told apart by what the caller does about it.

use std::path::PathBuf;
use std::time::Duration;

/// Why a client could not be made. Nothing of this heals by waiting.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Neither `http://` nor `https://`, or without a host.
    #[error("control_api.url {0:?} must be an http:// or https:// address of control-api")]
    BadUrl(String),
    /// A PEM file that cannot be read.
    #[error("the PEM file {path:?} cannot be read: give the path of a file in PEM format")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate file without a certificate.
    #[error("{path:?} holds no certificate: it must be in PEM format")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificates that the TLS library does not take.
    #[error("the certificates for the link to control-api cannot be used")]
    Tls(#[source] rustls::Error),
    /// The HTTP library refused its settings.
    #[error("the HTTP client for control-api cannot be made")]
    Http(#[source] reqwest::Error),
}

/// Why a request was not answered as the contract says.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No connection, or it broke, or the time was up.
    #[error("control-api did not answer {what}")]
    Unreachable {
        /// Method and path.
        what: String,
        /// What the HTTP library says.
        #[source]
        source: reqwest::Error,
    },
    /// An answer with a status that is no success.
    #[error("control-api refused {what} with {status}: {text}")]
    Refused {
        /// Method and path.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The `error` of the body, or the body's beginning.
        text: String,
        /// `Retry-After`, if it is a number of seconds.
        retry_after: Option<Duration>,
    },
    /// A success whose body is not the contract's, or too long.
    #[error("control-api's answer to {what} is not the contract's: {why}")]
    BadAnswer {
        /// Method and path.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What a failed report means for the work that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The report may still arrive: send it again.
    Again,
    /// The claim is over (409), or the server does not know us any more (404).
    Over,
    /// The server will never take this report.
    Never,
}

impl LinkError {
    /// Reads the table of statuses (API, Conventions) as advice for a report.
    ///
    /// A 401 is tried again: a token is being rotated, or the operator will put it right, and the
    /// end of the claim bounds the tries.
    pub(crate) const fn fate(&self) -> Fate {
        match self {
            Self::Unreachable { .. } | Self::BadAnswer { .. } => Fate::Again,
            Self::Refused { status, .. } => match *status {
                404 | 409 | 410 => Fate::Over,
                401 | 403 | 408 | 425 | 429 => Fate::Again,
                400..=499 => Fate::Never,
                _ => Fate::Again,
            },
        }
    }

    /// The server's `Retry-After`.
    pub(crate) const fn advice(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. } | Self::BadAnswer { .. } => None,
        }
    }

    /// The HTTP status of a refusal.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable { .. } | Self::BadAnswer { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Fate {
        let (what, text) = (String::new(), String::new());
        let retry_after = None;
        LinkError::Refused {
            what,
            status,
            text,
            retry_after,
        }
        .fate()
    }

    #[test]
    fn a_conflict_ends_the_claim_and_bad_input_ends_the_report() {
        assert_eq!([404, 409].map(refused), [Fate::Over; 2]);
        assert_eq!([400, 405, 413].map(refused), [Fate::Never; 3]);
    }

    #[test]
    fn what_may_heal_is_tried_again() {
        assert_eq!(
            [301, 401, 408, 429, 500, 502, 503, 504].map(refused),
            [Fate::Again; 8]
        );
    }
}
