//! Owns the process of the lab: a real Keystone and Neutron, from its start to its end. Knows
//! where they listen and what was put into them; sends them nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// From nothing but the packages: databases, servers, seeding.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Servers that are asked to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// What `lab.json` says, as far as it is used here.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Facts {
    /// Keystone, with `/v3`.
    pub(crate) auth_url: String,
    /// The same Keystone once more, whose tokens live for a quarter of a minute.
    pub(crate) brief_auth_url: String,
    /// Neutron itself, without `/v2.0`.
    pub(crate) network_url: String,
    /// The password of every user.
    pub(crate) secret: String,
    /// `mariadb` or `sqlite`.
    pub(crate) database: String,
    /// The file that says when floating IPs' statuses follow.
    stand_in: PathBuf,
    /// Ids of projects by name.
    pub(crate) projects: std::collections::BTreeMap<String, String>,
    /// The ports of the project `validator`'s VMs.
    pub(crate) ports: Vec<String>,
    /// Ports of its customers, each with a floating IP.
    pub(crate) customer_ports: Vec<String>,
    /// A port of another project.
    pub(crate) foreign_port: String,
    /// A floating IP of another project.
    pub(crate) foreign_floating_ip: String,
}

impl Facts {
    /// How long after a change of binding Neutron has the status follow; `None`: never.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn status_after(&self, delay: Option<Duration>) -> Result<()> {
        let delay = delay.map(|delay| delay.as_secs_f64());
        let text = serde_json::json!({ "delay": delay }).to_string();
        // Renamed into its place: it is read at every change of a binding.
        let new = self.stand_in.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.stand_in)?;
        Ok(())
    }
}

/// A lab that serves. It ends when this is dropped: its standard input closes.
#[derive(Debug)]
pub(crate) struct Lab {
    child: Child,
    input: ChildStdin,
    /// What is in it.
    pub(crate) facts: Facts,
}

impl Lab {
    /// Starts `script` (`lab.py`) with everything below `dir` and waits until it serves. The
    /// catalog's public network endpoint will be `network_url`. What it says of its progress goes
    /// to our standard error.
    ///
    /// # Errors
    ///
    /// When it does not come up in [`START_LIMIT`].
    pub(crate) async fn start(script: &Path, dir: &Path, network_url: &str) -> Result<Self> {
        let mut child = Command::new("python3")
            .arg(script)
            .args(["serve", "--network-url", network_url, "--dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("python3 does not start")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let Ok(line) = timeout(START_LIMIT, lines.next_line()).await else {
            bail!("the lab did not serve after {START_LIMIT:?}");
        };
        let line = line?.context("the lab ended before it served")?;
        let Some(file) = line.strip_prefix("ready ") else {
            bail!("the lab said {line:?} and not where its facts are");
        };
        let text = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
        let facts =
            serde_json::from_str(&text).with_context(|| format!("{file} makes no sense"))?;
        Ok(Self {
            child,
            input,
            facts,
        })
    }

    /// Closes its standard input and waits until all its servers have ended.
    ///
    /// # Errors
    ///
    /// When it takes longer than [`END_LIMIT`], or a server had ended by itself.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.input);
        let Ok(status) = timeout(END_LIMIT, self.child.wait()).await else {
            bail!("the lab had not ended {END_LIMIT:?} after it was told to");
        };
        let status = status?;
        if !status.success() {
            bail!("the lab ended with {status}");
        }
        Ok(())
    }
}
