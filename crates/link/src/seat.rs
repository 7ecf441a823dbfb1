//! One identity (a validator or a site) at control-api: what its loops share.
//!
//! Owns the advice of the server, the last sign of life, the published assignments and the bound
//! on reports that wait. The loops themselves are in `poll`, `heartbeat` and `courier`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::backoff::Backoff;
use crate::client::{Answer, Client};
use crate::error::LinkError;
use crate::side::Side;

/// Reports that wait in memory while control-api is away: at 1 KiB each about a megabyte. When
/// it is full, checks that are done wait with their result; nothing is dropped.
const SPOOL_MAX: usize = 1000;
/// What is assumed until `register` has given the server's own advice.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
/// A server that advises more must not make us look dead: its heartbeat timeout is 30 s.
const HEARTBEAT_MAX: Duration = Duration::from_secs(10);
/// The longest advice that is followed.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// One registered identity and its link to control-api.
#[derive(Debug)]
pub struct Seat<S: Side> {
    client: Client,
    id: String,
    token: Option<SecretString>,
    register: S::Register,
    /// Guards a few words that are read and written whole; never held across an await.
    signs: Mutex<Signs>,
    pub(crate) assigned: watch::Sender<Vec<S::Assignment>>,
    /// One permit: "ask again now". Lost wishes do no harm, a poll is under way then.
    pub(crate) wish: Notify,
    /// Wakes reports that wait for a try: control-api is back. Lost wakes cost a wait.
    pub(crate) back: Notify,
    /// Bound of [`SPOOL_MAX`] reports over all claims of this seat.
    pub(crate) spool: Arc<Semaphore>,
}

#[derive(Debug)]
struct Signs {
    interval: Duration,
    local_state: &'static str,
    /// When the last request that succeeded was sent: the server counts it as a sign of life.
    heard: Option<Instant>,
}

impl<S: Side> Seat<S> {
    /// A seat that has not asked for anything yet. `id` is the `validator_id` or `site_id`;
    /// `token` goes with every request (methods that are open ignore it).
    #[must_use]
    pub fn new(
        client: Client,
        id: &str,
        token: Option<SecretString>,
        register: S::Register,
    ) -> Self {
        Self {
            client,
            id: id.to_owned(),
            token,
            register,
            signs: Mutex::new(Signs {
                interval: INTERVAL_DEFAULT,
                local_state: "idle",
                heard: None,
            }),
            assigned: watch::Sender::new(Vec::new()),
            wish: Notify::new(),
            back: Notify::new(),
            spool: Arc::new(Semaphore::new(SPOOL_MAX)),
        }
    }

    /// Registers (as often as it takes), then polls and shows signs of life until `stop`.
    /// Outages of control-api are waited out.
    pub async fn run(&self, stop: &CancellationToken) {
        let loops = async {
            self.register_until_known().await;
            tokio::join!(self.poll_for_ever(), self.heartbeat_for_ever());
        };
        // Dropping the loops is safe: a poll or heartbeat that is cut off changes nothing.
        let _stopped = stop.run_until_cancelled(loops).await;
    }

    /// The validator's or site's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What control-api wants done now, kept current by [`Self::run`]. It stays as it was while
    /// control-api is away.
    #[must_use]
    pub fn assigned(&self) -> watch::Receiver<Vec<S::Assignment>> {
        self.assigned.subscribe()
    }

    /// Polls at once: the server has news for us, such as the next phase after a self-check.
    pub fn ask_again(&self) {
        self.wish.notify_one();
    }

    /// What heartbeats report for people to read: `idle`, `self_check`, `checking`.
    pub fn set_local_state(&self, local_state: &'static str) {
        self.with_signs(|signs| signs.local_state = local_state);
    }

    /// The poll interval that the server advises.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.with_signs(|signs| signs.interval)
    }

    pub(crate) fn local_state(&self) -> &'static str {
        self.with_signs(|signs| signs.local_state)
    }

    /// The longest silence that we allow ourselves.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.poll_interval().min(HEARTBEAT_MAX)
    }

    /// When the server was last shown a sign of life.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        self.with_signs(|signs| signs.heard)
    }

    /// Sends a body to one of this seat's methods, once.
    pub(crate) async fn post<B: serde::Serialize + Sync>(
        &self,
        method: &str,
        body: &B,
    ) -> Result<Vec<u8>, LinkError> {
        let sent = Instant::now();
        let url = self.client.url(&[S::FOLDER, &self.id, method]);
        let answer = self.client.post(url, self.token.as_ref(), body).await?;
        self.with_signs(|signs| signs.heard = signs.heard.max(Some(sent)));
        Ok(answer)
    }

    /// Asks for assignments, once.
    pub(crate) async fn ask(
        &self,
        wait: Duration,
        etag: Option<&str>,
    ) -> Result<Answer, LinkError> {
        let sent = Instant::now();
        let url = self.client.url(&[S::FOLDER, &self.id, S::POLL]);
        let answer = self
            .client
            .get(url, self.token.as_ref(), wait, etag)
            .await?;
        self.with_signs(|signs| signs.heard = signs.heard.max(Some(sent)));
        Ok(answer)
    }

    /// Registers, once, and takes the server's advice.
    pub(crate) async fn register(&self) -> Result<(), LinkError> {
        let sent = Instant::now();
        let url: Url = self.client.url(&[S::FOLDER, "register"]);
        let body = self
            .client
            .post(url, self.token.as_ref(), &self.register)
            .await?;
        let answer: civ_proto::Registered =
            serde_json::from_slice(&body).map_err(|error| LinkError::BadAnswer {
                what: "register".to_owned(),
                why: error.to_string(),
            })?;
        let advice = Duration::from_secs(u64::from(answer.poll_interval_seconds.max(1)));
        self.with_signs(|signs| {
            signs.interval = advice.min(INTERVAL_MAX);
            signs.heard = signs.heard.max(Some(sent));
        });
        Ok(())
    }

    /// Registers as often as it takes.
    pub(crate) async fn register_until_known(&self) {
        let mut backoff = Backoff::default();
        loop {
            let Err(error) = self.register().await else {
                tracing::info!(id = self.id, "registered");
                return;
            };
            let wait = backoff.next(fastrand::f64(), error.advice());
            self.complain(&error, "cannot register; trying again", wait, &backoff);
            tokio::time::sleep(wait).await;
        }
    }

    /// Says that something failed: aloud the first times, then as debug, so that an outage of an
    /// hour is a few lines.
    pub(crate) fn complain(
        &self,
        error: &LinkError,
        text: &'static str,
        wait: Duration,
        backoff: &Backoff,
    ) {
        let error: &(dyn std::error::Error + 'static) = error;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        if backoff.is_loud() {
            tracing::warn!(id = self.id, error, wait_ms, "{text}");
        } else {
            tracing::debug!(id = self.id, error, wait_ms, "{text}");
        }
    }

    fn with_signs<T>(&self, f: impl FnOnce(&mut Signs) -> T) -> T {
        // The few words behind the lock are whole after any panic, so poison says nothing.
        f(&mut self.signs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
