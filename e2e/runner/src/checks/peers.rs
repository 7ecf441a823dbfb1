//! Owns the real servers of the lab: OpenSSH, dropbear, nginx, `openssl s_server`. All listen on
//! every address of the server, so each case has them at its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::procs::Proc;
use crate::stage::certs::{Leaf, TestCa};
use crate::stage::netns::Netns;
use crate::stage::plan::Place;
use crate::stage::servers::{SSHD, sshd_conf};
use crate::stage::tool;
use crate::waiting::until;

/// Ports of OpenSSH, and of one that takes a single log-in at a time.
const SSH: [u16; 2] = [22, 2022];
const DROPBEAR: u16 = 2222;
/// Ports of `openssl s_server`, each with what it is told.
const OPENSSL: [(u16, &[&str]); 4] = [
    (4431, &["-tls1", "-cipher", "ALL:@SECLEVEL=0"]),
    (4432, &["-tls1_2", "-cipher", "AES128-SHA"]),
    (
        4433,
        &[
            "-servername",
            "right.lab",
            "-servername_fatal",
            "-cert2",
            "cert.pem",
            "-key2",
            "key.pem",
        ],
    ),
    (4434, &[]),
];

/// The servers, until they are dropped.
#[derive(Debug)]
pub(super) struct Peers {
    _all: Vec<Proc>,
    /// The log-in that fills one of the SSH servers.
    _held: TcpStream,
}

/// Starts all of them and waits until they listen; dropbear only where it is.
///
/// # Errors
///
/// When one does not start; the text names it.
pub(super) async fn start(
    netns: &Netns,
    home: &Path,
    logs: &Path,
    ca: &TestCa,
    dropbear: bool,
) -> Result<Peers> {
    let mut all = Vec::new();
    for (port, more) in SSH
        .into_iter()
        .zip(["", "MaxStartups 1:100:1\nLoginGraceTime 0\n"])
    {
        let dir = home.join(format!("ssh-{port}"));
        fs::create_dir_all(&dir)?;
        let conf = sshd_conf(&dir, Ipv4Addr::UNSPECIFIED, port).await?;
        // Of MaxStartups the last word counts.
        let text = fs::read_to_string(&conf)?;
        fs::write(&conf, format!("{text}{more}"))?;
        let mut sshd = netns.tool(Place::Mgmt, SSHD);
        sshd.args(["-D", "-e", "-f"]).arg(&conf);
        all.push(Proc::spawn(&format!("sshd-{port}"), &mut sshd, logs)?);
    }
    let leaf = ca.sign(home, "server", &["*.ok.lab"])?;
    let conf = home.join("nginx.conf");
    fs::write(&conf, nginx_conf(home, &leaf))?;
    let mut nginx = netns.tool(Place::Mgmt, "nginx");
    nginx.args(["-e", "stderr", "-c"]).arg(&conf);
    all.push(Proc::spawn("nginx", &mut nginx, logs)?);
    all.extend(openssl(netns, home, logs).await?);
    let mut ports = vec![22, 80, 443, 8443];
    ports.extend(OPENSSL.map(|(port, _)| port));
    if dropbear {
        all.push(start_dropbear(netns, home, logs).await?);
        ports.push(DROPBEAR);
    }
    for port in ports {
        until(&format!("port {port} of the server listens"), async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .is_ok()
        })
        .await?;
    }
    Ok(Peers {
        _all: all,
        _held: fill().await?,
    })
}

/// Holds the one log-in of the second SSH server, once it has been taken.
async fn fill() -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, SSH[1]));
    until("the small SSH server listens", async || {
        first_byte(address).await == Some(b'S')
    })
    .await?;
    let mut held = TcpStream::connect(address).await?;
    // Its greeting may be that it is full of the look before.
    while held.read_u8().await.ok() != Some(b'S') {
        held = TcpStream::connect(address).await?;
    }
    until("the small SSH server is full", async || {
        first_byte(address).await == Some(b'E')
    })
    .await?;
    Ok(held)
}

async fn first_byte(address: SocketAddr) -> Option<u8> {
    TcpStream::connect(address).await.ok()?.read_u8().await.ok()
}

async fn openssl(netns: &Netns, home: &Path, logs: &Path) -> Result<Vec<Proc>> {
    let mut request = Command::new("openssl");
    request.current_dir(home).args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab", "-days", "2",
        "-keyout", "key.pem", "-out", "cert.pem",
    ]);
    tool::feed(&mut request, "").await?;
    let start = |(port, args): (u16, &[&str])| {
        let mut server = netns.tool(Place::Mgmt, "openssl");
        server.current_dir(home).args([
            "s_server", "-quiet", "-cert", "cert.pem", "-key", "key.pem", "-accept",
        ]);
        server.arg(format!("0.0.0.0:{port}")).args(args);
        Proc::spawn(&format!("openssl-{port}"), &mut server, logs)
    };
    OPENSSL.into_iter().map(start).collect()
}

async fn start_dropbear(netns: &Netns, home: &Path, logs: &Path) -> Result<Proc> {
    let key = home.join("dropbear.key");
    let mut keygen = Command::new("dropbearkey");
    keygen.args(["-t", "ed25519", "-f"]).arg(&key);
    tool::feed(&mut keygen, "")
        .await
        .context("dropbear's key")?;
    let mut server = netns.tool(Place::Mgmt, "dropbear");
    server.args(["-F", "-E", "-P", ""]).arg("-r").arg(&key);
    server.args(["-p", &format!("0.0.0.0:{DROPBEAR}")]);
    Proc::spawn("dropbear", &mut server, logs)
}

fn nginx_conf(home: &Path, leaf: &Leaf) -> String {
    let here = home.display();
    let (cert, key) = (leaf.cert.display(), leaf.key.display());
    format!(
        "daemon off; master_process off; pid {here}/nginx.pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off; default_type text/plain; server_tokens off;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
  fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
  ssl_certificate {cert}; ssl_certificate_key {key};
  server {{
    listen 80; listen 443 ssl;
    location / {{ return 200 \"hello\\n\"; }}
    location = /451 {{ return 451; }}
    location = /503 {{ return 503; }}
    location = /blocked {{ return 403 \"Sorry, this is not available in your country.\\n\"; }}
    location = /challenge {{ add_header cf-mitigated challenge always; return 403; }}
    location = /round {{ return 302 /round; }}
    location = /drop {{ return 444; }}
  }}
  server {{ listen 8443 ssl; ssl_reject_handshake on; }}
}}
"
    )
}
