//! Signs of life of agents and probers, in memory: a heartbeat writes nothing to the disk by
//! itself. What is new is written down together, every second or so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use civ_orch::presence::is_fresh;
use civ_types::{SiteId, Utc, ValidatorId};

#[derive(Debug)]
struct Signs<K> {
    last: BTreeMap<K, Utc>,
    /// Since the last time that they were written down.
    unwritten: BTreeMap<K, Utc>,
}

impl<K> Default for Signs<K> {
    fn default() -> Self {
        Self {
            last: BTreeMap::new(),
            unwritten: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Signs<K> {
    fn note(&mut self, id: &K, now: Utc) -> Option<Utc> {
        self.unwritten.insert(id.clone(), now);
        self.last.insert(id.clone(), now)
    }

    fn shift(&mut self, micros: i64) {
        let all = self.last.values_mut().chain(self.unwritten.values_mut());
        all.for_each(|at| *at = Utc::from_micros(at.as_micros().saturating_add(micros)));
    }

    fn forget(&mut self, id: &K) {
        self.unwritten.remove(id);
        self.last.remove(id);
    }
}

#[derive(Debug, Default)]
struct State {
    validators: Signs<ValidatorId>,
    sites: Signs<SiteId>,
    /// Validators that claim nothing until their next report.
    silenced: BTreeSet<ValidatorId>,
}

/// Signs of life. Bounded by the configuration: only known ids are noted.
#[derive(Debug, Default)]
pub struct Presence {
    state: Mutex<State>,
}

/// Signs that were not written down yet.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// Of agents.
    pub validators: Vec<(ValidatorId, Utc)>,
    /// Of probers.
    pub sites: Vec<(SiteId, Utc)>,
}

impl Presence {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a sign of life of an agent. Says whether it may claim again because of it.
    pub fn validator(&self, id: &ValidatorId, now: Utc, timeout_secs: u32) -> bool {
        let before = self.state().validators.note(id, now);
        before.is_none_or(|before| !is_fresh(before, now, timeout_secs))
    }

    /// Notes a sign of life of a prober.
    pub fn site(&self, id: &SiteId, now: Utc) {
        self.state().sites.note(id, now);
    }

    /// The next report of this validator makes it claim again. Asking for work does not: an agent
    /// that can ask but not report would take one address after the other and fail them all.
    pub fn silenced(&self, id: &ValidatorId) {
        self.state().silenced.insert(id.clone());
    }

    /// Notes that an agent has reported something. Says whether that ends a silence.
    pub fn reported(&self, id: &ValidatorId) -> bool {
        self.state().silenced.remove(id)
    }

    /// Nothing that was known of a validator of this name holds any longer.
    pub fn forget_validator(&self, id: &ValidatorId) {
        let mut state = self.state();
        state.validators.forget(id);
        state.silenced.remove(id);
    }

    /// Nothing that was known of a site of this name holds any longer.
    pub fn forget_site(&self, id: &SiteId) {
        self.state().sites.forget(id);
    }

    /// Takes over what was written down before a restart.
    pub fn restore(&self, validators: Vec<(ValidatorId, Utc)>, sites: Vec<(SiteId, Utc)>) {
        let mut state = self.state();
        state.validators.last.extend(validators);
        state.sites.last.extend(sites);
    }

    /// Moves every sign of life: time was lost in which none could be heard.
    pub fn shift(&self, micros: i64) {
        let mut state = self.state();
        state.validators.shift(micros);
        state.sites.shift(micros);
    }

    /// Validators with a sign of life within the timeout, and when it was.
    #[must_use]
    pub fn fresh(&self, now: Utc, timeout_secs: u32) -> BTreeMap<ValidatorId, Utc> {
        let state = self.state();
        let fresh = state
            .validators
            .last
            .iter()
            .filter(|(_, at)| is_fresh(**at, now, timeout_secs));
        fresh.map(|(id, at)| (id.clone(), *at)).collect()
    }

    /// The last sign of life of an agent.
    #[must_use]
    pub fn last_of_validator(&self, id: &ValidatorId) -> Option<Utc> {
        self.state().validators.last.get(id).copied()
    }

    /// The last sign of life of a prober.
    #[must_use]
    pub fn last_of_site(&self, id: &SiteId) -> Option<Utc> {
        self.state().sites.last.get(id).copied()
    }

    /// Takes what is to be written down.
    #[must_use]
    pub fn take_unwritten(&self) -> Unwritten {
        let mut state = self.state();
        Unwritten {
            validators: std::mem::take(&mut state.validators.unwritten)
                .into_iter()
                .collect(),
            sites: std::mem::take(&mut state.sites.unwritten)
                .into_iter()
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_is_news_when_it_ends_a_silence() {
        let presence = Presence::default();
        let id = ValidatorId::parse("v1").unwrap();
        let at = |secs| Utc::EPOCH.plus_secs(secs);
        assert!(presence.validator(&id, at(0), 30));
        assert!(!presence.validator(&id, at(30), 30));
        assert!(presence.validator(&id, at(61), 30));
        presence.silenced(&id);
        assert!(
            !presence.validator(&id, at(62), 30),
            "asking for work ends no silence"
        );
        assert!(presence.reported(&id));
        assert!(!presence.reported(&id));
        assert!(!presence.validator(&id, at(63), 30));
        assert_eq!(presence.fresh(at(93), 30).len(), 1);
        assert_eq!(presence.fresh(at(94), 30).len(), 0);
        assert_eq!(presence.take_unwritten().validators, [(id, at(63))]);
        assert_eq!(presence.take_unwritten().validators, []);
    }

    #[test]
    fn a_name_that_is_given_anew_begins_without_a_past() {
        let presence = Presence::default();
        let id = ValidatorId::parse("v1").unwrap();
        let site = SiteId::parse("s1").unwrap();
        let now = Utc::EPOCH.plus_secs(1);
        presence.validator(&id, now, 30);
        presence.silenced(&id);
        presence.site(&site, now);
        presence.forget_validator(&id);
        presence.forget_site(&site);
        assert!(presence.fresh(now, 30).is_empty());
        assert_eq!(presence.last_of_site(&site), None);
        let unwritten = presence.take_unwritten();
        assert!(unwritten.validators.is_empty() && unwritten.sites.is_empty());
        assert!(presence.validator(&id, now, 30));
        assert!(!presence.validator(&id, now, 30));
    }
}
