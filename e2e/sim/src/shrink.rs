//! Makes a story that breaks a rule shorter, as long as it breaks that rule.

use civ_control_api::config::Settings;

use crate::run::{Outcome, run};
use crate::story::Story;

/// Runs that a story is worth.
const RUNS: u32 = 1_500;

struct Shrinker<'a> {
    settings: &'a Settings,
    rule: &'static str,
    best: Story,
    left: u32,
}

impl Shrinker<'_> {
    /// Takes the other story if it breaks the rule, too.
    fn tries(&mut self, other: Story) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let outcome = run(&other, self.settings, false);
        let same = outcome
            .violation
            .is_some_and(|violation| violation.rule == self.rule);
        if same {
            self.best = other;
        }
        same
    }

    fn without_steps(&mut self) {
        let mut size = self.best.steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            let mut any = false;
            while at < self.best.steps.len() && self.left > 0 {
                let mut other = self.best.clone();
                let end = (at + size).min(other.steps.len());
                // The time that they took passes all the same, or not.
                let time: u32 = other.steps.drain(at..end).map(|step| step.pause_ms).sum();
                let mut patient = other.clone();
                if let Some(next) = patient.steps.get_mut(at) {
                    next.pause_ms += time;
                }
                if self.tries(other) || self.tries(patient) {
                    any = true;
                } else {
                    at = end;
                }
            }
            if size == 1 && !any || self.left == 0 {
                return;
            }
            size = (size / 2).max(1);
        }
    }

    fn without_faults(&mut self) {
        let fired = run(&self.best, self.settings, false).fired;
        let mut all = self.best.clone();
        all.muted.extend(&fired);
        if self.tries(all) {
            return;
        }
        for fault in fired {
            let mut other = self.best.clone();
            other.muted.insert(fault);
            self.tries(other);
        }
    }

    fn on_plainer_ground(&mut self) {
        for change in [
            |story: &mut Story| story.ground.cloud_faults = 0.0,
            |story: &mut Story| story.ground.disk_faults = 0.0,
            |story: &mut Story| story.ground.slowness = 0.0,
            |story: &mut Story| story.ground.settle = 0,
        ] {
            let mut other = self.best.clone();
            change(&mut other);
            if other != self.best {
                self.tries(other);
            }
        }
    }
}

/// The shortest story found, and how it ends.
pub(crate) fn shrink(story: &Story, rule: &'static str, settings: &Settings) -> (Story, Outcome) {
    let mut shrinker = Shrinker {
        settings,
        rule,
        best: story.clone(),
        left: RUNS,
    };
    shrinker.on_plainer_ground();
    shrinker.without_steps();
    shrinker.without_faults();
    shrinker.on_plainer_ground();
    shrinker.without_steps();
    let outcome = run(&shrinker.best, settings, true);
    (shrinker.best, outcome)
}
