//! Sends to one receiver what waits for it, oldest first, until it is delivered or given up.

use std::sync::Arc;
use std::time::Duration;

use civ_boot::chain::Chain;
use civ_orch::delivery::{self, Failure};
use civ_proto::notify::{EVENT_ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use civ_store::StoreError;
use civ_store::notifications::{self, Next, Notification};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::message::{Key, body};
use crate::app::App;
use crate::config::Receiver;
use crate::runner::jitter;

/// Pause after a fault of the database.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// How long nothing may be looked for without a hint; hints may be lost.
const IDLE_LOOK: Duration = Duration::from_secs(60);

/// How much of the answer to a failed try is kept for the log, in characters.
const ANSWER_CHARS_MAX: usize = 200;

/// What one receiver's task works with.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) app: App,
    pub(super) http: reqwest::Client,
    pub(super) receiver: Arc<Receiver>,
    pub(super) key: Key,
    pub(super) shutdown: CancellationToken,
}

/// Why a try failed, for the decision and for people.
struct Failed {
    failure: Failure,
    why: String,
}

/// What is known of the receiver since its last success.
#[derive(Debug, Default)]
struct Trouble {
    in_row: u32,
    why: String,
}

impl Sender {
    pub(super) async fn run(self) {
        let mut changes = self.app.hub().watch_notifications();
        let mut trouble = Trouble::default();
        loop {
            changes.mark_unchanged();
            let wait = match self.step(&mut trouble).await {
                Ok(wait) => wait,
                Err(error) => {
                    let (receiver, error) = (&self.receiver.name, Chain(&error));
                    tracing::error!(receiver, %error, "the outbox of notifications failed");
                    Wait::Pause(FAULT_PAUSE)
                }
            };
            if self.rest(wait, &mut changes).await {
                return;
            }
        }
    }

    /// Says whether the process is to end.
    async fn rest(&self, wait: Wait, changes: &mut watch::Receiver<u64>) -> bool {
        let (time, woken_early) = match wait {
            Wait::Not => return self.shutdown.is_cancelled(),
            Wait::Pause(time) => (time, false),
            Wait::News(time) => (time, true),
        };
        tokio::select! {
            () = self.shutdown.cancelled() => true,
            () = tokio::time::sleep(time) => false,
            _ = changes.changed(), if woken_early => false,
        }
    }

    /// One try, if there is something to send.
    async fn step(&self, trouble: &mut Trouble) -> Result<Wait, StoreError> {
        let (name, now) = (self.receiver.name.clone(), self.app.now());
        let next = self
            .app
            .read(move |conn| notifications::next(conn, &name, now));
        let row = match next.await? {
            Next::Nothing => return Ok(Wait::News(IDLE_LOOK)),
            Next::Later(at) => return Ok(Wait::News(at.since(now).min(IDLE_LOOK))),
            Next::Send(row) => row,
        };
        if delivery::is_over(row.queued_at, now) {
            self.give_up(trouble).await?;
            return Ok(Wait::Not);
        }
        let sent = tokio::select! {
            // It is sent again after the restart.
            () = self.shutdown.cancelled() => return Ok(Wait::Not),
            sent = self.send(&row) => sent,
        };
        match sent {
            Ok(()) => {
                self.delivered(row.id, trouble).await?;
                Ok(Wait::Not)
            }
            Err(failed) => self.failed(&row, failed, trouble).await,
        }
    }

    async fn send(&self, row: &Notification) -> Result<(), Failed> {
        let body = body(row).map_err(|error| Failed {
            failure: Failure::Answer,
            why: format!("the body could not be written: {error}"),
        })?;
        let timestamp = (self.app.now().as_micros() / 1_000_000).to_string();
        let signature = self.key.sign(&timestamp, &body);
        let request = self
            .http
            .post(self.receiver.url.clone())
            .timeout(self.receiver.timeout)
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .header(TIMESTAMP_HEADER, timestamp)
            .header(SIGNATURE_HEADER, signature)
            .header(EVENT_ID_HEADER, row.event_id)
            .body(body);
        let lost = |error: reqwest::Error| Failed {
            failure: Failure::Receiver,
            // The URL may hold a secret of the receiver.
            why: Chain(&error.without_url()).to_string(),
        };
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(Failed {
            failure: Failure::of_status(status.as_u16()),
            why: format!("HTTP {}: {}", status.as_u16(), beginning(answer).await),
        })
    }

    async fn delivered(&self, id: i64, trouble: &mut Trouble) -> Result<(), StoreError> {
        if trouble.in_row > 0 {
            let receiver = &self.receiver.name;
            tracing::info!(receiver, "notifications are accepted again");
            *trouble = Trouble::default();
        }
        let name = self.receiver.name.clone();
        let write = self
            .app
            .write(move |tx| notifications::delivered(tx, &name, id));
        write.await
    }

    async fn failed(
        &self,
        row: &Notification,
        failed: Failed,
        trouble: &mut Trouble,
    ) -> Result<Wait, StoreError> {
        trouble.in_row = trouble.in_row.saturating_add(1);
        let tries = row.tries.saturating_add(1);
        let now = self.app.now();
        let retry = delivery::after_failure(failed.failure, trouble.in_row, tries, now, jitter());
        let (receiver, why) = (&self.receiver.name, &failed.why);
        if trouble.in_row == 1 {
            tracing::warn!(receiver, event = row.event_id, why, "a notification failed");
        } else {
            tracing::debug!(receiver, event = row.event_id, tries, why, "failed again");
        }
        trouble.why = failed.why;
        let (id, aside) = (row.id, retry.aside_until);
        let write = self
            .app
            .write(move |tx| notifications::failed(tx, id, aside));
        write.await?;
        Ok(Wait::Pause(retry.pause))
    }

    async fn give_up(&self, trouble: &Trouble) -> Result<(), StoreError> {
        let (name, why) = (self.receiver.name.clone(), trouble.why.clone());
        let write = self
            .app
            .write(move |tx| notifications::give_up(tx, &name, delivery::GIVE_UP_AFTER, &why));
        if let Some(given_up) = write.await? {
            tracing::warn!(
                receiver = self.receiver.name,
                count = given_up.count,
                first_event = given_up.first_event,
                last_event = given_up.last_event,
                why = trouble.why,
                "notifications were not delivered in 24 hours and are given up"
            );
        }
        Ok(())
    }
}

/// When to look again.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// At once.
    Not,
    /// After that time, whatever happens.
    Pause(Duration),
    /// After that time, or when there is something new.
    News(Duration),
}

/// The beginning of an answer, printable; its rest is not read.
async fn beginning(mut answer: reqwest::Response) -> String {
    // An answer that breaks off or says nothing is as good as an empty one: the status counts.
    let part = answer.chunk().await.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&part);
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(ANSWER_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use civ_store::events::{self, NewEvent};
    use civ_testkit::{FakeClock, TempStore};
    use civ_types::{Clock, NOTIFICATION_DROPPED};

    use super::*;
    use crate::app::{Hub, Inner, Presence};

    /// A sender to an address at which nobody listens, on a clock that is moved by hand.
    async fn sender(db: &TempStore) -> Sender {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control-api.yaml");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let yaml = format!(
            "notifications: [{{ name: r, url: 'http://{addr}/?key=k', secret_env: A, \
             events: ['*'] }}]"
        );
        std::fs::write(&file, yaml).unwrap();
        let settings = crate::config::load(&file).unwrap().settings;
        let rows = crate::notify::rows(&settings.notifications);
        db.write(move |tx| notifications::configure(tx, &rows))
            .await
            .unwrap();
        let clock: Arc<dyn Clock> = Arc::<FakeClock>::clone(&db.clock);
        Sender {
            app: App::new(Inner {
                store: db.store().clone(),
                clock,
                hub: Arc::new(Hub::default()),
                presence: Arc::new(Presence::default()),
                timers: settings.timers,
                families: Vec::new(),
                last_round: AtomicI64::new(0),
                signs: crate::app::Signs::default(),
                metrics: crate::metrics::Metrics::default(),
                scans: Arc::default(),
                backups: None,
            }),
            http: crate::notify::client().unwrap(),
            receiver: Arc::new(settings.notifications[0].clone()),
            key: Key::new(b"k"),
            shutdown: CancellationToken::new(),
        }
    }

    #[tokio::test]
    async fn after_a_day_without_an_answer_a_notification_is_given_up_and_that_is_told() {
        let db = TempStore::new();
        let sender = sender(&db).await;
        let mut trouble = Trouble::default();
        let failed = NewEvent::new("failed");
        db.write(move |tx| events::append(tx, &failed))
            .await
            .unwrap();
        for _ in 0..3 {
            let wait = sender.step(&mut trouble).await.unwrap();
            assert!(matches!(wait, Wait::Pause(_)), "{wait:?}");
        }
        assert_eq!(trouble.in_row, 3);
        assert!(trouble.why.contains("refused") && !trouble.why.contains("key=k"));
        db.clock.advance(delivery::GIVE_UP_AFTER);
        let wait = sender.step(&mut trouble).await.unwrap();
        assert!(matches!(wait, Wait::Not), "{wait:?}");
        let latest = db.read(|conn| events::latest(conn, 1)).await.unwrap();
        assert_eq!(latest[0].event_type, NOTIFICATION_DROPPED);
        assert!(
            latest[0].payload.contains("refused"),
            "{}",
            latest[0].payload
        );
        assert!(!latest[0].payload.contains("key=k"));
    }
}
