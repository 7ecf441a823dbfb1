//! Measures control-api at scale: makes a large database, starts the real program on it and asks
//! it over HTTP while results are being written. And the client of the cloud beside its peers.

mod abuse;
mod client;
mod cloud;
mod disk;
mod document;
mod figures;
mod load;
mod reads;
mod server;
mod ticks;
mod writes;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use civ_store::bulk::{self, Amounts};
use civ_types::{Clock as _, SystemClock};
use clap::{Args, Parser, Subcommand};

use figures::Figures;

/// Benches of control-api at scale.
#[derive(Debug, Parser)]
#[command(name = "civ-bench", version)]
struct Line {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Makes a database, the same one for the same amounts and seed
    Data(DataArgs),
    /// Measures control-api on such a database
    Api(ApiArgs),
    /// Lists floating IPs beside openstacksdk and curl
    Cloud(cloud::CloudArgs),
    /// Serves floating IPs to be listed; prints Keystone's address
    CloudServe(cloud::ServeArgs),
    /// Lists floating IPs with the product's client
    CloudList(cloud::ListArgs),
    /// Measures what ordinary clients notice of hostile ones
    Abuse(abuse::AbuseArgs),
    /// Is hostile, until it is killed
    Attack(abuse::AttackArgs),
}

#[derive(Debug, Args)]
struct DataArgs {
    /// The file to make; an older one is replaced
    file: PathBuf,
    /// Rows of the registry
    #[arg(long, default_value_t = 1_000_000)]
    registry: u32,
    /// Addresses waiting in the queue
    #[arg(long, default_value_t = 100_000)]
    queued: u32,
    /// Stored results, at most 8 for each row of the registry
    #[arg(long, default_value_t = 5_000_000)]
    checks: u32,
    /// Decides results and order
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
struct ApiArgs {
    /// A database made by `data`; it is copied, not changed
    #[arg(long)]
    data: PathBuf,
    /// The program to measure
    #[arg(long)]
    server: PathBuf,
    /// Seconds for each figure that is a percentile
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Where the figures go as JSON
    #[arg(long)]
    json: PathBuf,
    /// Where the figures go as a document
    #[arg(long)]
    document: Option<PathBuf>,
}

/// Prints a line at once: figures take minutes.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone away is no reason to stop measuring.
    drop(writeln!(out, "{text}"));
}

fn main() -> Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_other| anyhow::anyhow!("a TLS provider was installed before"))?;
    let mode = Line::parse().mode;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    match mode {
        Mode::Data(args) => data(&args),
        Mode::Api(args) => runtime.block_on(api(&args)),
        Mode::Cloud(args) => runtime.block_on(cloud::compare(&args)),
        Mode::CloudServe(args) => runtime.block_on(cloud::serve(&args)),
        Mode::CloudList(args) => runtime.block_on(cloud::list(&args)),
        Mode::Abuse(args) => runtime.block_on(abuse::measure(&args)),
        Mode::Attack(args) => runtime.block_on(abuse::attack(&args)),
    }
}

/// Validators of the large database; each owns an address and reports results of it.
pub(crate) const VALIDATORS: u32 = 64;

/// Addresses of the large database whose attempt has ended.
const ENDED: u32 = 20_000;

fn data(args: &DataArgs) -> Result<()> {
    let wanted = u64::from(args.queued) + u64::from(ENDED) + u64::from(VALIDATORS);
    if u64::from(args.registry) < wanted {
        bail!("--registry must be at least {wanted}: every address of the queue stands in it");
    }
    let amounts = Amounts {
        registry: args.registry,
        queued: args.queued,
        ended: ENDED,
        checks: args.checks,
        validators: VALIDATORS,
        seed: args.seed,
    };
    make(&args.file, &amounts)
}

/// Makes a database in place of an older one.
pub(crate) fn make(file: &Path, amounts: &Amounts) -> Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).context("the folder of the database cannot be made")?;
    }
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("an older database cannot be removed");
            }
            _ => {}
        }
    }
    let begun = Instant::now();
    bulk::fill(file, amounts, SystemClock.now())?;
    let size = std::fs::metadata(file)?.len() / 1_000_000;
    say(&format!(
        "{}: {size} MB in {:.1} s",
        file.display(),
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

async fn api(args: &ApiArgs) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let database = folder.path().join("control-api.db");
    std::fs::copy(&args.data, &database)
        .with_context(|| format!("{} cannot be copied: make bench-data", args.data.display()))?;
    let mut figures = Figures::default();
    figures.add(
        "load average of the machine before the run",
        load_before(),
        "",
        None,
    );
    disk::measure(folder.path(), &mut figures)?;
    let server = server::Server::start(&args.server, folder.path(), &database).await?;
    let time = Duration::from_secs(args.seconds);
    reads::measure(&server, time, &mut figures).await?;
    writes::heartbeats(&server, &mut figures).await?;
    writes::enqueue(&server, &mut figures).await?;
    server.stop().await?;
    ticks::measure(folder.path(), &database, &mut figures).await?;
    figures.write(&args.json, args.document.as_deref())
}

/// Work that others had running or waiting in the minute before: with more of it than there are
/// processors, the figures tell about the neighbours.
fn load_before() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or(f64::NAN)
}
