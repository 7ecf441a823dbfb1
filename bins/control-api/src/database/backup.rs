//! `control-api backup`: a proved copy of the database, while control-api works on it or not.

use std::path::PathBuf;

use civ_boot::{Asked, Extra};
use civ_store::backup::{self, Made};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::progress::Progress;
use super::{Ended, bytes, code, load, note, print};

/// The subcommand `backup`.
pub const EXTRA: Extra = Extra {
    command: Line::command,
    run,
};

/// Copies the database to FILE and proves the copy; control-api may go on meanwhile
///
/// The copy is the database of one moment. It is read back whole (pages, indexes, rows of each
/// table) before it gets its name, and only its owner can read it. Exit codes: 0 the copy is there;
/// 1 it could not be made; 2 the configuration cannot be used, or FILE is there already.
#[derive(Debug, Parser)]
#[command(name = "backup")]
struct Line {
    /// The YAML file of control-api
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The copy; its folder must exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace a file of that name
    #[arg(long)]
    force: bool,
}

fn run(asked: Asked) -> u8 {
    let Asked { mut matches, .. } = asked;
    let line = Line::from_arg_matches_mut(&mut matches);
    let line = line.map_err(|error| Ended::usage(error.to_string()));
    code("backup", line.and_then(|line| copy(&line)))
}

fn copy(line: &Line) -> Result<u8, Ended> {
    let settings = load(&line.config)?;
    let mut progress = Progress::new();
    let from = &settings.database_path;
    let made = backup::make(from, &line.to, line.force, &mut |stage| {
        progress.tell(stage)
    });
    progress.end();
    let made = made?;
    print(&format!("{}: {}", line.to.display(), said(&made)));
    dangling(&made);
    Ok(0)
}

/// What a copy holds.
pub(super) fn said(made: &Made) -> String {
    let until = made.last_write.map_or_else(
        || "never written".to_owned(),
        |at| format!("last write {at}"),
    );
    let (size, tables, rows) = (bytes(made.bytes), made.tables, made.rows);
    format!("{size}, {tables} tables, {rows} rows, {until}; verified")
}

/// Rows that dangle are no fault of the copy.
pub(super) fn dangling(made: &Made) {
    if let Some(first) = made.dangling.first() {
        let n = made.dangling.len();
        note(&format!(
            "warning: {n} rows speak of rows that are not there, as in the original ({first}): see \
             control-api doctor"
        ));
    }
}
