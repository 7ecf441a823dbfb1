//! Owns the lab of the checks: every code that a check can end with is provoked by a real fault,
//! and both binaries must report it. Knows no control-api and no cloud.

mod ask;
mod case;
mod ground;
mod paths;
mod peers;
mod scripted;
mod services;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout};

use crate::report::{Report, Row, Verdict, say};
use case::Case;
use ground::Lab;

/// Cases at a time. More of them than cores make silence look longer than it is.
const AT_ONCE: usize = 4;
/// No case may take longer.
const CASE_LIMIT: Duration = Duration::from_secs(60);
/// Why `target_denied` has no case.
const NOT_DENIED: &str = "a check by hand goes where the operator says; only the services have a \
    policy that denies targets";

/// All cases, in the order of the report.
fn all() -> Vec<&'static Case> {
    paths::CASES.iter().chain(services::CASES).collect()
}

/// Plays the cases whose names have one of `words` in them, all without words; whether none failed.
///
/// # Errors
///
/// When the lab cannot be built or the report cannot be written.
pub(crate) async fn run(bin: &Path, out: &Path, words: &[String]) -> Result<bool> {
    let cases = all();
    let lab = Lab::build(bin, out, &cases).await?;
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let chosen = cases.iter().enumerate();
    let chosen = chosen.filter(|(_, case)| wanted(case.name));
    let mut rows = stream::iter(chosen)
        .map(|(index, case)| played(&lab, index, case))
        .buffered(AT_ONCE);
    let mut report = Report::default();
    while let Some(row) = rows.next().await {
        say(row.line());
        report.add(row);
    }
    if wanted("target_denied") {
        report.add(Row {
            name: "target_denied".to_owned(),
            verdict: Verdict::LeftOut(NOT_DENIED.to_owned()),
            took: Duration::ZERO,
        });
    }
    report.write_junit(&out.join("checks.xml"))?;
    say(report.table().trim_end());
    Ok(report.all_passed())
}

async fn played(lab: &Lab, index: usize, case: &Case) -> Row {
    let begun = Instant::now();
    let verdict = match lab.lacks(case) {
        Some(why) => Verdict::LeftOut(why),
        None => match timeout(CASE_LIMIT, ask::both(lab, index, case)).await {
            Ok(Ok(remark)) => Verdict::Passed(remark),
            Ok(Err(error)) => Verdict::Failed(format!("{error:#}")),
            Err(_elapsed) => Verdict::Failed(format!("not over after {CASE_LIMIT:?}")),
        },
    };
    Row {
        name: case.name.to_owned(),
        verdict,
        took: begun.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use civ_checks::Code;

    use super::all;

    #[test]
    fn every_code_has_a_case() {
        let provoked: BTreeSet<&str> = all()
            .iter()
            .filter_map(|case| case.expected.code.split(':').next())
            .collect();
        let missing: Vec<_> = Code::ALL
            .iter()
            .map(|code| code.word())
            .filter(|word| !provoked.contains(word))
            .collect();
        // Told by a unit test, and by the scenario `identity`: nobody asks for it by hand.
        assert_eq!(missing, ["wrong_host", "target_denied"]);
    }

    #[test]
    fn names_are_unique_and_addresses_suffice() {
        let names: BTreeSet<_> = all().iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all().len());
        assert!(all().len() < 250);
    }
}
