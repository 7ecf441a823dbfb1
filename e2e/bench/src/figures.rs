//! Figures with their goals: gathered, printed, written as JSON and as a document.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use civ_types::{Clock as _, SystemClock};
use serde::Serialize;

use crate::document::replace;
use crate::say;

/// Times of many requests.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time in milliseconds that this share of the requests did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let n_above = sorted.iter().enumerate();
        let total = sorted.len() as f64;
        let found = n_above
            .map(|(at, time)| (at as f64 + 1.0, time))
            .find(|(at, _)| share * total <= *at);
        found.map_or(0.0, |(_, time)| time.as_secs_f64() * 1_000.0)
    }
}

/// One figure.
#[derive(Debug, Serialize)]
struct Figure {
    figure: String,
    value: f64,
    unit: &'static str,
    /// What it may be at most; nothing for what is told beside a figure.
    goal: Option<f64>,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    pub(crate) fn add(&mut self, figure: &str, value: f64, unit: &'static str, goal: Option<f64>) {
        let value = (value * 1_000.0).round() / 1_000.0;
        let judged = goal.map_or(String::new(), |goal| {
            let how = if value <= goal { "passed" } else { "FAILED" };
            format!("  (at most {goal}: {how})")
        });
        say(&format!("{figure}: {value} {unit}{judged}"));
        self.0.push(Figure {
            figure: figure.to_owned(),
            value,
            unit,
            goal,
        });
    }

    /// Median and 99th percentile; the goal is for the latter.
    pub(crate) fn add_times(&mut self, figure: &str, times: &Times, goal: f64) {
        self.add(&format!("{figure}, p50"), times.quantile(0.5), "ms", None);
        self.add(
            &format!("{figure}, p99"),
            times.quantile(0.99),
            "ms",
            Some(goal),
        );
    }

    pub(crate) fn write(&self, json: &Path, document: Option<&Path>) -> Result<()> {
        if let Some(folder) = json.parent() {
            std::fs::create_dir_all(folder).context("the folder of the figures cannot be made")?;
        }
        let text = serde_json::to_string_pretty(&self.0)?;
        std::fs::write(json, text + "\n").context("the figures cannot be written")?;
        if let Some(path) = document {
            replace(path, "api", &self.document()?)?;
        }
        Ok(())
    }

    fn document(&self) -> Result<String> {
        let mut text = format!(
            "## control-api at scale\n\nMade by `make bench-api` on {}, on {}.\n\n\
             The database has 1,000,000 registry rows, 100,000 queued addresses and 5,000,000 \
             stored checks\n(`make bench-data`, seed 1). Percentiles are of 4 clients that ask \
             over HTTP without a pause, while\nagents report 1,000 results a second that are \
             acknowledged durably; clients and reporters run on the\nsame processors. \"Goal\" is \
             what a figure may be at most.\n\n\
             | figure | value | goal |\n|---|---|---|\n",
            SystemClock
                .now()
                .to_string()
                .split('T')
                .next()
                .unwrap_or_default(),
            machine(),
        );
        for one in &self.0 {
            let goal = one
                .goal
                .map_or(String::new(), |goal| format!("{goal} {}", one.unit));
            writeln!(
                text,
                "| {} | {} {} | {goal} |",
                one.figure, one.value, one.unit
            )?;
        }
        Ok(text)
    }
}

/// Processors, their kind and the kernel.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let models: Vec<&str> = info
        .lines()
        .filter(|line| line.starts_with("model name"))
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{} processors ({}), Linux {}",
        models.len(),
        models.first().copied().unwrap_or("of an unknown kind"),
        kernel.trim()
    )
}
