//! Owns the way into the runner's own namespaces: tries, and replaces this process if it works.
//!
//! Nothing outside is touched: mounts and networks made inside vanish with the last process.

use std::convert::Infallible;
use std::fs;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};

/// What an ordinary user's PATH lacks and the stage needs.
const TOOLS_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What must work before the stage can be built.
const TRIAL: &str = "mount -t tmpfs tmpfs /run && ip netns add trial \
    && nsenter --net=/run/netns/trial nft add table ip trial";

/// The arguments of `unshare`. Mapping the user to 0 is avoided: sshd, nginx and tcpdump then
/// take themselves for root and fail.
fn unshare_args() -> Result<&'static [&'static str]> {
    let uid = fs::metadata("/proc/self")
        .context("/proc is not mounted")?
        .uid();
    Ok(if uid == 0 {
        &["-nm"]
    } else {
        &["-U", "-c", "--keep-caps", "-nm"]
    })
}

fn unshare() -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(unshare_args()?).env("PATH", TOOLS_PATH);
    Ok(command)
}

/// Says in one sentence why namespaces are not to be had; `None` when they are.
pub(crate) fn obstacle() -> Option<String> {
    let mut trial = match unshare() {
        Ok(trial) => trial,
        Err(error) => return Some(format!("{error:#}")),
    };
    match trial
        .args(["sh", "-c", TRIAL])
        .stdin(Stdio::null())
        .output()
    {
        Err(error) => Some(format!("unshare does not start: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(said.lines().next().unwrap_or("unshare failed").to_owned())
        }
    }
}

/// Replaces this process by itself inside new namespaces, with `--inside` added.
///
/// A listener made before goes along as standard input and keeps accepting in the namespace
/// where it was made.
///
/// # Errors
///
/// Always: when it works, it does not return.
pub(crate) fn reexec(listener: Option<TcpListener>) -> Result<Infallible> {
    let mut command = unshare()?;
    // Services run as another user when the runner is root, and must read what it writes.
    command.args(["--", "sh", "-c", "umask 022; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).arg("--inside");
    if let Some(listener) = listener {
        command.stdin(OwnedFd::from(listener));
    }
    Err(anyhow!(command.exec()).context("unshare cannot be executed"))
}

/// The listener that [`reexec`] handed down.
///
/// # Errors
///
/// When standard input is no socket.
pub(crate) fn inherited_listener() -> Result<TcpListener> {
    let fd = std::io::stdin().as_fd().try_clone_to_owned()?;
    let listener = TcpListener::from(fd);
    listener
        .local_addr()
        .context("standard input is no listening socket")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
