//! Signs of life while nothing else is said, and a fresh registration from time to time.
//!
//! Any request counts as a sign of life for the server, so a heartbeat goes out only when no
//! other request has succeeded lately.

use std::time::Duration;

use civ_proto::agent::Heartbeat;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::LinkError;
use crate::seat::Seat;
use crate::side::Side;

/// How often we register again. An entry that was made anew in the configuration, or came from a
/// backup, waits for a registration without refusing anything that would tell us.
const REGISTER_EVERY: Duration = Duration::from_secs(60);

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Register,
    Heartbeat,
    Nothing(Duration),
}

/// Decides from the ages of the last registration and the last sign of life.
fn due(registered: Option<Duration>, heard: Option<Duration>, interval: Duration) -> Due {
    let Some(until_register) = registered.and_then(|age| REGISTER_EVERY.checked_sub(age)) else {
        return Due::Register;
    };
    match heard.and_then(|age| interval.checked_sub(age)) {
        Some(left) if !left.is_zero() => Due::Nothing(left.min(until_register)),
        _ => Due::Heartbeat,
    }
}

impl<S: Side> Seat<S> {
    pub(crate) async fn heartbeat_for_ever(&self) {
        let mut backoff = Backoff::default();
        loop {
            let (heard, registered) = self.last_signs();
            let age = |moment: Option<Instant>| moment.map(|moment| moment.elapsed());
            let sent = match due(age(registered), age(heard), self.heartbeat_interval()) {
                Due::Register => self.register().await,
                Due::Heartbeat => self.heartbeat().await,
                Due::Nothing(left) => {
                    // A millisecond more: timers are coarse, and a turn too early is a turn lost.
                    tokio::time::sleep(left + Duration::from_millis(1)).await;
                    continue;
                }
            };
            match sent {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    if error.status() == Some(404) {
                        // The poll meets the same 404 and registers.
                        self.ask_again();
                    }
                    let wait = backoff.next(fastrand::f64(), error.advice());
                    self.complain(&error, "no sign of life got through", wait, &backoff);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn heartbeat(&self) -> Result<(), LinkError> {
        let local_state = Some(self.local_state().to_owned());
        self.post("heartbeat", &Heartbeat { local_state })
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_sent_only_into_silence() {
        let secs = Duration::from_secs;
        let fresh = Some(secs(1));
        assert_eq!(due(fresh, Some(secs(2)), secs(5)), Due::Nothing(secs(3)));
        assert_eq!(due(fresh, Some(secs(5)), secs(5)), Due::Heartbeat);
        assert_eq!(due(fresh, None, secs(5)), Due::Heartbeat);
    }

    #[test]
    fn registration_is_renewed_whatever_else_was_said() {
        let secs = Duration::from_secs;
        assert_eq!(due(Some(secs(61)), Some(secs(0)), secs(5)), Due::Register);
        assert_eq!(due(None, Some(secs(0)), secs(5)), Due::Register);
        assert_eq!(
            due(Some(secs(59)), Some(secs(0)), secs(5)),
            Due::Nothing(secs(1))
        );
    }
}
