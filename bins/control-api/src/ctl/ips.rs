//! `ctl ips`: the queue.

use std::io::Read as _;

use civ_proto::admin::Addresses;
use reqwest::Method;
use serde_json::{Value, json};

use super::args::{Ips, Page};
use super::client::{Answer, Client, Reply};
use super::error::{CtlError, Result};
use super::output::{self, Output};
use super::table::{self, Column, Kind, cell};

const LIST: &[Column] = &[
    ("ADDRESS", "IPAddress", Kind::Text),
    ("STATE", "State", Kind::Word),
    ("RESULT", "OverallResult", Kind::Word),
    ("ATTEMPT", "AttemptNumber", Kind::Text),
    ("RETRIES", "RetryCount", Kind::Text),
    ("VALIDATOR", "ValidatorID", Kind::Text),
    ("UPDATED", "UpdatedAt", Kind::Time),
    ("LAST ERROR", "LastError", Kind::Text),
];

const ONE: &[Column] = &[
    ("address", "IPAddress", Kind::Text),
    ("state", "State", Kind::Word),
    ("result", "OverallResult", Kind::Word),
    ("attempt", "AttemptNumber", Kind::Text),
    ("retries", "RetryCount", Kind::Text),
    ("cycle", "CycleID", Kind::Text),
    ("place in the queue", "Sequence", Kind::Text),
    ("validator", "ValidatorID", Kind::Text),
    ("floating IP", "FIPID", Kind::Text),
    ("assigned", "AssignedAt", Kind::Time),
    ("associated", "FIPAssociatedAt", Kind::Time),
    ("checking since", "CheckingStartedAt", Kind::Time),
    ("egress complete", "EgressComplete", Kind::Text),
    ("sites complete", "SitesComplete", Kind::Text),
    ("aggregated", "AggregatedAt", Kind::Time),
    ("released", "FIPReleasedAt", Kind::Time),
    ("last error", "LastError", Kind::Text),
];

const CHECKS: &[Column] = &[
    ("SOURCE", "Source", Kind::Text),
    ("SITE", "SiteID", Kind::Text),
    ("CHECK", "CheckType", Kind::Text),
    ("TARGET", "Target", Kind::Text),
    ("PASSED", "Success", Kind::Text),
    ("MS", "LatencyMs", Kind::Text),
    ("CHECKED", "CheckedAt", Kind::Time),
    ("DETAIL", "Detail", Kind::Text),
];

const EVENTS: &[Column] = &[
    ("WHEN", "OccurredAt", Kind::Time),
    ("EVENT", "EventType", Kind::Text),
    ("SEVERITY", "Severity", Kind::Word),
    ("VALIDATOR", "ValidatorID", Kind::Text),
    ("SITE", "SiteID", Kind::Text),
    ("PAYLOAD", "Payload", Kind::Text),
];

/// Most bytes of standard input: far more than the addresses of one call.
const INPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;

pub(super) async fn run(command: Ips, client: &Client, out: &Output) -> Result<()> {
    match command {
        Ips::Add { addresses } => {
            let body = bodies(addresses)?;
            let answer = client.call(Method::POST, &["ips"], Some(&body)).await?;
            let words = ["added", "requeued", "reordered", "skipped_in_progress"];
            out.answer(&answer, |answer| Ok(lists(&answer.json, &words)))
        }
        Ips::List {
            state,
            result,
            page,
        } => {
            let filters = [("state", state), ("result", result)];
            let answer = client.list(&["ips"], &parameters(page, filters)).await?;
            out.answer(&answer, |answer| Ok(list(&answer.json, LIST, *out)))
        }
        Ips::Show { ip } => {
            let answer = client.get(&["ips", &ip]).await?;
            out.answer(&answer, |answer| Ok(shown(&answer.json, *out)))
        }
        Ips::Cancel { ips } => cancel(&ips, client, out).await,
        Ips::Delete { ips } => {
            let body = json!({"addresses": ips});
            let path = ["ips", "delete"];
            let answer = client.call(Method::POST, &path, Some(&body)).await?;
            out.answer(&answer, |answer| {
                Ok(lists(&answer.json, &["deleted", "not_found"]))
            })
        }
        Ips::Clear { yes: false } => {
            let text = "this takes every address out of the queue, also those that are being \
                        checked: say --yes if it is meant";
            Err(CtlError::Usage(text.to_owned()))
        }
        Ips::Clear { yes: true } => {
            let answer = client.call(Method::POST, &["ips", "clear"], None).await?;
            out.answer(&answer, |answer| Ok(lists(&answer.json, &["deleted"])))
        }
    }
}

/// The body of `add`; `-` stands for what standard input holds.
fn bodies(addresses: Vec<String>) -> Result<Value> {
    let mut all = Vec::with_capacity(addresses.len());
    for address in addresses {
        if address == "-" {
            let mut text = String::new();
            let input = std::io::stdin().lock();
            let read = input.take(INPUT_BYTES_MAX).read_to_string(&mut text);
            read.map_err(CtlError::Input)?;
            all.extend(text.split_whitespace().map(str::to_owned));
        } else {
            all.push(address);
        }
    }
    Ok(json!(Addresses { addresses: all }))
}

/// The parameters of a list, with two filters of its own.
pub(super) fn parameters<const N: usize>(
    page: Page,
    filters: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, Option<String>)> {
    let mut all = Vec::from(filters);
    all.push(("q", page.q));
    all.push(("limit", page.limit.map(|n| n.to_string())));
    all.push(("offset", page.offset.map(|n| n.to_string())));
    all
}

/// A list, with the line under a page of it.
pub(super) fn list(answer: &Value, columns: &[Column], out: Output) -> String {
    let (rows, footer) = table::rows(answer);
    let mut text = table::table(&rows, columns, out);
    text.push_str(&footer.unwrap_or_default());
    text
}

/// A line for each list of addresses: how many, and which as long as they are few.
fn lists(answer: &Value, names: &[&str]) -> String {
    const FEW: usize = 8;
    let mut text = String::new();
    for name in names {
        let all = answer.get(*name).and_then(Value::as_array);
        let all = all.map_or(&[][..], Vec::as_slice);
        let first: Vec<String> = all
            .iter()
            .take(FEW)
            .map(|one| cell(one, Kind::Text))
            .collect();
        let rest = if FEW < all.len() { ", …" } else { "" };
        let label = name.replace('_', " ");
        let line = format!("{label}: {}  {}{rest}", all.len(), first.join(", "));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn part(answer: &Value, name: &str) -> Vec<Value> {
    let rows = answer.get(name).and_then(Value::as_array);
    rows.cloned().unwrap_or_default()
}

fn shown(answer: &Value, out: Output) -> String {
    let ip = answer.get("ip").unwrap_or(&Value::Null);
    let mut text = table::fields(ip, ONE, out);
    for (name, columns) in [("checks", CHECKS), ("events", EVENTS)] {
        let rows = part(answer, name);
        text.push_str(&format!("\n{name}: {}\n", rows.len()));
        if !rows.is_empty() {
            text.push_str(&table::table(&rows, columns, out));
        }
    }
    text
}

/// The columns of stored results, for the registry too.
pub(super) const CHECK_COLUMNS: &[Column] = CHECKS;

/// One after the other; a refusal of one does not keep the others from being tried.
async fn cancel(ips: &[String], client: &Client, out: &Output) -> Result<()> {
    let mut refused = None;
    for ip in ips {
        let url = client.url(&["ips", ip, "cancel"]);
        match client.send(Method::POST, url, None).await? {
            Reply::Done(answer) => {
                let text = |_: &Answer| Ok(format!("{ip}: cancelled\n"));
                out.answer(&answer, text)?;
            }
            Reply::Refused(_, error) => {
                if let Some(before) = refused.replace(error) {
                    output::complain(&before);
                }
            }
        }
    }
    refused.map_or(Ok(()), Err)
}
