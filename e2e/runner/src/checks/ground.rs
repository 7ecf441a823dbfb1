//! Owns the ground of the lab: the namespaces, the links between them, what is broken on them.
//!
//! ```text
//!  client 1: ping sockets   10.1.1.2 ┐
//!  client 2: only raw ones  10.1.2.2 ┼ 10.1.N.1  router  10.2.0.1 ── 10.2.0.2  server
//!  client 3: neither        10.1.3.2 ┘                               (this process)
//! ```
//!
//! The server has all of 198.51.100.0/24 and `fd00:3::/64`, one address for each case. It sends
//! 203.0.113.0/24 back to where it came from: a loop.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::case::{Asker, Case, Fault, address, filled};
use super::peers::{self, Peers};
use super::scripted;
use crate::stage::certs::TestCa;
use crate::stage::netns::{Netns, Rights};
use crate::stage::on_namespaces::{HOME, mount, mount_all};
use crate::stage::plan::Place;
use crate::stage::tool;
use crate::waiting::until;

/// What is asked.
const PROGRAMS: &[&str] = &["validator-agent", "prober"];
/// The namespaces of those that ask.
const CLIENTS: [Place; 3] = [Place::Vm(1), Place::Vm(2), Place::Vm(3)];
/// The resolver of the clients: the router drops what is sent there.
const DEAD_RESOLVER: &str = "198.51.100.254";

/// The lab, up to the end of this process.
pub(super) struct Lab {
    netns: Netns,
    bin: PathBuf,
    ca_file: PathBuf,
    dropbear: bool,
    _peers: Peers,
    _scripted: JoinSet<Result<()>>,
}

impl Lab {
    /// Builds everything inside the namespaces that this process is already in.
    ///
    /// # Errors
    ///
    /// When a namespace, a rule or a server fails; the text says which.
    pub(super) async fn build(bin: &Path, out: &Path, cases: &[&Case]) -> Result<Self> {
        let me = fs::metadata("/proc/self").context("/proc is not mounted")?;
        let netns = Netns::new(me.uid(), me.gid());
        let mounts = mount_all(&netns, (bin, PROGRAMS), out, &hosts_file(cases.len())).await?;
        let home = Path::new(HOME);
        let resolver = home.join("resolv.conf");
        let text = format!("nameserver {DEAD_RESOLVER}\noptions timeout:1 attempts:1\n");
        fs::write(&resolver, text)?;
        let resolver = resolver.to_string_lossy();
        mount(&netns, &["--bind", &resolver, "/etc/resolv.conf"]).await?;
        links(&netns).await?;
        faults(&netns, cases).await?;
        let logs = out.join("checks");
        fs::create_dir_all(&logs)?;
        let ca = TestCa::make(home)?;
        let dropbear = is_there("dropbear") && is_there("dropbearkey");
        let peers = peers::start(&netns, home, &logs, &ca, dropbear).await?;
        let mut scripted = JoinSet::new();
        for (index, case) in cases.iter().enumerate() {
            if let Some(act) = case.peer {
                scripted.spawn(scripted::serve(act, address(index)));
            }
        }
        for client in CLIENTS {
            passes(&netns, client).await?;
        }
        let bin = mounts.into_iter().next().map(|(_, inside)| inside);
        Ok(Self {
            netns,
            bin: bin.context("the programs are nowhere")?,
            ca_file: ca.file().to_owned(),
            dropbear,
            _peers: peers,
            _scripted: scripted,
        })
    }

    /// Why this machine cannot carry a case, if so.
    pub(super) fn lacks(&self, case: &Case) -> Option<String> {
        let needed = case.needs.filter(|_| !self.dropbear)?;
        Some(format!(
            "{needed} is not there: apt-get install dropbear-bin"
        ))
    }

    /// A command that will run a binary of the product as `asker`.
    pub(super) fn command(&self, asker: Asker, binary: &str) -> Command {
        let program = self.bin.join(binary);
        let [ping, raw, neither] = CLIENTS;
        let mut command = match asker {
            Asker::Ping | Asker::StandsStill => self.netns.command(ping, Rights::Service, &program),
            Asker::Raw => self.netns.command(raw, Rights::RawSockets, &program),
            Asker::Neither => self.netns.command(neither, Rights::Service, &program),
            Asker::Descriptors(most) => {
                let prlimit = Path::new("prlimit");
                let mut command = self.netns.command(ping, Rights::Service, prlimit);
                command.arg(format!("--nofile={most}:{most}"));
                command.arg("--").arg(&program);
                command
            }
        };
        command.env("SSL_CERT_FILE", &self.ca_file);
        command
    }
}

fn is_there(program: &str) -> bool {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
    folders
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

/// Names of every case: with a good certificate, with another one's, and over IPv6 only.
fn hosts_file(cases: usize) -> String {
    let line = |index: usize| {
        let text = "{A} c{N}.ok.lab c{N}.wrong.lab\n{6} c{N}.six.lab\n";
        filled(text, index)
    };
    let names: String = (0..cases).map(line).collect();
    format!("127.0.0.1 localhost\n{names}")
}

async fn ip(netns: &Netns, place: Place, batch: &str) -> Result<()> {
    tool::feed(netns.tool(place, "ip").args(["-batch", "-"]), batch)
        .await
        .with_context(|| format!("the network of {}", place.name()))?;
    Ok(())
}

async fn shell(netns: &Netns, place: Place, script: &str) -> Result<()> {
    let script = format!("set -e; cd /proc/sys/net; {script}");
    tool::feed(netns.tool(place, "sh").args(["-c", &script]), "").await?;
    Ok(())
}

/// Namespaces, links, addresses, routes and kernel settings.
async fn links(netns: &Netns) -> Result<()> {
    let mut server = String::from("link set lo up\nnetns add edge\n");
    let mut router = String::from("link set lo up\n");
    for n in 1..=CLIENTS.len() {
        server.push_str(&format!(
            "netns add vm-{n}\nlink add lan0 netns vm-{n} type veth peer name l-{n} netns edge\n"
        ));
        router.push_str(&format!(
            "addr add 10.1.{n}.1/24 dev l-{n}\naddr add fd00:1:{n}::1/64 dev l-{n} nodad\n\
             link set l-{n} up\n"
        ));
    }
    server.push_str(
        "link add wan0 type veth peer name s-0 netns edge\n\
         addr add 10.2.0.2/24 dev wan0\naddr add fd00:2::2/64 dev wan0 nodad\nlink set wan0 up\n\
         addr add 198.51.100.0/24 dev lo\nroute add local fd00:3::/64 dev lo\n\
         route add default via 10.2.0.1\nroute add default via fd00:2::1\n",
    );
    router.push_str(
        "addr add 10.2.0.1/24 dev s-0\naddr add fd00:2::1/64 dev s-0 nodad\nlink set s-0 up\n\
         route add 198.51.100.0/24 via 10.2.0.2\nroute add 203.0.113.0/24 via 10.2.0.2\n\
         route add fd00:3::/64 via fd00:2::2\n",
    );
    ip(netns, Place::Mgmt, &server).await?;
    ip(netns, Place::Edge, &router).await?;
    for (client, n) in CLIENTS.into_iter().zip(1..) {
        let batch = format!(
            "link set lo up\naddr add 10.1.{n}.2/24 dev lan0\n\
             addr add fd00:1:{n}::2/64 dev lan0 nodad\nlink set lan0 up\n\
             route add default via 10.1.{n}.1\nroute add default via fd00:1:{n}::1\n"
        );
        ip(netns, client, &batch).await?;
    }
    // The kernel would hold most errors back otherwise, and what is refused would time out.
    let forwards = "echo 1 > ipv4/ip_forward; echo 1 > ipv6/conf/all/forwarding
        echo 0 > ipv4/icmp_ratelimit; echo 0 > ipv6/icmp/ratelimit
        for f in ipv4/conf/*/send_redirects; do echo 0 > $f; done";
    shell(netns, Place::Mgmt, forwards).await?;
    shell(netns, Place::Edge, forwards).await?;
    let [ping, ..] = CLIENTS;
    let group = netns.group();
    let range = format!("echo {group} {group} > ipv4/ping_group_range");
    shell(netns, ping, &range).await
}

/// All faults at once: each is about the address of its case.
async fn faults(netns: &Netns, cases: &[&Case]) -> Result<()> {
    let mut forward = format!("ip daddr {DEAD_RESOLVER} drop\n");
    let (mut router_out, mut client_out, mut routes) = Default::default();
    for (index, case) in cases.iter().enumerate() {
        for fault in case.faults {
            let (rules, text): (&mut String, String) = match fault {
                Fault::Router(rule) => (&mut forward, filled(rule, index)),
                Fault::RouterOut(rule) => (&mut router_out, filled(rule, index)),
                Fault::Client(rule) => (&mut client_out, filled(rule, index)),
                Fault::Route(route) => (&mut routes, format!("route add {}", filled(route, index))),
            };
            rules.push_str(&text);
            rules.push('\n');
        }
    }
    let table = |hook: &str, rules: &str| {
        format!(
            "add chain inet lab {hook} {{ type filter hook {hook} priority 0; }}\n{}",
            {
                let add = |rule: &str| format!("add rule inet lab {hook} {rule}\n");
                rules.lines().map(add).collect::<String>()
            }
        )
    };
    let router = format!(
        "add table inet lab\n{}{}",
        table("forward", &forward),
        table("output", &router_out)
    );
    tool::feed(netns.tool(Place::Edge, "nft").args(["-f", "-"]), &router).await?;
    let client = format!("add table inet lab\n{}", table("output", &client_out));
    for place in CLIENTS {
        tool::feed(netns.tool(place, "nft").args(["-f", "-"]), &client).await?;
        ip(netns, place, &routes).await?;
    }
    Ok(())
}

/// Waits until packets of both families pass: new links need a moment.
async fn passes(netns: &Netns, client: Place) -> Result<()> {
    for peer in ["198.51.100.253", "fd00:3::fd"] {
        let name = client.name();
        until(&format!("{peer} answers {name}"), async || {
            let mut ping = netns.tool(client, "ping");
            ping.args(["-q", "-c", "1", "-W", "1", peer]);
            tool::feed(&mut ping, "").await.is_ok()
        })
        .await?;
    }
    Ok(())
}
