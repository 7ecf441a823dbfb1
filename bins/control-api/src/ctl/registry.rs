//! `ctl registry`: every address that was ever queued.

use serde_json::Value;

use super::args::{Page, Registry};
use super::client::Client;
use super::error::Result;
use super::ips::{CHECK_COLUMNS, list, parameters};
use super::output::Output;
use super::table::{self, Column, Kind};

const LIST: &[Column] = &[
    ("ADDRESS", "ip_address", Kind::Text),
    ("LAST RESULT", "last_result", Kind::Word),
    ("CHECKED", "last_checked_at", Kind::Time),
    ("CYCLES", "total_cycles", Kind::Text),
    ("IN QUEUE", "in_queue", Kind::Text),
    ("STATE", "current_state", Kind::Word),
    ("FIRST SEEN", "first_seen_at", Kind::Time),
    ("LAST SEEN", "last_seen_at", Kind::Time),
];

const ONE: &[Column] = &[
    ("address", "ip_address", Kind::Text),
    ("last result", "last_result", Kind::Word),
    ("last checked", "last_checked_at", Kind::Time),
    ("cycles", "total_cycles", Kind::Text),
    ("in queue", "in_queue", Kind::Text),
    ("state", "current_state", Kind::Word),
    ("first seen", "first_seen_at", Kind::Time),
    ("last seen", "last_seen_at", Kind::Time),
];

pub(super) async fn run(command: Option<Registry>, client: &Client, out: &Output) -> Result<()> {
    let all = Registry::List {
        last_result: None,
        page: Page::default(),
    };
    match command.unwrap_or(all) {
        Registry::List { last_result, page } => {
            let query = parameters(page, [("last_result", last_result)]);
            let answer = client.list(&["registry"], &query).await?;
            out.answer(&answer, |answer| Ok(list(&answer.json, LIST, *out)))
        }
        Registry::Show { ip } => {
            let answer = client.get(&["registry", &ip]).await?;
            out.answer(&answer, |answer| Ok(shown(&answer.json, *out)))
        }
    }
}

fn shown(answer: &Value, out: Output) -> String {
    let one = answer.get("registry").unwrap_or(&Value::Null);
    let mut text = table::fields(one, ONE, out);
    let checks = answer.get("checks").and_then(Value::as_array);
    let checks = checks.map_or(&[][..], Vec::as_slice);
    let columns: Vec<Column> = [("CYCLE", "CycleID", Kind::Text)]
        .into_iter()
        .chain(CHECK_COLUMNS.iter().copied())
        .collect();
    text.push_str(&format!("\nchecks: {}\n", checks.len()));
    if !checks.is_empty() {
        text.push_str(&table::table(checks, &columns, out));
    }
    text
}
