//! Faults planted into the product, one at a time: each has to be found.

use anyhow::{Context as _, bail};
use civ_control_api::config::Settings;
use civ_planted::Planted;

use crate::story::Story;
use crate::{show, tell};

/// Plants the fault of that name.
///
/// # Errors
/// There is no such fault.
pub(crate) fn plant(name: &str) -> anyhow::Result<Planted> {
    let mut all = Planted::ALL.iter();
    let fault = *all
        .find(|fault| fault.as_str() == name)
        .with_context(|| format!("there is no fault {name:?}"))?;
    civ_planted::plant(Some(fault));
    Ok(fault)
}

/// Plants all faults and prints a table of how each was found.
///
/// # Errors
/// One was not found within so many seeds.
pub(crate) fn find_all(
    seeds: u64,
    only: Option<&str>,
    stories: bool,
    settings: &Settings,
) -> anyhow::Result<()> {
    println!("| fault | breaks rule | found by | after seeds | it says |");
    println!("|---|---|---|---|---|");
    let (mut found, mut missed) = (0, 0);
    for fault in Planted::ALL {
        if only.is_some_and(|only| only != fault.as_str()) {
            continue;
        }
        civ_planted::plant(Some(*fault));
        let sum = tell(1, seeds, settings, 1);
        let (name, rule) = (fault.as_str(), fault.rule());
        if let Some((seed, violation)) = sum.broken.first() {
            found += 1;
            let by = violation.rule;
            println!("| `{name}` | {rule} | {by} | {seed} | {} |", fault.what());
            if stories {
                show(&Story::of(*seed), violation, settings, true);
            }
        } else {
            missed += 1;
            println!(
                "| `{name}` | {rule} | not found | {seeds} | {} |",
                fault.what()
            );
        }
    }
    civ_planted::plant(None);
    println!("{found} passed, {missed} failed");
    if missed > 0 || found == 0 {
        bail!("{missed} planted faults were not found");
    }
    Ok(())
}
