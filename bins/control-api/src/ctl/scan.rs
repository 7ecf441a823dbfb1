//! `ctl scan`: starts a scan, and follows it to its end if asked to.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::client::{Answer, Client, Reply};
use super::error::{CtlError, Result};
use super::output::{self, Output};
use super::table::{self, Column, Kind, cell};

/// How often a scan is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Characters between the brackets of the bar.
const BAR: u64 = 30;

const JOB: &[Column] = &[
    ("state", "state", Kind::Word),
    ("dry run", "dry_run", Kind::Text),
    ("pages", "pages", Kind::Text),
    ("discovered", "discovered", Kind::Text),
    ("free", "free", Kind::Text),
    ("added", "added", Kind::Text),
    ("requeued", "requeued", Kind::Text),
    ("reordered", "reordered", Kind::Text),
    ("skipped in progress", "skipped_in_progress", Kind::Text),
    ("started", "started_at", Kind::Time),
    ("finished", "finished_at", Kind::Time),
    ("error", "error", Kind::Text),
];

pub(super) async fn run(dry_run: bool, wait: bool, client: &Client, out: &Output) -> Result<()> {
    let mut url = client.url(&["ips", "scan"]);
    if dry_run {
        url.query_pairs_mut().append_pair("dry_run", "true");
    }
    let begun = match client.send(Method::POST, url, None).await? {
        Reply::Done(answer) => answer,
        Reply::Refused(_, error) => return Err(error),
    };
    // One at a time: a second call joins the first, whatever that one is for.
    match (dry_run, begun.json.get("dry_run").and_then(Value::as_bool)) {
        (false, Some(true)) => output::note("a dry run is under way: it queues nothing"),
        (true, Some(false)) => output::note("a scan is under way that queues what is free"),
        _ => {}
    }
    let answer = if wait {
        follow(begun, client, out).await?
    } else {
        begun
    };
    out.answer(&answer, |answer| Ok(table::fields(&answer.json, JOB, *out)))?;
    outcome(&answer.json, wait)
}

/// A scan that was followed and did not end well is a refusal.
fn outcome(job: &Value, wait: bool) -> Result<()> {
    let state = text(job, "state");
    if wait && state != "done" {
        let why = job.get("error").unwrap_or(&Value::Null);
        let text = format!("the scan ended as {state}: {}", cell(why, Kind::Text));
        return Err(CtlError::Refused(text));
    }
    Ok(())
}

async fn follow(begun: Answer, client: &Client, out: &Output) -> Result<Answer> {
    let bar = out.terminal && !out.json;
    let mut answer = begun;
    let mut last = String::new();
    while answer.json.get("running").and_then(Value::as_bool) == Some(true) {
        let line = progress(&answer.json);
        if line != last {
            if bar {
                Output::progress(&line)?;
            } else if !out.json {
                output::write(&line)?;
            }
            last = line;
        }
        tokio::time::sleep(LOOK).await;
        answer = client.get(&["ips", "scan"]).await?;
    }
    if bar {
        Output::progress("")?;
    }
    Ok(answer)
}

fn text(job: &Value, name: &str) -> String {
    cell(job.get(name).unwrap_or(&Value::Null), Kind::Text)
}

fn number(job: &Value, name: &str) -> u64 {
    job.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// One line: how many pages are read, or how much of what is free is queued.
fn progress(job: &Value) -> String {
    let state = text(job, "state");
    if state != "enqueuing" {
        let (pages, found) = (number(job, "pages"), number(job, "discovered"));
        return format!("{state}: {pages} pages, {found} floating IPs");
    }
    let free = number(job, "free");
    let words = ["added", "requeued", "reordered", "skipped_in_progress"];
    let done: u64 = words.iter().map(|word| number(job, word)).sum();
    let part = (done.min(free) * BAR).checked_div(free).unwrap_or(BAR);
    let (full, rest) = (usize::try_from(part), usize::try_from(BAR - part));
    let bar = "#".repeat(full.unwrap_or(0)) + &".".repeat(rest.unwrap_or(0));
    format!("{state}: [{bar}] {done} of {free}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_a_count_and_then_a_bar() {
        let listing = json!({"state": "listing", "pages": 3, "discovered": 600});
        assert_eq!(progress(&listing), "listing: 3 pages, 600 floating IPs");
        let half = json!({"state": "enqueuing", "free": 10, "added": 4, "requeued": 1});
        let bar = format!("enqueuing: [{}{}] 5 of 10", "#".repeat(15), ".".repeat(15));
        assert_eq!(progress(&half), bar);
        let none = json!({"state": "enqueuing", "free": 0});
        assert!(progress(&none).ends_with("] 0 of 0"));
    }

    #[test]
    fn only_a_scan_that_was_followed_can_fail() {
        let failed = json!({"state": "error", "error": "the cloud is away"});
        assert!(outcome(&failed, false).is_ok());
        let error = outcome(&failed, true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the scan ended as error: the cloud is away"
        );
        assert!(outcome(&json!({"state": "done"}), true).is_ok());
    }
}
