//! The IP-echo service is down for the first self-check and back for a later one: `pass`.

use anyhow::{Result, bail};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::stage::fault::Fault;
use crate::waiting::found;
use crate::world::{House, World};

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        validators: 1,
        self_check_retries: 20,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 1);
    let address = addresses[0].to_string();
    let mut world = World::new(house, "self_check_retry", settings, &addresses, &[]).await?;
    world.stage.break_with(&Fault::Echo).await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    found("a self-check has failed", SOON, async || {
        let details = world.api.details(&address).await?;
        let retried = details.ip.retry_count > 0;
        Ok(retried.then_some(()))
    })
    .await?;
    world.stage.mend().await?;
    world.all_ended(SOON).await?;
    world.demand(&[(addresses[0], "pass")]).await?;
    let details = world.api.details(&address).await?;
    let checks = details.events.iter();
    let checks = checks.filter(|event| event.event_type == "self_check_result");
    let checks = checks.count();
    if checks < 2 {
        bail!("the history tells of {checks} self-checks, and there were at least two");
    }
    world.close(&[]).await?;
    Ok(format!("passed at self-check {checks}"))
}
