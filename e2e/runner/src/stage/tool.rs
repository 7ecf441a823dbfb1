//! Owns the running of small tools (`ip`, `nft`, `conntrack`, `sh`). Knows no stage.

use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs a tool with `input` on its standard input and returns what it printed.
///
/// # Errors
///
/// When it cannot be started, or ends with another code than 0; the text holds its complaint.
pub(crate) async fn feed(command: &mut Command, input: &str) -> Result<String> {
    let output = outcome(command, input).await?;
    if !output.status.success() {
        bail!("{}", complaint(command, &output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Like [`feed`], and leaves the judgement of the exit code to the caller.
///
/// # Errors
///
/// When the tool cannot be started or its output cannot be read.
pub(crate) async fn outcome(command: &mut Command, input: &str) -> Result<Output> {
    let name = format!("{:?}", command.as_std().get_program());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("{name} does not start"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
        stdin.shutdown().await?;
    }
    child
        .wait_with_output()
        .await
        .with_context(|| format!("the output of {name} cannot be read"))
}

/// One line that says what was run and what it said.
pub(crate) fn complaint(command: &Command, output: &Output) -> String {
    let words: Vec<_> = command
        .as_std()
        .get_args()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    format!(
        "{} {} ended with {}: {}",
        command.as_std().get_program().to_string_lossy(),
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim(),
    )
}

/// Whether `conntrack -D` did its work: 1 only means that nothing matched.
pub(crate) fn conntrack_worked(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 1))
}
