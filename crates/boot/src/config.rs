//! Strict loading of a YAML file: every fault of the file in one go, each with its place.
//!
//! Two layers. A raw struct (serde, `deny_unknown_fields`, everything defaulted, plain types) takes
//! what the file says; a `build` function turns it into settings and reports what breaks a rule
//! through the [`Report`], by key path. Reading never repeats a value in a fault: a secret may have
//! been pasted where its variable's name belongs.

mod control_api;
mod fault;
mod reach;
mod read;
mod report;
mod tree;

use std::path::Path;

use serde::de::DeserializeOwned;

pub use control_api::{ControlApi, RawControlApi};
pub use fault::{Fault, Faults};
pub use reach::{RawReach, Reach};
pub use report::{Report, key};

use read::Reading;
use tree::Tree;

/// Largest accepted file: about a hundred times a configuration with a thousand validators.
pub const BYTES_MAX: u64 = 1024 * 1024;

/// Settings, and what the operator should know about them though it stops nothing.
#[derive(Debug, Clone)]
pub struct Loaded<S> {
    /// What `build` made.
    pub settings: S,
    /// Sentences with file, line and key path; logged at start, printed by `check-config`.
    pub warnings: Vec<Fault>,
}

/// Reads `path`, deserializes it into `R` and hands it to `build`.
///
/// # Errors
/// All faults of the file: unreadable, too large, syntax, unknown or repeated keys, wrong types,
/// and whatever `build` reported.
pub fn load<R, S>(
    path: &Path,
    build: impl FnOnce(R, &mut Report) -> Option<S>,
) -> Result<Loaded<S>, Faults>
where
    R: DeserializeOwned + Default,
{
    let file = path.display().to_string();
    let text = read::file(path).map_err(|why| Faults::one(Fault::of_file(&file, why)))?;
    parse(&file, &text, build)
}

/// The same for a text; `file` is only the name that stands in the faults.
///
/// # Errors
/// As [`load`], less those of reading.
pub fn parse<R, S>(
    file: &str,
    text: &str,
    build: impl FnOnce(R, &mut Report) -> Option<S>,
) -> Result<Loaded<S>, Faults>
where
    R: DeserializeOwned + Default,
{
    let (tree, faults) = Tree::parse(file, text)?;
    let mut reading = Reading::new(tree, faults);
    let raw: R = reading.deserialize();
    let mut report = reading.into_report();
    let settings = build(raw, &mut report);
    report.finish(settings)
}
