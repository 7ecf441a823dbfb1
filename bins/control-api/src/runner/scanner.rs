//! Scans: reads all floating IPs page by page, then enqueues the free ones.
//!
//! Retries of pages live here and nowhere below. Nothing is enqueued before everything was read
//! and written down; what is planned then is carried out to its end, after a restart too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use civ_boot::chain::Chain;
use civ_cloud::walk::{Next, Walk};
use civ_cloud::{Listed, Page};
use civ_crash::step;
use civ_orch::backoff::pause;
use civ_orch::scan::Event;
use civ_store::scan::{self, Found, Source};
use civ_store::{StoreError, WriteTx, cycle, queue};
use civ_types::{Address, FipId};
use tokio::time::Instant;

use super::{Runner, complain};
use crate::app::ips::Enqueued;
use crate::app::scan::Job;

/// Addresses enqueued in one transaction (the contract's number): bounds how long the writing
/// thread is held.
const CHUNK: u32 = 500;

/// Addresses written down in one transaction, which is much less work for each.
const NOTE_CHUNK: usize = 2_000;

/// Pause after a fault of the database.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// Why a scan has come to no plan. Nothing is enqueued.
#[derive(Debug)]
enum NotPlanned {
    /// The process ends, or the auto-cycle was turned off.
    Cancelled,
    /// The cloud could not be read.
    Cloud(String),
    /// The database failed.
    Store(StoreError),
}

impl From<StoreError> for NotPlanned {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub(super) async fn run(runner: Runner) {
    recover(&runner).await;
    tokio::join!(serve(&runner), super::cycle::run(&runner));
}

/// Goes on with what an earlier process had planned, and forgets what it had only found.
async fn recover(runner: &Runner) {
    loop {
        let planned = runner.app.write(|tx| -> Result<_, StoreError> {
            scan::forget(tx)?;
            scan::is_planned(tx)
        });
        match step!(ScanRecover, planned.await) {
            Ok(true) => {
                tracing::warn!("a scan was cut off while it enqueued: going on with it");
                drain(runner, None).await;
                return;
            }
            Ok(false) => return,
            Err(error) => complain("what a scan has left behind could not be read", &error),
        }
        if runner.sleep(FAULT_PAUSE).await {
            return;
        }
    }
}

/// Carries out scans that are asked for, and those that the interval brings.
async fn serve(runner: &Runner) {
    let timers = runner.app.timers();
    let poll = Duration::from_secs(timers.poll_interval_seconds.into());
    let every = timers.fip_scan_interval_seconds;
    let every = (every > 0).then(|| Duration::from_secs(every.into()));
    let mut due = every.map(|every| Instant::now() + every);
    loop {
        let wait = due.map_or(poll, |due| {
            due.saturating_duration_since(Instant::now()).min(poll)
        });
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            () = runner.app.scans().asked.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        if let Some(job) = runner.app.scans().take() {
            perform(runner, &job).await;
        }
        if due.is_some_and(|due| due <= Instant::now()) {
            match periodic(runner).await {
                Ok(true) => due = every.map(|every| Instant::now() + every),
                // It rests: looked at again soon, and begun as soon as nothing speaks against it.
                Ok(false) => due = Some(Instant::now() + poll),
                Err(error) => {
                    complain("the periodic scan could not begin", &error);
                    due = Some(Instant::now() + poll);
                }
            }
        }
    }
}

/// The periodic scan, unless it rests: while the auto-cycle is on, and while anything is queued,
/// since a short interval would otherwise starve the high addresses. Says whether it was made.
async fn periodic(runner: &Runner) -> Result<bool, StoreError> {
    let app = &runner.app;
    let rests = app
        .read(|conn| -> Result<_, StoreError> {
            Ok(cycle::load(conn)?.enabled || queue::has_queued(conn)?)
        })
        .await?;
    if rests {
        return Ok(false);
    }
    let Some(job) = app.scans().begin(Source::Timer, false, app.now()) else {
        return Ok(false);
    };
    perform(runner, &job).await;
    Ok(true)
}

/// Carries out a scan that is in the phase `listing`, to whichever end.
pub(super) async fn perform(runner: &Runner, job: &Job) {
    match discover(runner, job).await {
        Ok(()) => {}
        Err(NotPlanned::Cancelled) => job.step(&Event::Cancel, runner.app.now()),
        Err(NotPlanned::Cloud(why)) => {
            tracing::warn!(why, "a scan failed");
            let (source, text) = (job.source, why.clone());
            let noted = runner.app.write(move |tx| scan::failed(tx, source, &text));
            if let Err(error) = step!(ScanFailed, noted.await) {
                complain("the failure of a scan could not be noted", &error);
            }
            job.step(&Event::Failed(why), runner.app.now());
        }
        Err(NotPlanned::Store(error)) => {
            complain("a scan could not be written down", &error);
            let why = "the database failed: the log says more".to_owned();
            job.step(&Event::Failed(why), runner.app.now());
            runner.sleep(FAULT_PAUSE).await;
        }
    }
    // Whoever waits for the desk to be free looks again.
    runner.app.hub().cycle.notify_one();
}

async fn discover(runner: &Runner, job: &Job) -> Result<(), NotPlanned> {
    let (app, is_dry) = (&runner.app, job.scan().dry_run);
    let (found, free) = list(runner, job).await?;
    if is_dry {
        let counted = app.write(move |tx| scan::counted(tx, &found));
        step!(ScanCounted, counted.await)?;
        job.step(&Event::Listed, app.now());
        return Ok(());
    }
    step!(ScanForget, app.write(scan::forget).await)?;
    for chunk in free.chunks(NOTE_CHUNK) {
        let chunk = chunk.to_vec();
        let noted = app.write(move |tx| scan::note(tx, &chunk));
        step!(ScanNote, noted.await)?;
    }
    let planned = app.write(move |tx| scan::plan(tx, &found));
    if job.cancel.is_cancelled() || !step!(ScanPlan, planned.await)? {
        return Err(NotPlanned::Cancelled);
    }
    job.step(&Event::Listed, app.now());
    drain(runner, Some(job)).await;
    Ok(())
}

/// Floating IPs by id, each as it was seen last: its address, and whether it is free.
type Rows = BTreeMap<FipId, (Address, bool)>;

/// Reads everything; the free addresses in ascending order, each once.
async fn list(runner: &Runner, job: &Job) -> Result<(Found, Vec<Address>), NotPlanned> {
    let mut rows = pass(runner, job).await?;
    let proof = match count(runner, job).await? {
        Some(n) if n == rows.len() as u64 => Proof::Counted,
        counted => {
            let again = pass(runner, job).await?;
            let proof = proof(&rows, &again, counted);
            // What either pass has seen counts, as it was seen last.
            rows.extend(again);
            proof
        }
    };
    let discovered = rows.len() as u64;
    tell(runner, discovered, proof).await?;
    let is_ours = |address: &Address| runner.app.families().contains(&address.family());
    let free: BTreeSet<Address> = rows
        .into_values()
        .filter_map(|(address, is_free)| is_free.then_some(address))
        .filter(is_ours)
        .collect();
    let found = Found {
        source: job.source,
        pages: job.scan().pages,
        discovered,
        free: free.len() as u64,
    };
    Ok((found, free.into_iter().collect()))
}

/// Why a listing is held to be complete. Services have changed how they link pages, and then
/// lists ended early without any error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It has as many rows as the cloud itself counts.
    Counted,
    /// Two passes saw the same.
    Repeated,
    /// Neither.
    None {
        /// What the cloud counts, if it tells.
        counted: Option<u64>,
    },
}

fn proof(first: &Rows, again: &Rows, counted: Option<u64>) -> Proof {
    if counted == Some(again.len() as u64) {
        return Proof::Counted;
    }
    // Both passes may end early at the same place: not where the cloud counts more than they saw.
    let has_more = counted.is_some_and(|n| (again.len() as u64) < n);
    if !has_more && first.keys().eq(again.keys()) {
        return Proof::Repeated;
    }
    Proof::None { counted }
}

/// Says what a listing is worth: in the log, and in the history if that is in doubt.
async fn tell(runner: &Runner, discovered: u64, proof: Proof) -> Result<(), StoreError> {
    let Proof::None { counted } = proof else {
        tracing::info!(discovered, ?proof, "the list of floating IPs is complete");
        return Ok(());
    };
    tracing::warn!(
        discovered,
        counted,
        "the list of floating IPs may be incomplete: what is missing is found by a later scan"
    );
    let job = move |tx: &mut WriteTx<'_>| scan::unproven(tx, discovered, counted);
    step!(ScanUnproven, runner.app.write(job).await)
}

/// How many there are by the cloud's own count. A cloud that cannot say is no fault of the scan.
async fn count(runner: &Runner, job: &Job) -> Result<Option<u64>, NotPlanned> {
    match unless_cancelled(runner, job, runner.cloud.count()).await? {
        Ok(counted) => Ok(counted),
        Err(fault) => {
            tracing::debug!(error = %Chain(&fault), "the cloud does not say how many there are");
            Ok(None)
        }
    }
}

/// One pass over all pages.
async fn pass(runner: &Runner, job: &Job) -> Result<Rows, NotPlanned> {
    let mut all = Rows::new();
    let (mut walk, mut marker) = (Walk::default(), None);
    let mut free = 0_u64;
    loop {
        let page = page(runner, job, marker.as_ref()).await?;
        let ids = page.rows.iter().map(|row| row.id.clone());
        let next = walk.take(ids, page.has_more);
        for Listed {
            id,
            address,
            is_free,
        } in page.rows
        {
            // A row that comes again counts as it was seen last.
            let before = all.insert(id, (address, is_free));
            free -= u64::from(before.is_some_and(|(_, was_free)| was_free));
            free += u64::from(is_free);
        }
        if next == Ok(Next::End) {
            all.retain(|id, _| walk.saw(id));
            free = all.values().filter(|(_, is_free)| *is_free).count() as u64;
        }
        let discovered = all.len() as u64;
        job.step(&Event::Page { discovered, free }, runner.app.now());
        match next.map_err(|endless| NotPlanned::Cloud(endless.to_string()))? {
            Next::After(id) => marker = id,
            Next::End => return Ok(all),
        }
    }
}

/// One page, asked for again after faults that pass.
async fn page(runner: &Runner, job: &Job, after: Option<&FipId>) -> Result<Page, NotPlanned> {
    let mut n_failed = 0;
    loop {
        let asked = runner.cloud.page(after, runner.page_size);
        let fault = match unless_cancelled(runner, job, asked).await? {
            Ok(page) => return Ok(page),
            Err(fault) => fault,
        };
        if !fault.passes || runner.page_retries <= n_failed {
            let tries = n_failed + 1;
            let text = format!("{} (asked {tries} times for that page)", Chain(&fault));
            return Err(NotPlanned::Cloud(text));
        }
        let wait = pause(n_failed, runner.gate.jitter()).max(fault.retry_after.unwrap_or_default());
        n_failed += 1;
        let wait_ms = wait.as_millis();
        tracing::warn!(error = %Chain(&fault), wait_ms, "a page is asked for again");
        unless_cancelled(runner, job, tokio::time::sleep(wait)).await?;
    }
}

async fn unless_cancelled<T>(
    runner: &Runner,
    job: &Job,
    work: impl Future<Output = T>,
) -> Result<T, NotPlanned> {
    tokio::select! {
        biased;
        () = runner.shutdown.cancelled() => Err(NotPlanned::Cancelled),
        () = job.cancel.cancelled() => Err(NotPlanned::Cancelled),
        done = work => Ok(done),
    }
}

/// Carries out the plan to its end; only the end of the process keeps it from that, and then the
/// next one goes on.
async fn drain(runner: &Runner, job: Option<&Job>) {
    let app = &runner.app;
    let mut all = Enqueued::default();
    while !runner.shutdown.is_cancelled() {
        let applied = app.write(|tx: &mut WriteTx<'_>| scan::apply(tx, CHUNK));
        let applied = match step!(ScanChunk, applied.await) {
            Ok(applied) => applied,
            Err(error) => {
                complain("what a scan has found could not be enqueued", &error);
                runner.sleep(FAULT_PAUSE).await;
                continue;
            }
        };
        if let Some(job) = job {
            let more = scan::tally(&applied.enqueued);
            job.step(&Event::Enqueued(more), app.now());
        }
        all.added.extend(applied.enqueued.added);
        all.requeued.extend(applied.enqueued.requeued);
        all.reordered.extend(applied.enqueued.reordered);
        all.skipped.extend(applied.enqueued.skipped);
        if applied.is_last {
            if let Some(job) = job {
                job.finish(all, app.now());
            }
            return;
        }
    }
}
