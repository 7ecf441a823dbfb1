//! The check `identity`, expected-closed ports, and checks that are added while a reporter says
//! that it is through.

use civ_orch::attempt::{Outcome, StateName};
use civ_store::agents::{self, SiteWork, Work};
use civ_store::settings::{self, Inbound};
use civ_store::sites::{self, Knows};
use civ_store::{ReadConn, StoreError, WriteTx, results, targets, validators};
use civ_testkit::{CHECK_TARGETS, address, check, nonce, site, validator};
use civ_types::CheckSpec;

use crate::world::World;

const ALL: Knows = Knows {
    identity: true,
    closed_ports: true,
};

async fn knows(world: &World, n: u8, knows: Knows) {
    let job = move |tx: &mut WriteTx<'_>| sites::register(tx, &site(n), "host", knows);
    assert!(world.db.write(job).await.unwrap());
}

async fn responds(world: &World, ports: Option<&'static [u16]>) {
    let job = move |tx: &mut WriteTx<'_>| validators::register(tx, &validator(1), "", "", ports);
    assert!(world.db.write(job).await.unwrap());
}

async fn inbound_as(world: &World, ports: &[u16], closed: &[u16]) {
    let next = Inbound {
        ports: ports.to_vec(),
        closed_ports: closed.to_vec(),
        icmp: true,
    };
    let job = move |tx: &mut WriteTx<'_>| settings::set_inbound(tx, &next);
    world.db.write(job).await.unwrap();
}

async fn work(world: &World) -> Option<Work> {
    let look = |conn: &ReadConn<'_>| agents::work(conn, &validator(1));
    world.db.read(look).await.unwrap()
}

async fn site_work(world: &World, n: u8) -> SiteWork {
    let look = move |conn: &ReadConn<'_>| agents::site_list(conn, &site(n));
    world.db.read(look).await.unwrap().work.remove(0)
}

/// What a poll of the site notes; the revision that it is handed.
async fn fetch(world: &World, n: u8) -> i64 {
    let one = site_work(world, n).await;
    let job = move |tx: &mut WriteTx<'_>| -> Result<i64, StoreError> {
        results::hand_out(tx, one.ip, one.claim, &one.uncounted, one.revision)
    };
    world.db.write(job).await.unwrap()
}

/// The same for the validator.
async fn agent_fetch(world: &World) -> i64 {
    let one = work(world).await.unwrap();
    let job = move |tx: &mut WriteTx<'_>| -> Result<i64, StoreError> {
        results::hand_out(tx, one.ip, one.claim, &one.uncounted, one.revision)
    };
    world.db.write(job).await.unwrap()
}

/// Results of a site, the last one `complete` with that revision.
async fn says(world: &World, n: u8, names: &[(&str, bool)], revision: Option<i64>) {
    let mut rows = Vec::new();
    for (name, ok) in names {
        let spec = CheckSpec::inbound(site(n), check(name));
        rows.push(world.reported(address(1), spec, *ok).await);
    }
    let last = rows.last_mut().unwrap();
    (last.complete, last.revision) = (true, revision);
    let job = move |tx: &mut WriteTx<'_>| agents::inbound_results(tx, &site(n), &rows);
    assert_eq!(world.db.write(job).await.unwrap(), 0);
}

const USUAL: [(&str, bool); 3] = [("tcp-22", true), ("ssh", true), ("icmp", true)];

fn with(more: &'static [(&'static str, bool)]) -> Vec<(&'static str, bool)> {
    USUAL.iter().chain(more).copied().collect()
}

async fn outcome(world: &World) -> Option<Outcome> {
    assert_eq!(world.state(address(1)).await, StateName::Aggregating);
    world.released(address(1)).await;
    world.row(address(1)).await.attempt.outcome()
}

/// Everything that can be on, up to `checking`, with the egress part done.
async fn proving(n_sites: u8) -> World {
    let world = World::new(1, n_sites).await;
    knows(&world, 1, ALL).await;
    responds(&world, Some(&[8080])).await;
    world.up_to_checking(address(1)).await;
    world.egress(address(1), true).await;
    world
}

#[tokio::test]
async fn a_wrong_answer_to_identity_makes_the_address_partial() {
    for (ok, expected) in [(true, Outcome::Pass), (false, Outcome::Partial)] {
        let world = proving(1).await;
        let proof = site_work(&world, 1).await.proof.unwrap();
        assert_eq!((proof.validator, proof.ports), (validator(1), vec![8080]));
        assert_eq!(proof.nonce, nonce());
        world.complete(address(1)).await.unwrap();
        let answer: &'static [_] = if ok {
            &[("identity", true)]
        } else {
            &[("identity", false)]
        };
        says(&world, 1, &with(answer), None).await;
        assert_eq!(outcome(&world).await, Some(expected));
    }
}

#[tokio::test]
async fn an_identity_that_nobody_compared_is_missing() {
    let world = proving(1).await;
    world.complete(address(1)).await.unwrap();
    says(&world, 1, &USUAL, None).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Partial));
}

#[tokio::test]
async fn a_prober_that_does_not_know_it_is_excused() {
    let world = proving(2).await;
    inbound_as(&world, &[22], &[23]).await;
    assert_eq!(site_work(&world, 2).await.proof, None);
    let look = |conn: &ReadConn<'_>| agents::site_list(conn, &site(2));
    let list = world.db.read(look).await.unwrap();
    assert_eq!(list.closed_ports, [0_u16; 0]);
    fetch(&world, 2).await;
    world.complete(address(1)).await.unwrap();
    says(&world, 1, &with(&[("identity", true)]), None).await;
    says(&world, 2, &USUAL, None).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Pass));
}

#[tokio::test]
async fn the_nonce_is_served_until_the_address_is_given_up_and_nothing_is_checked_meanwhile() {
    let world = proving(1).await;
    assert!(!work(&world).await.unwrap().check_types.is_empty());
    world.complete(address(1)).await.unwrap();
    let after = work(&world).await.unwrap();
    assert_eq!(after.proof.unwrap().nonce, nonce());
    assert!(after.check_types.is_empty() && after.uncounted.is_empty());
    says(&world, 1, &with(&[("identity", true)]), None).await;
    assert_eq!(world.state(address(1)).await, StateName::Aggregating);
    assert_eq!(work(&world).await, None, "the lease is given back");
}

#[tokio::test]
async fn without_a_responder_there_is_no_nonce_and_nothing_after_complete() {
    let world = World::new(1, 1).await;
    knows(&world, 1, ALL).await;
    world.up_to_checking(address(1)).await;
    assert_eq!(work(&world).await.unwrap().proof, None);
    assert_eq!(site_work(&world, 1).await.proof, None);
    world.complete(address(1)).await.unwrap();
    assert_eq!(work(&world).await, None);
}

#[tokio::test]
async fn a_responder_that_comes_or_goes_midway_makes_no_healthy_address_partial() {
    for comes in [true, false] {
        let world = World::new(1, 1).await;
        knows(&world, 1, ALL).await;
        responds(&world, (!comes).then_some(&[80])).await;
        world.up_to_checking(address(1)).await;
        fetch(&world, 1).await;
        responds(&world, comes.then_some(&[80])).await;
        fetch(&world, 1).await;
        assert_eq!(site_work(&world, 1).await.proof, None, "comes: {comes}");
        world.egress(address(1), true).await;
        world.complete(address(1)).await.unwrap();
        says(&world, 1, &USUAL, None).await;
        assert_eq!(outcome(&world).await, Some(Outcome::Pass), "comes: {comes}");
    }
}

#[tokio::test]
async fn a_prober_that_forgets_how_midway_ends_the_wait_for_it() {
    let world = proving(1).await;
    world.complete(address(1)).await.unwrap();
    knows(&world, 1, Knows::default()).await;
    says(&world, 1, &USUAL, None).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Pass));
}

#[tokio::test]
async fn another_slot_forgets_what_its_prober_knew() {
    let world = proving(1).await;
    let job = |tx: &mut WriteTx<'_>| sites::put(tx, 1, &site(1));
    world.db.write(job).await.unwrap();
    assert_eq!(site_work(&world, 1).await.proof, None);
}

#[tokio::test]
async fn a_port_that_should_be_closed_counts() {
    for (closed, expected) in [(true, Outcome::Pass), (false, Outcome::Partial)] {
        let world = World::new(1, 1).await;
        knows(&world, 1, ALL).await;
        inbound_as(&world, &[22], &[23]).await;
        world.up_to_checking(address(1)).await;
        world.egress(address(1), true).await;
        world.complete(address(1)).await.unwrap();
        let answer: &'static [_] = if closed {
            &[("closed-23", true)]
        } else {
            &[("closed-23", false)]
        };
        says(&world, 1, &with(answer), Some(0)).await;
        assert_eq!(outcome(&world).await, Some(expected));
    }
}

async fn add_target(world: &World) {
    let job = |tx: &mut WriteTx<'_>| {
        let mut list: Vec<_> = CHECK_TARGETS.map(str::to_owned).to_vec();
        list.push("https://c.example".to_owned());
        targets::put(tx, "web", &list)
    };
    world.db.write(job).await.unwrap();
}

/// The agent is through; before it is heard, a check is added and handed out.
#[tokio::test]
async fn a_complete_that_was_under_way_when_a_check_was_added_costs_no_verdict() {
    for (names, expected) in [(true, Outcome::Pass), (false, Outcome::Partial)] {
        let world = World::new(1, 1).await;
        world.up_to_checking(address(1)).await;
        world.egress(address(1), true).await;
        let seen = agent_fetch(&world).await;
        add_target(&world).await;
        assert_eq!(agent_fetch(&world).await, seen + 1);
        let (by, claim) = world.holder(address(1)).await;
        let ip = world.row(address(1)).await.attempt.head.ip;
        let seen = names.then_some(seen);
        let job =
            move |tx: &mut WriteTx<'_>| agents::complete(tx, &by, ip, Some(claim), seen).map(drop);
        world.db.write(job).await.unwrap();
        says(&world, 1, &USUAL, None).await;
        // A client of the contract names no revision: what was handed out counts, as ever.
        assert_eq!(outcome(&world).await, Some(expected), "names: {names}");
    }
}

/// A port is taken away, the site is through without it, and it comes back: it counts no sooner
/// than it has been handed out again.
#[tokio::test]
async fn a_check_that_comes_back_counts_only_once_it_is_handed_out_again() {
    for handed_out in [false, true] {
        let world = World::new(1, 1).await;
        inbound_as(&world, &[22, 8080], &[]).await;
        world.up_to_checking(address(1)).await;
        let all = fetch(&world, 1).await;
        inbound_as(&world, &[22], &[]).await;
        let fewer = fetch(&world, 1).await;
        says(&world, 1, &USUAL, Some(fewer)).await;
        inbound_as(&world, &[22, 8080], &[]).await;
        if handed_out {
            let again = fetch(&world, 1).await;
            assert!(all < again, "a list that has more is another one");
        }
        world.egress(address(1), true).await;
        world.complete(address(1)).await.unwrap();
        if handed_out {
            assert_eq!(world.state(address(1)).await, StateName::Checking);
            says(&world, 1, &with(&[("tcp-8080", false)]), None).await;
            assert_eq!(outcome(&world).await, Some(Outcome::Partial));
        } else {
            assert_eq!(outcome(&world).await, Some(Outcome::Pass));
        }
    }
}

/// A restarted agent has an empty list; that it is through with it forgives nothing.
#[tokio::test]
async fn complete_said_once_more_takes_no_check_back() {
    let world = proving(1).await;
    add_target(&world).await;
    agent_fetch(&world).await;
    let (by, claim) = world.holder(address(1)).await;
    let ip = world.row(address(1)).await.attempt.head.ip;
    let first = world.db.write({
        let by = by.clone();
        move |tx| agents::complete(tx, &by, ip, Some(claim), Some(1)).map(drop)
    });
    first.await.unwrap();
    assert_eq!(work(&world).await.unwrap().revision, 1);
    let again =
        move |tx: &mut WriteTx<'_>| agents::complete(tx, &by, ip, Some(claim), Some(0)).map(drop);
    world.db.write(again).await.unwrap();
    says(&world, 1, &with(&[("identity", true)]), None).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Partial));
}

/// What an agent has done and reported counts, whatever revision it names.
#[tokio::test]
async fn a_failed_check_of_a_newer_list_still_counts() {
    let world = World::new(1, 0).await;
    world.up_to_checking(address(1)).await;
    world.egress(address(1), true).await;
    let seen = agent_fetch(&world).await;
    add_target(&world).await;
    agent_fetch(&world).await;
    let spec = CheckSpec::egress(check("https"), "https://c.example");
    let rows = [world.reported(address(1), spec, false).await];
    let (by, claim) = world.holder(address(1)).await;
    let ip = world.row(address(1)).await.attempt.head.ip;
    let job = move |tx: &mut WriteTx<'_>| {
        agents::egress_results(tx, &by, &rows)?;
        agents::complete(tx, &by, ip, Some(claim), Some(seen)).map(drop)
    };
    world.db.write(job).await.unwrap();
    assert_eq!(outcome(&world).await, Some(Outcome::Partial));
}

/// The site is through; before it is heard, a port is added and handed out to it: it has begun
/// anew and is waited for.
#[tokio::test]
async fn a_site_that_was_through_with_an_older_list_is_waited_for() {
    let world = World::new(1, 1).await;
    world.up_to_checking(address(1)).await;
    world.egress(address(1), true).await;
    world.complete(address(1)).await.unwrap();
    let seen = fetch(&world, 1).await;
    inbound_as(&world, &[22, 8080], &[]).await;
    assert_eq!(fetch(&world, 1).await, seen + 1);
    says(&world, 1, &USUAL, Some(seen)).await;
    assert_eq!(world.state(address(1)).await, StateName::Checking);
    says(&world, 1, &with(&[("tcp-8080", true)]), Some(seen + 1)).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Pass));
}

/// The port was taken away again: nothing is left to wait for.
#[tokio::test]
async fn a_site_is_not_waited_for_because_of_a_check_that_is_gone() {
    let world = World::new(1, 1).await;
    world.up_to_checking(address(1)).await;
    world.egress(address(1), true).await;
    world.complete(address(1)).await.unwrap();
    let seen = fetch(&world, 1).await;
    inbound_as(&world, &[22, 8080], &[]).await;
    fetch(&world, 1).await;
    inbound_as(&world, &[22], &[]).await;
    says(&world, 1, &USUAL, Some(seen)).await;
    assert_eq!(outcome(&world).await, Some(Outcome::Pass));
}

/// Two lists are read before either is noted: neither reader is taken to have seen both.
#[tokio::test]
async fn lists_that_cross_are_not_taken_for_one() {
    let world = World::new(1, 1).await;
    world.up_to_checking(address(1)).await;
    let first = work(&world).await.unwrap();
    add_target(&world).await;
    let second = work(&world).await.unwrap();
    assert_eq!(agent_fetch(&world).await, 1);
    let job = move |tx: &mut WriteTx<'_>| -> Result<_, StoreError> {
        let more = CheckSpec::egress(check("tcp"), "c.example:1");
        let (ip, claim) = (first.ip, first.claim);
        results::hand_out(tx, ip, claim, &[more].into(), second.revision)
    };
    assert_eq!(world.db.write(job).await.unwrap(), 0);
}
