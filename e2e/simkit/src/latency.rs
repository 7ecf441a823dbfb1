//! How long calls take, drawn from seeded distributions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;

/// The standard normal distribution's 99th percentile.
const NORMAL_P99: f64 = 2.326_347_874;

/// No call takes longer, whatever is drawn.
const MAX: Duration = Duration::from_secs(600);

/// How a latency is spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Always the same.
    Fixed {
        /// Milliseconds.
        ms: u64,
    },
    /// Evenly between two.
    Uniform {
        /// Milliseconds, at least.
        from_ms: u64,
        /// Milliseconds, at most.
        to_ms: u64,
    },
    /// As those of real servers are: most near the median, a few far above it.
    LogNormal {
        /// Milliseconds that half of the calls stay below, at least 1.
        median_ms: u64,
        /// Milliseconds that 99 of 100 stay below.
        p99_ms: u64,
    },
}

/// The latency of some calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// `GET`, `PUT`, …; absent: any.
    #[serde(default)]
    pub method: Option<String>,
    /// What the path begins with.
    #[serde(default)]
    pub path_prefix: String,
    /// How long they take.
    pub takes: Distribution,
}

impl Latency {
    fn matches(&self, method: &str, path: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted == method)
            && path.starts_with(&self.path_prefix)
    }
}

/// How long this call takes: the first that matches counts.
#[must_use]
pub fn sample(all: &[Latency], method: &str, path: &str, dice: &mut Dice) -> Duration {
    let mut matching = all.iter().filter(|one| one.matches(method, path));
    matching
        .next()
        .map_or(Duration::ZERO, |one| one.takes.draw(dice))
}

impl Distribution {
    fn draw(&self, dice: &mut Dice) -> Duration {
        let drawn = match self {
            Self::Fixed { ms } => Duration::from_millis(*ms),
            Self::Uniform { from_ms, to_ms } => {
                let width = to_ms.saturating_sub(*from_ms);
                let part = Duration::from_millis(width).mul_f64(dice.fraction());
                Duration::from_millis(*from_ms) + part
            }
            Self::LogNormal { median_ms, p99_ms } => {
                let median = (*median_ms).max(1);
                let ratio = (*p99_ms).max(median) as f64 / median as f64;
                let factor = (normal(dice) * ratio.ln() / NORMAL_P99).exp();
                Duration::try_from_secs_f64(median as f64 / 1_000.0 * factor).unwrap_or(MAX)
            }
        };
        drawn.min(MAX)
    }
}

/// Standard normal, by Box and Muller (1958).
fn normal(dice: &mut Dice) -> f64 {
    let (radius, angle) = (1.0 - dice.fraction(), dice.fraction());
    (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(takes: Distribution) -> Vec<u128> {
        let latency = [Latency {
            method: Some("PUT".to_owned()),
            path_prefix: "/v2".to_owned(),
            takes,
        }];
        let mut dice = Dice::new(1);
        let mut drawn: Vec<u128> = (0..10_000)
            .map(|_| sample(&latency, "PUT", "/v2/x", &mut dice).as_millis())
            .collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn distributions_are_what_they_say() {
        assert!(all(Distribution::Fixed { ms: 7 }).iter().all(|ms| *ms == 7));
        let even = all(Distribution::Uniform {
            from_ms: 10,
            to_ms: 20,
        });
        assert!(even.iter().all(|ms| (10..=20).contains(ms)) && (14..=15).contains(&even[5_000]));
        let real = all(Distribution::LogNormal {
            median_ms: 300,
            p99_ms: 900,
        });
        assert!((280..320).contains(&real[5_000]), "{}", real[5_000]);
        assert!((750..1_100).contains(&real[9_900]), "{}", real[9_900]);
    }

    #[test]
    fn the_first_that_matches_counts_and_others_take_no_time() {
        let one = |path: &str, ms| Latency {
            method: None,
            path_prefix: path.to_owned(),
            takes: Distribution::Fixed { ms },
        };
        let (list, mut dice) = ([one("/a/b", 1), one("/a", 2)], Dice::new(0));
        let mut ms = |path| sample(&list, "GET", path, &mut dice).as_millis();
        assert_eq!((ms("/a/b/c"), ms("/a/c"), ms("/c")), (1, 2, 0));
    }
}
