//! The command line that all binaries share, and the version with its commit.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, Parser, Subcommand};

use crate::secrets::Environment;

/// `0.1.0 (commit 0123456789ab)`; the commit is `unknown` in a build from a bare archive.
#[must_use]
pub const fn version() -> &'static str {
    concat!(
        env!("CARGO_PKG_VERSION"),
        " (commit ",
        env!("CIV_COMMIT"),
        ")"
    )
}

/// A subcommand that one binary has beside those of all.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Its command line; the name is the subcommand's.
    pub command: fn() -> clap::Command,
    /// Does what it says; gives the exit code.
    pub run: fn(Asked) -> u8,
}

/// What an [`Extra`] is given.
#[derive(Debug)]
pub struct Asked {
    /// What stands behind its name.
    pub matches: ArgMatches,
    /// The whole command line, for completions.
    pub whole: clap::Command,
    /// Where variables are read from.
    pub environment: Arc<dyn Environment>,
}

#[derive(Debug, Parser)]
#[command(version = version(), arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs until SIGTERM or SIGINT
    Run {
        /// The YAML file; configs/ holds a commented example
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Reads FILE, prints every fault with its place, and starts nothing
    CheckConfig {
        /// The YAML file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}
