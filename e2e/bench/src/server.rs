//! The measured program: a release build of control-api on a copy of the database, without a
//! cloud, so that nothing is claimed or released while it is measured.

use std::fmt::Write as _;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};

use crate::client::{Client, TOKEN};

/// How long it may take to migrate and open a large database.
const START: Duration = Duration::from_secs(300);

/// The running program.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    base: String,
}

fn config(listen: &str, database: &Path) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "server:\n  listen_addr: {listen}")?;
    // All clients have the same address here.
    writeln!(text, "  open_requests_per_second: 0")?;
    writeln!(text, "database:\n  path: {}", database.display())?;
    writeln!(text, "orchestrator:\n  checking_window_seconds: 604800")?;
    Ok(text)
}

impl Server {
    /// Starts it and waits until it answers.
    pub(crate) async fn start(program: &Path, folder: &Path, database: &Path) -> Result<Self> {
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let settings = folder.join("control-api.yaml");
        std::fs::write(&settings, config(&listen, database)?)?;
        let log = File::create(folder.join("control-api.log"))?;
        let mut command = Command::new(program);
        command
            .args(["run", "--config"])
            .arg(&settings)
            .env("CONTROL_API_ADMIN_TOKEN", TOKEN)
            .env("CONTROL_API_AGENT_TOKEN", TOKEN)
            .env("OS_AUTH_URL", "http://127.0.0.1:9/v3")
            .env("OS_USERNAME", "nobody")
            .env("OS_PASSWORD", "nothing")
            .env("OS_PROJECT_NAME", "none")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let child = command
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let mut server = Self {
            child,
            base: format!("http://{listen}"),
        };
        let (client, begun) = (server.client()?, Instant::now());
        while client.get("/healthz").await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                let log = std::fs::read_to_string(folder.join("control-api.log"))?;
                bail!("the server ended with {status}: {log}");
            }
            if START < begun.elapsed() {
                bail!("the server does not answer after {} s", START.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Client::new(&self.base)
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// Bytes that the program has caused to be written to the disk.
    pub(crate) fn bytes_written(&self) -> Result<u64> {
        let id = self.child.id().context("the server has ended")?;
        let text = std::fs::read_to_string(format!("/proc/{id}/io"))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(line.context("no write_bytes")?.trim().parse()?)
    }

    /// Memory of the program itself, without what it maps of the database, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let id = self.child.id().context("the server has ended")?;
        let text = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.context("no RssAnon")?.parse::<u64>()? * 1_024)
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}
