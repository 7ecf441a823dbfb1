//! The command line of `ctl`. Knows words, not what they do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Asks and tells a running control-api, through its HTTP API
#[derive(Debug, Parser)]
#[command(
    name = "ctl",
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(super) struct Ctl {
    #[command(flatten)]
    pub(super) connection: Connection,
    /// The server's answer as it came, instead of tables
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Where control-api is. A token is never a value here: others can read command lines.
#[derive(Debug, Default, Args)]
pub(super) struct Connection {
    /// Address of control-api; else `CIV_URL`, else `url` of the file, else port 8080 here
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,
    /// File with the admin token; else `CONTROL_API_ADMIN_TOKEN`, else `token_file` of the file
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// PEM file of a private certificate authority; else `CIV_CA_FILE`, else `ca_file` of the file
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// The file; else ~/.config/civ/ctl.yaml, if there is one
    #[arg(long = "ctl-config", global = true, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// The queue: add, list, show, cancel, delete, clear
    #[command(visible_alias = "ip")]
    Ips {
        #[command(subcommand)]
        command: Ips,
    },
    /// Reads the cloud's floating IPs and queues those that are free
    Scan {
        /// Only count what would be queued
        #[arg(long)]
        dry_run: bool,
        /// Follow the scan to its end
        #[arg(long)]
        wait: bool,
    },
    /// How many addresses are in which state, and what became of them
    Status {
        /// Again every 2 seconds, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// The validators and what they are doing
    Validators,
    /// Every address that was ever queued
    Registry {
        #[command(subcommand)]
        command: Option<Registry>,
    },
    /// The configuration that lives in the database
    Config {
        #[command(subcommand)]
        command: Config,
    },
    /// Clear, scan, check, pause, and again
    AutoCycle {
        #[command(subcommand)]
        command: AutoCycle,
    },
    /// Prints a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Ips {
    /// Queues addresses, prefixes (203.0.113.0/28) and ranges (203.0.113.4-203.0.113.9)
    Add {
        /// In the order of checking; `-` reads them from standard input
        #[arg(required = true, value_name = "ADDR")]
        addresses: Vec<String>,
    },
    /// Lists the queue
    List {
        /// Only in these states, separated by commas
        #[arg(long)]
        state: Option<String>,
        /// Only with this result: pass, partial, fail or cancelled
        #[arg(long)]
        result: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows one address with its checks and events
    Show {
        /// The address
        ip: String,
    },
    /// Breaks off the check of addresses, or takes them out of the waiting ones
    Cancel {
        /// The addresses
        #[arg(required = true, value_name = "IP")]
        ips: Vec<String>,
    },
    /// Takes addresses out of the queue; their history stays
    Delete {
        /// The addresses
        #[arg(required = true, value_name = "IP")]
        ips: Vec<String>,
    },
    /// Takes everything out of the queue, what is being checked too
    Clear {
        /// Says that this is meant
        #[arg(long)]
        yes: bool,
    },
}

/// A part of a list.
#[derive(Debug, Default, Args)]
pub(super) struct Page {
    /// Only addresses with this in them
    #[arg(long, value_name = "TEXT")]
    pub(super) q: Option<String>,
    /// At most so many, up to 1000
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u32>,
    /// Pass over so many first
    #[arg(long, value_name = "N", requires = "limit")]
    pub(super) offset: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Registry {
    /// Lists the addresses
    List {
        /// Only with this last result
        #[arg(long)]
        last_result: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows one address with all its checks
    Show {
        /// The address
        ip: String,
    },
}

/// A part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    #[value(alias = "validator")]
    Validators,
    #[value(alias = "site")]
    Sites,
    #[value(alias = "target")]
    Targets,
    #[value(alias = "check-type", alias = "checks")]
    CheckTypes,
    Orchestrator,
    #[value(alias = "inbound-check", alias = "inbound")]
    InboundChecks,
}

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Shows a part of the configuration, or all of it
    Get {
        /// Which part
        section: Option<Section>,
    },
    /// Changes or adds an entry; takes effect at once
    Set {
        #[command(subcommand)]
        what: Set,
    },
    /// Removes an entry
    #[command(visible_alias = "rm")]
    Delete {
        /// Which part
        section: Deletable,
        /// The validator, the site's slot, the group of targets, or the check type
        name: String,
    },
}

/// A part of the configuration that has entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Deletable {
    #[value(alias = "validator")]
    Validators,
    #[value(alias = "site")]
    Sites,
    #[value(alias = "target")]
    Targets,
    #[value(alias = "check-type", alias = "checks")]
    CheckTypes,
}

#[derive(Debug, Subcommand)]
pub(super) enum Set {
    /// validators ID PORT: the Neutron port of a validator
    #[command(alias = "validator")]
    Validators {
        /// The validator
        id: String,
        /// Its port, `os_port_id`
        port: String,
    },
    /// sites SLOT SITE: the site in a slot, from 1
    #[command(alias = "site")]
    Sites {
        /// The slot, from 1
        slot: u32,
        /// The site's name, `site_id`
        site: String,
    },
    /// targets GROUP TARGET…: what the checks of a group ask
    #[command(alias = "target")]
    Targets {
        /// The group
        group: String,
        /// URLs, hosts or host:port
        #[arg(required = true)]
        targets: Vec<String>,
    },
    /// check-types NAME KEY=VALUE…: enabled=true, targets=web,other, options={…}
    #[command(alias = "check-type", alias = "checks")]
    CheckTypes {
        /// The check type
        name: String,
        /// enabled, targets (groups), options (JSON); what is left out stays as it is
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
    /// orchestrator KEY=VALUE…: `fip_settle_seconds=5`, `history_retention_cycles=10`
    Orchestrator {
        /// What is left out stays as it is
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
    /// inbound-checks KEY=VALUE…: ports=22,80,443, icmp=true
    #[command(alias = "inbound-check", alias = "inbound")]
    InboundChecks {
        /// What is left out stays as it is; `ports=` is none
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum AutoCycle {
    /// Shows what it is doing
    Status,
    /// Turns it on
    Start,
    /// Turns it off; checks under way go on
    Stop,
    /// Changes its times: seconds, or 90s, 30m, 2h
    #[command(arg_required_else_help = true)]
    Set {
        /// The pause between two rounds, from 60 s
        #[arg(long, value_name = "TIME", value_parser = super::values::seconds)]
        interval: Option<u64>,
        /// The longest wait for the checks of a round; 0: no limit
        #[arg(long, value_name = "TIME", value_parser = super::values::seconds)]
        max_run: Option<u64>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parses(line: &str) -> bool {
        Ctl::try_parse_from(line.split_whitespace()).is_ok()
    }

    #[test]
    fn the_definition_is_sound() {
        Ctl::command().debug_assert();
    }

    #[test]
    fn lines_that_people_guess_are_understood() {
        for line in [
            "ctl ips add 203.0.113.0/28 203.0.113.40-203.0.113.49",
            "ctl ip list --state queued,done --limit 10 --offset 20 --json",
            "ctl --url https://civ.example status --watch",
            "ctl registry",
            "ctl registry list --q 113",
            "ctl config get",
            "ctl config get orchestrator",
            "ctl config set orchestrator fip_settle_seconds=5",
            "ctl config set targets web https://a https://b",
            "ctl config set check-type https enabled=false",
            "ctl config delete site 2",
            "ctl config rm validators validator_01",
            "ctl auto-cycle set --interval 1h --max-run 0",
            "ctl completions zsh",
        ] {
            assert!(parses(line), "{line}");
        }
    }

    #[test]
    fn a_token_is_no_flag_and_slips_are_refused() {
        for line in [
            "ctl status --token abc",
            "ctl ips add",
            "ctl ips list --offset 5",
            "ctl config set targets web",
            "ctl config delete orchestrator x",
            "ctl auto-cycle set",
            "ctl auto-cycle set --interval soon",
        ] {
            assert!(!parses(line), "{line}");
        }
    }
}
