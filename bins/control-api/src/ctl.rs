//! `control-api ctl`: a client of the HTTP API for people and scripts.
//!
//! It shows what the server says and knows no rule of its own; it never touches the database.
//! Answers are read as JSON documents, not as structs, so that `--json` hands on every byte and a
//! newer server's fields disturb nobody.

mod args;
mod auto_cycle;
mod client;
mod config;
mod error;
mod ips;
mod output;
mod registry;
mod scan;
mod settings;
mod status;
mod table;
mod values;

use civ_boot::{Asked, Extra};
use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Command, Ctl};
use client::Client;
use error::{CtlError, Result};
use output::Output;

/// The subcommand `ctl`.
pub const EXTRA: Extra = Extra {
    command: Ctl::command,
    run,
};

const EXIT_USAGE: u8 = 2;
const EXIT_REFUSED: u8 = 1;

fn run(asked: Asked) -> u8 {
    match try_run(asked) {
        // Whoever read us has read enough.
        Ok(()) | Err(CtlError::Closed) => 0,
        Err(error) => {
            output::complain(&error);
            match error {
                CtlError::Usage(_) | CtlError::Settings(_) => EXIT_USAGE,
                _ => EXIT_REFUSED,
            }
        }
    }
}

fn try_run(mut asked: Asked) -> Result<()> {
    let ctl = Ctl::from_arg_matches(&asked.matches)
        .map_err(|error| CtlError::Usage(error.to_string()))?;
    if let Command::Completions { shell } = ctl.command {
        let name = asked.whole.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut asked.whole, name, &mut script);
        return output::raw(&script);
    }
    let settings = settings::read(&ctl.connection, asked.environment.as_ref())?;
    let out = Output::new(ctl.json, asked.environment.as_ref());
    let client = Client::new(&settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CtlError::Runtime)?;
    runtime.block_on(carry_out(ctl.command, &client, &out))
}

async fn carry_out(command: Command, client: &Client, out: &Output) -> Result<()> {
    match command {
        Command::Ips { command } => ips::run(command, client, out).await,
        Command::Scan { dry_run, wait } => scan::run(dry_run, wait, client, out).await,
        Command::Status { watch } => status::run(watch, client, out).await,
        Command::Validators => status::validators(client, out).await,
        Command::Registry { command } => registry::run(command, client, out).await,
        Command::Config { command } => config::run(command, client, out).await,
        Command::AutoCycle { command } => auto_cycle::run(&command, client, out).await,
        // Needs no server: `try_run` is done with it before there is a client.
        Command::Completions { .. } => Ok(()),
    }
}
