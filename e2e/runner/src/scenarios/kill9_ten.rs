//! control-api is killed ten times at random moments while twelve addresses are checked.
//!
//! All end with a verdict, none stays attached, and every result that an agent or prober had
//! acknowledged is still there.

use std::time::Duration;

use anyhow::{Context as _, Result};
use civ_cloudsim::{Action, Match, Rule, WriteKind};
use tokio::time::sleep;

use super::acknowledged::nothing_lost;
use super::kill9::EXPECTED;
use crate::chance::Chance;
use crate::scenarios::{all_are, floats};
use crate::settings::Settings;
use crate::world::{House, World};

const KILLS: u32 = 10;
/// Between readiness and the next kill, in milliseconds.
const MOMENT_MS: std::ops::Range<u64> = 20..700;
/// What every change of binding takes, so that kills hit calls under way too.
const CLOUD_MS: u64 = 150;
/// Twelve addresses, three at a time, with ten restarts between.
const LIMIT: Duration = Duration::from_secs(90);

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        lease_ttl: 20,
        checking_window: 20,
        settle: 1,
        ..Settings::default()
    };
    let mut chance = Chance::new(house.seed);
    let addresses = floats(house.stage.plan(), 12);
    let mut world = World::new(house, "kill9_ten", settings, &addresses, &[]).await?;
    for write in [WriteKind::Associate, WriteKind::Release] {
        world.sim.add_rule(Rule {
            name: format!("slow {write:?}"),
            matches: Match {
                write: Some(write),
                ..Match::default()
            },
            action: Action::DelayBefore { ms: CLOUD_MS },
        });
    }
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    let mut moments = Vec::new();
    for _ in 0..KILLS {
        let moment = chance.pick(MOMENT_MS);
        moments.push(moment);
        sleep(Duration::from_millis(moment)).await;
        world.kill_control().await?;
        world.start_control().await?;
    }
    let story = async {
        world.all_ended(LIMIT).await?;
        world.demand(&all_are(&addresses, "pass")).await?;
        nothing_lost(&world).await
    };
    let told = format!("seed {}, killed after ms {moments:?}", house.seed);
    let acknowledged = story.await.with_context(|| told.clone())?;
    world.close(&EXPECTED).await.with_context(|| told.clone())?;
    Ok(format!(
        "{acknowledged} acknowledged results all there\n{told}"
    ))
}
