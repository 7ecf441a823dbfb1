//! `control-api check-cloud`: tries everything that the product will ask of the cloud, and changes
//! nothing there.
//!
//! One line for each finding: `ok`, `missing` or `failed`, and what to do. Exit codes: 0 nothing
//! is in the way, 1 something is, 2 the configuration cannot be used.

mod report;
mod steps;

use std::io::Write as _;
use std::path::PathBuf;

use civ_boot::chain::Chain;
use civ_boot::{Asked, Extra};
use civ_cloud::OpenStack;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::{cloud, config};
use report::{Finding, Report};
use steps::Ports;

/// The subcommand `check-cloud`.
pub const EXTRA: Extra = Extra {
    command: Line::command,
    run,
};

const EXIT_USAGE: u8 = 2;
const EXIT_REFUSED: u8 = 1;

/// Tries what control-api will ask of the cloud, and changes nothing there
#[derive(Debug, Parser)]
#[command(name = "check-cloud")]
struct Line {
    /// The YAML file of control-api
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

fn run(asked: Asked) -> u8 {
    let Asked {
        matches,
        environment,
        ..
    } = asked;
    let line = match Line::from_arg_matches(&matches) {
        Ok(line) => line,
        Err(error) => return refused(&error.to_string()),
    };
    let settings = match config::load(&line.config) {
        Ok(loaded) => loaded.settings,
        Err(faults) => return refused(&faults.to_string()),
    };
    let (config, source) = match cloud::config(&settings.openstack, environment.as_ref()) {
        Ok(found) => found,
        Err(error) => return refused(&Chain(&error).to_string()),
    };
    let client = match OpenStack::within(config, cloud::budget(&settings.openstack)) {
        Ok(client) => client,
        Err(error) => return refused(&Chain(&error).to_string()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refused(&Chain(&error).to_string()),
    };
    let mut report = Report::new(line.json);
    report.add(Finding::ok("login from", source.to_string()));
    let ports = Ports::of(&settings, &mut report);
    runtime.block_on(steps::all(&client, &settings, &ports, &mut report));
    report.close();
    if report.is_fit() { 0 } else { EXIT_REFUSED }
}

/// A sentence on standard error; if nobody can read it, there is nobody to tell either.
fn refused(why: &str) -> u8 {
    drop(writeln!(
        std::io::stderr(),
        "control-api check-cloud: {why}"
    ));
    EXIT_USAGE
}
