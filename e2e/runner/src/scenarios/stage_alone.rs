//! The stage without the product: packets flow with an association and stop with its end.
//!
//! When this fails, the others say nothing about the product.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use civ_types::{Clock as _, SystemClock};

use crate::flows::Flows;
use crate::scenarios::floats;
use crate::stage::Stage;
use crate::stage::fault::Ways;
use crate::stage::netns::{EDGE_WAN, Rights};
use crate::stage::plan::Place;
use crate::stage::tool;
use crate::world::House;

pub(super) async fn play(house: &House) -> Result<String> {
    let dir = house.out.join("stage_alone");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let stage = house.stage.as_ref();
    let plan = stage.plan();
    let (floating, first, second) = (floats(plan, 1)[0], plan.fixed(1), plan.fixed(2));
    demand(&outside_address(house, 1).await?, EDGE_WAN)?;
    stage.associate(floating, first, Ways::Both).await?;
    demand(&outside_address(house, 1).await?, &floating.to_string())?;
    let url = format!("https://{floating}/");
    demand(&curl(stage, Place::Site(1), &["-k", &url]).await?, "vm-1")?;
    let ourselves = house.bin.join("civ-e2e");
    let flows = Flows::start(stage, &ourselves, floating, &dir).await?;
    stage.disassociate(floating, first).await?;
    let told = flows.demand_cut(SystemClock.now()).await?;
    demand(&outside_address(house, 1).await?, EDGE_WAN)?;
    stage.associate(floating, second, Ways::Both).await?;
    demand(&curl(stage, Place::Site(2), &["-k", &url]).await?, "vm-2")?;
    stage.disassociate(floating, second).await?;
    Ok(told)
}

/// How a VM looks from outside, by the IP-echo service and with its certificate judged.
async fn outside_address(house: &House, vm: u8) -> Result<String> {
    let stage = house.stage.as_ref();
    let ca = stage.ca_file().to_string_lossy().into_owned();
    let url = &stage.plan().echo_urls[0];
    curl(stage, Place::Vm(vm), &["--cacert", &ca, url]).await
}

async fn curl(stage: &dyn Stage, place: Place, args: &[&str]) -> Result<String> {
    let mut curl = stage.command(place, Rights::Service, Path::new("curl"));
    curl.args(["-sS", "--max-time", "5"]).args(args);
    tool::feed(&mut curl, "").await
}

fn demand(said: &str, expected: &str) -> Result<()> {
    if said.trim() != expected {
        bail!("{said:?} was answered, and not {expected:?}");
    }
    Ok(())
}
