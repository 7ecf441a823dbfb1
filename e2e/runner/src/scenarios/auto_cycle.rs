//! Three rounds of the auto-cycle; control-api is killed in the middle of the second one's checks
//! and of the third one's scan, and each round comes to its end all the same.

use std::time::Duration;

use anyhow::{Result, bail};
use civ_cloudsim::{Action, Match, Rule};
use civ_proto::jobs::AutoCycle;

use crate::scenarios::{SOON, all_are, floats, kill9};
use crate::settings::Settings;
use crate::waiting::found;
use crate::world::{House, World, foreign_port};

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        checking_window: 30,
        lease_ttl: 30,
        page_size: 2,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 7);
    let (bound, free) = addresses.split_at(1);
    let mut world = World::new(house, "auto_cycle", settings, free, bound).await?;
    world.start().await?;

    world.api.auto_cycle_turn("start").await?;
    let first = completed(&world, 1).await?;
    world.demand(&all_are(free, "pass")).await?;

    // The shortest pause is a minute: turning it off and on again begins the next round at once.
    again(&world).await?;
    found("a check of the second round", SOON, async || {
        let queue = world.api.queue().await?;
        Ok(queue.iter().any(|ip| ip.state == "checking").then_some(()))
    })
    .await?;
    world.kill_control().await?;
    world.start_control().await?;
    completed(&world, 2).await?;
    world.demand(&all_are(free, "pass")).await?;

    // Pages of a scan are the only reads of many rows: here each takes its time.
    world.sim.add_rule(Rule {
        name: "slow".to_owned(),
        matches: Match {
            method: Some("GET".to_owned()),
            path_prefix: "/v2.0/floatingips".to_owned(),
            ..Match::default()
        },
        action: Action::DelayBefore { ms: 300 },
    });
    again(&world).await?;
    found("a page of the third round", SOON, async || {
        let scan = world.api.scan_status().await?;
        Ok((scan.state == "listing" && scan.pages > 0).then_some(()))
    })
    .await?;
    world.kill_control().await?;
    world.start_control().await?;
    // Still slow: the scan that begins anew cannot be through before this look.
    if !world.api.queue().await?.is_empty() {
        bail!("a scan that was cut off has changed the queue");
    }
    world.sim.clear_rules();
    let last = completed(&world, 3).await?;
    world.demand(&all_are(free, "pass")).await?;
    if last.last_scanned_free != free.len() as u64
        || first.last_scanned_free != last.last_scanned_free
    {
        bail!("the rounds found {first:?} and {last:?}");
    }
    world.demand_port(addresses[0], Some(&foreign_port(1)))?;
    world.api.auto_cycle_turn("stop").await?;
    world.all_ended(SOON).await?;
    world.close(&kill9::EXPECTED).await?;
    Ok("three rounds of six addresses, two of them with a killed control-api".to_owned())
}

async fn again(world: &World) -> Result<()> {
    world.api.auto_cycle_turn("stop").await?;
    world.api.auto_cycle_turn("start").await?;
    Ok(())
}

async fn completed(world: &World, n: u64) -> Result<AutoCycle> {
    let limit = SOON + Duration::from_secs(30);
    found(&format!("round {n} is completed"), limit, async || {
        let cycle = world.api.auto_cycle().await?;
        if !["", "completed"].contains(&cycle.last_outcome.as_str()) {
            bail!("a round ended as {cycle:?}");
        }
        Ok((cycle.runs_total == n && cycle.phase == "waiting").then_some(cycle))
    })
    .await
}
