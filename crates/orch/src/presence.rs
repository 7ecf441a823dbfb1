//! What a validator or a site is, seen from its signs of life and what it holds.

use std::fmt;

use civ_types::Utc;

use crate::attempt::StateName;

/// The state of a validator or a site in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// Configured, never seen.
    Unregistered,
    /// Free.
    Idle,
    /// Holds an address up to the self-check (validators only).
    Assigned,
    /// Holds an address after the self-check (validators only).
    Checking,
    /// Not heard of for longer than the heartbeat's timeout.
    Unreachable,
}

impl Presence {
    /// The word of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unregistered => "unregistered",
            Self::Idle => "idle",
            Self::Assigned => "assigned",
            Self::Checking => "checking",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Was there a sign of life within `timeout_secs`?
#[must_use]
pub fn is_fresh(last_seen: Utc, now: Utc, timeout_secs: u32) -> bool {
    now <= last_seen.plus_secs(timeout_secs)
}

/// The state of a validator or site that registered or not, was last seen then, and holds an
/// address in that state.
#[must_use]
pub fn presence(
    registered: bool,
    last_seen: Option<Utc>,
    holds: Option<StateName>,
    now: Utc,
    timeout_secs: u32,
) -> Presence {
    let Some(last_seen) = last_seen.filter(|_| registered) else {
        return Presence::Unregistered;
    };
    if !is_fresh(last_seen, now, timeout_secs) {
        return Presence::Unreachable;
    }
    match holds {
        Some(StateName::AssigningFip | StateName::AwaitingSelfCheck) => Presence::Assigned,
        Some(StateName::Checking | StateName::Aggregating) => Presence::Checking,
        Some(StateName::Queued | StateName::Done | StateName::Failed | StateName::Occupied)
        | None => Presence::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_brings_back_and_silence_takes_away() {
        let seen = Utc::EPOCH.plus_secs(100);
        let at = |secs| Utc::EPOCH.plus_secs(secs);
        assert_eq!(
            presence(false, None, None, at(0), 30),
            Presence::Unregistered
        );
        assert_eq!(
            presence(true, Some(seen), None, at(130), 30),
            Presence::Idle
        );
        assert_eq!(
            presence(true, Some(seen), None, at(131), 30),
            Presence::Unreachable
        );
        let checking = Some(StateName::Checking);
        assert_eq!(
            presence(true, Some(seen), checking, at(101), 30),
            Presence::Checking
        );
        assert_eq!(
            presence(true, Some(seen), checking, at(140), 30),
            Presence::Unreachable
        );
    }
}
