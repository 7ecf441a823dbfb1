//! Owns the stage for machines without namespaces: everything on 127.0.0.0/8.
//!
//! What stands in for the router is a set of TCP relays: an associated address has listeners
//! that lead to the VM's services, a released one has none. The IP-echo service answers with
//! the floating address of the peer's source. Packets cannot be lost or rewritten here.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::Stage;
use super::certs::TestCa;
use super::fault::{Fault, Ways};
use super::netns::Rights;
use super::plan::{Place, Plan};
use super::servers::{SSHD, Site, nginx_conf, sshd_conf};
use crate::procs::Proc;
use crate::waiting::until;

/// Web targets and the IP-echo service.
const INTERNET: Ipv4Addr = Ipv4Addr::new(127, 115, 0, 1);
/// What the IP-echo service tells a VM without a floating address.
const ROUTER: Ipv4Addr = Ipv4Addr::new(127, 115, 0, 254);
/// The echo service's port; the web targets have the next two.
const ECHO_PORT: u16 = 18_080;
/// What an IP-echo request may be long.
const REQUEST_LIMIT: usize = 4096;

/// The stage, up to the end of this process.
pub(crate) struct OnLoopback {
    plan: Plan,
    ca_file: PathBuf,
    router: Arc<Mutex<Router>>,
    _servers: Vec<Proc>,
    _echo: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Router {
    /// Per floating address: its VM and the relays, which end when the set is dropped.
    relays: HashMap<Ipv4Addr, (Ipv4Addr, JoinSet<()>)>,
    faults: Vec<Fault>,
}

impl OnLoopback {
    /// Starts servers, with their files in `home`, and the echo service.
    ///
    /// # Errors
    ///
    /// When a port is taken or a server does not start.
    pub(crate) async fn build(vms: u8, sites: u8, home: &Path) -> Result<Self> {
        let plan = plan(vms, sites).await?;
        if fs::metadata("/proc/self")?.uid() == 0 {
            // What Debian's ssh.service makes at its start: root's sshd refuses to run without.
            fs::create_dir_all("/run/sshd")?;
        }
        let ca = TestCa::make(home)?;
        let mut servers = vec![internet(home, &ca)?];
        for n in 1..=vms {
            servers.extend(vm(&plan, n, home, &ca).await?);
        }
        for n in 1..=vms {
            for port in plan.ports {
                let address = (plan.fixed(n), port);
                until(&format!("port {port} of vm-{n} listens"), async || {
                    TcpStream::connect(address).await.is_ok()
                })
                .await?;
            }
        }
        let router = Arc::new(Mutex::new(Router::default()));
        let listener = TcpListener::bind((INTERNET, ECHO_PORT))
            .await
            .with_context(|| format!("port {ECHO_PORT} of {INTERNET} is taken"))?;
        let mut echo = JoinSet::new();
        echo.spawn(echo_service(listener, Arc::clone(&router)));
        Ok(Self {
            ca_file: ca.file().to_owned(),
            plan,
            router,
            _servers: servers,
            _echo: echo,
        })
    }

    fn router(&self) -> std::sync::MutexGuard<'_, Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocked(&self, floating: Ipv4Addr, port: u16) -> bool {
        self.router()
            .faults
            .contains(&Fault::InboundPort { floating, port })
    }
}

#[async_trait]
impl Stage for OnLoopback {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    fn visible(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn command(&self, _place: Place, _rights: Rights, program: &Path) -> Command {
        dies_with_us(program)
    }

    async fn associate(&self, floating: Ipv4Addr, fixed: Ipv4Addr, ways: Ways) -> Result<()> {
        if ways != Ways::Both {
            bail!("loopback cannot open one way only");
        }
        let mut relays = JoinSet::new();
        for port in self.plan.ports {
            if self.blocked(floating, port) {
                continue;
            }
            let listener = TcpListener::bind((floating, port))
                .await
                .with_context(|| format!("{floating}:{port} cannot be bound"))?;
            relays.spawn(relay(listener, SocketAddr::from((fixed, port))));
        }
        self.router().relays.insert(floating, (fixed, relays));
        Ok(())
    }

    async fn disassociate(&self, floating: Ipv4Addr, _fixed: Ipv4Addr) -> Result<()> {
        let gone = self.router().relays.remove(&floating);
        if let Some((_, mut relays)) = gone {
            relays.shutdown().await;
        }
        Ok(())
    }

    async fn break_with(&self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::InboundPort { .. } | Fault::Echo => self.router().faults.push(fault.clone()),
            Fault::InboundAll { .. } | Fault::Targets => bail!("loopback cannot lose packets"),
            Fault::Conflict { .. } => bail!("loopback has no second host"),
        }
        Ok(())
    }

    async fn mend(&self) -> Result<()> {
        self.router().faults.clear();
        Ok(())
    }

    async fn reset(&self) -> Result<()> {
        let old = std::mem::take(&mut *self.router());
        for (_, (_, mut relays)) in old.relays {
            relays.shutdown().await;
        }
        Ok(())
    }

    async fn associated(&self) -> Result<String> {
        let mut all: Vec<_> = self.router().relays.keys().copied().collect();
        all.sort_unstable();
        Ok(all
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "))
    }
}

fn dies_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The well-known ports where this user may have them, else high ones.
async fn plan(vms: u8, sites: u8) -> Result<Plan> {
    let base = Plan::namespaces(vms, sites);
    let low = [22, 80, 443, 8080];
    let fixed_net = [127, 112, 0];
    let mut ports = low;
    for port in low {
        if TcpListener::bind((Ipv4Addr::new(127, 112, 0, 11), port))
            .await
            .is_err()
        {
            ports = [20_022, 20_080, 20_443, 28_080];
        }
    }
    let tls = ECHO_PORT.saturating_add(1);
    // Free now, and ours as soon as control-api binds it.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok(Plan {
        mgmt: Ipv4Addr::LOCALHOST,
        control_port: free.local_addr()?.port(),
        fixed_net,
        floating_nets: vec![[127, 113, 0], [127, 113, 1]],
        bind_net: Some([127, 114, 0]),
        ports,
        // The kernel itself answers echo requests to any address of 127.0.0.0/8.
        icmp: false,
        web_targets: vec![
            format!("https://{INTERNET}:{tls}"),
            format!("https://{INTERNET}:{tls}/ip"),
        ],
        echo_urls: vec![format!("http://{INTERNET}:{ECHO_PORT}/ip")],
        ..base
    })
}

fn internet(home: &Path, ca: &TestCa) -> Result<Proc> {
    let dir = home.join("internet");
    fs::create_dir_all(&dir)?;
    let leaf = ca.sign(&dir, "internet", &[&INTERNET.to_string()])?;
    let site = Site {
        plain: vec![(INTERNET, ECHO_PORT.saturating_add(2))],
        tls: vec![(INTERNET, ECHO_PORT.saturating_add(1))],
        greeting: "hello from the internet".to_owned(),
    };
    let conf = nginx_conf(&dir, &[site], &leaf)?;
    nginx("internet-nginx", &conf, home)
}

async fn vm(plan: &Plan, n: u8, home: &Path, ca: &TestCa) -> Result<[Proc; 2]> {
    let name = Place::Vm(n).name();
    let dir = home.join(&name);
    fs::create_dir_all(&dir)?;
    let leaf = ca.sign(&dir, &name, &[&name])?;
    let at = plan.fixed(n);
    let [ssh, web, tls, alternative] = plan.ports;
    let site = Site {
        plain: vec![(at, web), (at, alternative)],
        tls: vec![(at, tls)],
        greeting: name.clone(),
    };
    let conf = nginx_conf(&dir, &[site], &leaf)?;
    let web = nginx(&format!("{name}-nginx"), &conf, home)?;
    let conf = sshd_conf(&dir, at, ssh).await?;
    let mut sshd = dies_with_us(Path::new(SSHD));
    sshd.args(["-D", "-e", "-f"]).arg(conf);
    Ok([web, Proc::spawn(&format!("{name}-sshd"), &mut sshd, home)?])
}

fn nginx(name: &str, conf: &Path, logs: &Path) -> Result<Proc> {
    let mut nginx = dies_with_us(Path::new("/usr/sbin/nginx"));
    nginx.args(["-e", "stderr", "-c"]).arg(conf);
    Proc::spawn(name, &mut nginx, logs)
}

/// Leads every connection to the VM; ends, and ends them, when its set is dropped.
async fn relay(listener: TcpListener, to: SocketAddr) {
    let mut open = JoinSet::new();
    while let Ok((mut outside, _)) = listener.accept().await {
        open.spawn(async move {
            let Ok(mut inside) = TcpStream::connect(to).await else {
                return;
            };
            // Either side's end, orderly or not, ends the other: both are dropped here.
            drop(copy_bidirectional(&mut outside, &mut inside).await);
        });
        while open.try_join_next().is_some() {}
    }
}

async fn echo_service(listener: TcpListener, router: Arc<Mutex<Router>>) {
    let mut open = JoinSet::new();
    while let Ok((peer, from)) = listener.accept().await {
        let answer = {
            let router = router.lock().unwrap_or_else(PoisonError::into_inner);
            if router.faults.contains(&Fault::Echo) {
                continue;
            }
            router.outside_address_of(from.ip())
        };
        open.spawn(async move { drop(answer_with(peer, answer).await) });
        while open.try_join_next().is_some() {}
    }
}

async fn answer_with(mut peer: TcpStream, address: Ipv4Addr) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST_LIMIT {
        if peer.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let body = format!("{address}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    peer.write_all(format!("{head}{body}").as_bytes()).await?;
    peer.shutdown().await
}

impl Router {
    fn outside_address_of(&self, source: IpAddr) -> Ipv4Addr {
        let ours = |(_, (fixed, _)): &(&Ipv4Addr, &(Ipv4Addr, JoinSet<()>))| *fixed == source;
        self.relays
            .iter()
            .find(ours)
            .map_or(ROUTER, |(floating, _)| *floating)
    }
}
