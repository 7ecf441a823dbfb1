//! Owns the run against a real Keystone and Neutron: the suite of the product's client, stories
//! with the whole product, and a comparison of Neutron with its simulation.

mod cast;
mod ground;
mod lab;
mod pair;
mod proxy;
mod rest;
mod rig;
mod router;
mod stories;

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};

use cast::Scene;
use lab::Lab;
use pair::Pair;
use proxy::Proxy;
use rig::Real;

use crate::report::{Report, Row, Verdict, say};
use crate::world::House;

/// No story and no test may take longer.
const LIMIT: Duration = Duration::from_secs(180);

/// What can be chosen.
#[derive(Debug)]
pub(crate) struct Options {
    /// `lab.py`.
    pub(crate) script: PathBuf,
    /// Everything of the lab lies below.
    pub(crate) dir: PathBuf,
    /// Only what has one of these in its name; empty: all.
    pub(crate) only: Vec<String>,
    /// How many random calls are compared.
    pub(crate) calls: u32,
}

/// The comparison with the simulation.
const SAME: &str = "same_as_simulated";

type Told<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

macro_rules! suite {
    ($($name:ident)*) => {
        /// The tests of the client's suite.
        const SUITE: &[(&str, for<'a> fn(&'a Real) -> Pin<Box<dyn Future<Output = ()> + 'a>>)] =
            &[$((stringify!($name), |rig| Box::pin(civ_suite::$name(rig)))),*];
    };
}

civ_suite::with_tests!(suite);

type Story = (&'static str, for<'a> fn(&'a Scene<'a>) -> Told<'a>);

const STORIES: &[Story] = &[
    ("happy_path", |scene| Box::pin(stories::happy_path(scene))),
    ("occupied", |scene| Box::pin(stories::occupied(scene))),
    ("race", |scene| Box::pin(stories::race(scene))),
    ("lost_answer", |scene| Box::pin(stories::lost_answer(scene))),
    ("token_revoked", |scene| {
        Box::pin(stories::token_revoked(scene))
    }),
    ("token_expiry", |scene| {
        Box::pin(stories::token_expiry(scene))
    }),
    ("scan", |scene| Box::pin(stories::scan(scene))),
];

/// Rows as they come.
struct Playing<'a> {
    options: &'a Options,
    report: Report,
}

impl Playing<'_> {
    fn wants(&self, name: &str) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
    }

    async fn play(&mut self, name: &str, story: impl Future<Output = Result<String>>) {
        self.play_within(LIMIT, name, story).await;
    }

    async fn play_within(
        &mut self,
        limit: Duration,
        name: &str,
        story: impl Future<Output = Result<String>>,
    ) {
        let begun = Instant::now();
        let verdict = match timeout(limit, AssertUnwindSafe(story).catch_unwind()).await {
            Ok(Ok(Ok(remark))) => Verdict::Passed(remark),
            Ok(Ok(Err(error))) => Verdict::Failed(format!("{error:#}")),
            Ok(Err(panic)) => Verdict::Failed(words(panic.as_ref())),
            Err(_) => Verdict::Failed(format!("not over after {limit:?}")),
        };
        let row = Row {
            name: name.to_owned(),
            verdict,
            took: begun.elapsed(),
        };
        say(row.line());
        self.report.add(row);
    }
}

/// What a panic said; where it was stands on standard error.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

/// Starts the lab, plays everything, ends the lab; whether all passed.
///
/// # Errors
///
/// When the lab does not start or end, or the report cannot be written.
pub(crate) async fn run(house: &House, options: &Options, junit: &Path) -> Result<bool> {
    let network = Arc::new(Proxy::listen().await?);
    let lab = Lab::start(&options.script, &options.dir, &network.url).await?;
    let facts = &lab.facts;
    network.lead_to(&facts.network_url)?;
    let (identity, brief) = (Proxy::listen().await?, Proxy::listen().await?);
    for (proxy, url) in [
        (&identity, &facts.auth_url),
        (&brief, &facts.brief_auth_url),
    ] {
        let keystone = url.strip_suffix("/v3");
        proxy.lead_to(keystone.context("Keystone's address does not end in /v3")?)?;
    }
    let mut playing = Playing {
        options,
        report: Report::with_note(format!("Keystone and Neutron on {}", facts.database)),
    };
    let wants_suite = SUITE
        .iter()
        .any(|(name, _)| playing.wants(&suite_name(name)));
    if wants_suite {
        play_suite(
            &mut playing,
            &Real::new(facts, Arc::clone(&network)).await?,
            facts,
        )
        .await?;
    }
    if STORIES.iter().any(|(name, _)| playing.wants(name)) {
        let proxies = [Arc::new(identity), Arc::new(brief), network];
        let scene = Scene::new(house, facts, proxies).await?;
        for (name, story) in STORIES {
            if playing.wants(name) {
                playing.play(name, story(&scene)).await;
            }
        }
    }
    if playing.wants(SAME) {
        let pair = Pair::new(facts).await?;
        let story = pair.compare(house.seed, options.calls);
        let limit = LIMIT + Duration::from_secs(options.calls.into());
        playing.play_within(limit, SAME, story).await;
    }
    lab.end().await?;
    let report = playing.report;
    report.write_junit(junit)?;
    say(report.table().trim_end());
    if report.is_empty() {
        bail!("nothing is called {:?}", options.only);
    }
    Ok(report.all_passed())
}

fn suite_name(name: &str) -> String {
    format!("suite::{name}")
}

async fn play_suite(playing: &mut Playing<'_>, rig: &Real, facts: &lab::Facts) -> Result<()> {
    for (name, test) in SUITE {
        let name = suite_name(name);
        if playing.wants(&name) {
            let story = async {
                // Revisions change by the tests alone.
                facts.status_after(None)?;
                rig.reset().await?;
                test(rig).await;
                rig.demand_all_met()?;
                Ok(String::new())
            };
            playing.play(&name, story).await;
        }
    }
    Ok(())
}
