//! Reads: four clients that ask without a pause, while results are written.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::figures::{Figures, Times};
use crate::load;
use crate::server::Server;

const CLIENTS: usize = 4;

/// What a read may take, in milliseconds, of a hundred times ninety-nine.
const READ_MS: f64 = 20.0;
/// The same for the acknowledgement of a report.
const ACK_MS: f64 = 50.0;

/// Texts that are searched for: frequent and rare ones, at the beginning, inside and at the end.
const Q1: &[&str] = &["4", "0", "9", ".", ":", "b", "d"];
const Q2: &[&str] = &["45", "99", "1.", ".7", "::", "d8", "00", "a:"];
const Q3: &[&str] = &[
    "45.",
    "45.0",
    "45.0.12",
    "198",
    "3.45",
    "0.200",
    "255",
    "2001:db8",
    "::1",
    "77.77",
    "9.9.9",
    "150.1",
    "203.0.113.10",
    "zzz",
    "128.0",
];

/// Paths to ask in turn: each with each of the offsets.
fn paths(of: &str, offsets: &[u64], texts: &[&str]) -> Vec<String> {
    let texts = if texts.is_empty() { &[""] } else { texts };
    let mut all = Vec::new();
    for text in texts {
        for offset in offsets {
            let q = if text.is_empty() {
                String::new()
            } else {
                format!("&q={text}")
            };
            all.push(format!("{of}limit=50&offset={offset}{q}"));
        }
    }
    all
}

async fn clients(server: &Server, paths: &[String], time: Duration) -> Result<Times> {
    let mut under_way = JoinSet::new();
    let until = Instant::now() + time;
    for first in 0..CLIENTS {
        let client = server.client()?;
        let mine: Vec<String> = paths
            .iter()
            .cycle()
            .skip(first * 7)
            .take(paths.len())
            .cloned()
            .collect();
        under_way.spawn(async move {
            let mut times = Times::default();
            for path in mine.iter().cycle() {
                if until <= Instant::now() {
                    break;
                }
                times.add(client.get(path).await?.0);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Times::default();
    while let Some(done) = under_way.join_next().await {
        times.extend(done??);
    }
    Ok(times)
}

/// What is asked, under which name.
async fn plan(client: &Client) -> Result<Vec<(&'static str, Vec<String>)>> {
    const REGISTRY: &str = "/api/v1/admin/registry?";
    const IPS: &str = "/api/v1/admin/ips?";
    const QUEUED: &str = "/api/v1/admin/ips?state=queued&";
    let page: Value = client
        .get_json("/api/v1/admin/ips?limit=50&offset=60000")
        .await?;
    let items = page["items"].as_array().cloned().unwrap_or_default();
    let one = items.iter().filter_map(|item| item["IPAddress"].as_str());
    let details = one.map(|ip| format!("/api/v1/admin/ips/{ip}")).collect();
    let ips = [0, 50, 1_000, 50_000, 99_000];
    let mut plan = vec![
        ("/admin/status", vec!["/api/v1/admin/status".to_owned()]),
        ("/admin/ips/{ip}", details),
        (
            "/admin/ips?limit=50&state=queued, offsets to the end",
            paths(QUEUED, &ips, &[]),
        ),
        (
            "/admin/ips?limit=50, q of 1 character",
            paths(IPS, &[0, 5_000], Q1),
        ),
        (
            "/admin/ips?limit=50, q of 2 characters",
            paths(IPS, &[0, 5_000], Q2),
        ),
        (
            "/admin/ips?limit=50, q of 3 and more",
            paths(IPS, &[0, 5_000], Q3),
        ),
        ("/admin/ips?limit=50&state=queued, any q", {
            [Q1, Q2, Q3]
                .iter()
                .flat_map(|q| paths(QUEUED, &[0, 5_000], q))
                .collect()
        }),
    ];
    if client.get(&format!("{REGISTRY}limit=1")).await.is_ok() {
        let registry = [0, 50, 10_000, 500_000, 999_000];
        let deep = [0, 90_000];
        plan.extend([
            (
                "/admin/registry?limit=50, offsets to the end",
                paths(REGISTRY, &registry, &[]),
            ),
            (
                "/admin/registry?limit=50, q of 1 character",
                paths(REGISTRY, &deep, Q1),
            ),
            (
                "/admin/registry?limit=50, q of 2 characters",
                paths(REGISTRY, &deep, Q2),
            ),
            (
                "/admin/registry?limit=50, q of 3 and more",
                paths(REGISTRY, &deep, Q3),
            ),
            ("/admin/registry?limit=50&last_result=fail, any q", {
                let of = format!("{REGISTRY}last_result=fail&");
                [Q1, Q2, Q3]
                    .iter()
                    .flat_map(|q| paths(&of, &[0, 5_000], q))
                    .collect()
            }),
        ]);
    }
    Ok(plan)
}

/// Measures every read, and the acknowledgements meanwhile.
pub(crate) async fn measure(server: &Server, time: Duration, figures: &mut Figures) -> Result<()> {
    let plan = plan(&server.client()?).await?;
    let (stop, stopped) = watch::channel(false);
    let asking = async {
        for (name, paths) in plan {
            let times = clients(server, &paths, time).await?;
            figures.add_times(&format!("GET {name}"), &times, READ_MS);
        }
        stop.send_replace(true);
        anyhow::Ok(())
    };
    let begun = Instant::now();
    let (asked, acknowledged) = tokio::join!(asking, load::run(server, stopped));
    let times = acknowledged?;
    asked?;
    let rate = times.len() as f64 * 10.0 / begun.elapsed().as_secs_f64();
    figures.add("results acknowledged beside the reads", rate, "1/s", None);
    figures.add_times("acknowledgement of a report of 10 results", &times, ACK_MS);
    let memory = server.memory()? as f64 / 1e6;
    figures.add("memory of control-api after that", memory, "MB", None);
    Ok(())
}
