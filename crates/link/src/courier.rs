//! Delivery of one claim's reports: in order, one request at a time, until each is acknowledged.
//!
//! A report that was sent twice changes nothing at the server (results are upserts, the others
//! are fenced), so what may have been lost is sent again. Results that wait go together in one
//! request. The claim's end, whoever notices it first, ends the delivery.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use civ_proto::{EventReport, ResultsAccepted, agent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::{Fate, LinkError};
use crate::seat::Seat;
use crate::side::Side;

/// Results in one request: at 1 KiB each a tenth of the server's default limit on bodies.
const BATCH_MAX: usize = 200;
/// How long a request that is under way may still take once the claim is over or we are stopping.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(2);

/// One message about a claim.
#[derive(Debug)]
pub enum Report<S: Side> {
    /// `self-check`, agents only.
    SelfCheck(agent::SelfCheck),
    /// `events`.
    Event(EventReport),
    /// A row of `results`.
    Row(S::Row),
    /// `complete`, agents only; goes out when everything before it is settled.
    Complete(agent::Complete),
}

/// How the work on a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every report was acknowledged, or refused for good (which is in the log).
    Settled,
    /// The server says that the claim is over.
    Over,
    /// Broken off by the caller.
    Dropped,
}

/// Where a piece of work puts its reports.
#[derive(Debug)]
pub struct Desk<S: Side> {
    outbox: mpsc::UnboundedSender<Parcel<S>>,
    spool: Arc<Semaphore>,
}

impl<S: Side> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self {
            outbox: self.outbox.clone(),
            spool: Arc::clone(&self.spool),
        }
    }
}

#[derive(Debug)]
struct Parcel<S: Side> {
    report: Report<S>,
    /// Given back when the report is settled: it is what bounds the queue.
    place: OwnedSemaphorePermit,
}

impl<S: Side> Desk<S> {
    /// Hands over a report for delivery. Waits only while the spool is full; after the end of
    /// the claim the report goes nowhere.
    pub async fn report(&self, report: Report<S>) {
        let place = Arc::clone(&self.spool).acquire_owned().await;
        // The semaphore is never closed. A queue that is gone means that the claim is over, which
        // ends the caller as well.
        if let Ok(place) = place
            && self.outbox.send(Parcel { report, place }).is_err()
        {
            tracing::debug!("a report came after the end of its claim");
        }
    }

    /// A row of `results`.
    pub async fn row(&self, row: S::Row) {
        self.report(Report::Row(row)).await;
    }

    /// An event.
    pub async fn event(&self, event: EventReport) {
        self.report(Report::Event(event)).await;
    }
}

impl<S: Side> Seat<S> {
    /// Runs `produce` and delivers what it reports, until both are done or the claim is over.
    ///
    /// `over` breaks off `produce` at once, and the delivery after the request that is under way.
    /// When the server says that the claim is over, `over` is cancelled too.
    pub async fn work<F, P>(&self, over: &CancellationToken, produce: F) -> Ended
    where
        F: FnOnce(Desk<S>) -> P,
        P: Future<Output = ()>,
    {
        let (outbox, inbox) = mpsc::unbounded_channel();
        let desk = Desk {
            outbox,
            spool: Arc::clone(&self.spool),
        };
        let producing = over.run_until_cancelled(produce(desk));
        let delivering = async {
            let ended = Courier {
                seat: self,
                inbox,
                over,
            }
            .run()
            .await;
            if ended == Ended::Over {
                over.cancel();
            }
            ended
        };
        tokio::join!(producing, delivering).1
    }
}

struct Courier<'a, S: Side> {
    seat: &'a Seat<S>,
    inbox: mpsc::UnboundedReceiver<Parcel<S>>,
    over: &'a CancellationToken,
}

/// What goes into one request.
enum Load<S: Side> {
    Rows(Vec<S::Row>),
    One(Report<S>),
}

/// Neighbouring rows together, everything else by itself, all in order.
fn pack<S: Side>(reports: impl Iterator<Item = Report<S>>) -> VecDeque<Load<S>> {
    let mut loads = VecDeque::new();
    for report in reports {
        match (report, loads.back_mut()) {
            (Report::Row(row), Some(Load::Rows(rows))) => rows.push(row),
            (Report::Row(row), _) => loads.push_back(Load::Rows(vec![row])),
            (other, _) => loads.push_back(Load::One(other)),
        }
    }
    loads
}

impl<S: Side> Courier<'_, S> {
    async fn run(mut self) -> Ended {
        let mut parcels = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = self.over.cancelled() => return Ended::Dropped,
                n = self.inbox.recv_many(&mut parcels, BATCH_MAX) => if n == 0 {
                    return Ended::Settled;
                }
            }
            let (reports, places): (Vec<_>, Vec<_>) = parcels
                .drain(..)
                .map(|parcel| (parcel.report, parcel.place))
                .unzip();
            let mut loads = pack(reports.into_iter());
            while let Some(load) = loads.pop_front() {
                match self.deliver(&load).await {
                    Ok(()) => {}
                    Err(Stop::Ended(ended)) => return ended,
                    Err(Stop::Refused(error)) => self.refused(load, &error, &mut loads),
                }
            }
            drop(places);
        }
    }

    /// Sends until the server has answered for good.
    async fn deliver(&self, load: &Load<S>) -> Result<(), Stop> {
        let mut backoff = Backoff::default();
        loop {
            if self.over.is_cancelled() {
                return Err(Stop::Ended(Ended::Dropped));
            }
            let error = match self.send_unless_over(load).await? {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.fate() {
                Fate::Over => {
                    tracing::info!(id = self.seat.id(), %error, "the claim is over");
                    return Err(Stop::Ended(Ended::Over));
                }
                Fate::Never => return Err(Stop::Refused(error)),
                Fate::Again => {}
            }
            let wait = backoff.next(fastrand::f64(), error.advice());
            self.seat
                .complain(&error, "a report waits; trying again", wait, &backoff);
            tokio::select! {
                () = self.over.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.seat.back.notified() => {}
            }
        }
    }

    /// One request. It is not torn off by the end of the claim, so that what the server took is
    /// known here, but it gets little time then.
    async fn send_unless_over(&self, load: &Load<S>) -> Result<Result<(), LinkError>, Stop> {
        let sending = self.send(load);
        tokio::pin!(sending);
        tokio::select! {
            sent = &mut sending => return sent_or_stale(sent),
            () = self.over.cancelled() => {}
        }
        match tokio::time::timeout(IN_FLIGHT_MAX, sending).await {
            Ok(sent) => sent_or_stale(sent),
            Err(_elapsed) => Err(Stop::Ended(Ended::Dropped)),
        }
    }

    /// Says whether the claim still stands after a report that arrived.
    async fn send(&self, load: &Load<S>) -> Result<bool, LinkError> {
        match load {
            Load::Rows(rows) => self.send_rows(rows).await,
            Load::One(Report::SelfCheck(body)) => self.send_one("self-check", body).await,
            Load::One(Report::Event(body)) => self.send_one("events", body).await,
            Load::One(Report::Complete(body)) => self.send_one("complete", body).await,
            Load::One(Report::Row(row)) => self.send_rows(std::slice::from_ref(row)).await,
        }
    }

    async fn send_one<B: serde::Serialize + Sync>(
        &self,
        method: &str,
        body: &B,
    ) -> Result<bool, LinkError> {
        self.seat.post(method, body).await.map(|_body| true)
    }

    async fn send_rows(&self, rows: &[S::Row]) -> Result<bool, LinkError> {
        let body = self
            .seat
            .post("results", &S::results(rows.to_vec()))
            .await?;
        let accepted: ResultsAccepted =
            serde_json::from_slice(&body).map_err(|error| LinkError::BadAnswer {
                what: "POST results".to_owned(),
                why: error.to_string(),
            })?;
        for warning in &accepted.warnings {
            tracing::warn!(
                id = self.seat.id(),
                warning,
                "control-api put a result right"
            );
        }
        if accepted.stale == 0 {
            self.log_acknowledged(rows);
        }
        Ok(accepted.stale == 0)
    }

    /// One line for each row that is durable at the server now.
    fn log_acknowledged(&self, rows: &[S::Row]) {
        for row in rows {
            let facts = S::facts(row);
            tracing::debug!(
                ip_id = facts.ip_id,
                fence = facts.fence,
                source = S::SOURCE.as_str(),
                site = S::site(self.seat.id()),
                check_type = facts.check_type,
                target = facts.target,
                "result acknowledged"
            );
        }
    }

    /// A batch that the server does not take is sent in halves, so that one bad row costs one row.
    fn refused(&self, load: Load<S>, error: &LinkError, loads: &mut VecDeque<Load<S>>) {
        match load {
            Load::Rows(mut rows) if rows.len() > 1 => {
                let second = rows.split_off(rows.len() / 2);
                loads.push_front(Load::Rows(second));
                loads.push_front(Load::Rows(rows));
            }
            Load::Rows(rows) => {
                for row in &rows {
                    let facts = S::facts(row);
                    let (ip_id, check_type) = (facts.ip_id, facts.check_type);
                    let target = facts.target;
                    tracing::error!(ip_id, check_type, target, %error, "a result was refused");
                }
            }
            Load::One(_) => {
                tracing::error!(id = self.seat.id(), %error, "a report was refused");
            }
        }
    }
}

/// Why a load is not delivered.
enum Stop {
    Ended(Ended),
    Refused(LinkError),
}

/// A stale answer ends the claim as a 409 does.
fn sent_or_stale(sent: Result<bool, LinkError>) -> Result<Result<(), LinkError>, Stop> {
    match sent {
        Ok(true) => Ok(Ok(())),
        Ok(false) => Err(Stop::Ended(Ended::Over)),
        Err(error) => Ok(Err(error)),
    }
}
