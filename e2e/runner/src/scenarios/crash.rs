//! What production does to processes and disks: everything that was acknowledged is there, every
//! address is judged truly, and nothing stays attached.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::acknowledged::nothing_lost;
use super::kill9::EXPECTED;
use super::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::stage::plan::Place;
use crate::stage::tool::feed;
use crate::waiting::found;
use crate::world::{House, World};

/// Longer than the lease of [`short`] and than its checking window.
const LONG: Duration = Duration::from_secs(9);

/// Leases and windows that a stop outlasts.
fn short() -> Settings {
    Settings {
        lease_ttl: 6,
        checking_window: 6,
        ..Settings::default()
    }
}

/// Waits until an address is in that state, and says on which validator.
async fn in_state(world: &World, address: Ipv4Addr, state: &str) -> Result<u8> {
    let row = world
        .ip_when(address, state, SOON, |ip| ip.state == state)
        .await?;
    let validator = row.validator_id.unwrap_or_default();
    let n = validator.trim_start_matches("validator_").parse();
    n.with_context(|| format!("{address} is {state} on {validator:?}"))
}

/// Agents and probers are killed in each of their phases and started again.
pub(super) async fn remotes(house: &House) -> Result<String> {
    let settings = Settings {
        lease_ttl: 30,
        checking_window: 30,
        settle: 2,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 6);
    let mut world = World::new(house, "crash_remotes", settings, &addresses, &[]).await?;
    world.start_control().await?;
    for n in 1..=3 {
        world.start_agent(n)?;
    }
    // Site 2 comes later: until then every address stays in `checking`.
    world.start_prober(1)?;
    world.api.enqueue(&addresses).await?;
    // While it waits for its address to settle; while it checks; when it has told everything.
    for state in ["awaiting_self_check", "checking"] {
        for address in &addresses[..3] {
            let n = in_state(&world, *address, state).await?;
            world.kill_remote(Place::Vm(n)).await?;
            world.start_agent(n)?;
        }
    }
    for address in &addresses[..3] {
        let address = address.to_string();
        found("the agent has told everything", SOON, async || {
            let details = world.api.details(&address).await?;
            let told = details
                .events
                .iter()
                .any(|event| event.event_type == "egress_complete");
            Ok(told.then_some(()))
        })
        .await?;
    }
    for n in 1..=3 {
        world.kill_remote(Place::Vm(n)).await?;
        world.start_agent(n)?;
    }
    // A prober that has told everything, one that just starts, and one in the middle.
    world.kill_remote(Place::Site(1)).await?;
    world.start_prober(1)?;
    for _ in 0..3 {
        world.start_prober(2)?;
        world.kill_remote(Place::Site(2)).await?;
    }
    world.start_prober(2)?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.kill_remote(Place::Site(2)).await?;
    world.start_prober(2)?;
    world.all_ended(SOON * 2).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    let n = nothing_lost(&world).await?;
    world.close(&EXPECTED).await?;
    Ok(format!("{n} acknowledged results all there"))
}

/// control-api, then an agent, then a prober stand still for longer than a lease.
pub(super) async fn stopped(house: &House) -> Result<String> {
    let addresses = floats(house.stage.plan(), 9);
    let settings = Settings {
        settle: 2,
        // An agent that stands still while it checks is late, which is not what this is about.
        checking_window: 30,
        ..short()
    };
    let mut world = World::new(house, "crash_stopped", settings, &addresses, &[]).await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    in_state(&world, addresses[0], "checking").await?;
    world.stop_control(LONG).await?;
    // A validator that stands still holds up its own address, which another then takes.
    let n = found("an address settles", SOON, async || {
        let queue = world.api.queue().await?;
        let settling = queue.iter().find(|ip| ip.state == "awaiting_self_check");
        let validator = settling.and_then(|ip| ip.validator_id.clone());
        Ok(validator.and_then(|id| id.trim_start_matches("validator_").parse::<u8>().ok()))
    })
    .await?;
    world.stop_remote(Place::Vm(n), LONG).await?;
    world.stop_remote(Place::Site(1), LONG / 3).await?;
    world.all_ended(SOON * 2).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    let events = world.api.events_of("time_lost").await?;
    if events == 0 {
        bail!("control-api did not notice that it stood still");
    }
    let n = nothing_lost(&world).await?;
    let late = ["nobody could be heard for a while", "lease_expired"];
    let expected: Vec<&str> = EXPECTED.into_iter().chain(late).collect();
    world.close(&expected).await?;
    Ok(format!("{n} acknowledged results all there"))
}

/// A small disk for the database; says where it is.
async fn mount(world: &World, options: &str) -> Result<PathBuf> {
    let folder = world.dir().join("disk");
    fs::create_dir_all(&folder)?;
    // Where control-api sees it: a mount on the other side of a bind mount stays there.
    let disk = world.stage.visible(&folder);
    let mut command = Command::new("mount");
    command
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(&disk);
    feed(&mut command, "").await?;
    Ok(disk)
}

async fn umount(disk: &Path) -> Result<()> {
    feed(Command::new("umount").arg("-l").arg(disk), "").await?;
    Ok(())
}

/// Writes until there is no room.
fn fill(file: &Path) -> Result<()> {
    let mut out = fs::File::create(file)?;
    for block in [vec![0; 65_536], vec![0; 512]] {
        loop {
            match out.write_all(&block) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error).context("the disk cannot be filled"),
            }
        }
    }
    Ok(())
}

/// The disk of the database is full for longer than leases and windows last.
pub(super) async fn disk_full(house: &House) -> Result<String> {
    let settings = Settings {
        disk: "disk",
        ..short()
    };
    let addresses = floats(house.stage.plan(), 6);
    let mut world = World::new(house, "crash_disk_full", settings, &addresses, &[]).await?;
    let disk = mount(&world, "size=8m").await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    in_state(&world, addresses[0], "checking").await?;
    let filler = disk.join("filler");
    fill(&filler)?;
    tokio::time::sleep(LONG).await;
    let refused = world.api.enqueue(&addresses[..1]).await;
    let refused = refused.err().map(|error| format!("{error:#}"));
    if !refused.as_ref().is_some_and(|text| text.contains("503")) {
        bail!("a write while the disk was full: {refused:?}");
    }
    fs::remove_file(&filler)?;
    world.all_ended(SOON * 2).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    let n = nothing_lost(&world).await?;
    let trouble = [
        "disk is full",
        "the database is not available",
        "nobody could be heard for a while",
    ];
    let expected: Vec<&str> = EXPECTED.into_iter().chain(trouble).collect();
    world.close(&expected).await?;
    umount(&disk).await?;
    Ok(format!("{n} acknowledged results all there"))
}

/// The disk can only be read at a start; then it can be written again.
pub(super) async fn read_only(house: &House) -> Result<String> {
    let settings = Settings {
        disk: "disk",
        lease_ttl: 30,
        checking_window: 30,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 3);
    let mut world = World::new(house, "crash_read_only", settings, &addresses, &[]).await?;
    let disk = mount(&world, "size=32m").await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    in_state(&world, addresses[0], "checking").await?;
    world.kill_control().await?;
    let remount = async |how: &str| {
        let mut command = Command::new("mount");
        feed(command.args(["-o", how]).arg(&disk), "").await
    };
    remount("remount,ro").await?;
    let said = world.control_refused().await?;
    remount("remount,rw").await?;
    world.start_control().await?;
    world.all_ended(SOON).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    let n = nothing_lost(&world).await?;
    let refusal = "Read-only file system";
    if !said.contains(refusal) {
        bail!("the refusal does not say why: {said}");
    }
    let expected: Vec<&str> = EXPECTED.into_iter().chain([refusal]).collect();
    world.close(&expected).await?;
    umount(&disk).await?;
    Ok(format!("{n} acknowledged results all there"))
}

/// The write-ahead log ends in the middle of a frame, as after a loss of power in a write.
pub(super) async fn torn_log(house: &House) -> Result<String> {
    let settings = Settings {
        lease_ttl: 30,
        checking_window: 30,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 6);
    let mut world = World::new(house, "crash_torn_log", settings, &addresses, &[]).await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    let log = world.dir().join("control-api.db-wal");
    for (address, n) in addresses.iter().zip(1..=3_usize) {
        in_state(&world, *address, "checking").await?;
        world.kill_control().await?;
        // A frame begun: its header and a part of its page, of what stands there already.
        let written = fs::read(&log).with_context(|| format!("{}", log.display()))?;
        let torn = written.get(32..32 + 24 + 700 * n).unwrap_or_default();
        let mut file = fs::File::options().append(true).open(&log)?;
        file.write_all(torn)?;
        world.start_control().await?;
    }
    world.all_ended(SOON * 2).await?;
    world.demand(&all_are(&addresses, "pass")).await?;
    let n = nothing_lost(&world).await?;
    world.close(&EXPECTED).await?;
    Ok(format!("{n} acknowledged results all there"))
}
