//! civ-sim: the product under random stories, each repeatable from its seed.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for tests: what cannot be ends it, and its report is its output"
)]

mod actors;
mod clock;
mod cloud;
mod coverage;
mod operators;
#[cfg(feature = "planted-faults")]
mod planted;
mod probers;
mod product;
mod rules;
mod run;
mod shrink;
mod story;
mod verdict;
mod view;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::bail;
use civ_control_api::config::Settings;
use clap::{Parser, Subcommand};

use run::{Outcome, run};
use story::Story;
use world::Violation;

/// From so many stories on everything has to be reached.
const COVERS: u64 = 5_000;

/// Every so many stories one is told twice, and must be the same.
const TWICE: u64 = 250;

/// Failures that are made shorter and printed; more would hide them.
const SHOWN: usize = 3;

#[derive(Debug, Parser)]
#[command(name = "civ-sim", about = "The product under random stories")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a story for each seed.
    Run {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Prints what was reached.
        #[arg(long)]
        reached: bool,
    },
    /// Tells the story of a seed, line by line.
    Replay {
        /// Which one.
        seed: u64,
        /// Makes it shorter before.
        #[arg(long)]
        shrink: bool,
    },
    /// Plants every fault, one at a time, and looks how many seeds it takes to find it.
    #[cfg(feature = "planted-faults")]
    Planted {
        /// Seeds within which it must be found.
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
        /// Prints the shortest story of each.
        #[arg(long)]
        stories: bool,
    },
    /// Plants one fault and tells the story of a seed.
    #[cfg(feature = "planted-faults")]
    ReplayPlanted {
        /// Its name.
        fault: String,
        /// Which one.
        seed: u64,
        /// Makes it shorter before.
        #[arg(long)]
        shrink: bool,
    },
}

/// What many stories came to.
#[derive(Debug, Default)]
struct Sum {
    told: u64,
    reached: BTreeMap<String, u64>,
    broken: Vec<(u64, Violation)>,
}

fn two_are_one(story: &Story, settings: &Settings, outcome: &mut Outcome) {
    let (one, other) = (run(story, settings, true), run(story, settings, true));
    if one.journal != other.journal {
        outcome.violation.get_or_insert(Violation {
            rule: "repeatable",
            text: "the same story was told in two ways".to_owned(),
        });
    }
}

/// Tells the stories of many seeds, on as many threads as there are processors; each story is told
/// by one.
fn tell(from: u64, seeds: u64, settings: &Settings, stop_at: usize) -> Sum {
    let next = AtomicU64::new(from);
    let sum = Mutex::new(Sum::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut own = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if from + seeds <= seed {
                break;
            }
            let story = Story::of(seed);
            let mut outcome = run(&story, settings, false);
            if seed.is_multiple_of(TWICE) {
                two_are_one(&story, settings, &mut outcome);
            }
            own.told += 1;
            for (what, n) in outcome.reached {
                *own.reached.entry(what).or_default() += n;
            }
            if let Some(violation) = outcome.violation {
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.broken.push((seed, violation));
                if stop_at <= sum.broken.len() {
                    next.store(from + seeds, Ordering::Relaxed);
                }
            }
        }
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.told += own.told;
        for (what, n) in own.reached {
            *sum.reached.entry(what).or_default() += n;
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.broken.sort_by_key(|(seed, _)| *seed);
    sum
}

/// Prints a story, as short as it gets, and what happens in it.
fn show(story: &Story, violation: &Violation, settings: &Settings, is_short: bool) {
    println!(
        "seed {}: rule {}: {}",
        story.seed, violation.rule, violation.text
    );
    let (story, outcome) = if is_short {
        shrink::shrink(story, violation.rule, settings)
    } else {
        (story.clone(), run(story, settings, true))
    };
    println!("the story, with {:?}:", story.ground);
    story.steps.iter().for_each(|step| println!("  {step}"));
    println!("what happened:");
    outcome.journal.iter().for_each(|line| println!("  {line}"));
}

fn run_many(from: u64, seeds: u64, reached: bool, settings: &Settings) -> anyhow::Result<()> {
    let began = Instant::now();
    let sum = tell(from, seeds, settings, usize::MAX);
    if reached {
        for (what, n) in &sum.reached {
            println!("{n:>12}  {what}");
        }
    }
    for (seed, violation) in sum.broken.iter().take(SHOWN) {
        show(&Story::of(*seed), violation, settings, true);
        println!("again: civ-sim replay {seed} (--shrink)");
    }
    for (seed, violation) in sum.broken.iter().skip(SHOWN) {
        println!("seed {seed}: rule {}: {}", violation.rule, violation.text);
    }
    let missing = if COVERS <= seeds {
        coverage::missing(&sum.reached)
    } else {
        Vec::new()
    };
    for one in &missing {
        println!("never reached: {one}");
    }
    let failed = sum.broken.len() as u64;
    println!(
        "{} stories in {:.1} s, {} of {} things reached",
        sum.told,
        began.elapsed().as_secs_f64(),
        coverage::wanted().len() - coverage::missing(&sum.reached).len(),
        coverage::wanted().len()
    );
    let faults = failed + missing.len() as u64;
    println!("{} passed, {faults} failed", sum.told - failed);
    if faults > 0 {
        bail!(
            "{failed} stories broke a rule, {} things were never reached",
            missing.len()
        );
    }
    Ok(())
}

fn replay(seed: u64, is_short: bool, settings: &Settings) -> anyhow::Result<()> {
    let story = Story::of(seed);
    let outcome = run(&story, settings, true);
    match outcome.violation {
        Some(violation) => {
            show(&story, &violation, settings, is_short);
            bail!("rule {} is broken", violation.rule)
        }
        None => {
            outcome.journal.iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: no rule is broken");
            Ok(())
        }
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let settings = product::settings()?;
    // A panic is caught and told as the rule that it breaks.
    std::panic::set_hook(Box::new(|_| {}));
    match args.command {
        Command::Run {
            seeds,
            from,
            reached,
        } => run_many(from, seeds, reached, &settings),
        Command::Replay { seed, shrink } => replay(seed, shrink, &settings),
        #[cfg(feature = "planted-faults")]
        Command::Planted {
            seeds,
            only,
            stories,
        } => planted::find_all(seeds, only.as_deref(), stories, &settings),
        #[cfg(feature = "planted-faults")]
        Command::ReplayPlanted {
            fault,
            seed,
            shrink,
        } => {
            planted::plant(&fault)?;
            replay(seed, shrink, &settings)
        }
    }
}
