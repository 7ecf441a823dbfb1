//! control-api is killed ten times at random moments while twelve addresses are checked.
//!
//! All end with a verdict, none stays attached, and every result that an agent or prober had
//! acknowledged is still there.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_cloudsim::{Action, Match, Rule, WriteKind};
use tokio::time::sleep;

use super::kill9::EXPECTED;
use crate::chance::Chance;
use crate::log_line::LogLine;
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

/// Whose result, of what: `(ip_id, source, site, check_type, target)`.
type Key = (i64, String, String, String, String);

/// Compares what agents and probers logged as acknowledged with what control-api has.
async fn nothing_lost(world: &World) -> Result<usize> {
    let mut acknowledged = BTreeSet::new();
    for entry in fs::read_dir(world.dir())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("vm-") || name.starts_with("site-") {
            acknowledged.extend(acknowledgements(&path)?);
        }
    }
    let mut stored = BTreeSet::new();
    for ip in world.api.queue().await? {
        for check in world.api.details(&ip.ip_address).await?.checks {
            let site = check.site_id.unwrap_or_default();
            stored.insert((ip.id, check.source, site, check.check_type, check.target));
        }
    }
    let lost: Vec<&Key> = acknowledged.difference(&stored).collect();
    if !lost.is_empty() {
        bail!("acknowledged and not there: {lost:?}");
    }
    if acknowledged.is_empty() {
        bail!("no agent or prober logged an acknowledged result: nothing was compared");
    }
    Ok(acknowledged.len())
}

fn acknowledgements(log: &std::path::Path) -> Result<Vec<Key>> {
    if log.extension().is_none_or(|extension| extension != "log") {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(log)?;
    text.lines()
        .filter_map(LogLine::parse)
        .filter(|line| line.text("message") == "result acknowledged")
        .map(|line| key(&line).with_context(|| format!("{line:?}")))
        .collect()
}

fn key(line: &LogLine) -> Option<Key> {
    let text = |name: &str| line.text(name).to_owned();
    Some((
        line.number("ip_id")?,
        text("source"),
        text("site"),
        text("check_type"),
        text("target"),
    ))
}
