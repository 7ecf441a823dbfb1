//! What flows through an address ends with its release: pings, connections in, connections out.

use std::net::IpAddr;

use anyhow::Result;
use civ_types::Utc;

use crate::flows::Flows;
use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::world::{House, World};

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        validators: 1,
        checking_window: 60,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 1);
    let floating = addresses[0];
    let mut world = World::new(house, "release_cuts", settings, &addresses, &[]).await?;
    // Site 2 never comes: the address stays in `checking` until it is cancelled.
    world.start_control().await?;
    world.start_agent(1)?;
    world.start_prober(1)?;
    world.api.enqueue(&addresses).await?;
    world
        .ip_when(floating, "being checked", SOON, |ip| ip.state == "checking")
        .await?;
    let ourselves = house.bin.join("civ-e2e");
    let flows = Flows::start(world.stage.as_ref(), &ourselves, floating, world.dir()).await?;
    world.api.cancel(IpAddr::V4(floating)).await?;
    let ip = world
        .ip_when(floating, "released", SOON, |ip| {
            ip.fip_released_at.is_some()
        })
        .await?;
    let released = Utc::parse(&ip.fip_released_at.unwrap_or_default())?;
    let told = flows.demand_cut(released).await?;
    world.close(&[]).await?;
    Ok(told)
}
