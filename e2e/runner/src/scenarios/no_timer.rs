//! One address with all timers long: from POST to verdict, every step wakes the next.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::scenarios::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::world::{House, World};

/// Far below the shortest timer of the configuration.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        validators: 1,
        poll_interval: 60,
        lease_ttl: 120,
        self_check_timeout: 30,
        checking_window: 120,
        heartbeat_timeout: 120,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 1);
    let mut world = World::new(house, "no_timer", settings, &addresses, &[]).await?;
    world.start().await?;
    let begun = tokio::time::Instant::now();
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    let took = begun.elapsed();
    world.demand(&all_are(&addresses, "pass")).await?;
    if took > LIMIT {
        bail!("from POST to verdict it took {took:?}: something waited for a timer");
    }
    world.close(&[]).await?;
    Ok(format!("POST to verdict in {} ms", took.as_millis()))
}
