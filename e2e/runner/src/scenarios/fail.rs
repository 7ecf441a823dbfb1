//! The self-check passes, then nothing answers in either direction: `fail`.

use anyhow::{Result, bail};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::stage::fault::Fault;
use crate::world::{House, World};

pub(super) async fn play(house: &House) -> Result<String> {
    let addresses = floats(house.stage.plan(), 1);
    let floating = addresses[0];
    let mut world = World::new(house, "fail", Settings::default(), &addresses, &[]).await?;
    world.stage.break_with(&Fault::Targets).await?;
    world
        .stage
        .break_with(&Fault::InboundAll { floating })
        .await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    world.demand(&[(floating, "fail")]).await?;
    let details = world.api.details(&floating.to_string()).await?;
    if details.ip.state != "done" || details.checks.is_empty() {
        bail!(
            "{floating} ended {} after {} checks: the verdict is not that of the checks",
            details.ip.state,
            details.checks.len()
        );
    }
    world.close(&[]).await?;
    Ok(format!("{} checks, none succeeded", details.checks.len()))
}
