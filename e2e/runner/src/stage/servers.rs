//! Owns the real servers of the stage: OpenSSH and nginx, their configuration and start.
//! Knows no addresses but those that it is told.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::certs::Leaf;
use super::tool;

/// Where Debian keeps the SSH server, which wants to be started by its full path.
pub(crate) const SSHD: &str = "/usr/sbin/sshd";

/// One `server` block of nginx.
#[derive(Debug)]
pub(crate) struct Site {
    /// Address and port to listen on, one block for all of them.
    pub(crate) plain: Vec<(Ipv4Addr, u16)>,
    /// The same, with TLS.
    pub(crate) tls: Vec<(Ipv4Addr, u16)>,
    /// What `/` says; nginx fills in its variables.
    pub(crate) greeting: String,
}

/// Writes a configuration of nginx to `dir` and returns its path.
///
/// Every server also answers `/ip` with the peer's address, which is all that an IP-echo
/// service does.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn nginx_conf(dir: &Path, sites: &[Site], leaf: &Leaf) -> Result<PathBuf> {
    let here = dir.display();
    let mut conf = format!(
        "daemon off; master_process off; pid {here}/nginx.pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off; default_type text/plain; server_tokens off;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
  fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
  ssl_certificate {}; ssl_certificate_key {};
",
        leaf.cert.display(),
        leaf.key.display(),
    );
    for site in sites {
        writeln!(conf, "  server {{")?;
        for (address, port) in &site.plain {
            writeln!(conf, "    listen {address}:{port};")?;
        }
        for (address, port) in &site.tls {
            writeln!(conf, "    listen {address}:{port} ssl;")?;
        }
        writeln!(
            conf,
            "    location = /ip {{ return 200 \"$remote_addr\\n\"; }}
    location / {{ return 200 \"{}\\n\"; }}
  }}",
            site.greeting
        )?;
    }
    conf.push_str("}\n");
    let file = dir.join("nginx.conf");
    fs::write(&file, conf).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(file)
}

/// Makes a host key and a configuration of the SSH server in `dir`, and returns its path.
///
/// # Errors
///
/// When `ssh-keygen` fails or the file cannot be written.
pub(crate) async fn sshd_conf(dir: &Path, address: Ipv4Addr, port: u16) -> Result<PathBuf> {
    let key = dir.join("ssh_host_ed25519");
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key);
    tool::feed(&mut keygen, "").await?;
    let conf = format!(
        "ListenAddress {address}:{port}
HostKey {}
PidFile none
UsePAM no
PasswordAuthentication no
AuthorizedKeysFile none
MaxStartups 10000
LogLevel ERROR
",
        key.display()
    );
    let file = dir.join("sshd_config");
    // Newer servers punish peers that leave without logging in, which is what a check does;
    // older ones do not know the word.
    fs::write(&file, format!("{conf}PerSourcePenalties no\n"))?;
    let test = tool::outcome(Command::new(SSHD).args(["-t", "-f"]).arg(&file), "").await?;
    if !test.status.success() {
        fs::write(&file, conf).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(file)
}
