//! Owns the measure of dead time: what an address waits for nothing.
//!
//! From the event `claimed` to the end (`aggregated` or `fip_released`, whichever is last), less
//! the cloud's calls for that address, the settle pause and the slowest of the checks, which run
//! side by side. The self-check (from the agent's word that it begins to the verdict on it) is
//! written down beside it, but counts as dead.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_proto::read_model::{Event, IpDetails};
use civ_types::Utc;

use crate::world::World;

/// What the median may be.
pub(crate) const LIMIT: Duration = Duration::from_millis(200);

/// One address's time, in parts.
#[derive(Debug, Clone)]
struct Parts {
    address: Ipv4Addr,
    wall: Duration,
    cloud: Duration,
    settle: Duration,
    self_check: Duration,
    slowest: Duration,
}

impl Parts {
    fn dead(&self) -> Duration {
        self.wall
            .saturating_sub(self.cloud + self.settle + self.slowest)
    }
}

/// The dead times of a run.
#[derive(Debug)]
pub(crate) struct DeadTimes(Vec<Parts>);

/// Measures every address of a run that has ended, each with one attempt.
///
/// # Errors
///
/// When control-api does not answer, or an event that must be there is not.
pub(crate) async fn of(world: &World, addresses: &[Ipv4Addr]) -> Result<DeadTimes> {
    let mut all = Vec::new();
    for address in addresses {
        let details = world.api.details(&address.to_string()).await?;
        let parts = parts(world, *address, &details);
        all.push(parts.with_context(|| format!("the history of {address}"))?);
    }
    all.sort_by_key(Parts::dead);
    Ok(DeadTimes(all))
}

fn parts(world: &World, address: Ipv4Addr, details: &IpDetails) -> Result<Parts> {
    let begun = time_of(&details.events, "claimed")?;
    let verdict = time_of(&details.events, "aggregated")?;
    let released = time_of(&details.events, "fip_released")?;
    let end = verdict.max(released);
    let durations = details.checks.iter().filter_map(|check| {
        let millis = check.duration_ms.unwrap_or(check.latency_ms);
        u64::try_from(millis).ok()
    });
    Ok(Parts {
        address,
        wall: end.since(begun),
        cloud: cloud_time(world, address, begun, end),
        settle: Duration::from_secs(u64::from(world.settings.settle)),
        self_check: time_of(&details.events, "self_check_result")?
            .since(time_of(&details.events, "config_received")?),
        slowest: Duration::from_millis(durations.max().unwrap_or_default()),
    })
}

/// The calls for one address that began in its time; a claim makes them one after the other.
fn cloud_time(world: &World, address: Ipv4Addr, begun: Utc, end: Utc) -> Duration {
    let calls = world.sim.calls();
    let its = calls.iter().filter(|call| {
        call.address == Some(IpAddr::V4(address))
            && (begun.as_micros()..=end.as_micros()).contains(&call.at_micros)
    });
    Duration::from_micros(its.map(|call| call.duration_micros).sum())
}

fn time_of(events: &[Event], kind: &str) -> Result<Utc> {
    let mut events = events.iter().rev();
    let event = events
        .find(|event| event.event_type == kind)
        .with_context(|| format!("no event {kind}"))?;
    Utc::parse(&event.occurred_at).with_context(|| format!("the time of {kind}"))
}

impl DeadTimes {
    fn median(&self) -> Duration {
        self.0
            .get(self.0.len() / 2)
            .map(Parts::dead)
            .unwrap_or_default()
    }

    /// One line: median and worst.
    pub(crate) fn summary(&self) -> String {
        let worst = self.0.last().map(Parts::dead).unwrap_or_default();
        format!(
            "dead time per address: median {} ms, worst {} ms",
            self.median().as_millis(),
            worst.as_millis()
        )
    }

    /// Writes `dead-time.txt`: all addresses, all parts.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let mut text =
            String::from("address  wall  cloud  settle  slowest  dead, of which self-check (ms)\n");
        for parts in &self.0 {
            writeln!(
                text,
                "{}  {}  {}  {}  {}  {}  {}",
                parts.address,
                parts.wall.as_millis(),
                parts.cloud.as_millis(),
                parts.settle.as_millis(),
                parts.slowest.as_millis(),
                parts.dead().as_millis(),
                parts.self_check.as_millis()
            )?;
        }
        fs::write(dir.join("dead-time.txt"), text)?;
        Ok(())
    }

    /// The product's promise.
    ///
    /// # Errors
    ///
    /// When the median is not below the limit.
    pub(crate) fn demand_median_below(&self, limit: Duration) -> Result<()> {
        if self.median() >= limit {
            bail!("{}: the median must be below {limit:?}", self.summary());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wall(wall: u64) -> Parts {
        Parts {
            address: Ipv4Addr::LOCALHOST,
            wall: Duration::from_millis(wall),
            cloud: Duration::from_millis(100),
            settle: Duration::from_millis(0),
            self_check: Duration::from_millis(0),
            slowest: Duration::from_millis(50),
        }
    }

    #[test]
    fn the_median_and_not_the_mean_must_be_below_the_limit() {
        let times = DeadTimes(vec![of_wall(160), of_wall(170), of_wall(9_000)]);
        assert_eq!(times.median(), Duration::from_millis(20));
        assert!(times.demand_median_below(LIMIT).is_ok());
        let slow = DeadTimes(vec![of_wall(160), of_wall(500), of_wall(510)]);
        assert!(slow.demand_median_below(LIMIT).is_err());
    }
}
