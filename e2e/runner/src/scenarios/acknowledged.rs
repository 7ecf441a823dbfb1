//! What agents and probers were told is there: all of it must be.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::log_line::LogLine;
use crate::world::World;

/// Whose result, of what: `(ip_id, source, site, check_type, target)`.
type Key = (i64, String, String, String, String);

/// Compares what agents and probers logged as acknowledged with what control-api has.
pub(super) async fn nothing_lost(world: &World) -> Result<usize> {
    let mut acknowledged = BTreeSet::new();
    for entry in fs::read_dir(world.dir())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("vm-") || name.starts_with("site-") {
            acknowledged.extend(acknowledgements(&path)?);
        }
    }
    let mut stored = BTreeSet::new();
    for ip in world.api.queue().await? {
        for check in world.api.details(&ip.ip_address).await?.checks {
            let site = check.site_id.unwrap_or_default();
            stored.insert((ip.id, check.source, site, check.check_type, check.target));
        }
    }
    let lost: Vec<&Key> = acknowledged.difference(&stored).collect();
    if !lost.is_empty() {
        bail!("acknowledged and not there: {lost:?}");
    }
    if acknowledged.is_empty() {
        bail!("no agent or prober logged an acknowledged result: nothing was compared");
    }
    Ok(acknowledged.len())
}

fn acknowledgements(log: &std::path::Path) -> Result<Vec<Key>> {
    if log.extension().is_none_or(|extension| extension != "log") {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(log)?;
    text.lines()
        .filter_map(LogLine::parse)
        .filter(|line| line.text("message") == "result acknowledged")
        .map(|line| key(&line).with_context(|| format!("{line:?}")))
        .collect()
}

fn key(line: &LogLine) -> Option<Key> {
    let text = |name: &str| line.text(name).to_owned();
    Some((
        line.number("ip_id")?,
        text("source"),
        text("site"),
        text("check_type"),
        text("target"),
    ))
}
