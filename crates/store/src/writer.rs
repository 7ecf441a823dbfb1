//! The one writing thread. Jobs that wait together are committed together.
//!
//! Each job runs in a savepoint of its own, so that one that fails undoes its own work alone; one
//! that nobody waits beside has the transaction to itself and needs none.
//! Answers and hints go out after the commit: a 2xx never precedes the disk.

use std::sync::Arc;
use std::thread;

use civ_types::{Clock, Utc};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use crate::conn::WriteTx;
use crate::error::{OpenError, StoreError};
use crate::hint::Hint;
use crate::lock::Note;
use crate::{OnCommit, Rules, blocks, runtime};

/// Jobs that may wait. A full queue makes callers wait, which is the back-pressure that a slow
/// disk should cause; their own time limits then turn it into 503.
const QUEUE: usize = 1_024;

/// Jobs in one commit: bounds how long the first of them waits for the last.
const GROUP: usize = 256;

/// How a job ends once its group is committed, or not.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a job does: its work, then whether to keep it, and how to answer.
type Work = Box<dyn FnOnce(&mut WriteTx<'_>) -> (bool, Answer) + Send>;

/// A job and how it wants to be committed.
pub(crate) struct Job {
    work: Work,
    company: Company,
}

/// With whom a job is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// With whoever waits, in a savepoint of its own.
    Any,
    /// Alone. A savepoint keeps the former state of every page that is changed in it; for a large
    /// job that costs several times its work, and its own transaction undoes it just as well.
    Alone,
}

/// What the writing thread is asked for.
pub(crate) enum Errand {
    Write(Job),
    /// Fold the write-ahead log into the database file.
    Checkpoint(oneshot::Sender<Result<(), StoreError>>),
}

/// The way to the writing thread.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    errands: mpsc::Sender<Errand>,
    alive: watch::Receiver<()>,
    #[cfg(feature = "inline")]
    here: Option<Arc<crate::inline::Here>>,
}

#[cfg(feature = "inline")]
impl Writer {
    /// A writer whose errands wait for whoever carries them out.
    pub(crate) fn queue() -> (Self, mpsc::Receiver<Errand>) {
        let (errands, queue) = mpsc::channel(QUEUE);
        let (_ended, alive) = watch::channel(());
        let here = None;
        let writer = Self {
            errands,
            alive,
            here,
        };
        (writer, queue)
    }

    /// The same, and that is whoever sends one.
    pub(crate) fn inline(self, here: Arc<crate::inline::Here>) -> Self {
        let here = Some(here);
        Self { here, ..self }
    }
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        note: Note,
        clock: Arc<dyn Clock>,
        rules: Rules,
        on_commit: OnCommit,
    ) -> Result<Self, OpenError> {
        let (errands, queue) = mpsc::channel(QUEUE);
        let (life, alive) = watch::channel(());
        let mut desk = Desk::new(connection, Some(note), clock, rules, on_commit);
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                // Dropped at the end of the thread, by a panic too: `closed` sees it.
                let _life = life;
                desk.serve(queue);
            })
            .map_err(|source| OpenError::Thread {
                source: source.into(),
            })?;
        Ok(Self {
            errands,
            alive,
            #[cfg(feature = "inline")]
            here: None,
        })
    }

    pub(crate) async fn run<T, E>(
        &self,
        company: Company,
        work: impl FnOnce(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let work: Work = Box::new(move |tx| {
            let outcome = work(tx);
            let keep = outcome.is_ok();
            let answer: Answer = Box::new(move |committed| {
                let outcome = match (outcome, committed) {
                    (Ok(_), Err(error)) => Err(error.into()),
                    (outcome, _) => outcome,
                };
                // The caller may have gone away; the write stands all the same.
                drop(tell.send(outcome));
            });
            (keep, answer)
        });
        self.send(Errand::Write(Job { work, company })).await?;
        let answer = told.await.map_err(|_gone| ended())?;
        #[cfg(feature = "inline")]
        if let Some(here) = &self.here {
            here.way_back().await;
        }
        answer
    }

    /// Folds the write-ahead log into the database file.
    pub(crate) async fn checkpoint(&self) -> Result<(), StoreError> {
        let (tell, told) = oneshot::channel();
        self.send(Errand::Checkpoint(tell)).await?;
        told.await.map_err(|_gone| ended())?
    }

    async fn send(&self, errand: Errand) -> Result<(), StoreError> {
        self.errands.send(errand).await.map_err(|_gone| ended())?;
        #[cfg(feature = "inline")]
        if let Some(here) = &self.here {
            here.way_there().await;
            here.work();
        }
        Ok(())
    }

    pub(crate) async fn closed(&self) {
        let mut alive = self.alive.clone();
        while alive.changed().await.is_ok() {}
    }
}

fn ended() -> StoreError {
    StoreError::stopped("the writing thread has ended".into())
}

/// The one place at which the database is written.
pub(crate) struct Desk {
    connection: Connection,
    /// Where it is noted that something was written; a database without a lock has no such place.
    note: Option<Note>,
    clock: Arc<dyn Clock>,
    rules: Rules,
    on_commit: OnCommit,
}

impl Desk {
    pub(crate) const fn new(
        connection: Connection,
        note: Option<Note>,
        clock: Arc<dyn Clock>,
        rules: Rules,
        on_commit: OnCommit,
    ) -> Self {
        Self {
            connection,
            note,
            clock,
            rules,
            on_commit,
        }
    }

    #[cfg(feature = "inline")]
    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    fn serve(&mut self, mut queue: mpsc::Receiver<Errand>) {
        let mut held = None;
        while let Some(first) = held.take().or_else(|| queue.blocking_recv()) {
            self.turn(first, &mut queue, &mut held);
        }
    }

    /// Carries out an errand, and with it whatever waits and may share its commit; one that may
    /// not is left in `held`. Says how many jobs there were.
    pub(crate) fn turn(
        &mut self,
        first: Errand,
        queue: &mut mpsc::Receiver<Errand>,
        held: &mut Option<Errand>,
    ) -> usize {
        let joins = |job: &Job| job.company == Company::Any;
        let mut group: Vec<Job> = Vec::new();
        let mut next = Some(first);
        while let Some(Errand::Write(job)) = next {
            if !group.is_empty() && !joins(&job) {
                *held = Some(Errand::Write(job));
                next = None;
                break;
            }
            group.push(job);
            next = if group.len() < GROUP && group.iter().all(joins) {
                queue.try_recv().ok()
            } else {
                None
            };
        }
        let jobs = group.len();
        if !group.is_empty() {
            self.commit(group);
        }
        if let Some(Errand::Checkpoint(tell)) = next {
            let pragma = "PRAGMA wal_checkpoint(TRUNCATE)";
            let done = self.connection.query_row(pragma, [], |_row| Ok(()));
            drop(tell.send(done.map_err(StoreError::from)));
        }
        jobs
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut answers = Vec::with_capacity(group.len());
        let mut hints = Vec::new();
        match self.carry_out(group, &mut answers, &mut hints) {
            Ok(alive) => {
                if let Some((at, note)) = alive.zip(self.note.as_mut()) {
                    note.write(at);
                }
                (self.on_commit)(hints);
                answers.into_iter().for_each(|answer| answer(Ok(())));
            }
            Err(error) => {
                let text = error.to_string();
                if civ_planted::is!(AnswersUncommitted) {
                    return answers.into_iter().for_each(|answer| answer(Ok(())));
                }
                tracing::error!(error = %text, jobs = answers.len(), "a commit failed");
                let failed = || StoreError::Database {
                    source: text.clone().into(),
                };
                answers.into_iter().for_each(|answer| answer(Err(failed())));
            }
        }
    }

    /// Says the moment that stands in the database as its last sign of life, if that has changed.
    fn carry_out(
        &mut self,
        group: Vec<Job>,
        answers: &mut Vec<Answer>,
        hints: &mut Vec<Hint>,
    ) -> rusqlite::Result<Option<Utc>> {
        let (now, rules) = (self.clock.now(), self.rules);
        let is_alone = group.len() == 1;
        let mut group = group.into_iter();
        let mut begin = || {
            let mut is_kept = false;
            let mut whole = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            for job in group.by_ref() {
                if is_alone {
                    let mut tx = WriteTx::new(&whole, now, rules);
                    let (keep, answer) = (job.work)(&mut tx);
                    let told = tx.into_hints();
                    answers.push(answer);
                    if !keep {
                        whole.rollback()?;
                        return Ok(None);
                    }
                    hints.extend(told);
                    is_kept = true;
                    break;
                }
                let part = whole.savepoint()?;
                let mut tx = WriteTx::new(&part, now, rules);
                let (keep, answer) = (job.work)(&mut tx);
                let told = tx.into_hints();
                answers.push(answer);
                is_kept |= keep;
                if keep {
                    part.commit()?;
                    hints.extend(told);
                } else {
                    part.finish()?;
                }
            }
            // A start that is refused undoes its move of the deadlines: it must not pass for a sign
            // of life either, or the next start would move them by too little.
            // By the clock as it is then: a job may have followed a jump of it.
            let alive = is_kept.then(|| self.clock.now());
            if let Some(at) = alive {
                runtime::touch(&whole, at)?;
                if let Some(note) = self.note.as_mut() {
                    note.make_way(at);
                }
            }
            blocks::settle(&whole)?;
            whole.commit()?;
            Ok(alive)
        };
        let outcome = begin();
        // Jobs behind the one at which the database failed were not begun: their callers are told
        // by the dropped channel, which is an error too.
        drop(group);
        outcome
    }
}
