//! An address on somebody else's port is `occupied`, and the cloud never sees a write to it.

use anyhow::{Result, bail};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::world::{House, World, foreign_port};

pub(super) async fn play(house: &House) -> Result<String> {
    let addresses = floats(house.stage.plan(), 3);
    let (foreign, free) = (addresses[0], &addresses[1..]);
    let bound = &addresses[..1];
    let mut world = World::new(house, "occupied", Settings::default(), free, bound).await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    world
        .demand(&[(foreign, "occupied"), (free[0], "pass"), (free[1], "pass")])
        .await?;
    let writes = world.writes_to(foreign);
    if !writes.is_empty() {
        bail!("the cloud saw writes to {foreign}: {writes:?}");
    }
    world.demand_port(foreign, Some(&foreign_port(1)))?;
    world.close(&[]).await?;
    Ok("no write to the foreign address in the cloud's log".to_owned())
}
