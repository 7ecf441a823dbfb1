//! The address is free when we read it, and somebody else's a moment later.
//!
//! Three moments: before our write (the cloud answers 412), before it and unseen by the cloud
//! (the revision jumps by two), and between our write and our reading back.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, bail};
use civ_cloudsim::{Action, Match, Rule};

use crate::scenarios::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::world::{House, World, foreign_port};

pub(super) async fn play(house: &House) -> Result<String> {
    let addresses = floats(house.stage.plan(), 3);
    let [refused, unseen, taken] = [addresses[0], addresses[1], addresses[2]];
    let name = "occupied_race";
    let mut world = World::new(house, name, Settings::default(), &addresses, &[]).await?;
    let [first, second, third] = [1, 2, 3].map(foreign_port);
    race(
        &world,
        refused,
        Action::TakeBefore {
            port: first.clone(),
        },
    );
    race(&world, unseen, Action::TakeBeforeUnseen { port: second });
    race(
        &world,
        taken,
        Action::TakeAfter {
            port: third.clone(),
        },
    );
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    world.demand(&all_are(&addresses, "occupied")).await?;
    for (address, port) in [(refused, first), (taken, third)] {
        world.demand_port(address, Some(&port))?;
        let writes = world.writes_to(address);
        let answered: Vec<_> = writes.iter().filter(|call| call.status == 200).collect();
        let allowed = usize::from(address == taken);
        if answered.len() > allowed {
            bail!("we wrote to {address} after it was somebody else's: {writes:?}");
        }
    }
    demand_conflict(&world, unseen).await?;
    demand_conflict(&world, taken).await?;
    world.close(&[]).await?;
    Ok("412, an unseen move, and a move before the read-back".to_owned())
}

fn race(world: &World, address: Ipv4Addr, action: Action) {
    world.sim.add_rule(Rule {
        name: format!("somebody else takes {address}"),
        matches: Match::next_association(IpAddr::V4(address)),
        action,
    });
}

async fn demand_conflict(world: &World, address: Ipv4Addr) -> Result<()> {
    let details = world.api.details(&address.to_string()).await?;
    let mut events = details.events.iter();
    let told = events.any(|e| e.event_type == "fip_conflict" && e.severity == "error");
    if !told {
        bail!("{address} was lost to somebody else and no fip_conflict of severity error tells it");
    }
    Ok(())
}
