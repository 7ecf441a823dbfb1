//! Owns child processes: start with a log file, orderly end, sudden end. Knows no roles.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A running process whose output goes to a file.
#[derive(Debug)]
pub(crate) struct Proc {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Proc {
    /// Starts `command`; its output is appended to `LOGS/NAME.log`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or the program does not start.
    pub(crate) fn spawn(name: &str, command: &mut Command, logs: &Path) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("{} cannot be written", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Where its output goes.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Its name on the stage.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    ///
    /// When the system cannot be asked.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context(self.name)
    }

    /// SIGSTOP, and SIGCONT after `time`.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub(crate) async fn stop(&self, time: Duration) -> Result<()> {
        let pid = self.child.id().context("a process without an id")?;
        signal("STOP", pid).await?;
        tokio::time::sleep(time).await;
        signal("CONT", pid).await
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    ///
    /// When `limit` is over.
    pub(crate) async fn end(mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = timeout(limit, self.child.wait()).await;
        Ok(ended.with_context(|| format!("{} did not end", self.name))??)
    }

    /// SIGTERM; returns how long it took to end with code 0.
    ///
    /// # Errors
    ///
    /// When it had ended before, takes longer than [`GRACE`], or ends with another code.
    pub(crate) async fn terminate(mut self) -> Result<Duration> {
        let name = &self.name;
        if let Some(status) = self.child.try_wait()? {
            bail!("{name} had ended before it was asked to: {status}");
        }
        let pid = self.child.id().context("a process without an id")?;
        let begun = Instant::now();
        signal("TERM", pid).await?;
        let Ok(status) = timeout(GRACE, self.child.wait()).await else {
            self.child.kill().await?;
            bail!("{name} had not ended {GRACE:?} after SIGTERM and was killed");
        };
        let status = status?;
        if !status.success() {
            bail!("{name} ended with {status} after SIGTERM");
        }
        Ok(begun.elapsed())
    }
}

/// Sends a signal by the shell's own `kill`, which needs neither a package nor unsafe code.
///
/// # Errors
///
/// When there is no such process.
pub(crate) async fn signal(name: &str, pid: u32) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .await?;
    if !status.success() {
        bail!("signal {name} could not be sent to process {pid}");
    }
    Ok(())
}
