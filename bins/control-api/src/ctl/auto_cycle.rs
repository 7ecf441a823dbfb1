//! `ctl auto-cycle`: clear, scan, check, pause, and again.

use reqwest::Method;
use serde_json::{Map, Value};

use super::args::AutoCycle;
use super::client::Client;
use super::error::Result;
use super::output::Output;
use super::table::{self, Column, Kind};

const STATUS: &[Column] = &[
    ("enabled", "enabled", Kind::Text),
    ("phase", "phase", Kind::Word),
    ("interval, s", "interval_seconds", Kind::Text),
    (
        "longest run, s (0: no limit)",
        "max_run_seconds",
        Kind::Text,
    ),
    ("running since", "run_started_at", Kind::Time),
    ("next run", "next_run_at", Kind::Time),
    ("last run from", "last_run_started_at", Kind::Time),
    ("last run to", "last_run_finished_at", Kind::Time),
    ("last outcome", "last_outcome", Kind::Word),
    ("last error", "last_error", Kind::Text),
    ("free at the last scan", "last_scanned_free", Kind::Text),
    ("completed runs", "runs_total", Kind::Text),
];

pub(super) async fn run(command: &AutoCycle, client: &Client, out: &Output) -> Result<()> {
    let answer = match command {
        AutoCycle::Status => client.get(&["auto-cycle"]).await?,
        AutoCycle::Start => {
            client
                .call(Method::POST, &["auto-cycle", "start"], None)
                .await?
        }
        AutoCycle::Stop => {
            client
                .call(Method::POST, &["auto-cycle", "stop"], None)
                .await?
        }
        AutoCycle::Set { interval, max_run } => {
            let mut body = Map::new();
            for (name, value) in [("interval_seconds", interval), ("max_run_seconds", max_run)] {
                if let Some(value) = value {
                    body.insert(name.to_owned(), Value::from(*value));
                }
            }
            let body = Value::from(body);
            client
                .call(Method::PUT, &["auto-cycle"], Some(&body))
                .await?
        }
    };
    out.answer(&answer, |answer| {
        Ok(table::fields(&answer.json, STATUS, *out))
    })
}
