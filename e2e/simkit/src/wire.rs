//! Faults of the wire: what may become of any answer, whatever it is about.

use std::time::Duration;

use crate::clock::Clock;
use crate::reply::Reply;

/// What came of a call.
#[derive(Debug, Clone)]
pub enum Ending {
    /// The answer.
    Whole(Reply),
    /// Half of the answer's body, then the connection is closed.
    Half(Reply),
    /// The answer's body in pieces.
    Drip {
        /// The answer.
        reply: Reply,
        /// Bytes in a piece, at least 1.
        bytes: usize,
        /// From one piece to the next, of the machine's time.
        every: Duration,
    },
    /// The answer with a `Content-Length` that is not its body's.
    WrongLength {
        /// The answer.
        reply: Reply,
        /// How much too large (or, negative, too small) it is.
        by: i64,
    },
    /// The connection is closed without an answer.
    Cut,
}

impl Ending {
    /// The answer's status; 0 if there is none.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Whole(reply)
            | Self::Half(reply)
            | Self::Drip { reply, .. }
            | Self::WrongLength { reply, .. } => reply.status,
            Self::Cut => 0,
        }
    }
}

/// A fault of the wire.
#[derive(Debug, Clone)]
pub enum WireFault {
    /// Waits before the call is carried out.
    DelayBefore(Duration),
    /// Waits after it was carried out, before the answer.
    DelayAfter(Duration),
    /// Answers with this instead of carrying it out.
    Answer(Reply),
    /// Carries it out, and answers with this all the same.
    AnswerAfter(Reply),
    /// Closes the connection without carrying it out.
    CutBefore,
    /// Carries it out and closes the connection without an answer.
    CutAfter,
    /// Carries it out, sends half of the answer's body and closes.
    CutMidBody,
    /// Carries it out and sends the answer's body in pieces.
    Drip {
        /// Bytes in a piece, at least 1.
        bytes: usize,
        /// From one piece to the next.
        every: Duration,
    },
    /// Carries it out and says a wrong length of the answer's body.
    WrongLength(i64),
}

impl WireFault {
    /// What it does before the call is carried out; an ending: it is not.
    pub async fn before(&self, clock: &Clock) -> Option<Ending> {
        match self {
            Self::DelayBefore(time) => clock.sleep(*time).await,
            Self::Answer(reply) => return Some(Ending::Whole(reply.clone())),
            Self::CutBefore => return Some(Ending::Cut),
            Self::DelayAfter(_)
            | Self::AnswerAfter(_)
            | Self::CutAfter
            | Self::CutMidBody
            | Self::Drip { .. }
            | Self::WrongLength(_) => {}
        }
        None
    }

    /// What it makes of the answer once the call was carried out.
    pub async fn after(&self, ending: Ending, clock: &Clock) -> Ending {
        match (self, ending) {
            (Self::DelayAfter(time), ending) => {
                clock.sleep(*time).await;
                ending
            }
            (Self::AnswerAfter(reply), _) => Ending::Whole(reply.clone()),
            (Self::CutAfter, _) => Ending::Cut,
            (Self::CutMidBody, Ending::Whole(reply)) => Ending::Half(reply),
            (Self::Drip { bytes, every }, Ending::Whole(reply)) => Ending::Drip {
                reply,
                bytes: (*bytes).max(1),
                every: *every,
            },
            (Self::WrongLength(by), Ending::Whole(reply)) => Ending::WrongLength { reply, by: *by },
            (_, ending) => ending,
        }
    }
}
