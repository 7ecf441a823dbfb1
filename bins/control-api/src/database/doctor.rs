//! `control-api doctor`: what does not fit together within the database, and between database and
//! cloud; and putting it right.

mod cloud;
mod repair;

use std::path::PathBuf;
use std::sync::Arc;

use civ_boot::chain::Chain;
use civ_boot::secrets::Environment;
use civ_boot::{Asked, Extra};
use civ_cloud::OpenStack;
use civ_store::doctor::{self, Kind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use serde::Serialize;

use super::{EXIT_FAULT, EXIT_FOUND, Ended, code, load, note, print};
use crate::cloud as login;
use crate::config::Settings;

/// The subcommand `doctor`.
pub const EXTRA: Extra = Extra {
    command: Line::command,
    run,
};

/// Lists what does not fit together in the database, and between database and cloud
///
/// Without --fix it only reads, and control-api may run. With --fix, control-api must not run; what
/// hangs on a validator's port without an owner is released under the same rules as ever, and
/// nothing is taken from anybody else's port. Exit codes: 0 nothing was found, or all of it was put
/// right; 1 it could not look everywhere; 2 the configuration cannot be used, or control-api runs
/// (with --fix); 3 something was found, or is left.
#[derive(Debug, Parser)]
#[command(name = "doctor")]
struct Line {
    /// The YAML file of control-api
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Put right what can be
    #[arg(long)]
    fix: bool,
    /// Print the findings as one JSON document
    #[arg(long)]
    json: bool,
    /// Do not ask the cloud
    #[arg(long)]
    no_cloud: bool,
}

/// One thing that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    kind: &'static str,
    text: String,
    /// Whether `--fix` can put it right.
    repairable: bool,
    /// Whether it has.
    repaired: bool,
}

impl From<doctor::Finding> for Finding {
    fn from(found: doctor::Finding) -> Self {
        Self {
            kind: found.kind.as_str(),
            text: found.text,
            repairable: found.kind.is_repairable(),
            repaired: false,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    clean: bool,
    findings: &'a [Finding],
    /// Why a part could not be looked at.
    not_looked: Option<&'a str>,
}

/// What was looked at, and what came of it.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<Finding>,
    not_looked: Option<String>,
}

fn run(asked: Asked) -> u8 {
    let Asked {
        matches,
        environment,
        ..
    } = asked;
    let line = Line::from_arg_matches(&matches);
    let line = line.map_err(|error| Ended::usage(error.to_string()));
    let ended = line.and_then(|line| look(&line, environment.as_ref()));
    code("doctor", ended)
}

fn look(line: &Line, environment: &dyn Environment) -> Result<u8, Ended> {
    let settings = load(&line.config)?;
    let client = match line.no_cloud {
        true => None,
        false => Some(Arc::new(client(&settings, environment)?)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Ended::fault(&error))?;
    let report = runtime.block_on(async {
        if line.fix {
            fix(&settings, client).await
        } else {
            examine(&settings, client.as_deref()).await
        }
    })?;
    Ok(tell(&report, line.json))
}

fn client(settings: &Settings, environment: &dyn Environment) -> Result<OpenStack, Ended> {
    let usage = |error: &(dyn std::error::Error + 'static)| {
        let why = Chain(error).to_string();
        Ended::usage(format!("{why}; --no-cloud looks at the database alone"))
    };
    let (config, _) =
        login::config(&settings.openstack, environment).map_err(|error| usage(&error))?;
    let budget = login::budget(&settings.openstack);
    let client = OpenStack::within(config, budget).map_err(|error| usage(&error))?;
    Ok(client.marking(settings.openstack.mark_description))
}

/// Looks and changes nothing.
async fn examine(settings: &Settings, client: Option<&OpenStack>) -> Result<Report, Ended> {
    let path = &settings.database_path;
    let within = doctor::examine(path)?;
    let is_readable = within.iter().all(|one| one.kind != Kind::Damage);
    let mut report = Report {
        findings: within.into_iter().map(Finding::from).collect(),
        not_looked: None,
    };
    let Some(client) = client.filter(|_| is_readable) else {
        return Ok(report);
    };
    match cloud::findings(client, path).await {
        Ok(found) => report.findings.extend(found),
        Err(why) => report.not_looked = Some(why),
    }
    Ok(report)
}

/// Looks, puts right, and looks again.
async fn fix(settings: &Settings, client: Option<Arc<OpenStack>>) -> Result<Report, Ended> {
    // Before anything else: whoever works on the database is not disturbed.
    doctor::is_free(&settings.database_path)?;
    let before = examine(settings, client.as_deref()).await?;
    let breaks = |one: &&Finding| {
        let lacks = one.kind == Kind::Schema.as_str() && one.text.ends_with("is missing");
        one.kind == Kind::Damage.as_str() || lacks
    };
    if before.findings.iter().any(|one| breaks(&one)) {
        note("the database must be restored from a backup before anything can be put right");
        return Ok(before);
    }
    let not_done = repair::all(settings, client.clone(), &before).await?;
    let mut after = examine(settings, client.as_deref()).await?;
    after.not_looked = after.not_looked.or(not_done);
    let gone = before.findings.into_iter().filter(|one| {
        let same = |other: &Finding| (other.kind, &other.text) == (one.kind, &one.text);
        !after.findings.iter().any(same)
    });
    let mut findings: Vec<Finding> = gone
        .map(|one| Finding {
            repaired: true,
            ..one
        })
        .collect();
    findings.append(&mut after.findings);
    Ok(Report {
        findings,
        not_looked: after.not_looked,
    })
}

/// Prints the findings; says the exit code.
fn tell(report: &Report, json: bool) -> u8 {
    let n_left = report.findings.iter().filter(|one| !one.repaired).count();
    if json {
        let document = Document {
            clean: n_left == 0 && report.not_looked.is_none(),
            findings: &report.findings,
            not_looked: report.not_looked.as_deref(),
        };
        // Texts and truths alone: there is nothing in it that JSON could not write.
        print(&serde_json::to_string_pretty(&document).unwrap_or_default());
    } else {
        for one in &report.findings {
            let word = if one.repaired { "repaired" } else { "found" };
            print(&format!("{word:<9} {}: {}", one.kind, one.text));
        }
        print(&match (n_left, report.findings.len()) {
            (0, 0) => "Everything fits together.".to_owned(),
            (0, n) => format!("Put right: {n}."),
            (n, _) => format!("Left: {n}."),
        });
    }
    if let Some(why) = &report.not_looked {
        note(&format!("control-api doctor: {why}"));
        return EXIT_FAULT;
    }
    if n_left == 0 { 0 } else { EXIT_FOUND }
}
