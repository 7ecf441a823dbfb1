//! Carries out the outbox: associate and release, at least once, each safe to repeat.
//!
//! One claim is worked on by one call at a time, so that a release never overtakes the
//! association that it takes back. Retries live here and nowhere below.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use civ_cloud::guard::{self, Association, OwnPort, OwnPorts, Release};
use civ_cloud::{Fault, FloatingIp};
use civ_crash::step;
use civ_orch::attempt::{FaultKind, Report};
use civ_orch::backoff::{PAUSE_MAX, pause, speaks_for_the_cloud};
use civ_store::leases::{self, Call, Order, ReleaseEnd};
use civ_store::{StoreError, WriteTx};
use civ_types::{ClaimNo, FipId, IpId, Utc};

use super::{Runner, complain};

/// Requests that one association or release is made of at most, each with its own time limit:
/// find, write, and the reads that settle a lost answer.
const REQUESTS_MAX: u32 = 3;

/// Pause after a fault of the database before the outbox is looked at again.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// How long a call may go on after the shutdown has begun: long enough for a cloud that is well,
/// short enough for an orderly end.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Claims that a call is under way for.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<BTreeSet<ClaimNo>>>);

impl UnderWay {
    fn claims(&self) -> MutexGuard<'_, BTreeSet<ClaimNo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn run(runner: Runner) {
    let under_way = UnderWay::default();
    loop {
        // A call that ends between this read and the start is in the list that was read, and must
        // not be made again: a second release could hit the next claim of the same port.
        let before = under_way.claims().clone();
        let wait = match runner.app.read(leases::orders).await {
            Ok(mut orders) => {
                let all = civ_planted::is!(TwoCallsAClaim);
                orders.retain(|order| all || !before.contains(&order.claim));
                start(&runner, &under_way, orders)
            }
            Err(error) => {
                complain("the outbox could not be read", &error);
                FAULT_PAUSE
            }
        };
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            () = runner.app.hub().outbox.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// How many calls may be started, beside those under way.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// In all.
    calls: usize,
    /// Of these, releases: few or none while the cloud is not well.
    releases: usize,
}

/// What can be started now, of the claims that nobody works on: one order a claim, its release
/// before its association, and releases before all associations, since what they free is held for
/// nobody. `None` for the time: nothing waits for one.
fn pick(
    mut orders: Vec<Order>,
    under_way: &BTreeSet<ClaimNo>,
    now: Utc,
    room: Room,
) -> (Vec<Order>, Option<Utc>) {
    orders.sort_by_key(|order| order.call != Call::Release);
    let (mut started, mut n_releases) = (Vec::new(), 0);
    let mut taken = under_way.clone();
    if civ_planted::is!(TwoCallsAClaim) {
        taken.clear();
    }
    let mut next: Option<Utc> = None;
    for order in orders {
        if taken.contains(&order.claim) {
            continue;
        }
        if now < order.not_before {
            // Its association must not run before it either.
            taken.insert(order.claim);
            next = Some(next.map_or(order.not_before, |at| at.min(order.not_before)));
            continue;
        }
        let is_release = order.call == Call::Release && speaks_for_the_cloud(order.tries);
        if is_release && n_releases == room.releases {
            taken.insert(order.claim);
            continue;
        }
        if started.len() < room.calls {
            taken.insert(order.claim);
            n_releases += usize::from(is_release);
            started.push(order);
        }
    }
    (started, next)
}

/// Starts what can be started; says how long to sleep if nobody wakes us.
fn start(runner: &Runner, under_way: &UnderWay, orders: Vec<Order>) -> Duration {
    let timers = runner.app.timers();
    let n_max = usize::try_from(timers.max_parallel_cloud_calls).unwrap_or(usize::MAX);
    let now = runner.app.now();
    let n_open = under_way.claims().len();
    let room = Room {
        calls: n_max.saturating_sub(n_open),
        releases: runner.gate.releases_max(now, n_open),
    };
    let (started, next) = pick(orders, &under_way.claims(), now, room);
    for order in started {
        under_way.claims().insert(order.claim);
        let (by, list) = (runner.clone(), under_way.clone());
        runner.tasks.spawn("cloud-call", async move {
            let claim = order.claim;
            tokio::select! {
                biased;
                () = carry_out(&by, order) => {}
                () = cut_off(&by) => tracing::warn!(claim = claim.0, "a cloud call was cut off"),
            }
            list.claims().remove(&claim);
            by.app.hub().outbox.notify_one();
            // There is room for another claim.
            by.app.hub().schedule.notify_one();
        });
    }
    let longest = Duration::from_secs(timers.poll_interval_seconds.into());
    let opens = runner.gate.opens_at().filter(|at| now < *at);
    let wake = next.into_iter().chain(opens).min();
    wake.map_or(longest, |at| {
        at.since(now).clamp(Duration::from_millis(5), longest)
    })
}

/// Returns when a call has had its time after the shutdown began. Its order stays in the outbox,
/// as after a crash.
async fn cut_off(runner: &Runner) {
    runner.shutdown.cancelled().await;
    tokio::time::sleep(CLOSE_TIME).await;
}

async fn carry_out(runner: &Runner, order: Order) {
    let done = match order.call {
        Call::Associate => associate(runner, &order).await,
        Call::Release => release(runner, &order).await,
    };
    if let Err(error) = done {
        // The order is still in the outbox, and both calls are safe to repeat.
        complain("the outcome of a cloud call could not be stored", &error);
        runner.sleep(FAULT_PAUSE).await;
    }
}

/// The port of a lease as one of ours, with all that are, and those on which `fip` may have landed
/// late.
async fn own_ports(
    runner: &Runner,
    order: &Order,
    fip: &FipId,
) -> Result<(OwnPorts, OwnPort), StoreError> {
    let now = runner.app.now();
    let (mut ports, lost) = runner
        .app
        .read(move |conn| -> Result<_, StoreError> {
            Ok((leases::ports(conn)?, leases::lost_writes(conn, now)?))
        })
        .await?;
    let of_fip = lost.into_iter().filter(|(one, _)| one == fip);
    ports.extend(of_fip.map(|(_, port)| port));
    // A lease keeps the port it was made with, whatever happens to the validator's entry.
    ports.push(order.port.clone());
    let own = OwnPorts::new(ports);
    let port = own.own(&order.port);
    let none = || StoreError::Corrupt {
        what: format!("claim {} has no port", order.claim),
    };
    port.map(|port| (own, port)).ok_or_else(none)
}

async fn associate(runner: &Runner, order: &Order) -> Result<(), StoreError> {
    let Some(ip) = order.ip else {
        return Err(StoreError::Corrupt {
            what: format!("claim {} has no address", order.claim),
        });
    };
    let limit = runner.request_timeout * REQUESTS_MAX;
    let report = match tokio::time::timeout(limit, try_associate(runner, order)).await {
        Ok(report) => report?,
        Err(_elapsed) => {
            let text = format!("no answer to the association within {} s", limit.as_secs());
            Some(failed(runner, &Fault::cloud(text)))
        }
    };
    // Without a report the association is no longer wanted, and its release stands in the outbox.
    let report = report.unwrap_or_else(|| Report::CloudFailed {
        kind: FaultKind::Cloud,
        why: "no longer wanted".to_owned(),
    });
    answer(runner, order.claim, ip, report).await;
    Ok(())
}

async fn answer(runner: &Runner, claim: ClaimNo, ip: IpId, report: Report) {
    let app = &runner.app;
    loop {
        let report = report.clone();
        let answered = app.write(move |tx| leases::associate_answered(tx, claim, ip, report));
        match step!(AssociateAnswered, answered.await) {
            Ok(()) => return,
            Err(error) if again(runner, &error).await => {}
            Err(_) => return,
        }
    }
}

/// Whether to store what the cloud has said once more, after a pause: until the shutdown. The cloud
/// is not asked again, since it would say less: that somebody else wrote at the same time is seen
/// once.
async fn again(runner: &Runner, error: &StoreError) -> bool {
    complain("what the cloud has said could not be stored", error);
    !runner.sleep(FAULT_PAUSE).await
}

async fn try_associate(runner: &Runner, order: &Order) -> Result<Option<Report>, StoreError> {
    let found = match runner.cloud.find(order.address).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            runner.gate.answered();
            let why = format!("the project has no floating IP {}", order.address);
            return Ok(Some(Report::CloudFailed {
                kind: FaultKind::Address,
                why,
            }));
        }
        Err(fault) => return Ok(Some(failed(runner, &fault))),
    };
    let (claim, fip) = (order.claim, found.id.clone());
    // The intent is complete before the write: which floating IP, on which port.
    let noted = runner
        .app
        .write(move |tx| leases::fip_found(tx, claim, &fip));
    if !step!(FipFound, noted.await)? {
        return Ok(None);
    }
    let (own, port) = own_ports(runner, order, &found.id).await?;
    let association = guard::associate(runner.cloud.as_ref(), found, &port, &own).await;
    Ok(Some(match association {
        Association::Associated {
            fip: FloatingIp { id, .. },
            ..
        } => {
            runner.gate.answered();
            Report::Associated { fip: id }
        }
        Association::Occupied { seen } => {
            runner.gate.answered();
            Report::Occupied { seen }
        }
        Association::Conflict { ours, seen } => {
            runner.gate.answered();
            Report::Conflict { ours, seen }
        }
        Association::Failed(fault) => failed(runner, &fault),
    }))
}

/// A failed call as a report; a fault of the cloud also pauses the claims.
fn failed(runner: &Runner, fault: &Fault) -> Report {
    note(runner, fault);
    let why = fault.to_string();
    let kind = match fault {
        Fault::Address { .. } => FaultKind::Address,
        Fault::Port { .. } => FaultKind::Port,
        Fault::Cloud { .. } => FaultKind::Cloud,
    };
    Report::CloudFailed { kind, why }
}

fn note(runner: &Runner, fault: &Fault) {
    match fault {
        Fault::Cloud { text, retry_after } => {
            runner.gate.fault(runner.app.now(), text, *retry_after);
            // A write whose answer was lost may still land: what it leaves behind is found soon.
            runner.app.hub().reconcile_later.notify_one();
        }
        Fault::Port { .. } => {
            runner.gate.answered();
            // It may be an address of an earlier life that is in the way on that port.
            runner.app.hub().reconcile.notify_one();
        }
        Fault::Address { .. } => runner.gate.answered(),
    }
    runner.app.hub().schedule.notify_one();
}

async fn release(runner: &Runner, order: &Order) -> Result<(), StoreError> {
    let limit = runner.request_timeout * REQUESTS_MAX;
    let end = match tokio::time::timeout(limit, try_release(runner, order)).await {
        Ok(end) => end?,
        Err(_elapsed) => {
            let text = format!("no answer to the release within {} s", limit.as_secs());
            Err(Fault::cloud(text))
        }
    };
    match end {
        Ok(end) => released(runner, order.claim, end).await,
        Err(fault) => put_off(runner, order, &fault).await,
    }
    Ok(())
}

async fn released(runner: &Runner, claim: ClaimNo, end: ReleaseEnd) {
    runner.gate.answered();
    if end == ReleaseEnd::AlreadyFree {
        // The read may have been older than our association: what is left behind then hangs on our
        // port without an owner.
        runner.app.hub().reconcile_later.notify_one();
    }
    loop {
        let end = end.clone();
        let job = move |tx: &mut WriteTx<'_>| leases::released(tx, claim, &end);
        match step!(Released, runner.app.write(job).await) {
            Ok(()) => return,
            Err(error) if again(runner, &error).await => {}
            Err(_) => return,
        }
    }
}

async fn put_off(runner: &Runner, order: &Order, fault: &Fault) {
    if speaks_for_the_cloud(order.tries) {
        note(runner, fault);
    }
    let (claim, why) = (order.claim, fault.to_string());
    let wait = after(fault, pause(order.tries, runner.gate.jitter()));
    tracing::warn!(address = %order.address, claim = claim.0, why, "a release failed");
    loop {
        let why = why.clone();
        let job = move |tx: &mut WriteTx<'_>| {
            let not_before = tx.now().plus(wait);
            leases::release_failed(tx, claim, not_before, &why)
        };
        match step!(ReleaseFailed, runner.app.write(job).await) {
            Ok(()) => return,
            Err(error) if again(runner, &error).await => {}
            Err(_) => return,
        }
    }
}

/// Tries every release that is to be made, once, and no association; says how many are left.
pub(super) async fn release_all(runner: &Runner) -> Result<usize, StoreError> {
    let is_release = |order: &Order| order.call == Call::Release;
    let orders = runner.app.read(leases::orders).await?;
    for order in orders.iter().filter(|order| is_release(order)) {
        release(runner, order).await?;
    }
    let left = runner.app.read(leases::orders).await?;
    Ok(left.iter().filter(|order| is_release(order)).count())
}

/// Our own pause, or the longer one that the cloud asks for, within bounds.
fn after(fault: &Fault, pause: Duration) -> Duration {
    match fault {
        Fault::Cloud {
            retry_after: Some(wish),
            ..
        } => pause.max(*wish).min(PAUSE_MAX),
        Fault::Cloud { .. } | Fault::Address { .. } | Fault::Port { .. } => pause,
    }
}

type Released = Result<ReleaseEnd, Fault>;

async fn try_release(runner: &Runner, order: &Order) -> Result<Released, StoreError> {
    let fip: FipId = match &order.fip {
        Some(fip) => fip.clone(),
        // The association never got as far as to know it; an earlier life of ours may have.
        None => match runner.cloud.find(order.address).await {
            Ok(Some(found)) => found.id,
            Ok(None) => return Ok(Ok(ReleaseEnd::Gone)),
            // The cloud cannot say which one is meant, and will not learn it: this claim has
            // written nothing, and what an earlier life left is found on our ports.
            Err(Fault::Address { .. }) => return Ok(Ok(ReleaseEnd::AlreadyFree)),
            Err(fault) => return Ok(Err(fault)),
        },
    };
    let (_own, port) = own_ports(runner, order, &fip).await?;
    Ok(
        match guard::release(runner.cloud.as_ref(), &fip, &port).await {
            Release::Released => Ok(ReleaseEnd::Released),
            Release::AlreadyFree => Ok(ReleaseEnd::AlreadyFree),
            Release::NotOurs { seen } => Ok(ReleaseEnd::NotOurs { seen }),
            Release::Gone => Ok(ReleaseEnd::Gone),
            Release::Failed(fault) => Err(fault),
        },
    )
}

#[cfg(test)]
mod tests {
    use civ_types::{Address, PortId};

    use super::*;

    fn order(claim: i64, call: Call, not_before: i64) -> Order {
        Order {
            claim: ClaimNo(claim),
            call,
            tries: 0,
            not_before: Utc::from_micros(not_before),
            address: Address::parse("203.0.113.1").unwrap(),
            ip: Some(IpId(1)),
            port: PortId::parse("port-1").unwrap(),
            fip: None,
        }
    }

    const PLENTY: Room = Room {
        calls: 8,
        releases: usize::MAX,
    };

    fn picked(orders: &[Order], under_way: &[i64], room: Room) -> Vec<(i64, Call)> {
        let under_way = under_way.iter().map(|n| ClaimNo(*n)).collect();
        let (started, _) = pick(orders.to_vec(), &under_way, Utc::from_micros(5), room);
        started
            .iter()
            .map(|order| (order.claim.0, order.call))
            .collect()
    }

    #[test]
    fn one_call_a_claim_and_the_release_first() {
        let both = [order(1, Call::Associate, 0), order(1, Call::Release, 0)];
        assert_eq!(picked(&both, &[], PLENTY), [(1, Call::Release)]);
        assert_eq!(picked(&both, &[1], PLENTY), []);
        let waiting = [order(1, Call::Release, 9), order(1, Call::Associate, 0)];
        assert_eq!(picked(&waiting, &[], PLENTY), []);
    }

    #[test]
    fn calls_under_way_together_are_bounded_and_releases_go_first() {
        let many: Vec<_> = (1..=5).map(|n| order(n, Call::Associate, 0)).collect();
        let two = Room { calls: 2, ..PLENTY };
        let expected = [(1, Call::Associate), (2, Call::Associate)];
        assert_eq!(picked(&many, &[9], two), expected);
        let mut mixed = many;
        mixed.push(order(6, Call::Release, 0));
        let expected = [(6, Call::Release), (1, Call::Associate)];
        assert_eq!(picked(&mixed, &[], two), expected);
    }

    #[test]
    fn while_the_cloud_is_away_releases_wait_but_for_the_one_that_finds_out() {
        let both = |n| [order(n, Call::Release, 0), order(n, Call::Associate, 0)];
        let orders = [both(1), both(2)].concat();
        let closed = |releases| Room { calls: 8, releases };
        assert_eq!(picked(&orders, &[], closed(0)), []);
        assert_eq!(picked(&orders, &[], closed(1)), [(1, Call::Release)]);
        // One that never succeeds goes by its own pauses.
        let mut stuck = order(3, Call::Release, 0);
        stuck.tries = 3;
        let orders = [orders, vec![stuck]].concat();
        let expected = [(1, Call::Release), (3, Call::Release)];
        assert_eq!(picked(&orders, &[], closed(1)), expected);
    }

    #[test]
    fn the_clouds_own_wish_is_followed_within_bounds() {
        let second = Duration::from_secs(1);
        let fault = |wish: Option<u64>| Fault::Cloud {
            text: String::new(),
            retry_after: wish.map(Duration::from_secs),
        };
        assert_eq!(after(&fault(None), second), second);
        assert_eq!(after(&fault(Some(7)), second), 7 * second);
        assert_eq!(after(&fault(Some(0)), second), second);
        assert_eq!(after(&fault(Some(700)), second), PAUSE_MAX);
    }
}
