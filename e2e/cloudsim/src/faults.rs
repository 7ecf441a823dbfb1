//! Fault rules: which call they meet, and what becomes of it. Deterministic: by count, or by a
//! seeded chance.

use std::net::IpAddr;
use std::time::Duration;

use civ_simkit::{Counter, Ending, Gate, Reply, WireFault};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plane::Way;
use crate::shapes;

/// A fault and the calls that it meets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Shows in the calls that it met.
    pub name: String,
    /// Which calls.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// What becomes of them.
    pub action: Action,
}

/// All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    /// `GET`, `PUT`, …
    pub method: Option<String>,
    /// What the path begins with, like `/v2.0/floatingips`.
    pub path_prefix: String,
    /// The floating address that it is about.
    pub address: Option<IpAddr>,
    /// Only changes of binding of this kind.
    pub write: Option<WriteKind>,
    /// The first of the matching calls that is met, from 1.
    pub nth: u32,
    /// How many are met from there on; `None`: all.
    pub count: Option<u32>,
    /// Of these, how many in a hundred, drawn from `seed`.
    pub chance_percent: u8,
    /// For `chance_percent`.
    pub seed: u64,
}

impl Default for Match {
    /// Every call.
    fn default() -> Self {
        Self {
            method: None,
            path_prefix: String::new(),
            address: None,
            write: None,
            nth: 1,
            count: None,
            chance_percent: 100,
            seed: 0,
        }
    }
}

impl Match {
    /// Only the next such call.
    #[must_use]
    pub fn next(method: &str, path_prefix: &str) -> Self {
        Self {
            method: Some(method.to_owned()),
            path_prefix: path_prefix.to_owned(),
            count: Some(1),
            ..Self::default()
        }
    }

    /// Only the next association of `address`.
    #[must_use]
    pub fn next_association(address: IpAddr) -> Self {
        Self {
            address: Some(address),
            write: Some(WriteKind::Associate),
            count: Some(1),
            ..Self::default()
        }
    }
}

/// A change of binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteKind {
    /// To a port.
    Associate,
    /// To none.
    Release,
}

/// What the body of a made-up answer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBody {
    /// `{"NeutronError": {"type": …}}`.
    NeutronError(String),
    /// `{"error": {"title": …}}`, as Keystone and the check of tokens answer.
    KeystoneError(String),
    /// A page such as proxies send.
    Html,
    /// Nothing.
    Empty,
    /// Bytes that are no JSON.
    Garbage,
}

/// What becomes of a call that was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Waits before the call is carried out.
    DelayBefore {
        /// Milliseconds.
        ms: u64,
    },
    /// Waits after it was carried out, before the answer.
    DelayAfter {
        /// Milliseconds.
        ms: u64,
    },
    /// Answers with this instead of carrying it out.
    Answer {
        /// HTTP status.
        status: u16,
        /// The body.
        body: AnswerBody,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Carries it out, and answers with this all the same.
    AnswerAfter {
        /// HTTP status.
        status: u16,
        /// The body.
        body: AnswerBody,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Answers with this and an empty body instead of carrying it out.
    AnswerUntil {
        /// HTTP status.
        status: u16,
        /// `Retry-After`, as a date (RFC 9110, 5.6.7).
        date: String,
    },
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
        /// Milliseconds between two pieces.
        every_ms: u64,
    },
    /// The association is answered, but packets flow only later.
    PlaneDelay {
        /// Milliseconds.
        ms: u64,
    },
    /// The association is answered, but packets never flow.
    PlaneNever,
    /// The association is answered, but packets flow one way only.
    PlaneOneWay {
        /// Which.
        way: Way,
    },
    /// Just before the call is carried out, another client binds the address to `port`.
    TakeBefore {
        /// The other client's port.
        port: String,
    },
    /// As before, and `If-Match` is dropped, as Neutron does when it repeats a transaction that
    /// collided with another.
    TakeBeforeUnseen {
        /// The other client's port.
        port: String,
    },
    /// Just after the call was carried out, before its answer, another client moves the address to
    /// `port`.
    TakeAfter {
        /// The other client's port.
        port: String,
    },
    /// Just before the call is carried out, an agent reports the status of its floating IP: that
    /// counts as a change if the status was another one.
    ReportBefore,
    /// As before, and `If-Match` is dropped, as Neutron does when it repeats a transaction that
    /// collided with the report.
    ReportBeforeUnseen,
    /// All tokens end before the call is looked at.
    ExpireTokens,
    /// The floating IP that the call's `marker` names is deleted before the call is carried out.
    RemoveMarker,
    /// This port is deleted before the call is carried out.
    RemovePort {
        /// Its id.
        port: String,
    },
    /// Another client of the project makes a floating IP before the call is carried out.
    AddFip,
    /// A listing answers with its first page, whatever its `marker` says.
    RepeatPage,
    /// A listing's links are left out.
    DropLinks,
    /// A listing's pages have no link to the next one, whatever follows.
    DropNext,
    /// A listing shows what its filters leave out, too.
    IgnoreFilters,
    /// A listing's pages have at most so many rows, whatever its `limit` says.
    CapPage {
        /// Rows, at least 1.
        rows: usize,
    },
    /// Reads are answered from a copy that was made when the rule was added.
    StaleCopy,
    /// A change of a floating IP is answered with 200 and what is there, and not carried out.
    IgnoreWrite,
    /// Carries it out, and its answer lacks a key.
    DropKey {
        /// Which, as a JSON pointer (RFC 6901), like `/floatingip/port_id`.
        pointer: String,
    },
    /// Carries it out and says a wrong length of the answer's body.
    WrongLength {
        /// How much too large (or, negative, too small) it is.
        by: i64,
    },
}

impl Action {
    /// What of it any server's wire could do; `None`: it needs to know the cloud.
    pub(crate) fn wire(&self) -> Option<WireFault> {
        let ms = |ms: u64| Duration::from_millis(ms);
        Some(match self {
            Self::DelayBefore { ms: time } => WireFault::DelayBefore(ms(*time)),
            Self::DelayAfter { ms: time } => WireFault::DelayAfter(ms(*time)),
            Self::Answer {
                status,
                body,
                retry_after,
            } => WireFault::Answer(made_up(*status, body, *retry_after)),
            Self::AnswerAfter {
                status,
                body,
                retry_after,
            } => WireFault::AnswerAfter(made_up(*status, body, *retry_after)),
            Self::AnswerUntil { status, date } => {
                WireFault::Answer(Reply::empty(*status).with("retry-after", date))
            }
            Self::CutBefore => WireFault::CutBefore,
            Self::CutAfter => WireFault::CutAfter,
            Self::CutMidBody => WireFault::CutMidBody,
            Self::Drip { bytes, every_ms } => WireFault::Drip {
                bytes: *bytes,
                every: ms(*every_ms),
            },
            Self::WrongLength { by } => WireFault::WrongLength(*by),
            _ => return None,
        })
    }
}

fn made_up(status: u16, body: &AnswerBody, retry_after: Option<u64>) -> Reply {
    let reply = match body {
        AnswerBody::NeutronError(kind) => shapes::neutron(status, kind, "made up by a rule"),
        AnswerBody::KeystoneError(title) => shapes::keystone(status, title, "made up by a rule"),
        AnswerBody::Html => Reply::html(status, "made up by a rule"),
        AnswerBody::Empty => Reply::empty(status),
        AnswerBody::Garbage => Reply::new(status, "application/json", &b"\xff\x00{\"float"[..]),
    };
    match retry_after {
        Some(seconds) => reply.with("retry-after", seconds.to_string()),
        None => reply,
    }
}

/// The answer without the key of its JSON that `pointer` names.
pub(crate) fn without(ending: Ending, pointer: &str) -> Ending {
    let Ending::Whole(mut reply) = ending else {
        return ending;
    };
    let whole = serde_json::from_slice::<Value>(&reply.body);
    if let (Ok(mut whole), Some((parent, key))) = (whole, pointer.rsplit_once('/')) {
        if let Some(Value::Object(parent)) = whole.pointer_mut(parent) {
            parent.remove(key);
        }
        reply.body = whole.to_string().into();
    }
    Ending::Whole(reply)
}

/// The part of a call that rules look at.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) address: Option<IpAddr>,
    pub(crate) write: Option<WriteKind>,
}

/// A rule in force.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Armed {
    rule: Rule,
    counter: Counter,
}

/// The rules in force, in the order in which they were added.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Rules {
    armed: Vec<Armed>,
}

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule) {
        let counter = Counter::new(rule.matches.seed);
        self.armed.push(Armed { rule, counter });
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }

    pub(crate) fn all(&self) -> Vec<Rule> {
        self.armed.iter().map(|armed| armed.rule.clone()).collect()
    }

    /// The rules that this call meets. Counts it.
    pub(crate) fn meet(&mut self, subject: &Subject<'_>) -> Vec<Rule> {
        let met = self
            .armed
            .iter_mut()
            .filter_map(|armed| armed.meet(subject));
        met.collect()
    }
}

impl Armed {
    fn meet(&mut self, subject: &Subject<'_>) -> Option<Rule> {
        let wanted = &self.rule.matches;
        let matches = wanted
            .method
            .as_deref()
            .is_none_or(|method| method == subject.method)
            && subject.path.starts_with(&wanted.path_prefix)
            && (wanted.address.is_none() || wanted.address == subject.address)
            && (wanted.write.is_none() || wanted.write == subject.write);
        let gate = Gate {
            nth: wanted.nth,
            count: wanted.count,
            chance_percent: wanted.chance_percent,
        };
        (matches && self.counter.meets(&gate)).then(|| self.rule.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(matches: Match, calls: usize) -> Vec<bool> {
        let mut rules = Rules::default();
        let (name, action) = ("r".to_owned(), Action::CutBefore);
        rules.add(Rule {
            name,
            matches,
            action,
        });
        let subject = Subject {
            method: "PUT",
            path: "/v2.0/floatingips/a",
            address: None,
            write: Some(WriteKind::Release),
        };
        (0..calls)
            .map(|_| !rules.meet(&subject).is_empty())
            .collect()
    }

    #[test]
    fn rules_meet_the_nth_call_and_so_many_more() {
        let matches = Match {
            nth: 2,
            count: Some(2),
            ..Match::default()
        };
        assert_eq!(met(matches, 5), [false, true, true, false, false]);
    }

    #[test]
    fn every_condition_must_hold() {
        assert_eq!(met(Match::next("GET", "/v2.0"), 1), [false]);
        assert_eq!(met(Match::next("PUT", "/v3"), 1), [false]);
        let other = Match {
            write: Some(WriteKind::Associate),
            ..Match::default()
        };
        assert_eq!(met(other, 1), [false]);
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let matches = |seed| Match {
            chance_percent: 50,
            seed,
            ..Match::default()
        };
        let first = met(matches(7), 200);
        assert_eq!(first, met(matches(7), 200));
        assert_ne!(first, met(matches(8), 200));
        let hits = first.iter().filter(|hit| **hit).count();
        assert!((70..130).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn rules_are_written_as_json() {
        let rule: Rule = serde_json::from_str(
            r#"{"name": "late", "match": {"method": "PUT", "count": 1},
                "action": {"plane_delay": {"ms": 500}}}"#,
        )
        .unwrap();
        assert_eq!(rule.action, Action::PlaneDelay { ms: 500 });
        assert_eq!(rule.matches.nth, 1);
    }
}
