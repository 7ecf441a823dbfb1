//! control-api: HTTP API, orchestrator and status page.

use std::process::ExitCode;

use civ_control_api::{config, run};

fn main() -> ExitCode {
    civ_boot::main(&civ_boot::Program {
        name: "control-api",
        about: "Decides what happens to each address, remembers it and shows it",
        load: config::load,
        run,
    })
}
