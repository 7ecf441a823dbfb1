//! `prober check TYPE TARGET`: one check by hand.

use std::io::Write as _;

use civ_boot::{Asked, Extra};
use civ_checks::by_hand;

/// The subcommand `check`.
pub(crate) const EXTRA: Extra = Extra {
    command: by_hand::command,
    run,
};

fn run(Asked { matches, .. }: Asked) -> u8 {
    let done = by_hand::run(&matches);
    // Whoever closed the pipe has read enough; the exit code still says how it went.
    if done.exit == by_hand::EXIT_USAGE {
        drop(writeln!(std::io::stderr(), "{}", done.text));
    } else {
        drop(writeln!(std::io::stdout(), "{}", done.text));
    }
    done.exit
}
