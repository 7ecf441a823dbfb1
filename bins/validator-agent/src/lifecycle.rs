//! What one slot does about what control-api says: a pure machine of states, events and effects.
//!
//! Knows no sockets and no time. Control-api's word is a level (what is assigned now), so any
//! assignment may follow any other, and each must lead to the right work.

use civ_link::{Claim, Ended};
use civ_proto::agent::Phase;

/// What a slot is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is assigned.
    Idle,
    /// The self-check of this claim is under way.
    SelfCheck(Claim),
    /// Its result was taken; control-api decides what follows.
    SelfChecked(Claim),
    /// The checks of this claim are under way.
    Checking(Claim),
    /// Nothing is left to do for this claim.
    Done(Claim),
}

/// What happens to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Control-api assigns this now.
    Assigned(Claim, Phase),
    /// Control-api assigns nothing now.
    Unassigned,
    /// The work of the present state ended.
    Ended(Ended),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Break off the work that is under way.
    DropWork,
    /// Say that the assignment has arrived, and do the self-check.
    SelfCheck,
    /// Run the checks; if `is_first`, say that the assignment has arrived.
    Check {
        /// The self-check of this claim was not ours: this process is new.
        is_first: bool,
    },
    /// Hand the newest list of checks to the checks that are under way.
    Renew,
    /// Ask control-api what follows, without delay.
    AskAgain,
}

impl State {
    /// The name in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::SelfCheck(_) => "self_check",
            Self::SelfChecked(_) => "self_checked",
            Self::Checking(_) => "checking",
            Self::Done(_) => "done",
        }
    }

    /// The word for people in heartbeats.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Idle | Self::Done(_) => "idle",
            Self::SelfCheck(_) | Self::SelfChecked(_) => "self_check",
            Self::Checking(_) => "checking",
        }
    }

    /// The next state, and what to do in this order.
    pub(crate) fn step(self, event: Event) -> (Self, Vec<Effect>) {
        match event {
            Event::Unassigned => (Self::Idle, self.drop_work()),
            Event::Ended(ended) => self.ended(ended),
            Event::Assigned(claim, phase) => {
                if self.claim() == Some(claim) {
                    self.same(claim, phase)
                } else {
                    self.begin(claim, phase)
                }
            }
        }
    }

    /// The claim that it is about.
    pub(crate) const fn claim(self) -> Option<Claim> {
        match self {
            Self::Idle => None,
            Self::SelfCheck(claim)
            | Self::SelfChecked(claim)
            | Self::Checking(claim)
            | Self::Done(claim) => Some(claim),
        }
    }

    fn drop_work(self) -> Vec<Effect> {
        match self {
            Self::Idle | Self::SelfChecked(_) | Self::Done(_) => Vec::new(),
            Self::SelfCheck(_) | Self::Checking(_) => vec![Effect::DropWork],
        }
    }

    /// A claim that is new to us, whatever we are at; or one that starts over.
    fn begin(self, claim: Claim, phase: Phase) -> (Self, Vec<Effect>) {
        let mut effects = self.drop_work();
        match phase {
            Phase::AwaitingSelfCheck => {
                effects.push(Effect::SelfCheck);
                (Self::SelfCheck(claim), effects)
            }
            Phase::Checking => {
                effects.push(Effect::Check { is_first: true });
                (Self::Checking(claim), effects)
            }
        }
    }

    /// The claim that we are at, said again or changed.
    fn same(self, claim: Claim, phase: Phase) -> (Self, Vec<Effect>) {
        match (self, phase) {
            // The answer to our report is slower than the news: the report is let arrive.
            (Self::SelfCheck(_), Phase::Checking) => {
                let effects = vec![Effect::DropWork, Effect::Check { is_first: false }];
                (Self::Checking(claim), effects)
            }
            (Self::SelfChecked(_), Phase::Checking) => (
                Self::Checking(claim),
                vec![Effect::Check { is_first: false }],
            ),
            (Self::Checking(_), Phase::Checking) => (self, vec![Effect::Renew]),
            // Control-api came back with an older database.
            (Self::Checking(_), Phase::AwaitingSelfCheck) => self.begin(claim, phase),
            // Without fences a new claim of the address looks like the old one.
            (Self::Done(_), Phase::AwaitingSelfCheck) if claim.fence.is_none() => {
                self.begin(claim, phase)
            }
            (Self::SelfCheck(_) | Self::SelfChecked(_), Phase::AwaitingSelfCheck)
            | (Self::Idle | Self::Done(_), _) => (self, Vec::new()),
        }
    }

    fn ended(self, ended: Ended) -> (Self, Vec<Effect>) {
        match (self, ended) {
            // A refusal is no proof that the claim is lost: the report may have arrived before,
            // with its answer lost, and been refused the second time.
            (Self::SelfCheck(claim), Ended::Settled | Ended::Over) => {
                (Self::SelfChecked(claim), vec![Effect::AskAgain])
            }
            (Self::Checking(claim), Ended::Settled | Ended::Over) => {
                (Self::Done(claim), vec![Effect::AskAgain])
            }
            (Self::Idle | Self::SelfChecked(_) | Self::Done(_), _) | (_, Ended::Dropped) => {
                (self, Vec::new())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Claim = Claim {
        ip_id: 1,
        attempt_number: 1,
        fence: Some(7),
    };
    const B: Claim = Claim {
        ip_id: 1,
        attempt_number: 1,
        fence: Some(8),
    };
    const OLD: Claim = Claim {
        ip_id: 1,
        attempt_number: 0,
        fence: None,
    };

    const SELF_CHECK: Phase = Phase::AwaitingSelfCheck;
    const CHECKING: Phase = Phase::Checking;

    /// The state after each event, and the effects of the last one.
    fn run(events: &[Event]) -> (State, Vec<Effect>) {
        let mut last = (State::Idle, Vec::new());
        for event in events {
            last = last.0.step(*event);
        }
        last
    }

    #[test]
    fn the_happy_path() {
        let settled = Event::Ended(Ended::Settled);
        let path = [
            Event::Assigned(A, SELF_CHECK),
            settled,
            Event::Assigned(A, CHECKING),
            settled,
        ];
        let check = Effect::Check { is_first: false };
        assert_eq!(
            run(&path[..1]),
            (State::SelfCheck(A), vec![Effect::SelfCheck])
        );
        assert_eq!(
            run(&path[..2]),
            (State::SelfChecked(A), vec![Effect::AskAgain])
        );
        assert_eq!(run(&path[..3]), (State::Checking(A), vec![check]));
        assert_eq!(run(&path), (State::Done(A), vec![Effect::AskAgain]));
    }

    #[test]
    fn every_state_leaves_for_another_claim_and_for_nothing() {
        let working = [State::SelfCheck(A), State::Checking(A)];
        let resting = [State::Idle, State::SelfChecked(A), State::Done(A)];
        for (state, drops) in working
            .map(|s| (s, true))
            .into_iter()
            .chain(resting.map(|s| (s, false)))
        {
            let (next, effects) = state.step(Event::Assigned(B, SELF_CHECK));
            assert_eq!(next, State::SelfCheck(B));
            assert_eq!(effects.contains(&Effect::DropWork), drops, "{state:?}");
            assert_eq!(effects.last(), Some(&Effect::SelfCheck));
            let (next, effects) = state.step(Event::Assigned(B, CHECKING));
            assert_eq!(next, State::Checking(B));
            assert_eq!(effects.last(), Some(&Effect::Check { is_first: true }));
            let (next, effects) = state.step(Event::Unassigned);
            assert_eq!(
                (next, effects.contains(&Effect::DropWork)),
                (State::Idle, drops)
            );
        }
    }

    #[test]
    fn news_may_overtake_the_answer_to_the_self_check() {
        let path = [Event::Assigned(A, SELF_CHECK), Event::Assigned(A, CHECKING)];
        let effects = vec![Effect::DropWork, Effect::Check { is_first: false }];
        assert_eq!(run(&path), (State::Checking(A), effects));
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        for phase in [SELF_CHECK, CHECKING] {
            assert_eq!(
                State::Done(A).step(Event::Assigned(A, phase)),
                (State::Done(A), vec![])
            );
        }
        let checked = State::SelfChecked(A);
        assert_eq!(
            checked.step(Event::Assigned(A, SELF_CHECK)),
            (checked, vec![])
        );
        let renewed = State::Checking(A).step(Event::Assigned(A, CHECKING));
        assert_eq!(renewed, (State::Checking(A), vec![Effect::Renew]));
    }

    #[test]
    fn without_fences_the_same_address_may_start_over() {
        let (next, effects) = State::Done(OLD).step(Event::Assigned(OLD, SELF_CHECK));
        assert_eq!(
            (next, effects),
            (State::SelfCheck(OLD), vec![Effect::SelfCheck])
        );
    }

    #[test]
    fn a_claim_that_is_over_is_left_and_asked_about() {
        let over = Event::Ended(Ended::Over);
        assert_eq!(
            State::Checking(A).step(over),
            (State::Done(A), vec![Effect::AskAgain])
        );
        for state in [State::SelfCheck(A), State::Checking(A)] {
            assert_eq!(state.step(Event::Ended(Ended::Dropped)), (state, vec![]));
        }
    }

    #[test]
    fn a_self_check_that_was_refused_the_second_time_may_have_counted_the_first() {
        let path = [
            Event::Assigned(A, SELF_CHECK),
            Event::Ended(Ended::Over),
            Event::Assigned(A, CHECKING),
        ];
        assert_eq!(
            run(&path[..2]),
            (State::SelfChecked(A), vec![Effect::AskAgain])
        );
        let check = Effect::Check { is_first: false };
        assert_eq!(run(&path), (State::Checking(A), vec![check]));
    }

    #[test]
    fn an_older_database_brings_the_self_check_back() {
        let (next, effects) = State::Checking(A).step(Event::Assigned(A, SELF_CHECK));
        assert_eq!(
            (next, effects),
            (
                State::SelfCheck(A),
                vec![Effect::DropWork, Effect::SelfCheck]
            )
        );
    }
}
