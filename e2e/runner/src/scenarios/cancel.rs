//! An operator cancels one address and deletes another while both are being checked.

use std::net::IpAddr;

use anyhow::{Result, bail};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::waiting::found;
use crate::world::{House, World};

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        validators: 2,
        checking_window: 60,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 3);
    let [cancelled, deleted, next] = [addresses[0], addresses[1], addresses[2]];
    let mut world = World::new(house, "cancel", settings, &addresses, &[]).await?;
    // Site 2 comes later: until then the first two stay in `checking`.
    world.start_control().await?;
    world.start_agent(1)?;
    world.start_agent(2)?;
    world.start_prober(1)?;
    world.api.enqueue(&addresses).await?;
    for address in [cancelled, deleted] {
        world
            .ip_when(address, "being checked", SOON, |ip| ip.state == "checking")
            .await?;
    }
    world.api.cancel(IpAddr::V4(cancelled)).await?;
    let row = world
        .ip_when(cancelled, "in the queue", SOON, |_| true)
        .await?;
    if (row.state.as_str(), row.overall_result.as_str()) != ("failed", "cancelled") {
        bail!("right after its cancel {cancelled} is {row:?}");
    }
    world.api.delete(IpAddr::V4(deleted)).await?;
    let queue = world.api.queue().await?;
    if queue.iter().any(|ip| ip.ip_address == deleted.to_string()) {
        bail!("{deleted} was deleted and is still in the queue");
    }
    found("both addresses are released", SOON, async || {
        let attached = world.attached();
        let gone = |address: &std::net::Ipv4Addr| {
            !attached.iter().any(|a| a.address == IpAddr::V4(*address))
        };
        Ok((gone(&cancelled) && gone(&deleted)).then_some(()))
    })
    .await?;
    world.start_prober(2)?;
    world.all_ended(SOON).await?;
    world
        .demand(&[(cancelled, "cancelled"), (next, "pass")])
        .await?;
    world.close(&[]).await?;
    Ok("both released, their validators went on with the next".to_owned())
}
