//! Crash points: every commit of the runner and every call of the cloud is a step at which a test
//! can kill the process, and nothing but a test makes these points real.

use crate::places::Text;
use crate::source::{read, without_tests};

/// The feature that makes them real.
pub const FEATURE: &str = "crash-points";

/// A file or folder, and what in it must be the work of a `step!`.
const WORK: &[(&str, &[&str])] = &[
    ("bins/control-api/src/runner", &[".write(", ".write_alone("]),
    ("crates/cloud/src/openstack.rs", &["self.neutron."]),
];

/// A package's dependency on `civ-crash`, or a feature of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turned {
    /// A dependency that is not for tests, with these features of it.
    Need {
        /// Whose.
        package: String,
        /// Which are turned on.
        features: Vec<String>,
    },
    /// What a package does unless told otherwise.
    Default {
        /// Whose.
        package: String,
        /// Which features.
        features: Vec<String>,
    },
}

/// How many pieces of work and how many steps a file has, if it is one that must have steps.
#[must_use]
pub fn counted(file: &Text) -> Option<(usize, usize)> {
    let is_in = |folder: &str| {
        let rest = file.path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    };
    let (_, words) = WORK.iter().find(|(folder, _)| is_in(folder))?;
    let code = without_tests(&read(&file.text).code);
    let n_work = words.iter().map(|word| code.matches(word).count()).sum();
    Some((n_work, code.matches("step!(").count()))
}

/// Work that is no step, or steps that are none of this work.
#[must_use]
pub fn unguarded(file: &Text) -> Vec<String> {
    let wrong = |(n_work, n_steps): (usize, usize)| {
        (n_work != n_steps).then(|| {
            format!(
                "{}: {n_work} commits or calls, {n_steps} steps: each goes into a step! of its own",
                file.path
            )
        })
    };
    counted(file).and_then(wrong).into_iter().collect()
}

/// Whoever turns the points on outside of tests.
#[must_use]
pub fn turned_on(all: &[Turned]) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in all {
        let (package, features, how) = match one {
            Turned::Need { package, features } => (package, features, "for its dependency"),
            Turned::Default { package, features } => (package, features, "by default"),
        };
        if features.iter().any(|name| name.contains(FEATURE)) {
            wrong.push(format!("{package} turns {FEATURE} on {how}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let file = Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        unguarded(&file).len()
    }

    #[test]
    fn work_without_a_step_is_found() {
        let bare = "fn a() { app.write(job).await?; }\n";
        let step = "fn a() { step!(Claim, app.write(job).await)?; }\n";
        assert_eq!(found("bins/control-api/src/runner/round.rs", bare), 1);
        assert_eq!(found("bins/control-api/src/runner.rs", bare), 1);
        assert_eq!(found("bins/control-api/src/runner/round.rs", step), 0);
        assert_eq!(found("bins/control-api/src/app/ips.rs", bare), 0);
        let call = "fn a() { self.neutron.get(id).await }\n";
        assert_eq!(found("crates/cloud/src/openstack.rs", call), 1);
    }

    #[test]
    fn a_feature_that_is_on_is_found() {
        let need = |feature: &str| Turned::Need {
            package: "civ-cloud".to_owned(),
            features: vec![feature.to_owned()],
        };
        let default = Turned::Default {
            package: "civ-control-api".to_owned(),
            features: vec!["civ-crash/crash-points".to_owned()],
        };
        assert_eq!(turned_on(&[need("other")]).len(), 0);
        assert_eq!(turned_on(&[need(FEATURE), default]).len(), 2);
    }
}
