//! What was asked of the cloud, in order: the witness that audits read.

use std::net::IpAddr;

use serde::Serialize;

/// One call, as it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    /// When it arrived, in microseconds since 1970.
    pub at_micros: i64,
    /// `GET`, `PUT`, …; `SIM` for what the simulation itself did (a rule, the admin API).
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The answer's status; 0 if the connection was cut instead.
    pub status: u16,
    /// From the request's arrival until the answer was ready, in microseconds.
    pub duration_micros: u64,
    /// Which floating address it was about, if about one.
    pub address: Option<IpAddr>,
    /// Of a change of binding: the port asked for; inner `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_port_id: Option<Option<String>>,
    /// The revision in `If-Match`.
    pub if_match: Option<u64>,
    /// Who: the user's name, `application_credential`, or `sim`; empty: nobody logged in.
    pub writer: String,
    /// The port that it was on before the effect.
    pub before: Option<String>,
    /// The port that it was on after the effect.
    pub after: Option<String>,
    /// The rules that had a part in it, by name.
    pub rules: Vec<String>,
}
