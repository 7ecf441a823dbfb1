//! control-api: HTTP API, orchestrator, status page, and their command line.

use std::process::ExitCode;

use civ_control_api::{check_cloud, config, ctl, database, run};

fn main() -> ExitCode {
    civ_boot::main(&civ_boot::Program {
        name: "control-api",
        about: "Decides what happens to each address, remembers it and shows it",
        load: config::load,
        run,
        extra: &[
            check_cloud::EXTRA,
            database::BACKUP,
            database::RESTORE,
            database::DOCTOR,
            ctl::EXTRA,
        ],
    })
}
