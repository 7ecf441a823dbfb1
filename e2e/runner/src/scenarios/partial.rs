//! One port of one address is blocked on its way in: that address is `partial`, the other passes.

use anyhow::{Result, bail};

use crate::scenarios::{SOON, floats};
use crate::settings::Settings;
use crate::stage::fault::Fault;
use crate::world::{House, World};

pub(super) async fn play(house: &House) -> Result<String> {
    let plan = house.stage.plan();
    let addresses = floats(plan, 2);
    let [blocked, healthy] = [addresses[0], addresses[1]];
    let port = plan.ports[3];
    let mut world = World::new(house, "partial", Settings::default(), &addresses, &[]).await?;
    let fault = Fault::InboundPort {
        floating: blocked,
        port,
    };
    world.stage.break_with(&fault).await?;
    world.start().await?;
    world.api.enqueue(&addresses).await?;
    world.all_ended(SOON).await?;
    world
        .demand(&[(blocked, "partial"), (healthy, "pass")])
        .await?;
    let details = world.api.details(&blocked.to_string()).await?;
    let mut failed: Vec<String> = details
        .checks
        .iter()
        .filter(|check| !check.success)
        .map(|check| {
            let site = check.site_id.as_deref().unwrap_or("egress");
            format!("{site} {}", check.check_type)
        })
        .collect();
    failed.sort();
    let expected = [format!("site-1 tcp-{port}"), format!("site-2 tcp-{port}")];
    if failed != expected {
        bail!("{failed:?} failed, and not {expected:?}");
    }
    world.close(&[]).await?;
    Ok(format!(
        "port {port} blocked: failed from both sites, nothing else"
    ))
}
