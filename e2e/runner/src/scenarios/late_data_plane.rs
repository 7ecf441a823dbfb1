//! The cloud answers at once, packets flow only after the settle pause: still `pass`.

use std::net::IpAddr;

use anyhow::Result;
use civ_cloudsim::{Action, Match, Rule};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::world::{House, World};

/// The pause that the operator set, in seconds.
const SETTLE: u16 = 1;
/// When packets begin to flow.
const LATE_MS: u64 = 2_000;

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        settle: SETTLE,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 1);
    let mut world = World::new(house, "late_data_plane", settings, &addresses, &[]).await?;
    world.sim.add_rule(Rule {
        name: "packets flow late".to_owned(),
        matches: Match::next_association(IpAddr::V4(addresses[0])),
        action: Action::PlaneDelay { ms: LATE_MS },
    });
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    world.demand(&[(addresses[0], "pass")]).await?;
    let details = world.api.details(&addresses[0].to_string()).await?;
    world.close(&[]).await?;
    Ok(format!(
        "settle {SETTLE} s, packets after {LATE_MS} ms, retries {}",
        details.ip.retry_count
    ))
}
