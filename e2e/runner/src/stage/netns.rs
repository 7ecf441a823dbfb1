//! Owns the network namespaces and the links between them. Knows no NAT and no services.
//!
//! ```text
//!            mgmt 10.0.0.0/24 (control-api, cloud API; this process)
//!     ┌────────────┬─────────────────┐
//!  vm-1 … vm-N  site-1 … site-M      │
//!     │ 10.1.0.0/24   │ 192.0.2.0/24
//!     └──── edge ─────┴─── internet
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::plan::{Place, Plan};
use super::tool;

/// The router's address on the side of the internet; also the source of VMs without an address.
pub(crate) const EDGE_WAN: &str = "192.0.2.1";
/// The IP-echo service.
pub(crate) const ECHO: &str = "192.0.2.250";
/// The two web servers that egress checks ask.
pub(crate) const WEB: [&str; 2] = ["192.0.2.251", "192.0.2.252"];

/// The rights of a process on the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// A tool that builds the stage, or a server on low ports.
    Builder,
    /// The runner's own user, without its capabilities.
    Own,
    /// As in production: an ordinary user without capabilities.
    Service,
    /// The same, but for raw sockets.
    RawSockets,
}

/// How to run things inside the namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Netns {
    root: bool,
    group: u32,
}

/// The user that services run as when the runner is root.
const NOBODY: u32 = 65534;

impl Netns {
    /// For this user. `uid` and `gid` are the runner's own.
    pub(crate) fn new(uid: u32, gid: u32) -> Self {
        let root = uid == 0;
        Self {
            root,
            group: if root { NOBODY } else { gid },
        }
    }

    /// The group of services.
    pub(crate) const fn group(&self) -> u32 {
        self.group
    }

    /// A command that will run `program` at `place`, and die with the runner.
    pub(crate) fn command(&self, place: Place, rights: Rights, program: &Path) -> Command {
        let mut command = if place == Place::Mgmt {
            Command::new("setpriv")
        } else {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={}", path_of(place).display()));
            command.arg("setpriv");
            command
        };
        command.args(["--pdeathsig", "KILL"]);
        match (rights, self.root) {
            (Rights::Service, true) => {
                command.args(["--reuid", &NOBODY.to_string(), "--regid"]);
                command.args([&NOBODY.to_string(), "--clear-groups"]);
                command.args(["--inh-caps=-all", "--ambient-caps=-all"]);
            }
            (Rights::Service | Rights::Own, false) => {
                command.args(["--inh-caps=-all", "--ambient-caps=-all"]);
            }
            (Rights::RawSockets, as_root) => {
                if as_root {
                    command.args(["--reuid", &NOBODY.to_string(), "--regid"]);
                    command.args([&NOBODY.to_string(), "--clear-groups"]);
                }
                command.args(["--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw"]);
            }
            (Rights::Own, true) | (Rights::Builder, _) => {}
        }
        command.arg("--").arg(program);
        command
    }

    /// A tool with full rights at `place`.
    pub(crate) fn tool(&self, place: Place, program: &str) -> Command {
        self.command(place, Rights::Builder, Path::new(program))
    }

    /// Makes all namespaces, links, addresses and routes of `plan`.
    ///
    /// # Errors
    ///
    /// When `ip` refuses something or a kernel setting cannot be written.
    pub(crate) async fn build(&self, plan: &Plan) -> Result<()> {
        let places = places(plan);
        let mut mgmt = String::from("link set lo up\nlink add br-mgmt type bridge\n");
        writeln!(
            mgmt,
            "addr add {}/24 dev br-mgmt\nlink set br-mgmt up",
            plan.mgmt
        )?;
        for place in &places {
            writeln!(mgmt, "netns add {}", place.name())?;
        }
        for place in &places {
            links_from_mgmt(&mut mgmt, *place)?;
        }
        self.ip_batch(Place::Mgmt, &mgmt).await?;
        for place in &places {
            self.ip_batch(*place, &batch_of(*place, plan)?)
                .await
                .with_context(|| format!("the network of {} cannot be built", place.name()))?;
            self.settings(*place).await?;
        }
        Ok(())
    }

    async fn ip_batch(&self, place: Place, batch: &str) -> Result<()> {
        tool::feed(self.tool(place, "ip").args(["-batch", "-"]), batch).await?;
        Ok(())
    }

    /// Kernel settings of one namespace: they are the namespace's own and die with it.
    async fn settings(&self, place: Place) -> Result<()> {
        let ping = format!("echo {0} {0} > net/ipv4/ping_group_range", self.group);
        // Without it the router answers only the first few rejected packets of a second, and
        // what should be refused times out.
        let router = "echo 1 > net/ipv4/ip_forward; echo 0 > net/ipv4/icmp_ratelimit";
        let script = match place {
            Place::Edge => router.to_owned(),
            Place::Internet => format!("{router}; echo 0 > net/ipv4/conf/all/send_redirects"),
            Place::Vm(_) | Place::Site(_) => ping,
            Place::Mgmt => return Ok(()),
        };
        let script = format!("set -e; cd /proc/sys; {script}");
        tool::feed(self.tool(place, "sh").args(["-c", &script]), "").await?;
        Ok(())
    }
}

/// All places that get a namespace of their own.
pub(crate) fn places(plan: &Plan) -> Vec<Place> {
    let mut places = vec![Place::Edge, Place::Internet];
    places.extend((1..=plan.vms).map(Place::Vm));
    places.extend((1..=plan.sites).map(Place::Site));
    places
}

fn path_of(place: Place) -> PathBuf {
    Path::new("/run/netns").join(place.name())
}

fn links_from_mgmt(batch: &mut String, place: Place) -> Result<()> {
    let name = place.name();
    match place {
        Place::Vm(_) => {
            writeln!(
                batch,
                "link add m-{name} type veth peer name mgmt0 netns {name}"
            )?;
            writeln!(batch, "link set m-{name} master br-mgmt up")?;
            writeln!(
                batch,
                "link add lan0 netns {name} type veth peer name l-{name} netns edge"
            )?;
        }
        Place::Site(_) => {
            writeln!(
                batch,
                "link add m-{name} type veth peer name mgmt0 netns {name}"
            )?;
            writeln!(batch, "link set m-{name} master br-mgmt up")?;
            writeln!(
                batch,
                "link add wan0 netns {name} type veth peer name w-{name} netns internet"
            )?;
        }
        Place::Internet => {
            writeln!(
                batch,
                "link add wan0 netns edge type veth peer name w-edge netns internet"
            )?;
        }
        Place::Edge | Place::Mgmt => {}
    }
    Ok(())
}

fn batch_of(place: Place, plan: &Plan) -> Result<String> {
    let mut batch = String::from("link set lo up\n");
    match place {
        Place::Edge => edge(&mut batch, plan)?,
        Place::Internet => internet(&mut batch, plan)?,
        Place::Vm(n) => {
            let host = n.saturating_add(10);
            writeln!(
                batch,
                "addr add 10.0.0.{host}/24 dev mgmt0\nlink set mgmt0 up"
            )?;
            writeln!(
                batch,
                "addr add {}/24 dev lan0\nlink set lan0 up",
                plan.fixed(n)
            )?;
            writeln!(batch, "route add default via 10.1.0.1")?;
        }
        Place::Site(n) => {
            let host = n.saturating_add(100);
            writeln!(
                batch,
                "addr add 10.0.0.{host}/24 dev mgmt0\nlink set mgmt0 up"
            )?;
            writeln!(
                batch,
                "addr add 192.0.2.{host}/24 dev wan0\nlink set wan0 up"
            )?;
            for cidr in plan.floating_cidrs() {
                writeln!(batch, "route add {cidr} via {EDGE_WAN}")?;
            }
        }
        Place::Mgmt => {}
    }
    Ok(batch)
}

fn edge(batch: &mut String, plan: &Plan) -> Result<()> {
    writeln!(batch, "link add br-lan type bridge")?;
    writeln!(batch, "addr add 10.1.0.1/24 dev br-lan")?;
    for n in 1..=plan.vms {
        writeln!(batch, "link set l-{} master br-lan up", Place::Vm(n).name())?;
    }
    writeln!(batch, "link set br-lan up")?;
    writeln!(
        batch,
        "addr add {EDGE_WAN}/24 dev wan0\nlink set wan0 up\nroute add default via 192.0.2.254"
    )?;
    // A floating address that is nobody's: silence, as at a cloud's border.
    for cidr in plan.floating_cidrs() {
        writeln!(batch, "route add blackhole {cidr}")?;
    }
    Ok(())
}

fn internet(batch: &mut String, plan: &Plan) -> Result<()> {
    writeln!(batch, "link add br-wan type bridge")?;
    for address in ["192.0.2.254", ECHO, WEB[0], WEB[1]] {
        writeln!(batch, "addr add {address}/24 dev br-wan")?;
    }
    writeln!(batch, "link set w-edge master br-wan up")?;
    for n in 1..=plan.sites {
        writeln!(
            batch,
            "link set w-{} master br-wan up",
            Place::Site(n).name()
        )?;
    }
    writeln!(batch, "link set br-wan up")?;
    for cidr in plan.floating_cidrs() {
        writeln!(batch, "route add {cidr} via {EDGE_WAN}")?;
    }
    Ok(())
}
