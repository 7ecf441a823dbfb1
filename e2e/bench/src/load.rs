//! The load beside which reads are measured: agents that report results, each report acknowledged
//! durably.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::VALIDATORS;
use crate::client::Client;
use crate::figures::Times;
use crate::server::Server;

/// Results in one report, and the pause between two reports of all agents together: 1,000 a
/// second.
const ROWS: usize = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Checks of one address, which is what a round of an agent reports.
const CHECKS: usize = 40;

/// An agent with an address.
#[derive(Debug)]
struct Agent {
    path: String,
    ip: Value,
    fence: Value,
}

/// Asks every validator's assignment.
async fn agents(client: &Client) -> Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for n in 0..VALIDATORS {
        let path = format!("/api/v1/agents/{}", civ_store::bulk::validator(n));
        let work: Value = client.get_json(&format!("{path}/assignment")).await?;
        agents.push(Agent {
            path: format!("{path}/results"),
            ip: work["ip_id"].clone(),
            fence: work["fence"].clone(),
        });
    }
    Ok(agents)
}

fn report(agent: &Agent, round: usize) -> Value {
    let row = |n: usize| {
        let check = (round * ROWS + n) % CHECKS;
        json!({
            "ip_id": agent.ip,
            "fence": agent.fence,
            "check_type": "https",
            "target": format!("https://host-{check}.example"),
            "success": true,
            "latency_ms": round % 200,
            "detail": "ok",
            "checked_at": "2026-01-01T00:00:00Z",
        })
    };
    json!({"results": (0..ROWS).map(row).collect::<Vec<_>>()})
}

/// Reports until it is told to stop; the times are from the moment that a report was due, so a
/// server that falls behind cannot hide it.
pub(crate) async fn run(server: &Server, stop: watch::Receiver<bool>) -> Result<Times> {
    let client = server.client()?;
    let agents = agents(&client).await?;
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = JoinSet::new();
    let mut times = Times::default();
    for (n, agent) in (0..).zip(agents.iter().cycle()) {
        let due = ticks.tick().await;
        if *stop.borrow() {
            break;
        }
        let (client, path) = (client.clone(), agent.path.clone());
        let body = report(agent, n / agents.len());
        under_way.spawn(async move {
            client.post(&path, &body).await?;
            anyhow::Ok(Instant::now().saturating_duration_since(due))
        });
        while let Some(done) = under_way.try_join_next() {
            times.add(done??);
        }
    }
    while let Some(done) = under_way.join_next().await {
        times.add(done??);
    }
    Ok(times)
}
