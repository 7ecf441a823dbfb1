//! One pass: all inbound checks of one claim, at once, each reported as soon as it is known.
//!
//! `complete: true` stands on exactly one result, the last; so one result is always held back
//! until another follows or nothing is left.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_checks::{Check, Engine, Kind, Options, Outcome, Target, Verdict};
use civ_link::{Desk, Prober, inconclusive, whole_ms};
use civ_proto::prober::{CheckResult, Identity};
use civ_types::{Address, CheckName, Clock};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::identity::Asking;
use crate::schedule::{Plan, Wanted};

/// What one pass needs.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) source: Option<IpAddr>,
    /// How long one check may take.
    pub(crate) patience: Duration,
    pub(crate) plan: Plan,
}

/// One check of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// Of that kind, on that port; 0 for ICMP.
    Plain(Kind, u16),
    /// Who answers.
    Identity(Identity),
}

type Named = (CheckName, What);

/// The checks that the contract derives from ports and `icmp`, and those that are ours.
fn checks(wanted: &Wanted) -> Vec<Named> {
    let plain = |name, kind, port| (name, What::Plain(kind, port));
    let mut checks: Vec<Named> = wanted
        .ports
        .iter()
        .map(|port| plain(CheckName::tcp(*port), Kind::Tcp, *port))
        .collect();
    if wanted.ports.contains(&22) {
        checks.push(plain(CheckName::ssh(), Kind::Ssh, 22));
    }
    if wanted.ports.contains(&443) {
        checks.push(plain(CheckName::tls_443(), Kind::Tls, 443));
    }
    if wanted.icmp {
        checks.push(plain(CheckName::icmp(), Kind::Icmp, 0));
    }
    let closed = |port: &u16| plain(CheckName::closed(*port), Kind::Closed, *port);
    checks.extend(wanted.closed_ports.iter().map(closed));
    if let Some(identity) = &wanted.identity {
        checks.push((CheckName::identity(), What::Identity(identity.clone())));
    }
    checks
}

impl Pass {
    /// Runs all checks and reports them. If every one was inconclusive, there is no result to
    /// carry `complete`, and the pass stays open: this site could not look.
    pub(crate) async fn run(&self, desk: Desk<Prober>) {
        let mut running: FuturesUnordered<_> = checks(&self.plan.wanted)
            .into_iter()
            .map(|named| self.one(named))
            .collect();
        let mut held: Option<CheckResult> = None;
        while let Some((name, outcome)) = running.next().await {
            match outcome {
                Ok(outcome) if !is_inconclusive(&outcome) => {
                    let row = self.row(&name, outcome);
                    if let Some(before) = held.replace(row) {
                        desk.row(before).await;
                    }
                }
                Ok(outcome) => {
                    self.say_inconclusive(&desk, &name, &outcome.detail).await;
                }
                Err(why) => {
                    let code = format!("internal: {why}");
                    self.say_inconclusive(&desk, &name, &code).await;
                }
            }
        }
        if let Some(last) = held {
            desk.row(CheckResult {
                complete: Some(true),
                revision: self.plan.revision,
                ..last
            })
            .await;
        }
    }

    async fn one(&self, (name, what): Named) -> (CheckName, Result<Outcome, String>) {
        let address = match Address::parse(&self.plan.ip_address) {
            Ok(address) => address,
            Err(error) => return (name, Err(error.to_string())),
        };
        let outcome = match what {
            What::Plain(kind, port) => {
                let check = Check {
                    kind,
                    target: Target::addr(address.ip(), port),
                    source: self.source,
                    family: address.family(),
                    options: Options::default(),
                };
                self.engine.run_settled(&check).await
            }
            What::Identity(identity) => {
                let asking = Asking {
                    engine: &self.engine,
                    address,
                    source: self.source,
                    patience: self.patience,
                };
                match asking.who_answers(&identity).await {
                    Ok(outcome) => outcome,
                    Err(why) => return (name, Err(why)),
                }
            }
        };
        (name, Ok(outcome))
    }

    fn row(&self, name: &CheckName, outcome: Outcome) -> CheckResult {
        CheckResult {
            ip_id: self.plan.claim.ip_id,
            ip_address: Some(self.plan.ip_address.clone()),
            check_type: name.as_str().to_owned(),
            success: outcome.verdict.passed(),
            latency_ms: outcome.latency.map(whole_ms),
            duration_ms: Some(whole_ms(outcome.duration)),
            detail: Some(outcome.detail),
            checked_at: Some(self.clock.now().to_string()),
            complete: None,
            fence: self.plan.claim.fence,
            revision: None,
        }
    }

    async fn say_inconclusive(&self, desk: &Desk<Prober>, name: &CheckName, code: &str) {
        tracing::warn!(ip = self.plan.ip_address, check_type = %name, "not checked: {code}");
        desk.event(inconclusive(self.plan.claim, name.as_str(), "", code))
            .await;
    }
}

const fn is_inconclusive(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Inconclusive(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ports: &[u16], icmp: bool) -> Vec<String> {
        let wanted = Wanted {
            ports: ports.to_vec(),
            icmp,
            closed_ports: vec![23],
            identity: None,
        };
        checks(&wanted)
            .into_iter()
            .map(|(name, ..)| name.to_string())
            .collect()
    }

    #[test]
    fn ssh_and_tls_follow_from_their_ports() {
        let all = [
            "tcp-22",
            "tcp-80",
            "tcp-443",
            "ssh",
            "tls-443",
            "icmp",
            "closed-23",
        ];
        assert_eq!(names(&[22, 80, 443], true), all);
        assert_eq!(names(&[8080], false), ["tcp-8080", "closed-23"]);
        assert_eq!(names(&[], true), ["icmp", "closed-23"]);
    }
}
