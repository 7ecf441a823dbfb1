//! The forms in which agent and prober say the same things.

use std::time::Duration;

use civ_proto::{EventReport, Inconclusive};

use crate::side::Claim;

/// Whole milliseconds, rounded, as rows carry them.
#[must_use]
pub fn whole_ms(duration: Duration) -> i64 {
    i64::try_from((duration.as_micros() + 500) / 1000).unwrap_or(i64::MAX)
}

/// The event `check_inconclusive`: a check that could not be carried out for a reason of ours.
/// `code` is the stable code and what was seen; `target` is empty for inbound.
#[must_use]
pub fn inconclusive(claim: Claim, check_type: &str, target: &str, code: &str) -> EventReport {
    let payload = Inconclusive {
        check_type: check_type.to_owned(),
        target: target.to_owned(),
        code: code.to_owned(),
    };
    EventReport {
        event_type: "check_inconclusive".to_owned(),
        ip_id: Some(claim.ip_id),
        // Three texts always have a JSON form.
        payload: serde_json::to_string(&payload).ok(),
        fence: claim.fence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded() {
        let ms = |micros| whole_ms(Duration::from_micros(micros));
        assert_eq!(
            [ms(0), ms(499), ms(500), ms(1499), ms(1500)],
            [0, 0, 1, 1, 2]
        );
    }

    #[test]
    fn an_inconclusive_check_names_itself_and_its_claim() {
        let claim = Claim {
            ip_id: 42,
            attempt_number: 1,
            fence: Some(7),
        };
        let event = inconclusive(claim, "icmp", "a.example", "permission no ping socket");
        let payload: Inconclusive = serde_json::from_str(&event.payload.unwrap()).unwrap();
        assert_eq!((event.ip_id, event.fence), (Some(42), Some(7)));
        assert_eq!(
            (payload.check_type, payload.target),
            ("icmp".to_owned(), "a.example".to_owned())
        );
    }
}
