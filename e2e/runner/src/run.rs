//! Owns a run: plays the scenarios one after the other and reports.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use crate::report::{Report, Row, Verdict, say};
use crate::scenarios::Scenario;
use crate::waiting::until;
use crate::world::House;

/// No scenario may take longer, whatever it waits for.
const SCENARIO_LIMIT: Duration = Duration::from_secs(180);

/// The scenarios of those names out of `all`; all of them without names.
///
/// # Errors
///
/// Names those that are none.
pub(crate) fn chosen(all: &'static [Scenario], names: &[String]) -> Result<Vec<&'static Scenario>> {
    let unknown: Vec<_> = names
        .iter()
        .filter(|name| all.iter().all(|scenario| scenario.name != name.as_str()))
        .collect();
    if !unknown.is_empty() {
        bail!("no such scenario: {unknown:?}; --list names them");
    }
    let wanted =
        |scenario: &&Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(all.iter().filter(wanted).collect())
}

/// Plays scenarios, prints a line each and the table, writes the JUnit file; whether all passed.
///
/// # Errors
///
/// When the report cannot be written, or the stage cannot be cleared between scenarios.
pub(crate) async fn run(
    house: &House,
    scenarios: &[&Scenario],
    on_loopback: bool,
    junit: &Path,
) -> Result<bool> {
    let mut report = Report::with_note(house.stage.plan().leaves_out());
    for scenario in scenarios {
        let begun = Instant::now();
        let verdict = match scenario.needs_packets {
            Some(why) if on_loopback => Verdict::LeftOut(why.to_owned()),
            _ => play(house, scenario).await?,
        };
        let row = Row {
            name: scenario.name.to_owned(),
            verdict,
            took: begun.elapsed(),
        };
        say(row.line());
        report.add(row);
    }
    report.write_junit(junit)?;
    say(report.table().trim_end());
    Ok(report.all_passed())
}

async fn play(house: &House, scenario: &Scenario) -> Result<Verdict> {
    house.stage.reset().await?;
    let address = (house.stage.plan().mgmt, house.stage.plan().control_port);
    until("control-api's port is free", async || {
        TcpListener::bind(address).await.is_ok()
    })
    .await?;
    let played = timeout(SCENARIO_LIMIT, (scenario.play)(house)).await;
    Ok(match played {
        Ok(Ok(remark)) => Verdict::Passed(remark),
        Ok(Err(error)) => Verdict::Failed(format!("{error:#}")),
        Err(_) => Verdict::Failed(format!("not over after {SCENARIO_LIMIT:?}")),
    })
}
