//! The long poll: keeps a seat's assignments current.
//!
//! Against a server that holds requests it asks again at once; against one that does not know
//! `wait` it asks at the advised interval. What is published is a level, not an edge: a reader
//! that misses one in between sees the next.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::client::Answer;
use crate::error::LinkError;
use crate::seat::Seat;
use crate::side::Side;

/// How long the server may hold a poll; half of what the contract allows.
const WAIT: Duration = Duration::from_secs(30);
/// How long after a wish a poll that is under way may still bring the news. After that it hangs,
/// perhaps on a connection whose address translation has changed.
const WISH_GRACE: Duration = Duration::from_millis(250);

/// What one round of the poll brought.
enum Round {
    Answered {
        answer: Result<Answer, LinkError>,
        /// A wish came meanwhile, so the answer may be older than the news.
        is_wished: bool,
    },
    /// Given up in favour of a new one.
    AskAgain,
}

/// How long to pause after an answer that said nothing new and took `took`: nothing if the server
/// held it, else the rest of the interval. So equal answers that come early never spin.
fn pause_after_same(took: Duration, interval: Duration) -> Duration {
    interval.saturating_sub(took)
}

impl<S: Side> Seat<S> {
    pub(crate) async fn poll_for_ever(&self) {
        let mut backoff = Backoff::default();
        let mut etag: Option<String> = None;
        loop {
            let asked = Instant::now();
            let (answer, is_wished) = match self.poll_round(etag.as_deref()).await {
                Round::Answered { answer, is_wished } => (answer, is_wished),
                Round::AskAgain => continue,
            };
            match answer.and_then(|answer| self.take(answer, &mut etag)) {
                Ok(is_new) if is_new || is_wished => backoff.reset(),
                Ok(_) => {
                    backoff.reset();
                    let pause = pause_after_same(asked.elapsed(), self.poll_interval());
                    self.pause_unless_wished(pause).await;
                }
                Err(error) => self.recover(&error, &mut backoff, &mut etag).await,
            }
        }
    }

    /// One request, given up if a wish comes and the answer does not follow it soon.
    async fn poll_round(&self, etag: Option<&str>) -> Round {
        let asking = self.ask(WAIT, etag);
        tokio::pin!(asking);
        tokio::select! {
            answer = &mut asking => return Round::Answered { answer, is_wished: false },
            () = self.wish.notified() => {}
        }
        match tokio::time::timeout(WISH_GRACE, asking).await {
            Ok(answer) => Round::Answered {
                answer,
                is_wished: true,
            },
            Err(_elapsed) => Round::AskAgain,
        }
    }

    /// Publishes what is new; says whether anything was.
    fn take(&self, answer: Answer, etag: &mut Option<String>) -> Result<bool, LinkError> {
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(false);
        }
        let list = if answer.status == StatusCode::NO_CONTENT {
            Vec::new()
        } else {
            S::read(&answer.body).map_err(|error| LinkError::BadAnswer {
                what: format!("GET {}", S::POLL),
                why: error.to_string(),
            })?
        };
        *etag = answer.etag;
        Ok(self.publish(list))
    }

    fn publish(&self, list: Vec<S::Assignment>) -> bool {
        self.assigned.send_if_modified(|now| {
            let is_new = *now != list;
            *now = list;
            is_new
        })
    }

    /// Waits out a failure, then registers: a server that was away may have lost its memory of
    /// us without refusing anything.
    async fn recover(&self, error: &LinkError, backoff: &mut Backoff, etag: &mut Option<String>) {
        if error.status() == Some(404) {
            // Not known there: whatever we were doing is nobody's wish any more.
            *etag = None;
            self.publish(Vec::new());
        }
        let wait = backoff.next(fastrand::f64(), error.advice());
        self.complain(
            error,
            "cannot ask for assignments; trying again",
            wait,
            backoff,
        );
        tokio::time::sleep(wait).await;
        self.register_until_known().await;
        self.back.notify_waiters();
    }

    async fn pause_unless_wished(&self, pause: Duration) {
        if pause.is_zero() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.wish.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_held_is_followed_at_once_and_an_early_one_after_the_interval() {
        let interval = Duration::from_secs(5);
        assert_eq!(
            pause_after_same(Duration::from_secs(30), interval),
            Duration::ZERO
        );
        assert_eq!(pause_after_same(Duration::ZERO, interval), interval);
        let half = Duration::from_millis(2500);
        assert_eq!(pause_after_same(half, interval), half);
    }
}
