//! `control-api restore`: a backup takes the place of the database.

use std::path::PathBuf;

use civ_boot::{Asked, Extra};
use civ_store::restore::{RestoreError, restore};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::backup::{dangling, said};
use super::progress::Progress;
use super::{Ended, code, load, note, now, print};
use crate::start::{make_folder, rules};

/// The subcommand `restore`.
pub const EXTRA: Extra = Extra {
    command: Line::command,
    run,
};

/// Puts a copy of the backup FILE in the place of the database; control-api must not run
///
/// FILE is verified before anything is changed, and stays as it is. The database that is there is
/// kept beside it under another name. At its next start control-api compares cloud and database:
/// what hangs on the validators' ports unknown to the backup is released. Exit codes: 0 restored; 1
/// nothing could be restored; 2 the configuration cannot be used, control-api runs, or a newer
/// version wrote FILE.
#[derive(Debug, Parser)]
#[command(name = "restore")]
struct Line {
    /// The YAML file of control-api
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The backup
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

impl From<RestoreError> for Ended {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Place(error) => error.into(),
            RestoreError::Backup(error) => error.into(),
            other => Self::fault(&other),
        }
    }
}

fn run(asked: Asked) -> u8 {
    let Asked { mut matches, .. } = asked;
    let line = Line::from_arg_matches_mut(&mut matches);
    let line = line.map_err(|error| Ended::usage(error.to_string()));
    code("restore", line.and_then(|line| put_back(&line)))
}

fn put_back(line: &Line) -> Result<u8, Ended> {
    let settings = load(&line.config)?;
    let path = &settings.database_path;
    make_folder(path).map_err(|error| Ended::fault(error.as_ref()))?;
    let mut progress = Progress::new();
    let mut tell = |stage| progress.tell(stage);
    let restored = restore(&line.from, path, now(), rules(&settings), &mut tell);
    progress.end();
    let restored = restored?;
    let from = line.from.display();
    print(&format!(
        "{} is now {from}: {}",
        path.display(),
        said(&restored.made)
    ));
    dangling(&restored.made);
    if let Some(aside) = &restored.aside {
        print(&format!("what was there is kept as {}", aside.display()));
    }
    for (validator, port) in &restored.dropped {
        note(&format!(
            "left out: validator {validator}, whose port {port} is not ours any more; add it again \
             if it is"
        ));
    }
    if let Some(why) = &restored.unread {
        note(&format!(
            "warning: the database that was there could not be asked what is in use today ({why}). \
             Before the start, make sure that each port of a validator still belongs to it alone: \
             whatever is on it will be released"
        ));
    }
    Ok(0)
}
