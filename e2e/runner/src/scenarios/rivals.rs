//! Two clients add, cancel, delete and clear the same twelve addresses for a minute, while agents
//! and probers work on them.
//!
//! Every 200 is true by the history, and afterwards all twelve pass as if nothing had been.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_proto::admin::Addresses;
use civ_proto::read_model::Event;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::chance::Chance;
use crate::ledger::{self, Write};
use crate::listener::Listener;
use crate::scenarios::{SOON, all_are, floats};
use crate::settings::Settings;
use crate::waiting::found;
use crate::world::{House, World};

const DURATION: Duration = Duration::from_secs(60);
const ADDRESSES: u8 = 12;
/// Between two calls of a client, in milliseconds: so that some checks come to their end.
const PAUSE_MS: std::ops::Range<u64> = 0..120;
/// Administrative events of the queue.
const ADMINISTRATIVE: &[&str] = &[
    "admin_ips_enqueued",
    "admin_ip_cancelled",
    "admin_ip_deleted",
    "admin_ips_deleted",
    "queue_cleared",
];

pub(super) async fn play(house: &House) -> Result<String> {
    let addresses = floats(house.stage.plan(), ADDRESSES);
    let listener = Listener::new(house.stage.plan().mgmt).await?;
    let settings = Settings {
        notify: Some((listener.address(), ADMINISTRATIVE)),
        ..Settings::default()
    };
    let mut world = World::new(house, "rivals", settings, &addresses, &[]).await?;
    world.start().await?;
    let seed = format!("seed {}", house.seed);
    let told = compete(&world, &listener, &addresses, house.seed)
        .await
        .with_context(|| seed.clone())?;
    world.close(&[]).await.with_context(|| seed.clone())?;
    Ok(format!("{told}\n{seed}"))
}

async fn compete(
    world: &World,
    listener: &Listener,
    addresses: &[Ipv4Addr],
    seed: u64,
) -> Result<String> {
    let end = Instant::now() + DURATION;
    let mut one = Client::new(world, addresses, seed);
    let mut two = Client::new(world, addresses, !seed);
    tokio::try_join!(one.play(end), two.play(end))?;
    one.call(Call::Clear).await?;
    found(
        "nothing is attached after the last clear",
        SOON,
        async || Ok(world.attached().is_empty().then_some(())),
    )
    .await?;
    // The history of an address is to be had while it is in the queue, and all must be well again.
    one.call(Call::Enqueue(one.addresses.clone())).await?;
    world.all_ended(SOON).await?;
    world.demand(&all_are(addresses, "pass")).await?;

    let answered = [one.answered, two.answered].concat();
    found("every write was notified", SOON, async || {
        Ok((listener.kept().len() >= answered.len()).then_some(()))
    })
    .await?;
    let mut events = Vec::new();
    for address in addresses {
        events.extend(world.api.details(&address.to_string()).await?.events);
    }
    let faults = ledger::faults(&answered, &listener.kept(), &events);
    if !faults.is_empty() {
        bail!("answers and history differ: {}", faults.join("\n"));
    }
    let mut counts = one.counts;
    for (call, n) in two.counts {
        *counts.entry(call).or_default() += n;
    }
    remark(&counts, &events)
}

/// What happened, and whether it was a contest at all.
fn remark(counts: &BTreeMap<(&str, u16), u32>, events: &[Event]) -> Result<String> {
    for needed in [
        ("add", 200),
        ("cancel", 200),
        ("delete", 200),
        ("delete list", 200),
        ("clear", 200),
    ] {
        if !counts.contains_key(&needed) {
            bail!("no call of the kind {needed:?}: {counts:?}");
        }
    }
    let mut text = String::new();
    for ((call, status), n) in counts {
        write!(text, "{call} {status}: {n}, ")?;
    }
    for kind in [
        "claimed",
        "fip_associated",
        "checking_started",
        "aggregated",
    ] {
        let n = events.iter().filter(|e| e.event_type == kind).count();
        // The last round alone has one of each for every address.
        if n <= usize::from(ADDRESSES) {
            bail!("only {n} events {kind}: the clients left agents and probers no work");
        }
        write!(text, "{kind} {n}, ")?;
    }
    Ok(text.trim_end_matches(", ").to_owned())
}

/// A write to the queue.
enum Call {
    Enqueue(Vec<String>),
    Cancel(String),
    Delete(String),
    DeleteList(Vec<String>),
    Clear,
}

/// One of the two: it throws its own dice and keeps what it was answered.
struct Client {
    api: Api,
    addresses: Vec<String>,
    chance: Chance,
    answered: Vec<Write>,
    counts: BTreeMap<(&'static str, u16), u32>,
}

impl Client {
    fn new(world: &World, addresses: &[Ipv4Addr], seed: u64) -> Self {
        Self {
            api: world.api.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            chance: Chance::new(seed),
            answered: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    async fn play(&mut self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            let call = self.throw();
            self.call(call).await?;
            sleep(Duration::from_millis(self.chance.pick(PAUSE_MS))).await;
        }
        Ok(())
    }

    fn throw(&mut self) -> Call {
        match self.chance.pick(0..100) {
            0..45 => Call::Enqueue(self.some(u64::from(ADDRESSES))),
            45..70 => Call::Cancel(self.some(1).concat()),
            70..86 => Call::Delete(self.some(1).concat()),
            86..97 => Call::DeleteList(self.some(4)),
            _ => Call::Clear,
        }
    }

    /// From 1 to `max` of the addresses, each once, in any order.
    fn some(&mut self, max: u64) -> Vec<String> {
        let mut rest = self.addresses.clone();
        let n = self.chance.pick(1..max + 1);
        let mut picked = Vec::new();
        while picked.len() as u64 != n && !rest.is_empty() {
            let at = self.chance.pick(0..rest.len() as u64);
            picked.push(rest.swap_remove(usize::try_from(at).unwrap_or(0)));
        }
        picked
    }

    async fn call(&mut self, call: Call) -> Result<()> {
        match call {
            Call::Enqueue(list) => {
                let answer = self.ask(("add", Method::POST, ""), &[200], Some(&list));
                if let Some(answer) = answer.await? {
                    let four = ["added", "requeued", "reordered", "skipped_in_progress"];
                    demand_each_once(&answer, &list, &four)?;
                    self.keep(Write::answered("admin_ips_enqueued", &answer));
                }
            }
            Call::Cancel(address) => {
                let path = format!("/{address}/cancel");
                let question = ("cancel", Method::POST, path.as_str());
                if self.ask(question, &[200, 404, 409], None).await?.is_some() {
                    self.keep(Write::one("admin_ip_cancelled", &address));
                }
            }
            Call::Delete(address) => {
                let path = format!("/{address}");
                let question = ("delete", Method::DELETE, path.as_str());
                if self.ask(question, &[200, 404], None).await?.is_some() {
                    self.keep(Write::one("admin_ip_deleted", &address));
                }
            }
            Call::DeleteList(list) => {
                let question = ("delete list", Method::POST, "/delete");
                if let Some(answer) = self.ask(question, &[200], Some(&list)).await? {
                    demand_each_once(&answer, &list, &["deleted", "not_found"])?;
                    self.keep(Write::answered("admin_ips_deleted", &answer));
                }
            }
            Call::Clear => {
                let question = ("clear", Method::POST, "/clear");
                if let Some(answer) = self.ask(question, &[200], None).await? {
                    self.keep(Write::answered("queue_cleared", &answer));
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, write: Write) {
        self.answered.push(write);
    }

    /// The answer, if it is 200; `allowed` are the statuses that the contract has for the call.
    async fn ask(
        &mut self,
        (name, method, path): (&'static str, Method, &str),
        allowed: &[u16],
        list: Option<&[String]>,
    ) -> Result<Option<Value>> {
        let body = list.map(|list| Addresses {
            addresses: list.to_vec(),
        });
        let told = self.api.told(method, path, body.as_ref()).await;
        let (status, answer) = told.with_context(|| format!("{name} {path}"))?;
        if !allowed.contains(&status.as_u16()) {
            bail!("{name} {path} was answered {status} {answer}");
        }
        *self.counts.entry((name, status.as_u16())).or_default() += 1;
        Ok((status == StatusCode::OK).then_some(answer))
    }
}

/// The lists of the answer have every address of the question exactly once, and no other.
fn demand_each_once(answer: &Value, asked: &[String], lists: &[&str]) -> Result<()> {
    let mut named = Vec::new();
    for list in lists {
        let list = answer.get(list).and_then(Value::as_array);
        named.extend(list.with_context(|| format!("a list is missing: {answer}"))?);
    }
    let mut asked: Vec<Value> = asked.iter().map(|address| json!(address)).collect();
    named.sort_by_key(|address| address.to_string());
    asked.sort_by_key(ToString::to_string);
    if !named.iter().copied().eq(asked.iter()) {
        bail!("{asked:?} were asked for, and the answer is {answer}");
    }
    Ok(())
}
