//! The two sides of the contract that talk to control-api, as types: what differs between them.

use std::fmt;

use civ_proto::{agent, prober};
use civ_types::Source;
use serde::Serialize;

/// Which assignment a report is about.
///
/// Servers of the old contract hand out no fence; then the address and the attempt tell claims
/// apart as well as that contract can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// `ip_id` of the assignment.
    pub ip_id: i64,
    /// `attempt_number` of the assignment, 0 if the server has none.
    pub attempt_number: i64,
    /// `fence` of the assignment.
    pub fence: Option<i64>,
}

/// What a result is about, for the log.
#[derive(Debug, Clone, Copy)]
pub struct RowFacts<'a> {
    /// The address.
    pub ip_id: i64,
    /// The claim.
    pub fence: Option<i64>,
    /// The check type.
    pub check_type: &'a str,
    /// The target; empty for inbound.
    pub target: &'a str,
}

/// An agent's or a prober's part of the contract.
pub trait Side: fmt::Debug + Send + Sync + Sized + 'static {
    /// The path under `/api/v1`.
    const FOLDER: &'static str;
    /// The method that is polled.
    const POLL: &'static str;
    /// Where its checks look from.
    const SOURCE: Source;
    /// Body of `register`.
    type Register: Serialize + fmt::Debug + Send + Sync;
    /// One assignment.
    type Assignment: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// One result.
    type Row: Clone + fmt::Debug + Send + Sync;
    /// Body of `results`.
    type Results: Serialize + Send + Sync;

    /// Reads the body of a 200 of [`Self::POLL`].
    ///
    /// # Errors
    /// If it is not the contract's.
    fn read(body: &[u8]) -> Result<Vec<Self::Assignment>, serde_json::Error>;
    /// The claim of an assignment.
    fn claim(assignment: &Self::Assignment) -> Claim;
    /// One body for several results.
    fn results(rows: Vec<Self::Row>) -> Self::Results;
    /// What a result is about.
    fn facts(row: &Self::Row) -> RowFacts<'_>;
    /// The site in the log: a prober's own id, nothing for an agent.
    fn site(id: &str) -> &str;
}

/// validator-agent: at most one assignment at a time, egress.
#[derive(Debug)]
pub enum Agent {}

/// prober: any number of assignments, inbound.
#[derive(Debug)]
pub enum Prober {}

impl Side for Agent {
    const FOLDER: &'static str = "agents";
    const POLL: &'static str = "assignment";
    const SOURCE: Source = Source::Egress;
    type Register = agent::Register;
    type Assignment = agent::Assignment;
    type Row = agent::CheckResult;
    type Results = agent::Results;

    fn read(body: &[u8]) -> Result<Vec<Self::Assignment>, serde_json::Error> {
        serde_json::from_slice(body).map(|one| vec![one])
    }

    fn claim(one: &Self::Assignment) -> Claim {
        let (ip_id, attempt_number, fence) = (one.ip_id, one.attempt_number, one.fence);
        Claim {
            ip_id,
            attempt_number,
            fence,
        }
    }

    fn results(results: Vec<Self::Row>) -> Self::Results {
        let fence = results.first().and_then(|row| row.fence);
        agent::Results { results, fence }
    }

    fn facts(row: &Self::Row) -> RowFacts<'_> {
        RowFacts {
            ip_id: row.ip_id,
            fence: row.fence,
            check_type: &row.check_type,
            target: row.target.as_deref().unwrap_or_default(),
        }
    }

    fn site(_id: &str) -> &str {
        ""
    }
}

impl Side for Prober {
    const FOLDER: &'static str = "probers";
    const POLL: &'static str = "assignments";
    const SOURCE: Source = Source::Inbound;
    type Register = prober::Register;
    type Assignment = prober::Assignment;
    type Row = prober::CheckResult;
    type Results = prober::Results;

    fn read(body: &[u8]) -> Result<Vec<Self::Assignment>, serde_json::Error> {
        serde_json::from_slice(body)
    }

    fn claim(one: &Self::Assignment) -> Claim {
        let (ip_id, attempt_number, fence) = (one.ip_id, one.attempt_number, one.fence);
        Claim {
            ip_id,
            attempt_number,
            fence,
        }
    }

    fn results(results: Vec<Self::Row>) -> Self::Results {
        prober::Results { results }
    }

    fn facts(row: &Self::Row) -> RowFacts<'_> {
        RowFacts {
            ip_id: row.ip_id,
            fence: row.fence,
            check_type: &row.check_type,
            target: "",
        }
    }

    fn site(id: &str) -> &str {
        id
    }
}
