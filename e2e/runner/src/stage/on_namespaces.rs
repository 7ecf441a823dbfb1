//! Owns the stage that stands on network namespaces, nftables and real servers.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::Stage;
use super::certs::TestCa;
use super::fault::{Fault, Ways};
use super::netns::{ECHO, EDGE_WAN, Netns, Rights, WEB, places};
use super::nft::Router;
use super::plan::{Place, Plan};
use super::servers::{SSHD, Site, nginx_conf, sshd_conf};
use super::tool;
use crate::procs::Proc;
use crate::waiting::until;

/// Everything of the stage lies here, on a tmpfs that nobody outside sees.
pub(crate) const HOME: &str = "/run/civ";
/// What runs on the stage.
const PROGRAMS: &[&str] = &["control-api", "validator-agent", "prober", "civ-e2e"];

/// The stage, up to the end of this process.
pub(crate) struct OnNamespaces {
    plan: Plan,
    netns: Netns,
    router: Router,
    ca_file: PathBuf,
    /// Folders of the host, and where the stage's processes see them.
    mounts: Vec<(PathBuf, PathBuf)>,
    _servers: Vec<Proc>,
}

impl OnNamespaces {
    /// Builds the stage inside the namespaces that this process is already in.
    ///
    /// `bin` holds the product's binaries, `out` takes configurations and logs; both become
    /// visible to processes of any user, wherever they lie. `logs` takes those of the servers.
    ///
    /// # Errors
    ///
    /// When a mount, a namespace, a rule or a server fails; the text says which.
    pub(crate) async fn build(plan: Plan, bin: &Path, out: &Path, logs: &Path) -> Result<Self> {
        let me = fs::metadata("/proc/self").context("/proc is not mounted")?;
        let netns = Netns::new(me.uid(), me.gid());
        fs::set_permissions(out, fs::Permissions::from_mode(0o755))?;
        let mounts = mount_all(&netns, (bin, PROGRAMS), out, &hosts_file()).await?;
        netns.build(&plan).await?;
        let router = Router::build(netns.clone(), &plan).await?;
        let ca = TestCa::make(Path::new(HOME))?;
        let servers = Servers {
            netns: &netns,
            plan: &plan,
            ca: &ca,
            logs,
        };
        let servers = servers.start_all().await?;
        ready(&netns, &plan).await?;
        Ok(Self {
            ca_file: ca.file().to_owned(),
            plan,
            netns,
            router,
            mounts,
            _servers: servers,
        })
    }
}

#[async_trait]
impl Stage for OnNamespaces {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    fn visible(&self, path: &Path) -> PathBuf {
        for (host, inside) in &self.mounts {
            if let Ok(rest) = path.strip_prefix(host) {
                return inside.join(rest);
            }
        }
        path.to_owned()
    }

    fn command(&self, place: Place, rights: Rights, program: &Path) -> Command {
        self.netns.command(place, rights, program)
    }

    async fn associate(&self, floating: Ipv4Addr, fixed: Ipv4Addr, ways: Ways) -> Result<()> {
        self.router.associate(floating, fixed, ways).await
    }

    async fn disassociate(&self, floating: Ipv4Addr, fixed: Ipv4Addr) -> Result<()> {
        self.router.disassociate(floating, fixed).await
    }

    async fn break_with(&self, fault: &Fault) -> Result<()> {
        self.router.break_with(fault).await
    }

    async fn mend(&self) -> Result<()> {
        self.router.mend().await
    }

    async fn reset(&self) -> Result<()> {
        self.router.reset().await
    }

    async fn associated(&self) -> Result<String> {
        self.router.associated().await
    }
}

/// Our own `/run` (for `ip netns` and sshd), the host's folders in it, and `/etc/hosts`. The folder
/// of the programs comes first.
///
/// # Errors
///
/// When something cannot be mounted, or one of the programs is not there.
pub(crate) async fn mount_all(
    netns: &Netns,
    (bin, programs): (&Path, &[&str]),
    out: &Path,
    hosts_file: &str,
) -> Result<Vec<(PathBuf, PathBuf)>> {
    mount(netns, &["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"]).await?;
    fs::create_dir_all("/run/sshd")?;
    let mut mounts = Vec::new();
    for (name, host) in [("bin", bin), ("out", out)] {
        let inside = Path::new(HOME).join(name);
        fs::create_dir_all(&inside)?;
        if name == "bin" && !all_may_run(host, programs)? {
            copy_programs(host, &inside, programs)?;
        } else {
            let (from, to) = (host.to_string_lossy(), inside.to_string_lossy());
            mount(netns, &["--bind", &from, &to]).await?;
        }
        mounts.push((host.to_owned(), inside));
    }
    let hosts = Path::new(HOME).join("hosts");
    fs::write(&hosts, hosts_file)?;
    mount(netns, &["--bind", &hosts.to_string_lossy(), "/etc/hosts"]).await?;
    Ok(mounts)
}

/// Whether any user may run the programs of a folder, once it is reached.
fn all_may_run(bin: &Path, programs: &[&str]) -> Result<bool> {
    let open = |path: &Path| -> Result<bool> {
        let mode = fs::metadata(path).map(|meta| meta.mode());
        let mode = mode.with_context(|| format!("{} is not there", path.display()))?;
        Ok(mode & 0o005 == 0o005)
    };
    let mut all = open(bin)?;
    for program in programs {
        all &= open(&bin.join(program))?;
    }
    Ok(all)
}

/// For folders that were made under a strict umask.
fn copy_programs(bin: &Path, inside: &Path, programs: &[&str]) -> Result<()> {
    for program in programs {
        let copy = inside.join(program);
        fs::copy(bin.join(program), &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Runs `mount`.
///
/// # Errors
///
/// With what it complains about.
pub(crate) async fn mount(netns: &Netns, args: &[&str]) -> Result<()> {
    let mut mount = netns.tool(Place::Mgmt, "mount");
    tool::feed(mount.args(args), "").await?;
    Ok(())
}

/// The names of the stage. The public ones are those of the documentation's examples.
fn hosts_file() -> String {
    let [www, mirror] = WEB;
    format!(
        "127.0.0.1 localhost
10.0.0.1 control-api.stage.test cloud.stage.test
{ECHO} echo.stage.test api.ipify.org
{www} www.stage.test github.com
{mirror} mirror.stage.test hub.docker.com
"
    )
}

/// Waits until packets pass every link and every server listens.
///
/// The kernel announces a new link with up to a second's delay; until then a bridge drops.
async fn ready(netns: &Netns, plan: &Plan) -> Result<()> {
    let mut links = JoinSet::new();
    for n in 1..=plan.vms {
        links.spawn(echo(netns.clone(), Place::Vm(n), "192.0.2.254"));
        links.spawn(echo(netns.clone(), Place::Vm(n), "10.0.0.1"));
    }
    for n in 1..=plan.sites {
        links.spawn(echo(netns.clone(), Place::Site(n), EDGE_WAN));
        links.spawn(echo(netns.clone(), Place::Site(n), "10.0.0.1"));
    }
    while let Some(link) = links.join_next().await {
        link??;
    }
    // nginx writes the file of its process id once it listens.
    for place in places(plan) {
        if matches!(place, Place::Vm(_) | Place::Internet) {
            let pid = Path::new(HOME).join(place.name()).join("nginx.pid");
            until(&format!("nginx at {} listens", place.name()), async || {
                pid.exists()
            })
            .await?;
        }
    }
    for n in 1..=plan.vms {
        let ssh = (Ipv4Addr::new(10, 0, 0, n.saturating_add(10)), plan.ports[0]);
        until(&format!("sshd at vm-{n} listens"), async || {
            TcpStream::connect(ssh).await.is_ok()
        })
        .await?;
    }
    Ok(())
}

async fn echo(netns: Netns, place: Place, peer: &'static str) -> Result<()> {
    let mut ping = netns.tool(place, "ping");
    ping.args(["-q", "-c", "1", "-w", "10", "-i", "0.1", peer]);
    tool::feed(&mut ping, "").await?;
    Ok(())
}

struct Servers<'a> {
    netns: &'a Netns,
    plan: &'a Plan,
    ca: &'a TestCa,
    logs: &'a Path,
}

impl Servers<'_> {
    async fn start_all(&self) -> Result<Vec<Proc>> {
        let mut all = vec![self.internet()?];
        for n in 1..=self.plan.vms {
            all.extend(self.vm(n).await?);
        }
        Ok(all)
    }

    fn spawn(&self, place: Place, what: &str, conf: &Path) -> Result<Proc> {
        let name = format!("{}-{what}", place.name());
        let mut command = match what {
            "sshd" => {
                let mut sshd = self.netns.tool(place, SSHD);
                sshd.args(["-D", "-e", "-f"]);
                sshd
            }
            _ => {
                let mut nginx = self.netns.tool(place, "nginx");
                nginx.args(["-e", "stderr", "-c"]);
                nginx
            }
        };
        Proc::spawn(&name, command.arg(conf), self.logs)
    }

    /// Web targets and the IP-echo service: one nginx with a certificate of the test CA.
    fn internet(&self) -> Result<Proc> {
        let dir = self.dir(Place::Internet)?;
        let names = [
            "www.stage.test",
            "mirror.stage.test",
            "echo.stage.test",
            "api.ipify.org",
            "github.com",
            "hub.docker.com",
        ];
        let leaf = self.ca.sign(&dir, "internet", &names)?;
        let mut sites = Vec::new();
        for address in [ECHO, WEB[0], WEB[1]] {
            // Public IP-echo services answer with the peer's address at `/` too.
            let greeting = if address == ECHO {
                "$remote_addr".to_owned()
            } else {
                format!("hello from {address}")
            };
            let address: Ipv4Addr = address.parse()?;
            sites.push(Site {
                plain: vec![(address, 80)],
                tls: vec![(address, 443)],
                greeting,
            });
        }
        let conf = nginx_conf(&dir, &sites, &leaf)?;
        self.spawn(Place::Internet, "nginx", &conf)
    }

    /// What a validator VM serves: SSH, plain HTTP and TLS.
    async fn vm(&self, n: u8) -> Result<[Proc; 2]> {
        let place = Place::Vm(n);
        let dir = self.dir(place)?;
        let leaf = self.ca.sign(&dir, &place.name(), &[&place.name()])?;
        let any = Ipv4Addr::UNSPECIFIED;
        let [ssh, web, tls, alternative] = self.plan.ports;
        let site = Site {
            plain: vec![(any, web), (any, alternative)],
            tls: vec![(any, tls)],
            greeting: place.name(),
        };
        let nginx = nginx_conf(&dir, &[site], &leaf)?;
        let sshd = sshd_conf(&dir, any, ssh).await?;
        Ok([
            self.spawn(place, "nginx", &nginx)?,
            self.spawn(place, "sshd", &sshd)?,
        ])
    }

    fn dir(&self, place: Place) -> Result<PathBuf> {
        let dir = Path::new(HOME).join(place.name());
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}
