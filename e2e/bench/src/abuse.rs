//! Hostile clients beside ordinary ones: what the latter notice, and what the server's memory does.

mod attacks;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use civ_store::bulk::Amounts;
use clap::{Args, ValueEnum as _};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

pub(crate) use attacks::Attack;

use crate::client::Client;
use crate::document::replace;
use crate::figures::{Times, machine};
use crate::server::Server;
use crate::{VALIDATORS, say};

/// What the 99th percentile of others may be while there is an attack, in milliseconds, or so many
/// times what it is without, whichever is more.
const P99_MS: f64 = 20.0;
const P99_TIMES: f64 = 3.0;

/// Memory of the server itself, in bytes.
const MEMORY_MAX: u64 = 256 * 1_024 * 1_024;

/// Runs; the median counts.
const RUNS: usize = 3;

/// Ordinary clients, each with a question every so often.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);

/// How long an attack goes on before others are looked at: its connections are there by then.
const ONSET: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct AbuseArgs {
    /// The program to measure
    #[arg(long)]
    server: PathBuf,
    /// Seconds of each look
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only these
    #[arg(long, num_args = 1..)]
    only: Vec<Attack>,
    /// Where the figures go as JSON
    #[arg(long)]
    json: PathBuf,
    /// Where the figures go as a document
    #[arg(long)]
    document: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AttackArgs {
    /// What to do
    attack: Attack,
    /// To whom
    server: std::net::SocketAddr,
}

/// Attacks until it is killed.
pub(crate) async fn attack(args: &AttackArgs) -> Result<()> {
    attacks::run(args.attack, args.server).await
}

/// What others noticed of one attack.
#[derive(Debug, serde::Serialize)]
struct Row {
    attack: &'static str,
    /// 99th percentiles in milliseconds, medians of the runs.
    quiet_ms: f64,
    p99_ms: f64,
    /// The most that the server had, in MiB.
    memory_mib: f64,
    passed: bool,
}

pub(crate) async fn measure(args: &AbuseArgs) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let database = folder.path().join("control-api.db");
    let amounts = Amounts {
        registry: 25_000,
        queued: 2_000,
        ended: 20_000,
        checks: 100_000,
        validators: VALIDATORS,
        seed: 1,
    };
    crate::make(&database, &amounts)?;
    attacks::lift_descriptors()?;
    let mut rows = Vec::new();
    let chosen = |attack: &&Attack| args.only.is_empty() || args.only.contains(attack);
    for attack in Attack::value_variants().iter().filter(chosen) {
        let server = Server::start(&args.server, folder.path(), &database).await?;
        rows.push(look(&server, *attack, Duration::from_secs(args.seconds)).await?);
        server.stop().await?;
    }
    if let Some(folder) = args.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&args.json, serde_json::to_string_pretty(&rows)? + "\n")?;
    if let Some(path) = &args.document {
        replace(path, "abuse", &document(&rows))?;
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| !row.passed)
        .map(|row| row.attack)
        .collect();
    say(&format!(
        "{} passed, {} failed",
        rows.len() - failed.len(),
        failed.len()
    ));
    if failed.is_empty() {
        return Ok(());
    }
    bail!("others noticed too much of: {}", failed.join(", "))
}

/// Compares others' times without and with an attack, in turn.
async fn look(server: &Server, attack: Attack, time: Duration) -> Result<Row> {
    let (mut quiet, mut hostile, mut memory) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        quiet.push(others(server, time).await?.0.quantile(0.99));
        let mut attacker = start(attack, server)?;
        tokio::time::sleep(ONSET).await;
        let (times, most) = others(server, time).await?;
        if let Some(status) = attacker.try_wait()? {
            bail!("the attack {} ended by itself: {status}", attack.name());
        }
        attacker.kill().await?;
        hostile.push(times.quantile(0.99));
        memory = memory.max(most);
    }
    let (quiet_ms, p99_ms) = (median(quiet), median(hostile));
    let passed = p99_ms <= P99_MS.max(P99_TIMES * quiet_ms) && memory < MEMORY_MAX;
    let memory_mib = memory as f64 / (1_024.0 * 1_024.0);
    say(&format!(
        "{}: p99 of others {p99_ms:.1} ms (quiet {quiet_ms:.1}), memory {memory_mib:.0} MiB: {}",
        attack.name(),
        if passed { "passed" } else { "FAILED" }
    ));
    Ok(Row {
        attack: attack.name(),
        quiet_ms,
        p99_ms,
        memory_mib,
        passed,
    })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The attack in a process of its own, which yields to the server: it stands for machines
/// elsewhere.
fn start(attack: Attack, server: &Server) -> Result<Child> {
    let mut command = Command::new("nice");
    command
        .args(["-n", "19"])
        .arg(std::env::current_exe()?)
        .args(["attack", attack.name()])
        .arg(server.addr())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.spawn().context("the attack does not start")
}

/// Ordinary clients for a while, and the most memory that the server had. Every answer must be a
/// success; times count from the moment that a question was due.
async fn others(server: &Server, time: Duration) -> Result<(Times, u64)> {
    let mut under_way = JoinSet::new();
    let until = Instant::now() + time;
    for n in 0..CLIENTS {
        let client = server.client()?;
        under_way.spawn(async move { ordinary(client, n, until).await });
    }
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(server.memory()?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut times = Times::default();
    while let Some(done) = under_way.join_next().await {
        times.extend(done??);
    }
    Ok((times, most))
}

async fn ordinary(client: Client, n: usize, until: Instant) -> Result<Times> {
    let validator = civ_store::bulk::validator(u32::try_from(n)?);
    let mut times = Times::default();
    let mut due = interval(PAUSE);
    let beat = serde_json::json!({});
    for turn in 0_u32.. {
        let due = due.tick().await;
        if until <= due {
            break;
        }
        match turn % 4 {
            0 => {
                client.get("/api/v1/admin/status").await?;
            }
            1 => {
                client.get("/api/v1/admin/ips?limit=50").await?;
            }
            2 => {
                let path = format!("/api/v1/agents/{validator}/heartbeat");
                client.post(&path, &beat).await?;
            }
            _ => {
                let path = format!("/api/v1/agents/{validator}/assignment");
                client.get(&path).await?;
            }
        }
        times.add(Instant::now().saturating_duration_since(due));
    }
    Ok(times)
}

fn document(rows: &[Row]) -> String {
    let mut text = format!(
        "## control-api under abuse\n\nMade by `make abuse` on {}. Eight ordinary clients ask 50 \
         times a second each: status, queue,\nheartbeats and assignments. Attackers are a process \
         of lowest priority on the same machine. \"p99\"\nis of the ordinary clients, the median of \
         {RUNS} runs with the attack and {RUNS} without, in turn; it may be\n{P99_TIMES} times the \
         quiet one or {P99_MS} ms, whichever is more. Memory (the most of the program itself) may\n\
         be 256 MiB.\n\n| attack | p99 quiet | p99 | memory |\n|---|---|---|---|\n",
        machine()
    );
    for row in rows {
        text += &format!(
            "| {} | {:.1} ms | {:.1} ms | {:.0} MiB |\n",
            row.attack, row.quiet_ms, row.p99_ms, row.memory_mib
        );
    }
    text
}
