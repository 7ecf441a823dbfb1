//! The auto-cycle's steps: clears the queue, waits for releases, scans, waits for the checks.
//!
//! Where it is stands in the database alone, so that a restart goes on with the step that was cut
//! off: each can be done again.

use std::sync::Arc;
use std::time::Duration;

use civ_crash::step;
use civ_orch::cycle::{Event, Phase};
use civ_orch::scan::{Event as ScanEvent, Phase as ScanPhase};
use civ_store::scan::Source;
use civ_store::{StoreError, cycle, queue};
use civ_types::IpId;

use super::{Runner, complain, scanner};
use crate::app::scan::Job;

/// Addresses deleted in one transaction: bounds how long the writing thread is held.
const CHUNK: u32 = 500;

/// Pause after a fault of the database.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(runner: &Runner) {
    // The scan of the round under way: it shows `clearing` before it reads.
    let mut job = None;
    loop {
        let wait = match turn(runner, &mut job).await {
            Ok(wait) => wait,
            Err(error) => {
                complain("a step of the auto-cycle failed", &error);
                FAULT_PAUSE
            }
        };
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            () = runner.app.hub().cycle.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// One step, if there is one to take; says how long to sleep if nobody wakes us.
async fn turn(runner: &Runner, job: &mut Option<Arc<Job>>) -> Result<Duration, StoreError> {
    let app = &runner.app;
    let (now, grace) = (app.now(), app.timers().release_grace_seconds);
    let poll = Duration::from_secs(app.timers().poll_interval_seconds.into());
    let (cycle, ctx) = app.read(move |conn| cycle::look(conn, now, grace)).await?;
    let needs_scan = match cycle.phase {
        Phase::Clearing | Phase::Releasing { .. } | Phase::Scanning => true,
        Phase::Idle | Phase::Checking { .. } | Phase::Waiting { .. } => false,
    };
    if !needs_scan {
        if let Some(job) = job.take() {
            job.step(&ScanEvent::Cancel, now);
        }
    } else if job.is_none() {
        *job = app.scans().begin(Source::AutoCycle, false, now);
        if job.is_none() {
            // Another scan is under way: it wakes us when it ends.
            return Ok(poll);
        }
    }
    match (cycle.phase, job.as_deref()) {
        (Phase::Clearing, _) => clear(runner).await?,
        (Phase::Scanning, Some(held)) => {
            if held.scan().phase == ScanPhase::Clearing {
                held.step(&ScanEvent::Cleared, now);
            }
            scanner::perform(runner, held).await;
            *job = None;
        }
        _ => {
            let ticked = cycle.step(&Event::Tick, &ctx);
            if ticked.is_ok_and(|(next, _)| next == cycle) {
                let due = cycle.due_at().map(|at| at.since(now));
                let least = Duration::from_millis(5);
                return Ok(due.map_or(poll, |due| due.clamp(least, poll)));
            }
            step!(
                CycleTick,
                app.write(|tx| cycle::step(tx, &Event::Tick)).await
            )?;
        }
    }
    Ok(Duration::ZERO)
}

/// Takes everything out of the queue that is in it now. An operator may end the round meanwhile:
/// then the rest stays.
async fn clear(runner: &Runner) -> Result<(), StoreError> {
    let app = &runner.app;
    let newest = app.read(queue::newest).await?.unwrap_or(IpId(0));
    let mut n_deleted = 0;
    while !runner.shutdown.is_cancelled() {
        let chunk = app.write(move |tx| -> Result<_, StoreError> {
            if cycle::load(tx)?.phase != Phase::Clearing {
                cycle::clearing_ended_early(tx, n_deleted)?;
                return Ok(None);
            }
            let n = queue::clear_some(tx, newest, CHUNK)?;
            if n < CHUNK as usize {
                cycle::cleared(tx, n_deleted + n)?;
                return Ok(None);
            }
            Ok(Some(n))
        });
        match step!(ClearChunk, chunk.await)? {
            Some(n) => n_deleted += n,
            None => return Ok(()),
        }
    }
    Ok(())
}
