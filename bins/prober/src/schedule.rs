//! Which passes to begin and which to break off when control-api's list changes. Pure.
//!
//! A pass is what one site does about one claim of an address with one set of checks. As long as
//! a claim stays in the list, its pass is not repeated, whether it is under way, done or refused.
//! What has left the list is forgotten, so the memory is as large as the list.

use std::collections::{HashMap, HashSet};

use civ_link::{Claim, Prober, Side as _};
use civ_proto::prober::{Assignment, Identity};

/// The checks of a pass, in one order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// Ascending, each once.
    pub(crate) ports: Vec<u16>,
    pub(crate) icmp: bool,
    /// Ascending, each once.
    pub(crate) closed_ports: Vec<u16>,
    pub(crate) identity: Option<Identity>,
}

/// One pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    pub(crate) claim: Claim,
    pub(crate) ip_address: String,
    pub(crate) wanted: Wanted,
    /// Which list of checks this is; other checks make another pass, another number alone does
    /// not.
    pub(crate) revision: Option<i64>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Begin(Plan),
    BreakOff(Claim),
}

/// The list as it was last seen.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    listed: HashMap<Claim, Wanted>,
}

impl Wanted {
    fn of(assignment: &Assignment) -> Self {
        let sorted = |ports: &[u16]| {
            let mut ports = ports.to_vec();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        Self {
            ports: sorted(&assignment.ports),
            icmp: assignment.icmp,
            closed_ports: sorted(&assignment.closed_ports),
            identity: assignment.identity.clone(),
        }
    }

    /// Inbound checks are paused.
    fn is_empty(&self) -> bool {
        let Self {
            ports,
            icmp,
            closed_ports,
            identity,
        } = self;
        ports.is_empty() && !icmp && closed_ports.is_empty() && identity.is_none()
    }
}

impl Schedule {
    /// Takes the list as it is now. Passes of addresses that are gone, or whose checks have
    /// changed, are broken off before anything begins.
    pub(crate) fn take(&mut self, list: &[Assignment]) -> Vec<Action> {
        let now: HashMap<Claim, Wanted> = list
            .iter()
            .map(|a| (Prober::claim(a), Wanted::of(a)))
            .collect();
        let gone = self
            .listed
            .iter()
            .filter(|(claim, wanted)| now.get(claim) != Some(wanted));
        let mut actions: Vec<Action> = gone.map(|(claim, _)| Action::BreakOff(*claim)).collect();
        let mut begun = HashSet::new();
        for assignment in list {
            let claim = Prober::claim(assignment);
            let wanted = Wanted::of(assignment);
            let is_known = self.listed.get(&claim) == Some(&wanted);
            if !is_known && !wanted.is_empty() && begun.insert(claim) {
                let ip_address = assignment.ip_address.clone();
                actions.push(Action::Begin(Plan {
                    claim,
                    ip_address,
                    wanted,
                    revision: assignment.revision,
                }));
            }
        }
        self.listed = now;
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(ip_id: i64, fence: Option<i64>, ports: &[u16]) -> Assignment {
        let (ip_address, ports) = (format!("203.0.113.{ip_id}"), ports.to_vec());
        Assignment {
            ip_id,
            ip_address,
            ports,
            icmp: false,
            closed_ports: Vec::new(),
            identity: None,
            attempt_number: 1,
            fence,
            revision: None,
        }
    }

    fn begun(actions: &[Action]) -> Vec<&Plan> {
        let plans = actions.iter().filter_map(|action| match action {
            Action::Begin(plan) => Some(plan),
            Action::BreakOff(_) => None,
        });
        plans.collect()
    }

    #[test]
    fn each_claim_is_probed_once() {
        let mut schedule = Schedule::default();
        let list = [assignment(1, Some(7), &[22]), assignment(2, Some(8), &[22])];
        assert_eq!(begun(&schedule.take(&list)).len(), 2);
        assert_eq!(schedule.take(&list), []);
        let next_claim = [assignment(1, Some(9), &[22]), assignment(2, Some(8), &[22])];
        let actions = schedule.take(&next_claim);
        assert_eq!(begun(&actions).len(), 1);
        assert_eq!(begun(&actions)[0].claim.fence, Some(9));
    }

    #[test]
    fn a_claim_that_stands_in_the_list_twice_is_probed_once() {
        let one = assignment(1, Some(7), &[22]);
        assert_eq!(Schedule::default().take(&[one.clone(), one]).len(), 1);
    }

    #[test]
    fn what_vanishes_is_broken_off() {
        let mut schedule = Schedule::default();
        let list = [assignment(1, Some(7), &[22])];
        schedule.take(&list);
        let claim = Prober::claim(&list[0]);
        assert_eq!(schedule.take(&[]), [Action::BreakOff(claim)]);
        assert_eq!(
            begun(&schedule.take(&list)).len(),
            1,
            "and begun anew if it comes back"
        );
    }

    #[test]
    fn other_ports_make_another_pass_and_their_order_does_not() {
        let mut schedule = Schedule::default();
        schedule.take(&[assignment(1, Some(7), &[22, 443])]);
        assert_eq!(schedule.take(&[assignment(1, Some(7), &[443, 22, 22])]), []);
        let actions = schedule.take(&[assignment(1, Some(7), &[22, 80])]);
        assert!(
            matches!(&actions[..], [Action::BreakOff(_), Action::Begin(plan)]
            if plan.wanted.ports == [22, 80])
        );
    }

    #[test]
    fn another_nonce_or_closed_port_makes_another_pass_and_a_revision_alone_does_not() {
        let mut schedule = Schedule::default();
        let mut one = assignment(1, Some(7), &[]);
        one.identity = Some(Identity {
            validator_id: "v1".to_owned(),
            nonce: civ_proto::Nonce("0123456789abcdef".to_owned()),
            ports: vec![80],
        });
        assert_eq!(begun(&schedule.take(&[one.clone()])).len(), 1);
        one.revision = Some(3);
        assert_eq!(schedule.take(&[one.clone()]), []);
        one.closed_ports = vec![23];
        let actions = schedule.take(&[one.clone()]);
        assert_eq!(begun(&actions)[0].revision, Some(3));
        one.identity = None;
        assert_eq!(begun(&schedule.take(&[one])).len(), 1);
    }

    #[test]
    fn nothing_wanted_is_nothing_to_do() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.take(&[assignment(1, Some(7), &[])]), []);
        assert_eq!(
            begun(&schedule.take(&[assignment(1, Some(7), &[22])])).len(),
            1
        );
    }
}
