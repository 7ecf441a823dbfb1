//! The configuration that lives in the database and is changed through the API, effective at
//! once: validators, sites, what is checked, and what the orchestrator is told.

mod checks;
mod orchestrator;
mod sites;
mod validators;

pub use checks::{CheckType, Inbound, NewCheckType, TargetGroup};
pub use orchestrator::{InboundChange, Orchestrator, OrchestratorChange};
