//! The section `database.backup`.

use std::path::PathBuf;
use std::time::Duration;

use civ_boot::config::Report;
use serde::Deserialize;

/// Periodic backups.
#[derive(Debug, Clone)]
pub struct Backup {
    /// Where they are kept; made if need be.
    pub folder: PathBuf,
    /// From one to the next: 1 hour to a year.
    pub interval: Duration,
    /// How many are kept: 1 to 10,000.
    pub keep: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    dir: Option<String>,
    interval_hours: i64,
    keep: i64,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            dir: None,
            interval_hours: 24,
            keep: 7,
        }
    }
}

impl Backup {
    pub(super) fn build(raw: &Raw, report: &mut Report) -> Option<Self> {
        let folder = report.path("database.backup.dir", raw.dir.as_deref());
        let hours: u32 = report.int(
            "database.backup.interval_hours",
            raw.interval_hours,
            1..=8_760,
        );
        let keep: u32 = report.int("database.backup.keep", raw.keep, 1..=10_000);
        Some(Self {
            folder: folder?,
            interval: Duration::from_secs(u64::from(hours) * 3_600),
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;

    /// What the section makes, or what is wrong with it.
    fn loaded(backup: &str) -> (Option<super::Backup>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control-api.yaml");
        std::fs::write(&file, format!("database: {{ backup: {backup} }}\n")).unwrap();
        match load(&file) {
            Ok(loaded) => (loaded.settings.backup, String::new()),
            Err(faults) => (None, faults.to_string()),
        }
    }

    #[test]
    fn without_a_folder_there_are_none_and_limits_hold() {
        let (none, faults) = loaded("{ interval_hours: 2 }");
        assert!(none.is_none() && faults.is_empty(), "{faults}");
        let backup = loaded("{ dir: copies }").0.unwrap();
        assert_eq!((backup.interval.as_secs(), backup.keep), (86_400, 7));
        let (_, faults) = loaded("{ dir: '', interval_hours: 0, keep: 0, kep: 1 }");
        for key in ["dir", "interval_hours", "keep", "kep: unknown key"] {
            assert!(
                faults.contains(&format!("database.backup.{key}")),
                "{faults}"
            );
        }
    }
}
