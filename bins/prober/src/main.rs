//! prober: checks floating IPs from an outside site.

use std::process::ExitCode;

use civ_boot::Program;

mod check;

fn main() -> ExitCode {
    civ_boot::main(&Program {
        name: "prober",
        about: "Checks floating IPs from an outside site, as control-api assigns them",
        load: civ_prober::config::load,
        run: civ_prober::run,
        extra: &[check::EXTRA],
    })
}
