//! Signs of life while nothing else is said.
//!
//! Any request counts as a sign of life for the server, so a heartbeat goes out only when no
//! other request has succeeded lately. Its answer says whether the server still knows us as
//! registered: an entry that was made anew in the configuration refuses nothing else.

use std::time::Duration;

use civ_proto::Alive;
use civ_proto::agent::Heartbeat;

use crate::backoff::Backoff;
use crate::error::LinkError;
use crate::seat::Seat;
use crate::side::Side;

/// How long the silence may still last, by the age of the last sign of life; `None`: it is over.
fn rest(heard: Option<Duration>, interval: Duration) -> Option<Duration> {
    heard
        .and_then(|age| interval.checked_sub(age))
        .filter(|left| !left.is_zero())
}

impl<S: Side> Seat<S> {
    pub(crate) async fn heartbeat_for_ever(&self) {
        let mut backoff = Backoff::default();
        loop {
            let heard = self.last_heard().map(|moment| moment.elapsed());
            if let Some(left) = rest(heard, self.heartbeat_interval()) {
                // A millisecond more: timers are coarse, and a turn too early is a turn lost.
                tokio::time::sleep(left + Duration::from_millis(1)).await;
                continue;
            }
            match self.heartbeat().await {
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

    /// Shows a sign of life, and registers again if the answer asks for it.
    async fn heartbeat(&self) -> Result<(), LinkError> {
        let local_state = Some(self.local_state().to_owned());
        let answer = self.post("heartbeat", &Heartbeat { local_state }).await?;
        // An older server answers less, and what it does not say is no wish.
        let wanted = serde_json::from_slice(&answer).is_ok_and(|alive: Alive| !alive.registered);
        if wanted {
            tracing::info!(id = self.id(), "control-api asks for a registration");
            self.register().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_sent_only_into_silence() {
        let secs = Duration::from_secs;
        assert_eq!(rest(Some(secs(2)), secs(5)), Some(secs(3)));
        assert_eq!(rest(Some(secs(5)), secs(5)), None);
        assert_eq!(rest(Some(secs(9)), secs(5)), None);
        assert_eq!(rest(None, secs(5)), None);
    }
}
