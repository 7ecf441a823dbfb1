//! `cloud-sim`: the simulated cloud as a process of its own, without a data plane.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use civ_cloudsim::{FipSetup, NoDataPlane, PortSetup, Setup, Sim};
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Most floating IPs that `--address` may name: an IPv4 /16.
const ADDRESSES_MAX: usize = 65_536;

/// A simulated Keystone v3 and Neutron v2.0 on one listener, with an admin API under /sim/.
#[derive(Debug, Parser)]
#[command(name = "cloud-sim", version)]
struct Options {
    /// Where to listen; port 0 picks one, which the log names.
    #[arg(long, default_value = "127.0.0.1:9696")]
    listen: SocketAddr,
    /// Floating IPs: an address, a prefix or a range. Repeatable.
    #[arg(long = "address", default_value = "203.0.113.0/28")]
    addresses: Vec<String>,
    /// A validator's port as ID=FIXED-ADDRESS. Repeatable.
    #[arg(long = "port", value_parser = id_and_address)]
    ports: Vec<(String, IpAddr)>,
    /// A customer's port as ID=FIXED-ADDRESS. Repeatable.
    #[arg(long = "foreign-port", value_parser = id_and_address)]
    foreign_ports: Vec<(String, IpAddr)>,
    /// The user's password.
    #[arg(long, default_value = "validator-password")]
    password: String,
    /// How long a token lives, in seconds.
    #[arg(long, default_value_t = 3_600)]
    token_ttl_seconds: u64,
    /// How long after a change the status follows, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    status_delay_ms: u64,
}

fn id_and_address(text: &str) -> Result<(String, IpAddr), String> {
    let (id, address) = text.split_once('=').ok_or("write ID=FIXED-ADDRESS")?;
    let address = address
        .parse()
        .map_err(|_e| format!("{address:?} is no IP address"))?;
    Ok((id.to_owned(), address))
}

impl Options {
    fn setup(self) -> anyhow::Result<Setup> {
        let port = |ours| move |(id, fixed_ip): (String, IpAddr)| PortSetup { id, fixed_ip, ours };
        let mut ports: Vec<PortSetup> = self.ports.into_iter().map(port(true)).collect();
        ports.extend(self.foreign_ports.into_iter().map(port(false)));
        let addresses = civ_types::parse_list(&self.addresses, ADDRESSES_MAX);
        let addresses = addresses.map_err(|faults| {
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("--address: {}", texts.join("; "))
        })?;
        let fip = |address: civ_types::Address| FipSetup {
            address: address.ip(),
            port: None,
            forwarded: false,
        };
        Ok(Setup {
            password: self.password,
            token_ttl: Duration::from_secs(self.token_ttl_seconds),
            status_delay: Some(Duration::from_millis(self.status_delay_ms)),
            ports,
            fips: addresses.into_iter().map(fip).collect(),
            ..Setup::default()
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let options = Options::parse();
    let listen = options.listen;
    let sim = Sim::new(options.setup()?, Arc::new(NoDataPlane))?;
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
    let url = format!("http://{}", listener.local_addr()?);
    tracing::info!(
        auth_url = format!("{url}/v3"),
        network_url = url,
        "listening"
    );
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = sim.serve(listener) => ended.context("the listener failed"),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
