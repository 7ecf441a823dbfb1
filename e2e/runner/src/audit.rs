//! Owns what must hold after every scenario: rules on the history and on the logs.
//! Pure: it is given what was seen, and returns what is wrong with it.

use std::collections::HashMap;

use civ_proto::read_model::{Event, Ip, IpDetails};

use crate::log_line::LogLine;

/// States in which an address rests.
const TERMINAL: [&str; 3] = ["done", "failed", "occupied"];

/// Whether the address has come to its end.
pub(crate) fn is_terminal(ip: &Ip) -> bool {
    TERMINAL.contains(&ip.state.as_str())
}

/// Every address must be at rest, with a result unless it is `occupied`.
pub(crate) fn queue_faults(queue: &[Ip]) -> Vec<String> {
    let mut faults = Vec::new();
    for ip in queue {
        let (address, state) = (&ip.ip_address, &ip.state);
        if !is_terminal(ip) {
            faults.push(format!("{address} is still {state}"));
        } else if (state == "occupied") != ip.overall_result.is_empty() {
            faults.push(format!(
                "{address} is {state} with the result {:?}",
                ip.overall_result
            ));
        }
    }
    faults
}

/// A claim as the history tells it.
#[derive(Debug, Default)]
struct Claim {
    validator: Option<String>,
    associated: bool,
    checking: bool,
}

/// The rules of the history: what follows what, and one address per validator at a time.
///
/// Events of all addresses are walked in the order in which they were committed.
pub(crate) fn history_faults(addresses: &[IpDetails]) -> Vec<String> {
    let mut events: Vec<&Event> = addresses.iter().flat_map(|a| &a.events).collect();
    events.sort_by_key(|event| event.id);
    events.dedup_by_key(|event| event.id);
    let mut walk = Walk::default();
    for event in events {
        walk.take(event);
    }
    walk.end()
}

#[derive(Debug, Default)]
struct Walk {
    /// Open claims by address.
    open: HashMap<String, Claim>,
    /// Who holds which validator.
    holders: HashMap<String, String>,
    faults: Vec<String>,
}

impl Walk {
    fn take(&mut self, event: &Event) {
        let Some(address) = event.ip_address.clone() else {
            return;
        };
        match event.event_type.as_str() {
            "claimed" => self.claimed(address, event.validator_id.clone()),
            "fip_associated" => self.in_claim(&address, event, |claim| {
                let twice = std::mem::replace(&mut claim.associated, true);
                (!twice).then_some(())
            }),
            "checking_started" => self.in_claim(&address, event, |claim| {
                claim.checking = true;
                claim.associated.then_some(())
            }),
            "aggregated" => self.in_claim(&address, event, |claim| claim.checking.then_some(())),
            "fip_released" => self.close(&address),
            "requeued" | "fip_occupied" | "fip_conflict" | "failed" | "cancelled" | "deleted"
                if self
                    .open
                    .get(&address)
                    .is_some_and(|claim| !claim.associated) =>
            {
                self.close(&address);
            }
            _ => {}
        }
    }

    fn claimed(&mut self, address: String, validator: Option<String>) {
        if self.open.contains_key(&address) {
            self.faults.push(format!(
                "{address} was claimed while a claim of it was open"
            ));
        }
        match &validator {
            None => self
                .faults
                .push(format!("{address} was claimed by no validator")),
            Some(name) => {
                if let Some(holder) = self.holders.insert(name.clone(), address.clone()) {
                    self.faults
                        .push(format!("{name} claimed {address} while it held {holder}"));
                }
            }
        }
        let claim = Claim {
            validator,
            ..Claim::default()
        };
        self.open.insert(address, claim);
    }

    fn in_claim(
        &mut self,
        address: &str,
        event: &Event,
        rule: impl FnOnce(&mut Claim) -> Option<()>,
    ) {
        let what = &event.event_type;
        match self.open.get_mut(address).map(rule) {
            None => self
                .faults
                .push(format!("{what} of {address} without an open claim")),
            Some(None) => self
                .faults
                .push(format!("{what} of {address} out of its order")),
            Some(Some(())) => {}
        }
    }

    fn close(&mut self, address: &str) {
        let Some(claim) = self.open.remove(address) else {
            return;
        };
        if let Some(validator) = claim.validator {
            self.holders.remove(&validator);
        }
    }

    fn end(mut self) -> Vec<String> {
        for (address, claim) in &self.open {
            if claim.associated {
                self.faults
                    .push(format!("{address} was associated and never released"));
            } else {
                self.faults
                    .push(format!("a claim of {address} was never closed"));
            }
        }
        self.faults.sort();
        self.faults
    }
}

/// Warnings, errors and lines that are no log lines (a panic's text), unless expected.
pub(crate) fn log_faults(name: &str, text: &str, expected: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let quiet =
            LogLine::parse(line).is_some_and(|log| !matches!(log.text("level"), "WARN" | "ERROR"));
        if !quiet && !expected.iter().any(|part| line.contains(part)) {
            let short: String = line.chars().take(300).collect();
            faults.push(format!("{name} logged: {short}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: i64, address: &str, kind: &str, validator: &str) -> Event {
        Event {
            id,
            ip_id: Some(1),
            ip_address: Some(address.to_owned()),
            cycle_id: Some(1),
            validator_id: Some(validator.to_owned()),
            site_id: None,
            event_type: kind.to_owned(),
            severity: "info".to_owned(),
            payload: String::new(),
            occurred_at: "2026-08-21T09:00:00.000000Z".to_owned(),
        }
    }

    fn walk(events: &[Event]) -> Vec<String> {
        let mut walk = Walk::default();
        for event in events {
            walk.take(event);
        }
        walk.end()
    }

    const STORY: [&str; 6] = [
        "enqueued",
        "claimed",
        "fip_associated",
        "checking_started",
        "aggregated",
        "fip_released",
    ];

    #[test]
    fn a_whole_story_is_in_order() {
        let ids = 1..;
        let events = ids.zip(STORY).map(|(id, kind)| event(id, "a", kind, "v"));
        assert_eq!(walk(&events.collect::<Vec<_>>()), Vec::<String>::new());
    }

    #[test]
    fn a_story_without_its_release_is_not() {
        let ids = 1..;
        let events = ids
            .zip(&STORY[..5])
            .map(|(id, kind)| event(id, "a", kind, "v"));
        assert_eq!(
            walk(&events.collect::<Vec<_>>()),
            ["a was associated and never released"]
        );
    }

    #[test]
    fn a_validator_holds_one_address_at_a_time() {
        let events = vec![
            event(1, "a", "claimed", "v"),
            event(2, "b", "claimed", "v"),
            event(3, "a", "requeued", "v"),
            event(4, "b", "fip_occupied", "v"),
        ];
        assert_eq!(walk(&events), ["v claimed b while it held a"]);
    }

    #[test]
    fn checking_without_an_association_is_out_of_order() {
        let events = vec![
            event(1, "a", "claimed", "v"),
            event(2, "a", "checking_started", "v"),
            event(3, "a", "failed", "v"),
        ];
        assert_eq!(walk(&events), ["checking_started of a out of its order"]);
    }

    #[test]
    fn warnings_and_panics_are_found_unless_expected() {
        let text = "{\"level\":\"INFO\",\"message\":\"ready\"}\n\
                    {\"level\":\"WARN\",\"message\":\"no token\"}\n\
                    thread 'main' panicked at src/x.rs\n";
        assert_eq!(log_faults("x", text, &["no token"]).len(), 1);
        assert_eq!(log_faults("x", text, &[]).len(), 2);
    }
}
