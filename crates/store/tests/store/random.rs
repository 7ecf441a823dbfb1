//! Random schedules: whatever happens in whatever order, the rules hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use civ_orch::attempt::{Attempt, FaultKind, Report, StateName};
use civ_store::agents::NotAccepted;
use civ_store::ips::{self, Filter, ListOrder};
use civ_store::leases::{Call, ReleaseEnd};
use civ_testkit::{address, addresses, fip, site, validator};
use civ_types::{Address, ClaimNo, IpId};
use fastrand::Rng;

use crate::world::World;

const ADDRESSES: u8 = 5;
const VALIDATORS: u8 = 3;
const STEPS: u32 = 400;

#[derive(Debug)]
struct Lease {
    claim: ClaimNo,
    ip: Option<IpId>,
    validator: Option<String>,
    releasing: bool,
}

fn leases(world: &World) -> Vec<Lease> {
    let sql = world.sql();
    let text = "SELECT claim_no, ip_id, validator_id, releasing FROM leases";
    let mut statement = sql.prepare(text).unwrap();
    let rows = statement.query_map([], |row| {
        Ok(Lease {
            claim: ClaimNo(row.get(0)?),
            ip: row.get::<_, Option<i64>>(1)?.map(IpId),
            validator: row.get(2)?,
            releasing: row.get(3)?,
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// What must hold after every step. Says which states there are.
async fn check(world: &World) -> BTreeSet<StateName> {
    let rows = world
        .db
        .read(|conn| ips::list(conn, &Filter::default(), ListOrder::Sequence, None))
        .await
        .unwrap();
    let leases = leases(world);
    let orders = world.orders().await;
    let mut owned: BTreeMap<ClaimNo, IpId> = BTreeMap::new();
    let mut states = BTreeSet::new();
    for row in rows {
        let row = row.attempt;
        states.insert(row.state);
        let attempt = Attempt::from_row(row.clone()).unwrap();
        assert_eq!(attempt.to_row(), row);
        assert_eq!(
            row.due_at.is_some(),
            !row.state.is_terminal() && row.state != StateName::Queued
        );
        if let Some(lease) = attempt.lease() {
            owned.insert(lease.claim(), row.head.ip);
        }
    }
    for (claim, ip) in &owned {
        let lease = leases.iter().find(|lease| lease.claim == *claim);
        let lease = lease.unwrap_or_else(|| panic!("claim {claim} has no lease"));
        assert_eq!((lease.ip, lease.releasing), (Some(*ip), false));
    }
    let mut who = BTreeSet::new();
    for lease in &leases {
        if let Some(validator) = &lease.validator {
            assert!(who.insert(validator.clone()), "{validator} twice");
        }
        if !owned.contains_key(&lease.claim) {
            assert!(lease.releasing, "{lease:?} is nobody's");
            let release = orders
                .iter()
                .find(|order| order.claim == lease.claim && order.call == Call::Release);
            assert!(release.is_some(), "{lease:?} is never given back");
        }
    }
    states
}

/// What an agent may say, at the right time or not, rightly fenced or not.
async fn agent(world: &World, rng: &mut Rng, ip: Address) {
    let Some(row) = world.find(ip).await else {
        return;
    };
    let head = row.attempt.head;
    let Some(place) = head.place else { return };
    let lies = rng.u8(0..8) == 0;
    let by = if lies {
        validator(rng.u8(1..=VALIDATORS))
    } else {
        place.validator
    };
    let fence = match rng.u8(0..8) {
        0 => None,
        1 => Some(ClaimNo(head.claim.0 - 1)),
        _ => Some(head.claim),
    };
    match rng.u8(0..4) {
        0 | 1 => {
            let passed = rng.u8(0..4) > 0;
            let told = world.self_check_as(by, ip, fence, passed).await;
            assert!(!matches!(told, Err(NotAccepted::Store(_))), "{told:?}");
        }
        2 => {
            world.egress(ip, rng.bool()).await;
        }
        _ => {
            let told = world.complete(ip).await;
            assert!(!matches!(told, Err(NotAccepted::Store(_))), "{told:?}");
        }
    }
}

/// One entry of the outbox is answered in some way.
async fn cloud(world: &World, rng: &mut Rng) {
    let orders = world.orders().await;
    let Some(order) = rng.choice(&orders).cloned() else {
        return;
    };
    let claim = order.claim;
    if order.call == Call::Release {
        let seen = "elsewhere".to_owned();
        let end = match rng.u8(0..6) {
            0 => ReleaseEnd::AlreadyFree,
            1 => ReleaseEnd::Gone,
            2 => ReleaseEnd::NotOurs { seen },
            _ => ReleaseEnd::Released,
        };
        return world.released_as(claim, end).await;
    }
    let (seen, why) = ("seen".to_owned(), "said no".to_owned());
    let report = match rng.u8(0..12) {
        0 => Report::Occupied { seen },
        1 => Report::Conflict {
            ours: rng.bool(),
            seen,
        },
        2 | 3 => Report::CloudFailed {
            kind: *rng
                .choice(&[FaultKind::Address, FaultKind::Port, FaultKind::Cloud])
                .unwrap(),
            why,
        },
        _ => Report::Associated {
            fip: fip(order.address),
        },
    };
    let ip = order.ip.unwrap();
    world
        .db
        .write(move |tx| civ_store::leases::associate_answered(tx, claim, ip, report))
        .await
        .unwrap();
}

async fn operator(world: &World, rng: &mut Rng, ip: Address) {
    match rng.u8(0..10) {
        0 => drop(world.cancel(ip).await),
        1 => drop(world.delete(ip).await),
        _ => drop(world.enqueue(&[ip]).await),
    }
}

async fn reconciler(world: &World, rng: &mut Rng) {
    use civ_orch::reconcile::Seen;
    use civ_store::leases;
    if rng.bool() {
        let address = address(rng.u8(1..=ADDRESSES));
        let seen = Seen {
            fip: fip(address),
            address,
            port: civ_testkit::port(rng.u8(1..=VALIDATORS)),
        };
        let job = move |tx: &mut civ_store::WriteTx<'_>| leases::adopt_orphan(tx, &seen);
        world.db.write(job).await.unwrap();
    } else {
        let held = world.db.read(leases::held).await.unwrap();
        let Some(lease) = rng.choice(&held).cloned() else {
            return;
        };
        let job = move |tx: &mut civ_store::WriteTx<'_>| leases::detached(tx, &lease, "free");
        world.db.write(job).await.unwrap();
    }
}

async fn step(world: &mut World, rng: &mut Rng) {
    let ip = address(rng.u8(1..=ADDRESSES));
    match rng.u8(0..100) {
        0..20 => drop(world.claim().await),
        20..50 => cloud(world, rng).await,
        50..75 => agent(world, rng, ip).await,
        75..85 => {
            if world.find(ip).await.is_some() {
                world.inbound(ip, site(1), rng.bool()).await;
            }
        }
        85..92 => operator(world, rng, ip).await,
        92..95 => drop(world.tick_after(rng.u32(0..150)).await),
        95 => world.speaks(validator(rng.u8(1..=VALIDATORS))).await,
        96..99 => reconciler(world, rng).await,
        _ => {
            let down = Duration::from_secs(rng.u64(0..600));
            world.db.restart(down).await;
        }
    }
}

#[tokio::test]
async fn rules_01_to_12_hold_under_random_schedules() {
    let mut reached = BTreeSet::new();
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new(VALIDATORS, 1).await;
        world.enqueue(&addresses(ADDRESSES)).await;
        for _ in 0..STEPS {
            step(&mut world, &mut rng).await;
            reached.extend(check(&world).await);
        }
    }
    assert_eq!(reached.len(), StateName::ALL.len(), "{reached:?}");
}
