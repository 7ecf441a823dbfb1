//! A project of 210 floating IPs is scanned: counted first, then, after control-api was killed in
//! the middle of it and although a page breaks, enqueued; a few of them are validated for real.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, bail};
use civ_cloudsim::{Action, Match, Rule};

use crate::scenarios::{SOON, all_are, floats, kill9};
use crate::settings::Settings;
use crate::waiting::found;
use crate::world::{House, World};

const FIPS: &str = "/v2.0/floatingips";
/// Floating IPs of the project.
const ALL: u8 = 210;
/// How many of them hang on somebody else's ports.
const BOUND: usize = 4;
/// How many are validated.
const CHECKED: usize = 6;
/// What control-api says of a page that broke.
const EXPECTED: [&str; 1] = ["a page is asked for again"];

pub(super) async fn play(house: &House) -> Result<String> {
    let settings = Settings {
        page_size: 20,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), ALL);
    let (bound, free) = addresses.split_at(BOUND);
    let mut world = World::new(house, "scan", settings, free, bound).await?;
    world.start_control().await?;
    compared(&world).await?;
    let counted = world.api.scan_to_the_end(true).await?;
    demand("the dry run", counted.scanned_free, &world, &[]).await?;

    // Killed while the fifth page is read: nothing has changed.
    meet(&world, 5, Action::DelayBefore { ms: 60_000 });
    world.api.scan().await?;
    found("four pages are read", SOON, async || {
        Ok((world.api.scan_status().await?.pages == 4).then_some(()))
    })
    .await?;
    world.kill_control().await?;
    world.sim.clear_rules();
    world.start_control().await?;
    compared(&world).await?;
    let state = world.api.scan_status().await?.state;
    if state != "idle" {
        bail!("after a restart the scan is {state}");
    }
    demand("the restart", counted.scanned_free, &world, &[]).await?;

    meet(&world, 3, Action::CutMidBody);
    meet(&world, 7, Action::CutMidBody);
    let scanned = world.api.scan_to_the_end(false).await?;
    demand("the scan", scanned.scanned_free, &world, free).await?;
    let status = world.api.scan_status().await?;
    if status.discovered != u64::from(ALL) || status.state != "done" {
        bail!("the scan ended as {status:?}");
    }

    for address in &free[CHECKED..] {
        world.api.delete(IpAddr::V4(*address)).await?;
    }
    for n in 1..=world.settings.validators {
        world.start_agent(n)?;
    }
    for n in 1..=world.settings.sites {
        world.start_prober(n)?;
    }
    world.all_ended(SOON).await?;
    world.demand(&all_are(&free[..CHECKED], "pass")).await?;
    let mut expected = EXPECTED.to_vec();
    expected.extend(kill9::EXPECTED);
    world.close(&expected).await?;
    Ok(format!(
        "{} free of {ALL} in order of address, {CHECKED} validated",
        scanned.scanned_free
    ))
}

/// The comparison of cloud and database at the start is over: rules meet the scan's pages alone.
async fn compared(world: &World) -> Result<()> {
    found("cloud and database are compared", SOON, async || {
        let calls = world.sim.calls();
        Ok(calls.iter().any(|call| call.path == FIPS).then_some(()))
    })
    .await?;
    until_quiet(world).await
}

/// No call for a while.
async fn until_quiet(world: &World) -> Result<()> {
    let quiet = Duration::from_millis(300);
    found("the cloud is left alone", SOON, async || {
        let before = world.sim.calls().len();
        tokio::time::sleep(quiet).await;
        Ok((world.sim.calls().len() == before).then_some(()))
    })
    .await
}

fn meet(world: &World, nth: u32, action: Action) {
    world.sim.add_rule(Rule {
        name: format!("page {nth}"),
        matches: Match {
            nth,
            ..Match::next("GET", FIPS)
        },
        action,
    });
}

async fn demand(what: &str, n_free: u64, world: &World, queue: &[Ipv4Addr]) -> Result<()> {
    if n_free != u64::from(ALL) - BOUND as u64 {
        bail!("{what} found {n_free} free floating IPs");
    }
    let rows = world.api.queue().await?;
    let rows: Vec<String> = rows.into_iter().map(|ip| ip.ip_address).collect();
    let mut expected = queue.to_vec();
    expected.sort_unstable();
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    if rows != expected {
        bail!("after {what} the queue is {rows:?}");
    }
    Ok(())
}
