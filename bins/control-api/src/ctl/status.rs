//! `ctl status` and `ctl validators`.

use std::time::Duration;

use serde_json::Value;

use super::client::{Answer, Client};
use super::error::{CtlError, Result};
use super::output::{self, Output};
use super::table::{self, Column, Kind, cell};

/// How often `--watch` asks.
const WATCH: Duration = Duration::from_secs(2);

const VALIDATORS: &[Column] = &[
    ("VALIDATOR", "ValidatorID", Kind::Text),
    ("STATE", "State", Kind::Word),
    ("IP ID", "CurrentIPID", Kind::Text),
    ("HOST", "Hostname", Kind::Text),
    ("VERSION", "AgentVersion", Kind::Text),
    ("PORT", "OSPortID", Kind::Text),
    ("LAST SEEN", "LastHeartbeatAt", Kind::Time),
    ("PAUSED BECAUSE", "PausedBecause", Kind::Text),
];

pub(super) async fn run(watch: bool, client: &Client, out: &Output) -> Result<()> {
    let answer = client.get(&["status"]).await?;
    show(&answer, watch, out)?;
    if !watch {
        return Ok(());
    }
    loop {
        tokio::time::sleep(WATCH).await;
        match client.get(&["status"]).await {
            Ok(answer) => show(&answer, watch, out)?,
            // Whoever watches wants to see it come back.
            Err(error @ CtlError::Away(_)) => output::complain(&error),
            Err(error) => return Err(error),
        }
    }
}

fn show(answer: &Answer, watch: bool, out: &Output) -> Result<()> {
    if watch && !out.json {
        return out.again(&counts(&answer.json, *out));
    }
    out.answer(answer, |answer| Ok(counts(&answer.json, *out)))
}

/// Counts by state and by result, a line each.
fn counts(status: &Value, out: Output) -> String {
    const COLUMNS: &[Column] = &[("", "word", Kind::Word), ("", "n", Kind::Text)];
    let of = |name: &str| status.get(name).unwrap_or(&Value::Null);
    let mut text = format!("addresses   {}\n", cell(of("total_ips"), Kind::Text));
    let validators = cell(of("total_validators"), Kind::Text);
    text.push_str(&format!("validators  {validators}\n"));
    for (title, name) in [
        ("by state", "ips_by_state"),
        ("by result", "results_by_overall"),
    ] {
        let Some(counts) = of(name).as_object().filter(|counts| !counts.is_empty()) else {
            continue;
        };
        text.push_str(&format!("\n{title}\n"));
        let row = |(word, n): (&String, &Value)| serde_json::json!({"word": word, "n": n});
        let rows: Vec<Value> = counts.iter().map(row).collect();
        let table = table::table(&rows, COLUMNS, out);
        let lines = table.lines().skip(1);
        lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    if let Some(backup) = status.get("backup") {
        text.push_str(&format!("\nbackup\n{}", backups(backup, out)));
    }
    text
}

/// The latest backup, the next one, and why the last try failed.
fn backups(backup: &Value, out: Output) -> String {
    const COLUMNS: &[Column] = &[("", "word", Kind::Word), ("", "at", Kind::Time)];
    let of = |name: &str| backup.get(name).cloned().unwrap_or(Value::Null);
    let row = |word: &str, name: &str| serde_json::json!({"word": word, "at": of(name)});
    let mut rows = vec![row("last", "last_at"), row("next", "next_at")];
    if !of("error").is_null() {
        rows.push(row("failed", "failed_at"));
    }
    let table = table::table(&rows, COLUMNS, out);
    let mut text = String::new();
    let lines = table.lines().skip(1);
    lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    if let Value::String(error) = of("error") {
        text.push_str(&format!("  {error}\n"));
    }
    text
}

pub(super) async fn validators(client: &Client, out: &Output) -> Result<()> {
    let answer = client.get(&["validators"]).await?;
    out.answer(&answer, |answer| {
        let (rows, _) = table::rows(&answer.json);
        Ok(table::table(&rows, VALIDATORS, *out))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_aligned() {
        let status = json!({
            "total_ips": 12, "total_validators": 2,
            "ips_by_state": {"queued": 10, "awaiting_self_check": 2},
            "results_by_overall": {"pass": 0, "partial": 0, "fail": 0, "cancelled": 0},
        });
        let out = Output {
            json: false,
            colours: false,
            terminal: false,
        };
        let text = counts(&status, out);
        let begin =
            "addresses   12\nvalidators  2\n\nby state\n  awaiting_self_check  2\n  queued  ";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("\nby result\n"), "{text}");
        assert!(!text.contains("backup"), "{text}");
        let backup = json!({"backup": {
            "last_at": null, "next_at": "2026-12-01T03:34:11.000000Z",
            "error": "no room", "failed_at": "2026-12-01T03:19:11.000000Z",
        }});
        let text = counts(&backup, out);
        assert!(text.contains("\nbackup\n  last"), "{text}");
        assert!(
            text.contains("  failed") && text.ends_with("\n  no room\n"),
            "{text}"
        );
    }
}
