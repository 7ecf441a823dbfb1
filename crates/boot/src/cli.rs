//! The command line that all binaries share, and the version with its commit.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

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
