//! Owns the comparison of what writes to the queue were answered with what the history tells.
//! Pure: it is given both, and returns what does not agree.

use std::collections::{BTreeMap, BTreeSet};

use civ_proto::read_model::Event;
use serde_json::Value;

use crate::listener::Notification;

/// Events of an address that a write to the queue leaves.
const LEFT: [&str; 3] = ["enqueued", "cancelled", "deleted"];

/// A write to the queue, as an answer or an administrative event tells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Write {
    /// The type of the administrative event.
    pub(crate) event_type: String,
    /// List to addresses, by the words of the contract; `cancelled` and `deleted` for the one of a
    /// path.
    pub(crate) lists: BTreeMap<String, Vec<String>>,
}

impl Write {
    /// Of one address.
    pub(crate) fn one(event_type: &str, address: &str) -> Self {
        let list = if event_type == "admin_ip_cancelled" {
            "cancelled"
        } else {
            "deleted"
        };
        Self {
            event_type: event_type.to_owned(),
            lists: BTreeMap::from([(list.to_owned(), vec![address.to_owned()])]),
        }
    }

    /// From the lists of an answer. What was not in the queue stands in no event.
    pub(crate) fn answered(event_type: &str, answer: &Value) -> Self {
        Self::listed(event_type, answer, |list| list)
    }

    fn listed(event_type: &str, told: &Value, of: impl Fn(&Value) -> &Value) -> Self {
        let lists = told.as_object().into_iter().flatten();
        let lists = lists.filter(|(name, _)| *name != "not_found");
        Self {
            event_type: event_type.to_owned(),
            lists: lists
                .map(|(name, list)| (name.clone(), texts(of(list))))
                .collect(),
        }
    }

    fn told(event: &Notification) -> Option<Self> {
        let payload: Value = serde_json::from_str(&event.payload).ok()?;
        let kind = event.event_type.as_str();
        Some(match kind {
            "admin_ips_enqueued" => Self::listed(kind, &payload["after"], |list| &list["first"]),
            "admin_ips_deleted" | "queue_cleared" => Self {
                event_type: kind.to_owned(),
                lists: BTreeMap::from([("deleted".to_owned(), texts(&payload["before"]["first"]))]),
            },
            _ => Self::one(kind, payload["what"].as_str()?.strip_prefix("ips ")?),
        })
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &String> {
        self.lists.get(name).into_iter().flatten()
    }

    /// Events that it must have left, in order of address.
    fn leaves(&self) -> Vec<(&str, &str)> {
        let enqueued = self.list("added").chain(self.list("requeued"));
        let mut all: Vec<_> = enqueued.map(|ip| ("enqueued", ip.as_str())).collect();
        all.extend(self.list("cancelled").map(|ip| ("cancelled", ip.as_str())));
        all.extend(self.list("deleted").map(|ip| ("deleted", ip.as_str())));
        all.sort_unstable();
        all
    }
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Compares: each answered write has one administrative event that says the same and there are no
/// others; right before it stand the events of its addresses, each once and of the right cycle;
/// and every list is true of the queue as it was at that moment.
pub(crate) fn faults(
    answered: &[Write],
    administrative: &[Notification],
    of_addresses: &[Event],
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut told = Vec::new();
    for event in administrative {
        match Write::told(event) {
            Some(write) => told.push((event.id, write)),
            None => faults.push(format!("not to be understood: {event:?}")),
        }
    }
    faults.extend(unequal(answered, &told));
    let mut events: Vec<&Event> = of_addresses
        .iter()
        .filter(|event| LEFT.contains(&event.event_type.as_str()))
        .collect();
    events.sort_by_key(|event| event.id);
    let mut events = events.into_iter().peekable();
    let mut queue = Queue::default();
    for (id, write) in &told {
        let mut left = Vec::new();
        while let Some(event) = events.next_if(|event| event.id < *id) {
            left.push(event);
        }
        queue.take(write, &left);
    }
    faults.extend(events.map(|event| format!("left by no write: {event:?}")));
    faults.extend(queue.faults);
    faults
}

/// As often answered as told.
fn unequal(answered: &[Write], told: &[(i64, Write)]) -> Vec<String> {
    let mut balance: BTreeMap<&Write, i64> = BTreeMap::new();
    for write in answered {
        *balance.entry(write).or_default() += 1;
    }
    for (_, write) in told {
        *balance.entry(write).or_default() -= 1;
    }
    balance.retain(|_, n| *n != 0);
    let lines = balance.into_iter();
    lines
        .map(|(write, n)| format!("answered {n} times more often than told: {write:?}"))
        .collect()
}

/// The queue, as the history so far makes it.
#[derive(Debug, Default)]
struct Queue {
    present: BTreeSet<String>,
    /// Address to its latest cycle.
    cycles: BTreeMap<String, Option<i64>>,
    faults: Vec<String>,
}

impl Queue {
    fn take(&mut self, write: &Write, left: &[&Event]) {
        let mut got: Vec<_> = left
            .iter()
            .map(|event| {
                let address = event.ip_address.as_deref().unwrap_or_default();
                (event.event_type.as_str(), address)
            })
            .collect();
        got.sort_unstable();
        if got != write.leaves() {
            self.faults.push(format!("{write:?} left {got:?}"));
        }
        self.demand(write);
        for event in left {
            self.apply(event);
        }
    }

    /// Whether the write's lists are true of the queue before it.
    fn demand(&mut self, write: &Write) {
        let absent = write.list("added").filter(|ip| self.present.contains(*ip));
        let mut wrong: Vec<String> = absent
            .map(|ip| format!("{ip} was added and was there: {write:?}"))
            .collect();
        for (name, list) in write.lists.iter().filter(|(name, _)| *name != "added") {
            let missing = list.iter().filter(|ip| !self.present.contains(*ip));
            wrong.extend(missing.map(|ip| format!("{ip} is {name} and was not there: {write:?}")));
        }
        let n_deleted = write.list("deleted").count();
        if write.event_type == "queue_cleared" && n_deleted != self.present.len() {
            wrong.push(format!("{:?} were there before {write:?}", self.present));
        }
        self.faults.extend(wrong);
    }

    fn apply(&mut self, event: &Event) {
        let address = event.ip_address.clone().unwrap_or_default();
        let last = self.cycles.get(&address).copied().flatten();
        let right = if event.event_type == "enqueued" {
            event.cycle_id == Some(last.unwrap_or(0) + 1)
        } else {
            event.cycle_id == last
        };
        if !right {
            self.faults
                .push(format!("after cycle {last:?} of {address}: {event:?}"));
        }
        match event.event_type.as_str() {
            "enqueued" => {
                self.cycles.insert(address.clone(), event.cycle_id);
                self.present.insert(address);
            }
            "deleted" => {
                self.present.remove(&address);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(id: i64, kind: &str, cycle: i64) -> Event {
        Event {
            id,
            ip_id: Some(1),
            ip_address: Some("a".to_owned()),
            cycle_id: Some(cycle),
            validator_id: None,
            site_id: None,
            event_type: kind.to_owned(),
            severity: "info".to_owned(),
            payload: String::new(),
            occurred_at: "2026-08-21T09:00:00.000000Z".to_owned(),
        }
    }

    fn told(id: i64, kind: &str, payload: &Value) -> Notification {
        Notification {
            id,
            event_type: kind.to_owned(),
            payload: payload.to_string(),
        }
    }

    fn story() -> (Vec<Write>, Vec<Notification>, Vec<Event>) {
        let lists = json!({"added": ["a"], "requeued": []});
        let answered = vec![
            Write::answered("admin_ips_enqueued", &lists),
            Write::one("admin_ip_cancelled", "a"),
            Write::answered(
                "admin_ips_deleted",
                &json!({"deleted": ["a"], "not_found": []}),
            ),
        ];
        let after = json!({"added": {"count": 1, "first": ["a"]}, "requeued": {"first": []}});
        let before = json!({"count": 1, "first": ["a"]});
        let told = vec![
            told(2, "admin_ips_enqueued", &json!({"after": after})),
            told(4, "admin_ip_cancelled", &json!({"what": "ips a"})),
            told(6, "admin_ips_deleted", &json!({"before": before})),
        ];
        let kinds = [(1, "enqueued"), (3, "cancelled"), (5, "deleted")];
        (
            answered,
            told,
            kinds.map(|(id, kind)| event(id, kind, 1)).to_vec(),
        )
    }

    #[test]
    fn a_true_story_has_no_faults() {
        let (answered, told, events) = story();
        assert_eq!(faults(&answered, &told, &events), Vec::<String>::new());
    }

    #[test]
    fn a_write_without_its_event_is_found_on_both_sides() {
        let (answered, told, events) = story();
        assert_eq!(faults(&answered[..2], &told, &events).len(), 1);
        assert!(!faults(&answered, &told[..2], &events).is_empty());
        assert_eq!(
            faults(&answered, &told, &[&events[..1], &events[2..]].concat()).len(),
            1
        );
    }

    #[test]
    fn an_event_of_another_cycle_is_found() {
        let (answered, told, mut events) = story();
        events[1] = event(3, "cancelled", 2);
        assert_eq!(faults(&answered, &told, &events).len(), 1);
    }

    #[test]
    fn a_list_that_is_not_true_of_the_queue_is_found() {
        let (_, mut told, events) = story();
        told[2].event_type = "queue_cleared".to_owned();
        let Some(mut answered) = told.iter().map(Write::told).collect::<Option<Vec<_>>>() else {
            panic!("a story that is understood");
        };
        assert_eq!(faults(&answered, &told, &events), Vec::<String>::new());
        told[2].payload = json!({"before": {"first": []}}).to_string();
        answered[2].lists.insert("deleted".to_owned(), Vec::new());
        assert_eq!(faults(&answered, &told, &events[..2]).len(), 1);
    }
}
