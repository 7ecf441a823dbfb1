//! Owns the comparison of the real Neutron with its simulation: the same random calls go into both,
//! and statuses, error types and what is there afterwards must be the same. Calls that show a
//! difference are made fewer until they are the fewest, and printed.

mod side;
mod step;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_cloudsim::{FipSetup, NoDataPlane, OtherProject, PortSetup, Role, Setup, Sim, UserSetup};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::side::{Names, Side};
use self::step::{Step, throw};
use super::ground::Ground;
use super::lab::Facts;
use super::rest::{Rest, text};
use crate::chance::Chance;
use crate::report::say;

/// The project and its user.
const NAME: &str = "pair";
/// Its floating addresses.
const OUTSIDE: &str = "198.19.2.0/24";
const FIRST: [Ipv4Addr; 3] = [
    Ipv4Addr::new(198, 19, 2, 10),
    Ipv4Addr::new(198, 19, 2, 11),
    Ipv4Addr::new(198, 19, 2, 12),
];
/// Another project's floating address in the simulation.
const FOREIGN: Ipv4Addr = Ipv4Addr::new(198, 19, 2, 200);
/// Calls from a fresh state on.
const SEQUENCE: u32 = 30;
/// After so many differences no more are looked for.
const DIFFERENCES_MAX: usize = 3;
/// How long the calls that show a difference are made fewer.
const SHRINK_LIMIT: Duration = Duration::from_secs(20);

/// Both clouds.
pub(crate) struct Pair {
    ground: Ground,
    setup: Setup,
    names: Names,
}

/// A floating IP's or port's fixed address, and the port's name.
const ROUTED: [(&str, u8); 3] = [("pair-1", 11), ("pair-2", 12), ("pair-3", 13)];

fn fixed(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 92, 0, last)
}

impl Pair {
    /// Lays the ground in the real cloud; the simulated one is made anew for each sequence.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn new(facts: &Facts) -> Result<Self> {
        // Revisions change by the calls alone.
        facts.status_after(None)?;
        let ground = Ground::make(facts, NAME, &[OUTSIDE.to_owned()], "10.92.0.0/24").await?;
        let wanted = ROUTED.map(|(name, last)| (name.to_owned(), fixed(last)));
        let ports = ground.ports(&wanted).await?;
        let routed = ROUTED.map(|(name, _)| ports[name].clone());
        let two = ground
            .port_with_two("pair-two", [fixed(21), fixed(22)])
            .await?;
        let lonely = ground
            .port_without_way("pair-lonely", "10.93.0.0/24")
            .await?;
        let names = Names {
            routed,
            unrouted: lonely,
            two_addresses: two,
            first_of_two: fixed(21).to_string(),
            foreign_port: facts.foreign_port.clone(),
            foreign_fip: facts.foreign_floating_ip.clone(),
            network: ground.external.clone(),
        };
        let setup = simulated(&names);
        Ok(Self {
            ground,
            setup,
            names,
        })
    }

    /// Throws at least `calls` calls, in sequences; returns what there is to tell.
    ///
    /// # Errors
    ///
    /// With the fewest calls that show a difference.
    pub(crate) async fn compare(&self, seed: u64, calls: u32) -> Result<String> {
        let mut chance = Chance::new(seed);
        let (mut sequences, mut made, mut found) = (0, 0, Vec::<String>::new());
        while made < calls && found.len() < DIFFERENCES_MAX {
            let steps: Vec<Step> = (0..SEQUENCE).map(|_| throw(&mut chance)).collect();
            if let Some(difference) = self.play(&steps).await? {
                let (steps, difference) = self.shrink(steps, difference).await?;
                let lines: Vec<_> = steps.iter().map(|step| format!("{step:?}")).collect();
                let text = format!("{}\n{}", lines.join("\n"), difference.text);
                // At once: a long run may be broken off.
                say(&text);
                found.push(text);
            }
            sequences += 1;
            made += SEQUENCE;
        }
        if !found.is_empty() {
            bail!("seed {seed}, in {made} calls:\n{}", found.join("\n"));
        }
        Ok(format!(
            "{made} calls in {sequences} sequences, seed {seed}"
        ))
    }

    /// Carries the steps out in both clouds, from the same state on; the first difference.
    async fn play(&self, steps: &[Step]) -> Result<Option<Difference>> {
        self.ground.floating_ips(&[]).await?;
        self.ground.floating_ips(&FIRST).await?;
        let first = FIRST.map(|address| address.to_string());
        let real = self.ground.rest.clone();
        let mut real = Side::new(real, self.names.clone(), &first).await?;
        let (_serving, rest, names) = self.simulate().await?;
        let mut sim = Side::new(rest, names, &first).await?;
        for (at, step) in steps.iter().enumerate() {
            let (really, simulated) = (real.play(step).await?, sim.play(step).await?);
            let differs = |what: &str, really: &str, simulated: &str| {
                let text = format!("{what}\n  really    {really}\n  simulated {simulated}");
                Ok(Some(Difference { at, text }))
            };
            if really.answer != simulated.answer {
                return differs("other answers:", &really.answer, &simulated.answer);
            }
            if really.seen != simulated.seen {
                return differs("other answers:", &really.seen, &simulated.seen);
            }
            let (really, simulated) = (real.state().await?, sim.state().await?);
            if really != simulated {
                let (really, simulated) = (really.join("\n    "), simulated.join("\n    "));
                return differs("another state afterwards:", &really, &simulated);
            }
        }
        Ok(None)
    }

    /// Takes steps away as long as a difference remains and time does.
    async fn shrink(
        &self,
        mut steps: Vec<Step>,
        mut found: Difference,
    ) -> Result<(Vec<Step>, Difference)> {
        let end = Instant::now() + SHRINK_LIMIT;
        steps.truncate(found.at + 1);
        let mut width = steps.len().div_ceil(2);
        while width > 0 {
            let mut from = 0;
            while from + 1 < steps.len() && Instant::now() < end {
                let last = (from + width).min(steps.len() - 1);
                let mut fewer = steps.clone();
                fewer.drain(from..last);
                match self.play(&fewer).await? {
                    Some(difference) => {
                        fewer.truncate(difference.at + 1);
                        (steps, found) = (fewer, difference);
                    }
                    None => from = last,
                }
            }
            width /= 2;
        }
        Ok((steps, found))
    }

    async fn simulate(&self) -> Result<(JoinSet<std::io::Result<()>>, Rest, Names)> {
        let sim = Sim::new(self.setup.clone(), Arc::new(NoDataPlane))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut serving = JoinSet::new();
        serving.spawn(sim.serve(listener));
        let Setup {
            username,
            password,
            project,
            ..
        } = &self.setup;
        let auth_url = format!("{url}/v3");
        let rest = Rest::login_at(&auth_url, &url, username, password, project).await?;
        let admin = Rest::login_at(&auth_url, &url, "admin", password, "other").await?;
        let query = format!("floating_ip_address={FOREIGN}");
        let foreign = admin.all("floatingips", &query).await?;
        let foreign = foreign.first().context("no foreign floating IP")?;
        let names = Names {
            foreign_fip: text(foreign, "id").to_owned(),
            ..self.names.clone()
        };
        Ok((serving, rest, names))
    }
}

struct Difference {
    /// The step that showed it.
    at: usize,
    text: String,
}

/// The simulated cloud with the real one's ports.
fn simulated(names: &Names) -> Setup {
    let port = |id: &String, last: u8| PortSetup {
        id: id.clone(),
        fixed_ip: IpAddr::V4(fixed(last)),
        ours: true,
    };
    let mut ports: Vec<_> = names
        .routed
        .iter()
        .zip(ROUTED)
        .map(|(id, (_, last))| port(id, last))
        .collect();
    ports.push(port(&names.two_addresses, 21));
    ports.push(port(&names.unrouted, 31));
    let fip = |address| FipSetup {
        address: IpAddr::V4(address),
        port: None,
        forwarded: false,
    };
    let other = OtherProject {
        name: "other".to_owned(),
        ports: vec![port(&names.foreign_port, 41)],
        fips: vec![fip(FOREIGN)],
        fip_quota: None,
    };
    let admin = UserSetup {
        name: "admin".to_owned(),
        password: Setup::default().password,
        project: "other".to_owned(),
        role: Role::Admin,
    };
    Setup {
        others: vec![other],
        users: vec![admin],
        ports,
        unrouted_ports: vec![names.unrouted.clone()],
        two_address_ports: vec![names.two_addresses.clone()],
        fips: FIRST.into_iter().map(fip).collect(),
        network_id: names.network.clone(),
        status_delay: None,
        ..Setup::default()
    }
}
