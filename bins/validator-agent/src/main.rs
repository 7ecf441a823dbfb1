//! validator-agent: checks from a validator VM through the address that it was given.

use std::process::ExitCode;

use civ_boot::Program;

mod check;

fn main() -> ExitCode {
    civ_boot::main(&Program {
        name: "validator-agent",
        about: "Checks from a validator VM through the floating IP that control-api gave it",
        load: civ_validator_agent::config::load,
        run: civ_validator_agent::run,
        extra: &[check::EXTRA],
    })
}
