//! Whose fault it is: the one table from an OpenStack answer to [`Fault`].

use std::time::Duration;

use crate::clip::clip;
use crate::wire::ErrorBody;

/// Why a call failed, by who has to do something about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// This one address: gone, or refused by the cloud for a reason of its own.
    #[error("{text}")]
    Address {
        /// What the cloud said.
        text: String,
    },
    /// The validator's port: any other address would fail on it too.
    #[error("{text}")]
    Port {
        /// What the cloud said.
        text: String,
    },
    /// The cloud, the way to it, or our credentials: any call would fail now.
    #[error("{text}")]
    Cloud {
        /// What was seen.
        text: String,
        /// How long the cloud asks us to wait, if it says so (RFC 9110, 10.2.3), in whole seconds.
        retry_after: Option<Duration>,
    },
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// 412: somebody changed it since it was read. Nothing was written.
    #[error("the floating IP was changed since it was read")]
    Stale,
    /// No answer, or one that does not say: the write may or may not have been carried out, and
    /// may still be. Read before deciding.
    #[error("{text}")]
    AnswerLost {
        /// What was seen instead of an answer.
        text: String,
        /// As in [`Fault::Cloud`].
        retry_after: Option<Duration>,
    },
    /// Refused: nothing was written.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a read failed, with what whoever repeats it has to know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ReadFault {
    /// What was seen.
    pub text: String,
    /// As in [`Fault::Cloud`].
    pub retry_after: Option<Duration>,
    /// Whether the same call may well succeed a moment later: no answer, a broken one, 5xx, 408,
    /// 429, or a refusal that names a time to wait. Other refusals stay what they are.
    pub passes: bool,
}

impl ReadFault {
    /// No answer, or one that is not understood.
    #[must_use]
    pub fn passing(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            retry_after: None,
            passes: true,
        }
    }

    /// Something that repeating does not change.
    #[must_use]
    pub fn lasting(text: impl Into<String>) -> Self {
        Self {
            passes: false,
            ..Self::passing(text)
        }
    }

    pub(crate) fn refused(refusal: &Refusal) -> Self {
        let status = refusal.status;
        Self {
            text: describe(refusal),
            retry_after: refusal.retry_after,
            passes: status >= 500 || matches!(status, 408 | 429) || refusal.retry_after.is_some(),
        }
    }
}

/// Whatever is refused to a read is no single address's fault.
impl From<ReadFault> for Fault {
    fn from(fault: ReadFault) -> Self {
        Self::Cloud {
            text: fault.text,
            retry_after: fault.retry_after,
        }
    }
}

impl From<ReadFault> for WriteFault {
    fn from(fault: ReadFault) -> Self {
        Self::Fault(fault.into())
    }
}

impl Fault {
    /// A fault of the cloud that names no time to wait.
    #[must_use]
    pub fn cloud(text: impl Into<String>) -> Self {
        Self::Cloud {
            text: text.into(),
            retry_after: None,
        }
    }
}

/// The part of an HTTP answer that decides.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// HTTP status, not 2xx.
    pub(crate) status: u16,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<Duration>,
    /// The error body, as far as it could be read.
    pub(crate) body: ErrorBody,
    /// What was asked, for the message: `PUT /v2.0/floatingips/<id>`.
    pub(crate) asked: String,
}

/// Neutron's error types that blame the port (`NeutronError.type`).
const PORT_TYPES: [&str; 3] = [
    "PortNotFound",
    "ExternalGatewayForFloatingIPNotFound",
    "FloatingIPPortAlreadyAssociated",
];

/// Words of a 400 about a port that can take no floating IP as it is: several fixed addresses,
/// none, or an id that is none. Neutron gives them no type of their own.
const PORT_WORDS: [&str; 3] = [
    "multiple fixed IPv4 addresses",
    "no fixed IPv4 addresses",
    "Invalid input for port_id",
];

/// The table, for a write. Every answer that is no success goes through it.
pub(crate) fn blame(refusal: &Refusal) -> WriteFault {
    let text = describe(refusal);
    let kind = refusal.body.kind.as_deref().unwrap_or_default();
    let message = refusal.body.message.as_str();
    match refusal.status {
        412 => WriteFault::Stale,
        // A proxy says 502 to 504 about requests that were carried out, too, and Neutron's own
        // 500 may come after its commit.
        500..=599 => lost_write(text, refusal.retry_after),
        400 | 404 | 409 if PORT_TYPES.contains(&kind) => Fault::Port { text }.into(),
        400 if PORT_WORDS.iter().any(|words| message.contains(words)) => {
            Fault::Port { text }.into()
        }
        404 if is_missing(refusal) => Fault::Address { text }.into(),
        400 | 409 => Fault::Address { text }.into(),
        // Also a 404 without Neutron's own type: a wrong endpoint or a proxy, and no address's
        // fault.
        _ => cloud_fault(text, refusal).into(),
    }
}

/// Whether Neutron itself says that there is no such floating IP.
pub(crate) fn is_missing(refusal: &Refusal) -> bool {
    refusal.status == 404 && refusal.body.kind.as_deref() == Some("FloatingIPNotFound")
}

pub(crate) const fn lost_write(text: String, retry_after: Option<Duration>) -> WriteFault {
    WriteFault::AnswerLost { text, retry_after }
}

const fn cloud_fault(text: String, refusal: &Refusal) -> Fault {
    Fault::Cloud {
        text,
        retry_after: refusal.retry_after,
    }
}

fn describe(refusal: &Refusal) -> String {
    let Refusal { status, asked, .. } = refusal;
    let said = clip(&refusal.body.message);
    let kind = refusal.body.kind.as_deref().map(clip);
    match (kind, said.is_empty()) {
        (Some(kind), _) => format!("{asked} was answered {status} {kind}: {said}"),
        (None, false) => format!("{asked} was answered {status}: {said}"),
        (None, true) => format!("{asked} was answered {status} without a reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, kind: &str, message: &str) -> Refusal {
        Refusal {
            status,
            retry_after: None,
            body: ErrorBody {
                kind: (!kind.is_empty()).then(|| kind.to_owned()),
                message: message.to_owned(),
            },
            asked: "PUT /v2.0/floatingips/f".to_owned(),
        }
    }

    /// `row => who is to blame`, for a write; reads blame the cloud for everything.
    macro_rules! rows {
        ($($name:ident: ($status:literal, $kind:literal, $message:literal) => $blamed:pat,)*) => {$(
            #[test]
            fn $name() {
                let refusal = refusal($status, $kind, $message);
                let blamed = blame(&refusal);
                assert!(matches!(blamed, $blamed), "{blamed:?}");
                assert!(matches!(ReadFault::refused(&refusal).into(), Fault::Cloud { .. }));
            }
        )*};
    }

    rows! {
        unknown_port: (404, "PortNotFound", "") => WriteFault::Fault(Fault::Port { .. }),
        no_router: (404, "ExternalGatewayForFloatingIPNotFound", "")
            => WriteFault::Fault(Fault::Port { .. }),
        port_has_another: (409, "FloatingIPPortAlreadyAssociated", "")
            => WriteFault::Fault(Fault::Port { .. }),
        several_fixed: (400, "BadRequest", "Port p has multiple fixed IPv4 addresses. Must …")
            => WriteFault::Fault(Fault::Port { .. }),
        no_fixed: (400, "BadRequest", "Cannot add … to port p that has no fixed IPv4 addresses")
            => WriteFault::Fault(Fault::Port { .. }),
        malformed_port: (400, "HTTPBadRequest", "Invalid input for port_id. Reason: …")
            => WriteFault::Fault(Fault::Port { .. }),
        unknown_address: (404, "FloatingIPNotFound", "")
            => WriteFault::Fault(Fault::Address { .. }),
        port_forwarding: (409, "FipInUseByPortForwarding", "")
            => WriteFault::Fault(Fault::Address { .. }),
        other_conflict: (409, "", "") => WriteFault::Fault(Fault::Address { .. }),
        other_bad_request: (400, "BadRequest", "no") => WriteFault::Fault(Fault::Address { .. }),
        foreign_404: (404, "", "<html>") => WriteFault::Fault(Fault::Cloud { .. }),
        token_refused: (401, "", "") => WriteFault::Fault(Fault::Cloud { .. }),
        forbidden: (403, "PolicyNotAuthorized", "") => WriteFault::Fault(Fault::Cloud { .. }),
        too_large: (413, "", "") => WriteFault::Fault(Fault::Cloud { .. }),
        too_many: (429, "", "") => WriteFault::Fault(Fault::Cloud { .. }),
        moved: (302, "", "") => WriteFault::Fault(Fault::Cloud { .. }),
        stale: (412, "RevisionNumberConstraintFailed", "") => WriteFault::Stale,
        broken: (500, "HTTPInternalServerError", "") => WriteFault::AnswerLost { .. },
        no_backend: (503, "", "") => WriteFault::AnswerLost { .. },
        gateway_gave_up: (504, "", "") => WriteFault::AnswerLost { .. },
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        let passes = |status| ReadFault::refused(&refusal(status, "", "")).passes;
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(passes(status), "{status}");
        }
        for status in [302, 400, 401, 403, 404, 409, 413] {
            assert!(!passes(status), "{status}");
        }
        let limited = Refusal {
            retry_after: Some(Duration::from_secs(3)),
            ..refusal(413, "", "")
        };
        assert!(ReadFault::refused(&limited).passes);
    }

    #[test]
    fn a_message_says_what_was_asked_and_answered() {
        let text = ReadFault::refused(&refusal(409, "OverQuota", "no\nmore")).to_string();
        assert_eq!(
            text,
            "PUT /v2.0/floatingips/f was answered 409 OverQuota: no more"
        );
        let text = ReadFault::refused(&refusal(502, "", "")).to_string();
        assert_eq!(
            text,
            "PUT /v2.0/floatingips/f was answered 502 without a reason"
        );
    }
}
