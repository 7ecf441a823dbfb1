//! The database by the command line: `control-api backup`, `restore` and `doctor`.
//!
//! Exit codes: 0 done, or nothing found; 1 a fault at run time; 2 usage, configuration, or a
//! database that another process or a newer version has; 3 (`doctor`) something was found.

mod backup;
mod doctor;
mod progress;
mod restore;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use civ_boot::chain::Chain;
use civ_store::OpenError;
use civ_store::backup::BackupError;

use crate::config::{self, Settings};

pub use backup::EXTRA as BACKUP;
pub use doctor::EXTRA as DOCTOR;
pub use restore::EXTRA as RESTORE;

const EXIT_FAULT: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_FOUND: u8 = 3;

/// Why a command ends early.
struct Ended {
    code: u8,
    why: String,
}

impl Ended {
    fn usage(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            code: EXIT_USAGE,
            why,
        }
    }

    fn fault(error: &(dyn std::error::Error + 'static)) -> Self {
        Self {
            code: EXIT_FAULT,
            why: Chain(error).to_string(),
        }
    }
}

impl From<OpenError> for Ended {
    fn from(error: OpenError) -> Self {
        let ended = Self::fault(&error);
        // As `run` has it.
        match error {
            OpenError::InUse { .. } | OpenError::Newer { .. } => Self::usage(ended.why),
            _ => ended,
        }
    }
}

impl From<BackupError> for Ended {
    fn from(error: BackupError) -> Self {
        let ended = Self::fault(&error);
        match error {
            BackupError::Exists { .. } | BackupError::Itself { .. } | BackupError::Newer { .. } => {
                Self::usage(ended.why)
            }
            _ => ended,
        }
    }
}

/// The exit code, after the sentence that says why.
fn code(command: &str, ended: Result<u8, Ended>) -> u8 {
    match ended {
        Ok(code) => code,
        Err(Ended { code, why }) => {
            note(&format!("control-api {command}: {why}"));
            code
        }
    }
}

fn load(path: &Path) -> Result<Settings, Ended> {
    match config::load(path) {
        Ok(loaded) => Ok(loaded.settings),
        Err(faults) => Err(Ended::usage(faults.to_string())),
    }
}

/// A line on standard output; a reader that has gone away is no reason to end with an error.
fn print(line: &str) {
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

/// A line on standard error.
fn note(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut rest, mut unit) = (n, 0, 0);
    while whole >= 1_024 && unit + 1 < UNITS.len() {
        rest = whole % 1_024 * 10 / 1_024;
        whole /= 1_024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 {
        return format!("{n} {name}");
    }
    format!("{whole}.{rest} {name}")
}

/// The present moment.
fn now() -> civ_types::Utc {
    use civ_types::Clock as _;
    civ_types::SystemClock.now()
}

fn clock() -> Arc<dyn civ_types::Clock> {
    Arc::new(civ_types::SystemClock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_people() {
        let told = [0, 1_023, 1_024, 1_536, 10 << 20, (5 << 30) + (512 << 20)].map(bytes);
        let expected = [
            "0 bytes",
            "1023 bytes",
            "1.0 KiB",
            "1.5 KiB",
            "10.0 MiB",
            "5.5 GiB",
        ];
        assert_eq!(told, expected);
    }
}
