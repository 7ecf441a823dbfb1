//! control-api is killed while an address is being checked, and started again: nothing changes.

use anyhow::{Result, bail};

use crate::scenarios::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::world::{House, World};

/// What agents and probers say of a control-api that is away.
pub(super) const EXPECTED: [&str; 2] = ["control-api did not answer", "503 Service Unavailable"];

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        checking_window: 30,
        lease_ttl: 30,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 3);
    let mut world = World::new(house, "kill9", settings, &addresses, &[]).await?;
    // Site 2 comes later: until then every address stays in `checking`.
    world.start_control().await?;
    for n in 1..=3 {
        world.start_agent(n)?;
    }
    world.start_prober(1)?;
    world.api.enqueue(&addresses).await?;
    let mut attempts = Vec::new();
    for address in &addresses {
        let row = world
            .ip_when(*address, "being checked", SOON, |ip| ip.state == "checking")
            .await?;
        attempts.push((*address, row.attempt_number, row.validator_id));
    }
    world.kill_control().await?;
    world.start_control().await?;
    for (address, attempt, validator) in attempts {
        let row = world
            .ip_when(address, "known again", SOON, |_| true)
            .await?;
        let same = row.attempt_number == attempt && row.validator_id == validator;
        if row.state != "checking" || !same || row.retry_count > 0 {
            bail!("{address} did not go on where it was: {row:?}");
        }
    }
    world.start_prober(2)?;
    world.all_ended(SOON).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    world.close(&EXPECTED).await?;
    Ok("three addresses in checking went on where they were".to_owned())
}
