//! `cloud-sim`: the simulated cloud as a process of its own, without a data plane.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use civ_cloudsim::{FipSetup, NoDataPlane, Pace, PortSetup, Scenario, Setup, Sim, Snapshot};
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Most floating IPs that `--address` may name: two IPv4 /16.
const ADDRESSES_MAX: usize = 131_072;

/// A simulated Keystone v3 and Neutron v2.0 on one listener, with an admin API under /sim/. Prints
/// the clouds.yaml that reaches it and serves until it is stopped.
#[derive(Debug, Parser)]
#[command(name = "cloud-sim", version)]
struct Options {
    /// Where to listen; port 0 picks one, which the clouds.yaml and the log name.
    #[arg(long, default_value = "127.0.0.1:9696")]
    listen: SocketAddr,
    /// What the cloud holds and what goes wrong: a YAML file.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Keeps the state in this SQLite file, and goes on with what it holds; without it, in memory.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Starts with the state that this snapshot holds.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Writes a snapshot when it is stopped.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How time passes: real, stepped (by POST /sim/clock/advance), or so many times as fast (60x).
    #[arg(long, value_parser = pace)]
    clock: Option<Pace>,
    /// Floating IPs in place of the scenario's: an address, a prefix or a range. Repeatable.
    #[arg(long = "address")]
    addresses: Vec<String>,
    /// A validator's port as ID=FIXED-ADDRESS, in place of the scenario's. Repeatable.
    #[arg(long = "port", value_parser = id_and_address)]
    ports: Vec<(String, IpAddr)>,
    /// A customer's port as ID=FIXED-ADDRESS, in place of the scenario's. Repeatable.
    #[arg(long = "foreign-port", value_parser = id_and_address)]
    foreign_ports: Vec<(String, IpAddr)>,
    /// The user's password.
    #[arg(long)]
    password: Option<String>,
    /// How long a token lives, in seconds.
    #[arg(long)]
    token_ttl_seconds: Option<u64>,
    /// How long after a change the status follows, in milliseconds.
    #[arg(long)]
    status_delay_ms: Option<u64>,
}

fn id_and_address(text: &str) -> Result<(String, IpAddr), String> {
    let (id, address) = text.split_once('=').ok_or("write ID=FIXED-ADDRESS")?;
    let address = address
        .parse()
        .map_err(|_e| format!("{address:?} is no IP address"))?;
    Ok((id.to_owned(), address))
}

fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "real" => Ok(Pace::Real),
        "stepped" => Ok(Pace::Stepped),
        other => {
            let factor = other
                .strip_suffix('x')
                .and_then(|factor| factor.parse().ok());
            let factor = factor.filter(|factor| *factor > 0);
            factor
                .map(Pace::Scaled)
                .ok_or_else(|| "must be real, stepped, or a number and x, like 60x".to_owned())
        }
    }
}

impl Options {
    /// The scenario, with what the command line says instead.
    fn scenario(&self) -> anyhow::Result<Scenario> {
        let mut scenario = match &self.scenario {
            Some(path) => Scenario::load(path).map_err(|faults| anyhow::anyhow!("{faults}"))?,
            None => Scenario::standard(),
        };
        let setup = &mut scenario.setup;
        if !self.ports.is_empty() || !self.foreign_ports.is_empty() {
            let port = |ours| {
                move |(id, fixed_ip): &(String, IpAddr)| PortSetup {
                    id: id.clone(),
                    fixed_ip: *fixed_ip,
                    ours,
                }
            };
            setup.ports = self.ports.iter().map(port(true)).collect();
            setup
                .ports
                .extend(self.foreign_ports.iter().map(port(false)));
            setup.unrouted_ports.clear();
            setup.two_address_ports.clear();
            setup.fips.iter_mut().for_each(|fip| fip.port = None);
        }
        if !self.addresses.is_empty() {
            setup.fips = floating_ips(&self.addresses)?;
        }
        self.behaviour(setup);
        Ok(scenario)
    }

    fn behaviour(&self, setup: &mut Setup) {
        if let Some(password) = &self.password {
            setup.password.clone_from(password);
        }
        if let Some(seconds) = self.token_ttl_seconds {
            setup.token_ttl = Duration::from_secs(seconds);
        }
        if let Some(ms) = self.status_delay_ms {
            setup.status_delay = Some(Duration::from_millis(ms));
        }
        if let Some(pace) = self.clock {
            setup.pace = pace;
        }
    }
}

fn floating_ips(addresses: &[String]) -> anyhow::Result<Vec<FipSetup>> {
    let all = civ_types::parse_list(addresses, ADDRESSES_MAX);
    let all = all.map_err(|faults| {
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("--address: {}", texts.join("; "))
    })?;
    let fip = |address: civ_types::Address| FipSetup {
        address: address.ip(),
        port: None,
        forwarded: false,
    };
    Ok(all.into_iter().map(fip).collect())
}

async fn made(options: &Options) -> anyhow::Result<Sim> {
    let scenario = options.scenario()?;
    let plane = Arc::new(NoDataPlane);
    let sim = match &options.state {
        Some(path) => Sim::with_file(scenario.setup, plane, path)?,
        None => Sim::new(scenario.setup, plane)?,
    };
    for rule in scenario.rules {
        // A state file that is gone on with has them already.
        if !sim.rules().contains(&rule) {
            sim.add_rule(rule);
        }
    }
    if let Some(path) = &options.restore {
        let restored = sim.restore(Snapshot::read(path)?).await;
        restored.with_context(|| format!("cannot restore {}", path.display()))?;
    }
    Ok(sim)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let options = Options::parse();
    let listen = options.listen;
    let sim = made(&options).await?;
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
    let url = format!("http://{}", listener.local_addr()?);
    tracing::info!(
        auth_url = format!("{url}/v3"),
        network_url = url,
        "listening"
    );
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(sim.clouds_yaml(&url).as_bytes())?;
    stdout.flush()?;
    drop(stdout);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = sim.clone().serve(listener) => ended.context("the listener failed")?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    if let Some(path) = &options.save {
        save(&sim, path).await?;
    }
    Ok(())
}

async fn save(sim: &Sim, path: &Path) -> anyhow::Result<()> {
    sim.snapshot().await?.write(path)?;
    tracing::info!(file = %path.display(), "snapshot written");
    Ok(())
}
