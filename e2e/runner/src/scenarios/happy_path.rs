//! Three validators, two sites, twelve addresses: all pass, and the wire shows why.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};

use crate::capture::Capture;
use crate::dead_time;
use crate::scenarios::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::world::{House, World};

/// Nothing in the story may wait for a timer, so this one is long.
const POLL_INTERVAL: u16 = 60;
/// How often dead time is measured at most.
const ROUNDS: u8 = 3;

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        poll_interval: POLL_INTERVAL,
        heartbeat_timeout: 30,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 12);
    let mut world = World::new(house, "happy_path", settings, &addresses, &[]).await?;
    let capture = Capture::start(&world).await?;
    world.start().await?;
    let begun = tokio::time::Instant::now();
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    let took = begun.elapsed();
    world.demand(&all_are(&addresses, "pass")).await?;
    let mut remark = format!("12 of 12 pass in {:.1} s", took.as_secs_f64());
    if let Some(capture) = capture {
        let seen = capture.stop(&world).await?;
        for (what, on) in &seen {
            let missing: Vec<_> = addresses.iter().filter(|a| !on.contains(a)).collect();
            if !missing.is_empty() {
                bail!("the capture at edge shows no {what} on {missing:?}");
            }
        }
        let all: Vec<_> = seen.iter().map(|(what, _)| *what).collect();
        remark.push_str(&format!("\non the wire, each address: {}", all.join(", ")));
    }
    remark.push_str(&dead_times(&world, &addresses).await?);
    world.close(&[]).await?;
    Ok(remark)
}

/// Measures the dead times. On a machine that others keep busy the first measure may be theirs and
/// not ours: then the addresses are checked once more, twice at most, and every measure is told.
async fn dead_times(world: &World, addresses: &[Ipv4Addr]) -> Result<String> {
    let mut told = String::new();
    for round in 1..=ROUNDS {
        let times = dead_time::of(world, addresses).await?;
        times.write(world.dir())?;
        told.push_str(&format!("\n{}", times.summary()));
        match times.demand_median_below(dead_time::LIMIT) {
            Ok(()) => break,
            Err(error) if round == ROUNDS => return Err(error.context(told.trim().to_owned())),
            Err(_) => {}
        }
        world.api.enqueue(addresses).await?;
        world.all_ended(SOON).await?;
        world.demand(&all_are(addresses, "pass")).await?;
    }
    Ok(told)
}
