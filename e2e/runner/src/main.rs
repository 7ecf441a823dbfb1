//! The offline scenario: a whole cloud on one machine, with real packets.

mod api;
mod audit;
mod capture;
mod chance;
mod checks;
mod dead_time;
mod demo;
mod enter;
mod flows;
mod hold;
mod ledger;
mod listener;
mod log_line;
mod openstack;
mod plane;
mod procs;
mod report;
mod run;
mod scenarios;
mod settings;
mod stage;
mod waiting;
mod world;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use civ_types::{Clock as _, SystemClock};
use clap::{Args, Parser, Subcommand};

use report::say;
use scenarios::Scenario;
use stage::Stage;
use stage::on_loopback::OnLoopback;
use stage::on_namespaces::OnNamespaces;
use stage::plan::Plan;
use world::House;

/// Validator VMs of the stage.
const VMS: u8 = 3;
/// External sites of the stage.
const SITES: u8 = 2;

/// Plays the product's scenarios on a stage of network namespaces, or shows it at work there.
#[derive(Debug, Parser)]
#[command(name = "civ-e2e", version)]
struct Line {
    #[command(subcommand)]
    mode: Mode,
    /// Already inside the runner's own namespaces.
    #[arg(long, global = true, hide = true)]
    inside: bool,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Plays scenarios, prints a table, writes junit.xml
    Run(RunArgs),
    /// What production does to processes, disks and files, and that nothing is lost by it
    Crash(RunArgs),
    /// Plays against a real Keystone and Neutron: the client's suite, and stories
    Openstack(OpenstackArgs),
    /// Provokes every code of the checks by a real fault and compares what both binaries report
    Checks(ChecksArgs),
    /// Leaves the stage running with work in it and the status page on a loopback port
    Demo(DemoArgs),
    /// Keeps one TCP connection busy until it is cut
    #[command(hide = true)]
    Hold {
        /// A web server
        peer: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Only these scenarios
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// On 127.0.0.0/8, without namespaces and NAT
    #[arg(long)]
    loopback: bool,
    /// Names the scenarios and plays none
    #[arg(long)]
    list: bool,
    /// For the scenarios with dice; printed by them
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    folders: Folders,
}

#[derive(Debug, Args)]
struct OpenstackArgs {
    /// Only what has one of these words in its name
    #[arg(long, num_args = 1.., value_name = "WORD")]
    only: Vec<String>,
    /// On 127.0.0.0/8, without namespaces and NAT
    #[arg(long)]
    loopback: bool,
    /// How many random calls go into Neutron and its simulation
    #[arg(long, value_name = "N", default_value_t = 240)]
    calls: u32,
    /// For the dice; printed
    #[arg(long)]
    seed: Option<u64>,
    /// The program that starts Keystone and Neutron
    #[arg(long, value_name = "FILE", default_value = "e2e/openstack/lab.py")]
    lab: PathBuf,
    /// Its folder; default: `openstack` in the target folder
    #[arg(long, value_name = "DIR", env = "CIV_OPENSTACK_DIR")]
    lab_dir: Option<PathBuf>,
    #[command(flatten)]
    folders: Folders,
}

#[derive(Debug, Args)]
struct ChecksArgs {
    /// Only cases that have one of these words in their name
    #[arg(long, num_args = 1.., value_name = "WORD")]
    only: Vec<String>,
    #[command(flatten)]
    folders: Folders,
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// Port on 127.0.0.1 for the status page; 0 picks one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// On 127.0.0.0/8, without namespaces and NAT
    #[arg(long)]
    loopback: bool,
    #[command(flatten)]
    folders: Folders,
}

#[derive(Debug, Args)]
struct Folders {
    /// Where control-api, validator-agent, prober and civ-e2e lie; default: beside this program
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Where logs and junit.xml go; default: `e2e` in the target folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Folders {
    fn resolve(&self) -> Result<(PathBuf, PathBuf)> {
        let program = std::env::current_exe()?;
        let beside = program.parent().context("this program lies nowhere")?;
        let bin = self.bin_dir.as_deref().unwrap_or(beside);
        let bin = fs::canonicalize(bin)
            .with_context(|| format!("--bin-dir {} is not there", bin.display()))?;
        let target = beside.parent().unwrap_or(beside);
        let out = self.out.clone().unwrap_or_else(|| target.join("e2e"));
        fs::create_dir_all(&out).with_context(|| format!("{} cannot be made", out.display()))?;
        Ok((bin, fs::canonicalize(&out)?))
    }
}

fn main() -> ExitCode {
    match play(&Line::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to be done if even that cannot be written.
            drop(writeln!(std::io::stderr(), "civ-e2e: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn play(line: &Line) -> Result<ExitCode> {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("another TLS provider is installed already");
    }
    match &line.mode {
        Mode::Run(args) => play_scenarios(scenarios::ALL, args, line.inside, "junit.xml"),
        Mode::Crash(args) => play_scenarios(scenarios::CRASHES, args, line.inside, "crash.xml"),
        Mode::Openstack(args) => run_openstack(args, line.inside),
        Mode::Checks(args) => run_checks(args, line.inside),
        Mode::Demo(args) => run_demo(args, line.inside),
        Mode::Hold { peer } => {
            runtime()?.block_on(hold::hold(*peer))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

/// Enters the namespaces if they are wanted and to be had; returns whether it is loopback now.
fn choose_ground(loopback: bool, inside: bool, listener: Option<TcpListener>) -> Result<Ground> {
    if inside {
        return Ok(Ground::Namespaces);
    }
    if !loopback {
        match enter::obstacle() {
            None => match enter::reexec(listener)? {},
            Some(why) => say(format!(
                "Network namespaces are not to be had here ({why}), so the scenarios play on \
                 loopback addresses, without NAT."
            )),
        }
    }
    Ok(Ground::Loopback(listener))
}

#[derive(Debug)]
enum Ground {
    Namespaces,
    Loopback(Option<TcpListener>),
}

async fn build(ground: &Ground, folders: &Folders, seed: Option<u64>) -> Result<House> {
    let (bin, out) = folders.resolve()?;
    // Logs of the stage's own servers, and on loopback what they serve from.
    let home = out.join("stage");
    if home.exists() {
        fs::remove_dir_all(&home)
            .with_context(|| format!("{} cannot be emptied", home.display()))?;
    }
    fs::create_dir_all(&home)?;
    let stage: Arc<dyn Stage> = match ground {
        Ground::Namespaces => {
            let plan = Plan::namespaces(VMS, SITES);
            Arc::new(OnNamespaces::build(plan, &bin, &out, &home).await?)
        }
        Ground::Loopback(_) => Arc::new(OnLoopback::build(VMS, SITES, &home).await?),
    };
    let seed = seed.unwrap_or_else(|| SystemClock.now().as_micros().unsigned_abs());
    Ok(House {
        stage,
        bin,
        out,
        seed,
    })
}

fn play_scenarios(
    all: &'static [Scenario],
    args: &RunArgs,
    inside: bool,
    junit: &str,
) -> Result<ExitCode> {
    if args.list {
        all.iter().for_each(|scenario| say(scenario.name));
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = run::chosen(all, &args.only)?;
    let ground = choose_ground(args.loopback, inside, None)?;
    let on_loopback = matches!(ground, Ground::Loopback(_));
    runtime()?.block_on(async {
        let house = build(&ground, &args.folders, args.seed).await?;
        let junit: &Path = &house.out.join(junit);
        let passed = run::run(&house, &scenarios, on_loopback, junit).await?;
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

fn run_openstack(args: &OpenstackArgs, inside: bool) -> Result<ExitCode> {
    let ground = choose_ground(args.loopback, inside, None)?;
    runtime()?.block_on(async {
        let house = build(&ground, &args.folders, args.seed).await?;
        let beside = house.out.parent().unwrap_or(&house.out).join("openstack");
        let options = openstack::Options {
            script: args.lab.clone(),
            dir: args.lab_dir.clone().unwrap_or(beside),
            only: args.only.clone(),
            calls: args.calls,
        };
        let junit = house.out.join("openstack.xml");
        let passed = openstack::run(&house, &options, &junit).await?;
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

fn run_checks(args: &ChecksArgs, inside: bool) -> Result<ExitCode> {
    if !inside {
        if let Some(why) = enter::obstacle() {
            say(format!(
                "e2e-checks skipped: no network namespaces here: {why}"
            ));
            return Ok(ExitCode::SUCCESS);
        }
        match enter::reexec(None)? {}
    }
    let (bin, out) = args.folders.resolve()?;
    let passed = runtime()?.block_on(checks::run(&bin, &out, &args.only))?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_demo(args: &DemoArgs, inside: bool) -> Result<ExitCode> {
    // Made before the namespaces are entered: a socket stays in the one where it was made.
    let listener = if inside {
        None
    } else {
        let address = (Ipv4Addr::LOCALHOST, args.port);
        let listener = TcpListener::bind(address)
            .with_context(|| format!("port {} of 127.0.0.1 is taken: see --port", args.port))?;
        listener.set_nonblocking(true)?;
        Some(listener)
    };
    let ground = choose_ground(args.loopback, inside, listener)?;
    runtime()?.block_on(async {
        let house = build(&ground, &args.folders, None).await?;
        let listener = match ground {
            Ground::Namespaces => enter::inherited_listener()?,
            Ground::Loopback(listener) => listener.context("no listener was made")?,
        };
        demo::run(&house, listener).await?;
        Ok(ExitCode::SUCCESS)
    })
}
