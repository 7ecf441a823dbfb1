//! Owns the capture on the router's outside interface, and what is looked for in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Child;

use crate::procs::signal;
use crate::stage::netns::{EDGE_WAN, Rights};
use crate::stage::plan::Place;
use crate::stage::tool;
use crate::waiting::until;
use crate::world::World;

/// First byte of the TCP payload, as tcpdump counts.
const PAYLOAD: &str = "((tcp[12]&0xf0)>>2)";

/// A running tcpdump.
#[derive(Debug)]
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
    said: PathBuf,
}

/// What was seen, and on which floating addresses.
pub(crate) type Seen = Vec<(&'static str, BTreeSet<Ipv4Addr>)>;

impl Capture {
    /// Starts to capture at `edge`, on the outside interface; `None` where there is no `edge`.
    ///
    /// # Errors
    ///
    /// When tcpdump does not start to listen.
    pub(crate) async fn start(world: &World) -> Result<Option<Self>> {
        if !world.stage.plan().icmp {
            return Ok(None);
        }
        let file = world.dir().join("edge-wan0.pcap");
        let said = world.dir().join("tcpdump.log");
        let mut tcpdump = world
            .stage
            .command(Place::Edge, Rights::Builder, Path::new("tcpdump"));
        // Written by us through its standard output: as root it changes its user and could not.
        tcpdump.args([
            "-i",
            "wan0",
            "-n",
            "-U",
            "-B",
            "16384",
            "--immediate-mode",
            "-w",
            "-",
        ]);
        let child = tcpdump
            .stdin(Stdio::null())
            .stdout(File::create(&file)?)
            .stderr(File::create(&said)?)
            .kill_on_drop(true)
            .spawn()
            .context("tcpdump does not start")?;
        until("tcpdump listens", async || {
            fs::read_to_string(&said).is_ok_and(|text| text.contains("listening on"))
        })
        .await?;
        Ok(Some(Self { child, file, said }))
    }

    /// Ends the capture and looks for what the checks must have sent.
    ///
    /// # Errors
    ///
    /// When tcpdump fails; `tcpdump.log` says why.
    pub(crate) async fn stop(mut self, world: &World) -> Result<Seen> {
        self.catch_up(world).await?;
        if let Some(pid) = self.child.id() {
            signal("TERM", pid).await?;
        }
        let status = self.child.wait().await?;
        if !status.success() {
            let said = fs::read_to_string(&self.said)?;
            bail!("tcpdump ended with {status}: {said}");
        }
        let nets = world.stage.plan().floating_cidrs();
        let to = |nets: &[String]| {
            let all: Vec<_> = nets.iter().map(|net| format!("dst net {net}")).collect();
            format!("({})", all.join(" or "))
        };
        let (to, from) = (to(&nets), to(&nets).replace("dst", "src"));
        let wanted = [
            ("echo request in", format!("icmp[icmptype] = 8 and {to}")),
            (
                "TLS ClientHello in",
                format!(
                    "tcp dst port 443 and tcp[{PAYLOAD}] = 22 and tcp[{PAYLOAD}+5] = 1 and {to}"
                ),
            ),
            (
                "SSH identification out",
                format!("tcp src port 22 and tcp[{PAYLOAD}:4] = 0x5353482d and {from}"),
            ),
            ("TLS ClientHello out", {
                format!(
                    "tcp dst port 443 and tcp[{PAYLOAD}] = 22 and tcp[{PAYLOAD}+5] = 1 and {from}"
                )
            }),
        ];
        let mut seen = Vec::new();
        for (what, filter) in wanted {
            seen.push((what, self.addresses(world, &filter).await?));
        }
        Ok(seen)
    }

    /// Sends one last packet and waits until it is in the file: then so are all before it.
    async fn catch_up(&self, world: &World) -> Result<()> {
        let mut ping = world
            .stage
            .command(Place::Site(1), Rights::Service, Path::new("ping"));
        ping.args(["-q", "-c", "1", "-w", "5", "-s", "1111", EDGE_WAN]);
        tool::feed(&mut ping, "").await?;
        let last = format!("icmp[icmptype] = 8 and dst host {EDGE_WAN} and greater 1111");
        until("the capture has its last packet", async || {
            // While tcpdump writes, the file may end in half a packet, which makes a reader fail.
            self.read(world, &last)
                .await
                .is_ok_and(|text| !text.is_empty())
        })
        .await
    }

    /// The floating addresses in the packets that pass a filter.
    async fn addresses(&self, world: &World, filter: &str) -> Result<BTreeSet<Ipv4Addr>> {
        let nets = &world.stage.plan().floating_nets;
        let text = self.read(world, filter).await?;
        Ok(text
            .split_whitespace()
            .filter_map(address_of)
            .filter(|address| nets.iter().any(|net| address.octets().starts_with(net)))
            .collect())
    }

    /// What tcpdump prints of the packets that pass a filter.
    async fn read(&self, world: &World, filter: &str) -> Result<String> {
        let mut tcpdump = world
            .stage
            .command(Place::Edge, Rights::Builder, Path::new("tcpdump"));
        let file = File::open(&self.file)?;
        tcpdump.args(["-n", "-t", "-r", "-", filter]);
        let output = tcpdump
            .stdin(file)
            .output()
            .await
            .context("tcpdump does not start")?;
        if !output.status.success() {
            bail!("{}", tool::complaint(&tcpdump, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The address in `203.0.113.10.443:`, `203.0.113.10.443` or `203.0.113.10:`.
fn address_of(word: &str) -> Option<Ipv4Addr> {
    let word = word.trim_end_matches([':', ',']);
    let parts: Vec<_> = word.split('.').collect();
    parts.get(..4)?.join(".").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_with_and_without_a_port() {
        let expected = Some(Ipv4Addr::new(203, 0, 113, 10));
        for word in ["203.0.113.10.443:", "203.0.113.10.22", "203.0.113.10:"] {
            assert_eq!(address_of(word), expected, "{word}");
        }
        assert_eq!(address_of("1460,nop"), None);
        assert_eq!(address_of("length"), None);
    }
}
