//! The checks of one assignment: all at once, each reported as soon as it is known.
//!
//! What could not be carried out for a reason of ours is no result but an event, since a failed
//! row would blame the address.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use civ_checks::{Check, Engine, Kind, Options, Target, Verdict};
use civ_link::{Agent, Claim, Desk, Report, inconclusive, whole_ms};
use civ_proto::agent::{Assignment, CheckConfig, CheckResult, Complete};
use civ_types::{Address, CheckName, Clock};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

/// What the checks of one claim share.
#[derive(Debug)]
pub(crate) struct Checking {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) claim: Claim,
}

/// Type and target of one check, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Named {
    check_type: String,
    target: String,
    /// JSON text; other options make another check.
    options: Option<String>,
}

impl Checking {
    /// Runs what `newest` lists, and what it comes to list meanwhile; then says `complete`.
    pub(crate) async fn run(&self, desk: Desk<Agent>, mut newest: watch::Receiver<Assignment>) {
        let mut known = HashSet::new();
        let mut running = FuturesUnordered::new();
        let revision = loop {
            let (address, added, revision) = {
                let assignment = newest.borrow_and_update();
                (
                    assignment.ip_address.clone(),
                    added(&mut known, &assignment.check_config),
                    assignment.revision,
                )
            };
            for named in added {
                running.push(self.one(&desk, address.clone(), named));
            }
            // Also when nothing was to be done at all, or a last change only took checks away: what
            // was looked at just now is the newest list.
            if running.is_empty() {
                break revision;
            }
            tokio::select! {
                Some(()) = running.next() => {}
                Ok(()) = newest.changed() => {}
            }
        };
        let (ip_id, fence) = (self.claim.ip_id, self.claim.fence);
        desk.report(Report::Complete(Complete {
            ip_id,
            fence,
            revision,
        }))
        .await;
    }

    async fn one(&self, desk: &Desk<Agent>, address: String, named: Named) {
        let outcome = match self.prepare(&address, &named) {
            Ok(check) => self.engine.run_settled(&check).await,
            Err(why) => {
                let code = format!("internal: {why}");
                tracing::warn!(
                    check_type = named.check_type,
                    target = named.target,
                    "{code}"
                );
                return self.say_inconclusive(desk, &named, &code).await;
            }
        };
        if let Verdict::Inconclusive(_) = outcome.verdict {
            return self.say_inconclusive(desk, &named, &outcome.detail).await;
        }
        desk.row(CheckResult {
            ip_id: self.claim.ip_id,
            check_type: named.check_type,
            target: Some(named.target),
            success: outcome.verdict.passed(),
            latency_ms: outcome.latency.map(whole_ms),
            duration_ms: Some(whole_ms(outcome.duration)),
            detail: Some(outcome.detail),
            checked_at: Some(self.clock.now().to_string()),
            fence: self.claim.fence,
        })
        .await;
    }

    /// Reads address, type and target; the error is a sentence.
    fn prepare(&self, address: &str, named: &Named) -> Result<Check, String> {
        let address = Address::parse(address).map_err(|error| error.to_string())?;
        let unknown = || format!("this agent knows no check type {:?}", named.check_type);
        let name = CheckName::parse(&named.check_type).map_err(|_unreadable| unknown())?;
        let kind = Kind::from_name(name.as_str()).ok_or_else(unknown)?;
        let target =
            Target::parse_named(kind, &name, &named.target).map_err(|error| error.to_string())?;
        let options = match &named.options {
            None => Options::default(),
            Some(json) => {
                let json = serde_json::from_str(json).map_err(|error| error.to_string())?;
                Options::parse(&json).map_err(|error| error.to_string())?
            }
        };
        Ok(Check {
            kind,
            target,
            source: self.source,
            family: address.family(),
            options,
        })
    }

    async fn say_inconclusive(&self, desk: &Desk<Agent>, named: &Named, code: &str) {
        desk.event(inconclusive(
            self.claim,
            &named.check_type,
            &named.target,
            code,
        ))
        .await;
    }
}

/// The checks of the list that are not known yet; they are known afterwards.
fn added(known: &mut HashSet<Named>, config: &[CheckConfig]) -> Vec<Named> {
    let all = config.iter().flat_map(|group| {
        group.targets.iter().map(|target| Named {
            check_type: group.check_type.clone(),
            target: target.clone(),
            options: group.options.as_ref().map(ToString::to_string),
        })
    });
    all.filter(|named| known.insert(named.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_list_adds_only_what_is_new() {
        let group = |check_type: &str, targets: &[&str]| CheckConfig {
            check_type: check_type.to_owned(),
            targets: targets.iter().map(|t| (*t).to_owned()).collect(),
            options: None,
        };
        let mut known = HashSet::new();
        assert_eq!(
            added(&mut known, &[group("tcp", &["a:1", "b:1", "a:1"])]).len(),
            2
        );
        let more = added(
            &mut known,
            &[group("tcp", &["a:1"]), group("tls", &["a:1"])],
        );
        assert_eq!(more.len(), 1);
        assert_eq!(more[0].check_type, "tls");
    }
}
