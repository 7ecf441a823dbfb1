//! One check by hand, from the command line: the outcome with its evidence, as text or JSON.
//!
//! Agent and prober have the same subcommand. What is checked is named by whoever sits at this
//! host, so no policy stands in between.

use std::net::IpAddr;
use std::time::Duration;

use civ_types::{CheckName, EGRESS_CHECKS, Family};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::engine::family_of;
use crate::net;
use crate::outcome::{self, Fault, Trail};
use crate::{Check, Code, Engine, Kind, Limits, Options, Outcome, Policy, Target, Trust, Verdict};

/// The target answered as it should.
pub const EXIT_PASSED: u8 = 0;
/// It did not.
pub const EXIT_FAILED: u8 = 1;
/// The command line makes no sense.
pub const EXIT_USAGE: u8 = 2;
/// The check could not be carried out.
pub const EXIT_INCONCLUSIVE: u8 = 3;

/// What to print, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Without the final line end.
    pub text: String,
    /// One of the constants above.
    pub exit: u8,
}

/// The command line of `check`.
#[must_use]
pub fn command() -> Command {
    let types = format!("One of {EGRESS_CHECKS}");
    Command::new("check")
        .about("Runs one check by hand; exits with 0 passed, 1 failed, 3 not carried out, 2 usage")
        .arg(Arg::new("TYPE").required(true).help(types))
        .arg(
            Arg::new("TARGET")
                .required(true)
                .help("A URL, a host or host:port; for dns server[:port]/name"),
        )
        .arg(
            Arg::new("source")
                .long("source")
                .value_name("ADDR")
                .value_parser(value_parser!(IpAddr))
                .help("The address of this host to send from; the kernel chooses if left out"),
        )
        .arg(
            Arg::new("ipv6")
                .short('6')
                .long("ipv6")
                .action(ArgAction::SetTrue)
                .help("Over IPv6; otherwise the family of TARGET or --source, else IPv4"),
        )
        .arg(
            Arg::new("timeout")
                .long("timeout")
                .value_name("SECONDS")
                .default_value("10")
                .value_parser(value_parser!(u64).range(1..=300))
                .help("Time for the check in all, 1 to 300"),
        )
        .arg(
            Arg::new("options")
                .long("options")
                .value_name("JSON")
                .help("Options as in the configuration, such as {\"expect_status\":204}"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("The outcome as JSON"),
        )
}

/// Does what the command line says, in a runtime of its own.
#[must_use]
pub fn run(matches: &ArgMatches) -> Done {
    let usage = |text: String| Done {
        text: format!("error: {text}"),
        exit: EXIT_USAGE,
    };
    let check = match read(matches) {
        Ok(check) => check,
        Err(text) => return usage(text),
    };
    let seconds = matches.get_one("timeout").copied().unwrap_or(10);
    let limits = Limits {
        timeout: Duration::from_secs(seconds),
        ..Limits::default()
    };
    match outcome(&check, limits) {
        Ok(outcome) => Done {
            text: if matches.get_flag("json") {
                outcome.to_json(&check).to_string()
            } else {
                outcome.to_text(&check)
            },
            exit: match outcome.verdict {
                Verdict::Passed => EXIT_PASSED,
                Verdict::Failed(_) => EXIT_FAILED,
                Verdict::Inconclusive(_) => EXIT_INCONCLUSIVE,
            },
        },
        Err(text) => Done {
            text,
            exit: EXIT_INCONCLUSIVE,
        },
    }
}

fn outcome(check: &Check, limits: Limits) -> Result<Outcome, String> {
    // A runtime that gets some of its descriptors and not the others ends in a panic, and roots
    // that cannot be read look as if there were none.
    if let Err(e) = net::descriptors_left() {
        let fault = Fault::new(Code::Internal, format!("no descriptors left: {e}"));
        return Ok(outcome::outcome(
            Err(fault),
            Duration::ZERO,
            Trail::default(),
        ));
    }
    let trust = Trust::native().map_err(|e| e.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("no runtime: {e}"))?;
    runtime.block_on(async {
        let engine = Engine::new(limits, trust, Policy::anywhere()).map_err(|e| e.to_string())?;
        Ok(engine.run(check).await)
    })
}

fn read(matches: &ArgMatches) -> Result<Check, String> {
    let text = |id: &str| matches.get_one::<String>(id).map_or("", String::as_str);
    let known = || {
        format!(
            "{:?} is no check type; there are: {EGRESS_CHECKS}",
            text("TYPE")
        )
    };
    let name = CheckName::parse(text("TYPE")).map_err(|_unreadable| known())?;
    let kind = Kind::from_name(name.as_str()).ok_or_else(known)?;
    let target = Target::parse_named(kind, &name, text("TARGET")).map_err(|e| e.to_string())?;
    let options = match matches.get_one::<String>("options") {
        None => Options::default(),
        Some(json) => {
            let json: Value = serde_json::from_str(json).map_err(|e| format!("--options: {e}"))?;
            Options::parse(&json).map_err(|e| e.to_string())?
        }
    };
    let source = matches.get_one::<IpAddr>("source").copied();
    let named = target.ip().or(source).map(family_of);
    let family = match (matches.get_flag("ipv6"), named) {
        (true, Some(Family::V4)) => return Err("--ipv6 with an IPv4 address".to_owned()),
        (true, _) => Family::V6,
        (false, named) => named.unwrap_or(Family::V4),
    };
    Ok(Check {
        kind,
        target,
        source,
        family,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::{Done, EXIT_USAGE, Family, command, read, run};

    fn asked(line: &[&str]) -> Done {
        let words = std::iter::once("check").chain(line.iter().copied());
        run(&command().get_matches_from(words))
    }

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        for (line, part) in [
            (&["telepathy", "a"][..], "closed-PORT"),
            (&["tcp", "no-port"], "host:port"),
            (&["dns", "9.9.9.9"], "server[:port]/name"),
            (&["https", "a", "--options", "{\"x\":1}"], "option x"),
            (&["tcp", "192.0.2.1:1", "--ipv6"], "--ipv6"),
        ] {
            let done = asked(line);
            assert_eq!(done.exit, EXIT_USAGE, "{line:?}");
            assert!(done.text.contains(part), "{}", done.text);
        }
    }

    #[test]
    fn the_family_follows_the_target_or_the_source() {
        let family = |line: &[&str]| {
            let words = std::iter::once("check").chain(line.iter().copied());
            read(&command().get_matches_from(words)).unwrap().family
        };
        assert_eq!(family(&["tcp", "a:1"]), Family::V4);
        assert_eq!(family(&["tcp", "a:1", "-6"]), Family::V6);
        assert_eq!(family(&["tcp", "[2001:db8::1]:1"]), Family::V6);
        assert_eq!(
            family(&["tcp", "a:1", "--source", "2001:db8::1"]),
            Family::V6
        );
    }
}
