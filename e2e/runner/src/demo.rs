//! Owns the demonstration: the same stage, left running, fed with work, seen in a browser.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use civ_cloudsim::{Action, Match, Rule, WriteKind};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::audit::is_terminal;
use crate::report::say;
use crate::scenarios::floats;
use crate::settings::Settings;
use crate::stage::fault::Fault;
use crate::world::{House, World};

/// Between two looks at the queue.
const FEED: Duration = Duration::from_millis(300);
/// With fewer addresses waiting, another one is enqueued.
const FEW: usize = 4;

/// Runs until SIGINT or SIGTERM. `listener` accepts outside of the stage.
///
/// # Errors
///
/// When a process of the stage does not start, or control-api stops to answer.
pub(crate) async fn run(house: &House, listener: std::net::TcpListener) -> Result<()> {
    let settings = Settings {
        tokens: false,
        settle: 1,
        self_check_retries: 1,
        ..Settings::default()
    };
    let addresses = floats(house.stage.plan(), 24);
    let (bound, free) = addresses.split_at(2);
    let mut world = World::new(house, "demo", settings, free, bound).await?;
    break_some(&world, &addresses).await?;
    world.start().await?;
    let listener = TcpListener::from_std(listener)?;
    let url = listener.local_addr()?;
    let control = world.settings.control_address(house.stage.plan());
    say(format!(
        "{} validators and {} sites check 24 floating addresses of a simulated cloud over and \
         over, with real packets: most pass, two have a blocked port, one never carries packets, \
         two belong to somebody else.\nOpen http://{url}/ and stop with Ctrl-C.",
        world.settings.validators, world.settings.sites,
    ));
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::select! {
        fed = feed(&world, &addresses) => fed?,
        () = relay(listener, control) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    say("The stage is taken down.");
    Ok(())
}

async fn break_some(world: &World, addresses: &[Ipv4Addr]) -> Result<()> {
    for (n, port) in [
        (5, world.stage.plan().ports[3]),
        (11, world.stage.plan().ports[1]),
    ] {
        let floating = *addresses.get(n).context("too few addresses")?;
        let fault = Fault::InboundPort { floating, port };
        world.stage.break_with(&fault).await?;
    }
    world.sim.add_rule(Rule {
        name: "packets never flow".to_owned(),
        matches: Match {
            address: addresses.get(8).map(|address| IpAddr::V4(*address)),
            write: Some(WriteKind::Associate),
            ..Match::default()
        },
        action: Action::PlaneNever,
    });
    Ok(())
}

/// Enqueues all once, and then, whenever few are waiting, the one that has rested longest.
async fn feed(world: &World, addresses: &[Ipv4Addr]) -> Result<()> {
    world.api.enqueue(addresses).await?;
    loop {
        sleep(FEED).await;
        let queue = world.api.queue().await?;
        let waiting = queue.iter().filter(|ip| ip.state == "queued").count();
        let rested = queue
            .iter()
            .filter(|ip| is_terminal(ip))
            .min_by(|a, b| a.updated_at.cmp(&b.updated_at));
        if let Some(ip) = rested.filter(|_| waiting < FEW) {
            world.api.enqueue(&[ip.ip_address.parse()?]).await?;
        }
    }
}

/// Carries connections from the host's loopback into the stage.
async fn relay(listener: TcpListener, control: SocketAddr) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut outside, _)) = accepted else { continue };
                open.spawn(async move {
                    if let Ok(mut inside) = TcpStream::connect(control).await {
                        // Whichever side ends it: nothing is left to be done.
                        drop(copy_bidirectional(&mut outside, &mut inside).await);
                    }
                });
            }
            Some(_) = open.join_next() => {}
        }
    }
}
