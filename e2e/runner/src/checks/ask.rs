//! Owns one question: runs a check of both binaries and compares what it says.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::sleep;

use super::case::{Asker, Case, address, filled};
use super::ground::Lab;
use crate::procs::signal;
use crate::stage::tool;
use crate::waiting::until;

/// How long a process stands still: longer than any delay that counts as ordinary, and beyond the
/// end of its check.
const STILL: Duration = Duration::from_millis(2500);

/// Asks one binary after the other, since rules that count packets are theirs in turn.
///
/// # Errors
///
/// Names the binary and what it said.
pub(super) async fn both(lab: &Lab, index: usize, case: &Case) -> Result<String> {
    let mut detail = String::new();
    for binary in ["validator-agent", "prober"] {
        let said = ask(lab, index, case, binary).await.context(binary)?;
        let of = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let seen = ["verdict", "code", "stage", "blame"].map(of);
        let wanted = case.expected;
        let wanted_words = [wanted.verdict, wanted.code, wanted.stage, wanted.blame];
        detail = of("detail");
        let fact = filled(wanted.fact, index);
        ensure!(
            seen == wanted_words && detail.contains(&fact),
            "{binary} says {seen:?} ({detail}), not {wanted_words:?} ({fact})"
        );
    }
    let (kind, _) = case.check;
    Ok(format!("{kind}: {detail}"))
}

async fn ask(lab: &Lab, index: usize, case: &Case, binary: &str) -> Result<Value> {
    let mut command = lab.command(case.asker, binary);
    let (kind, target) = case.check;
    command.args(["check", kind, &filled(target, index), "--json"]);
    command.args(case.args.iter().map(|arg| filled(arg, index)));
    let output = if case.asker == Asker::StandsStill {
        stopped(&mut command, index).await?
    } else {
        tool::outcome(&mut command, "").await?
    };
    let complaint = tool::complaint(&command, &output);
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{complaint} {}", String::from_utf8_lossy(&output.stdout)))?;
    let exit = match said["verdict"].as_str() {
        Some("pass") => 0,
        Some("fail") => 1,
        _ => 3,
    };
    if output.status.code() != Some(exit) {
        bail!("{complaint}, with {said}");
    }
    Ok(said)
}

/// Stops the process when its SYN is under way, lets it go on when its time is over.
async fn stopped(command: &mut Command, index: usize) -> Result<std::process::Output> {
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn()?;
    let pid = child.id().context("a process without an id")?;
    // The kernel prints addresses as this machine's numbers; 02 is SYN-SENT.
    let peer = u32::from_ne_bytes(address(index).octets());
    let line = format!(" {peer:08X}:0007 02 ");
    let table = format!("/proc/{pid}/net/tcp");
    until("its SYN is under way", async || {
        std::fs::read_to_string(&table).is_ok_and(|table| table.contains(&line))
    })
    .await?;
    signal("STOP", pid).await?;
    sleep(STILL).await;
    signal("CONT", pid).await?;
    Ok(child.wait_with_output().await?)
}
