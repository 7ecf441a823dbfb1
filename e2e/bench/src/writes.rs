//! Writes: what signs of life cost the disk, and how long a large enqueueing takes.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::VALIDATORS;
use crate::figures::Figures;
use crate::server::Server;

/// Heartbeats and polls of each kind that are sent.
const SIGNS: u32 = 2_000;

/// Bytes written to the disk for a sign of life, above what an idle process writes. The smallest
/// transaction writes a page of 4,096 bytes.
pub(crate) async fn heartbeats(server: &Server, figures: &mut Figures) -> Result<()> {
    let client = server.client()?;
    let before = server.bytes_written()?;
    let begun = Instant::now();
    for n in 0..SIGNS {
        let of = format!(
            "/api/v1/agents/{}",
            civ_store::bulk::validator(n % VALIDATORS)
        );
        client.post(&format!("{of}/heartbeat"), &json!({})).await?;
        client.get(&format!("{of}/assignment")).await?;
    }
    let (busy, time) = (server.bytes_written()? - before, begun.elapsed());
    let before = server.bytes_written()?;
    tokio::time::sleep(time.max(Duration::from_secs(3))).await;
    let idle = server.bytes_written()? - before;
    let above = busy.saturating_sub(idle) as f64 / f64::from(2 * SIGNS);
    figures.add(
        "disk: bytes for a heartbeat or a poll",
        above,
        "bytes",
        Some(1_024.0),
    );
    Ok(())
}

/// 65,536 addresses in one call: new ones, then the same again.
pub(crate) async fn enqueue(server: &Server, figures: &mut Figures) -> Result<()> {
    let client = server.client()?;
    let body = json!({"addresses": ["100.64.0.0/16"]});
    for (name, goal) in [("new", Some(1.0)), ("waiting already", None)] {
        let time = client.post("/api/v1/admin/ips", &body).await?.as_secs_f64();
        figures.add(
            &format!("POST /admin/ips, 65,536 addresses, {name}"),
            time,
            "s",
            goal,
        );
    }
    Ok(())
}
