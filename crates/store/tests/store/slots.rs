//! Names that are given anew, and changes of what is checked in the middle of an attempt.

use civ_orch::attempt::{Outcome, StateName};
use civ_store::check_types::{self, CheckTypeRow};
use civ_store::settings::Inbound;
use civ_store::{Hint, ReadConn, StoreError, WriteTx, agents, results, settings, sites, targets};
use civ_store::{queue, validators};
use civ_testkit::{address, check, port, site, validator};
use civ_types::{Clock as _, SiteId};

use crate::world::World;

async fn put(world: &World, slot: i64, id: SiteId) {
    let job = move |tx: &mut WriteTx<'_>| sites::put(tx, slot, &id);
    world.db.write(job).await.unwrap();
}

/// A prober asks, and what is handed out to it counts.
async fn hand_out(world: &World, to: SiteId) {
    let list = move |conn: &ReadConn<'_>| agents::site_list(conn, &to);
    let list = world.db.read(list).await.unwrap();
    let job = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        for one in &list.work {
            results::hand_out(tx, one.ip, one.claim, &one.uncounted, one.revision)?;
        }
        Ok(())
    };
    world.db.write(job).await.unwrap();
}

async fn outcome(world: &World, n: u8) -> Option<Outcome> {
    world.released(address(n)).await;
    world.row(address(n)).await.attempt.outcome()
}

/// In `checking`, with everything but the sites' part done.
async fn egress_done(n_sites: u8) -> World {
    let world = World::new(1, n_sites).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    world.egress(ip, true).await;
    world.complete(ip).await.unwrap();
    world
}

#[tokio::test]
async fn a_slot_that_is_set_anew_never_makes_a_healthy_address_partial() {
    for (name, handed_out) in [(1, false), (1, true), (9, false), (9, true)] {
        let world = egress_done(2).await;
        let ip = address(1);
        put(&world, 1, site(name)).await;
        assert_eq!(world.state(ip).await, StateName::Checking, "site 2 is open");
        if handed_out {
            hand_out(&world, site(name)).await;
        }
        world.inbound(ip, site(2), true).await;
        if handed_out {
            assert_eq!(world.state(ip).await, StateName::Checking, "site {name}");
            world.inbound(ip, site(name), true).await;
        }
        assert_eq!(world.state(ip).await, StateName::Aggregating);
        assert_eq!(outcome(&world, 1).await, Some(Outcome::Pass));
    }
}

#[tokio::test]
async fn what_a_new_identity_was_handed_out_counts() {
    let world = egress_done(1).await;
    put(&world, 2, site(2)).await;
    hand_out(&world, site(2)).await;
    world.inbound(address(1), site(1), true).await;
    world.inbound(address(1), site(2), false).await;
    assert_eq!(outcome(&world, 1).await, Some(Outcome::Partial));
}

#[tokio::test]
async fn a_slot_that_is_emptied_ends_the_wait_for_it() {
    let world = egress_done(1).await;
    drop(world.db.take_hints());
    let job = |tx: &mut WriteTx<'_>| sites::delete(tx, 1);
    world.db.write(job).await.unwrap();
    let hints = world.db.take_hints();
    assert!(hints.contains(&Hint::Sites) && hints.contains(&Hint::SiteReset(site(1))));
    assert_eq!(world.state(address(1)).await, StateName::Aggregating);
    assert_eq!(outcome(&world, 1).await, Some(Outcome::Pass));
}

#[tokio::test]
async fn removed_checks_no_longer_count() {
    type Job = fn(&mut WriteTx<'_>) -> Result<(), StoreError>;
    let jobs: [(&str, Job); 4] = [
        ("check type deleted", |tx| {
            check_types::delete(tx, &check("https"))
        }),
        ("check type off", |tx| {
            let off = CheckTypeRow {
                name: check("https"),
                enabled: false,
                groups: vec!["web".to_owned()],
                options: None,
            };
            check_types::put(tx, &off)
        }),
        ("targets replaced", |tx| {
            targets::put(tx, "web", &["https://c.example".to_owned()])
        }),
        ("group gone from the type", |tx| {
            let bare = CheckTypeRow {
                name: check("https"),
                enabled: true,
                groups: Vec::new(),
                options: None,
            };
            check_types::put(tx, &bare)
        }),
    ];
    for (what, job) in jobs {
        let world = World::new(1, 1).await;
        let ip = address(1);
        world.up_to_checking(ip).await;
        world.egress(ip, false).await;
        world.inbound(ip, site(1), true).await;
        world.db.write(job).await.unwrap();
        world.complete(ip).await.unwrap();
        assert_eq!(outcome(&world, 1).await, Some(Outcome::Pass), "{what}");
    }
}

#[tokio::test]
async fn a_change_wakes_whoever_works() {
    let world = World::new(1, 1).await;
    world.up_to_checking(address(1)).await;
    drop(world.db.take_hints());
    let inbound = |tx: &mut WriteTx<'_>| {
        let only = Inbound {
            ports: vec![80],
            closed_ports: Vec::new(),
            icmp: false,
        };
        settings::set_inbound(tx, &only)
    };
    world.db.write(inbound).await.unwrap();
    let hints = world.db.take_hints();
    for hint in [Hint::Validator(validator(1)), Hint::Sites, Hint::Schedule] {
        assert!(hints.contains(&hint), "{hint:?} of {hints:?}");
    }
}

#[tokio::test]
async fn signs_of_life_from_before_do_not_count_for_a_new_identity() {
    let world = World::new(1, 1).await;
    let before = world.db.clock.now();
    world.db.clock.advance_secs(1);
    put(&world, 1, site(1)).await;
    let replace = |tx: &mut WriteTx<'_>| {
        validators::delete(tx, &validator(1))?;
        validators::insert(tx, &validator(1), &port(1))
    };
    world.db.write(replace).await.unwrap();
    let late = move |tx: &mut WriteTx<'_>| {
        sites::seen(tx, &[(site(1), before)])?;
        validators::seen(tx, &[(validator(1), before)])
    };
    world.db.write(late).await.unwrap();
    let read = |conn: &ReadConn<'_>| -> Result<_, StoreError> {
        Ok((sites::list(conn)?, validators::list(conn)?))
    };
    let (sites_now, validators_now) = world.db.read(read).await.unwrap();
    assert_eq!(sites_now[0].last_seen_at, None);
    assert_eq!(validators_now[0].last_seen_at, None);
    assert!(!validators_now[0].registered && !sites_now[0].registered);
    world.db.clock.advance_secs(1);
    let after = world.db.clock.now();
    let new = move |tx: &mut WriteTx<'_>| {
        sites::seen(tx, &[(site(1), after)])?;
        validators::seen(tx, &[(validator(1), after)])
    };
    world.db.write(new).await.unwrap();
    let (sites_now, validators_now) = world.db.read(read).await.unwrap();
    assert_eq!(sites_now[0].last_seen_at, Some(after));
    assert_eq!(validators_now[0].last_seen_at, Some(after));
}

#[tokio::test]
async fn an_open_lease_keeps_its_port_and_nobody_else_gets_it() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    let moved = |tx: &mut WriteTx<'_>| validators::set_port(tx, &validator(1), &port(7));
    world.db.write(moved).await.unwrap();
    let place = world.row(ip).await.attempt.head.place.unwrap();
    assert_eq!(place.port, port(1));
    let other = |conn: &ReadConn<'_>| -> Result<_, StoreError> {
        Ok([
            validators::other_on_port(conn, &port(1), &validator(2))?,
            validators::other_on_port(conn, &port(7), &validator(2))?,
            validators::other_on_port(conn, &port(1), &validator(1))?,
            validators::other_on_port(conn, &port(9), &validator(2))?,
        ])
    };
    let by = Some(validator(1));
    assert_eq!(
        world.db.read(other).await.unwrap(),
        [by.clone(), by, None, None]
    );
    world.db.write(queue::clear).await.unwrap();
    let order = world.orders().await.pop().unwrap();
    assert_eq!(order.port, port(1), "released where it was associated");
    world.released(ip).await;
    world.enqueue(&[ip]).await;
    world.claim().await;
    let place = world.row(ip).await.attempt.head.place.unwrap();
    assert_eq!(place.port, port(7));
}
