//! Events of agents and probers, and checks that could not be carried out.

use civ_orch::attempt::{Outcome, StateName};
use civ_store::agents::{self, ReportedEvent, Reporter};
use civ_store::{Hint, events, queue};
use civ_testkit::{CHECK_TARGETS, address, check, site, validator};
use civ_types::{CheckName, IpId, SiteId, ValidatorId};

use crate::world::World;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn v1() -> Reporter<'static> {
    Reporter::Validator(leak::<ValidatorId>(validator(1)))
}

fn s1() -> Reporter<'static> {
    Reporter::Site(leak::<SiteId>(site(1)))
}

fn plain(ip: Option<IpId>) -> ReportedEvent {
    ReportedEvent {
        event_type: "config_received".to_owned(),
        ip,
        fence: None,
        payload: "{\"checks\":2}".to_owned(),
        inconclusive: None,
    }
}

fn inconclusive(ip: IpId, name: &str, target: &str) -> ReportedEvent {
    let said: (CheckName, String, String) =
        (check(name), target.to_owned(), "permission".to_owned());
    ReportedEvent {
        event_type: "check_inconclusive".to_owned(),
        inconclusive: Some(said),
        ..plain(Some(ip))
    }
}

#[tokio::test]
async fn an_event_is_always_recorded() {
    let world = World::new(1, 1).await;
    world.up_to_checking(address(1)).await;
    let ip = world.row(address(1)).await.attempt.head.ip;
    world.event(v1(), plain(Some(ip))).await;
    world.event(s1(), plain(None)).await;
    world.event(s1(), plain(Some(IpId(4711)))).await;
    let latest = world.db.read(|conn| events::latest(conn, 3)).await.unwrap();
    assert_eq!(latest[2].ip, Some(ip));
    assert_eq!(latest[2].validator, Some(validator(1)));
    assert_eq!(latest[2].payload, "{\"checks\":2}");
    assert_eq!((latest[1].ip, &latest[1].site), (None, &Some(site(1))));
    assert_eq!(latest[0].ip, None, "there is no such address");
    assert!(latest[0].payload.contains("4711"), "{}", latest[0].payload);
}

#[tokio::test]
async fn a_single_event_makes_a_lease_not_silent() {
    for heard in [true, false] {
        let world = World::new(1, 0).await;
        world.up_to_self_check(address(1)).await;
        let ip = world.row(address(1)).await.attempt.head.ip;
        if heard {
            world.event(v1(), plain(Some(ip))).await;
        }
        world.tick_after(120).await;
        let retries = world.row(address(1)).await.attempt.head.retries;
        assert_eq!(
            (retries.self_check == 1, retries.silent == 1),
            (heard, !heard)
        );
        let silenced = world
            .db
            .take_hints()
            .contains(&Hint::Silenced(validator(1)));
        assert_eq!(silenced, !heard);
    }
}

#[tokio::test]
async fn what_could_not_be_checked_does_not_count() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    let id = world.row(ip).await.attempt.head.ip;
    // The site could not ping; it reports the rest.
    world.event(s1(), inconclusive(id, "icmp", "")).await;
    let by = site(1);
    let mut rows = Vec::new();
    for name in ["tcp-22", "ssh"] {
        let spec = civ_types::CheckSpec::inbound(by.clone(), check(name));
        rows.push(world.reported(ip, spec, true).await);
    }
    rows[1].complete = true;
    let job = move |tx: &mut civ_store::WriteTx<'_>| agents::inbound_results(tx, &by, &rows);
    assert_eq!(world.db.write(job).await.unwrap(), 0);
    world.egress(ip, true).await;
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.outcome(), Some(Outcome::Pass));
    let events = world
        .db
        .read(move |conn| events::of_address(conn, ip))
        .await
        .unwrap();
    let verdict = events.iter().find(|event| event.event_type == "aggregated");
    let payload = &verdict.unwrap().payload;
    assert!(
        payload.contains("not_checked") && payload.contains("icmp"),
        "{payload}"
    );
}

#[tokio::test]
async fn a_source_that_could_check_nothing_is_missing() {
    let world = World::new(1, 0).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    let id = world.row(ip).await.attempt.head.ip;
    for target in CHECK_TARGETS {
        world.event(v1(), inconclusive(id, "https", target)).await;
    }
    world.complete(ip).await.unwrap();
    world.released(ip).await;
    assert_eq!(world.row(ip).await.attempt.outcome(), Some(Outcome::Fail));
}

#[tokio::test]
async fn an_inconclusive_event_of_somebody_else_is_kept_and_changes_no_count() {
    let world = World::new(2, 0).await;
    let ip = address(1);
    world.up_to_checking(ip).await;
    let id = world.row(ip).await.attempt.head.ip;
    let other = Reporter::Validator(leak::<ValidatorId>(validator(2)));
    world
        .event(other, inconclusive(id, "https", CHECK_TARGETS[0]))
        .await;
    let old = ReportedEvent {
        fence: Some(civ_types::ClaimNo(1)),
        ..inconclusive(id, "https", CHECK_TARGETS[0])
    };
    world.event(v1(), old).await;
    let n: i64 = world
        .sql()
        .query_row("SELECT count(*) FROM inconclusive_checks", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(n, 0);
    let recorded = world.events(ip).await;
    let n = recorded.iter().filter(|kind| *kind == "check_inconclusive");
    assert_eq!(n.count(), 2);
}

#[tokio::test]
async fn hints_name_those_who_have_to_look_again() {
    let world = World::new(1, 1).await;
    let ip = address(1);
    world.enqueue(&[ip]).await;
    let hints = world.db.take_hints();
    for hint in [Hint::Schedule, Hint::Events] {
        assert!(hints.contains(&hint), "{hint:?} in {hints:?}");
    }
    world.claim().await;
    assert!(world.db.take_hints().contains(&Hint::Outbox));
    world.associated(ip).await;
    let mine = Hint::Validator(validator(1));
    assert!(world.db.take_hints().contains(&mine));
    world.self_check(ip, true).await;
    let hints = world.db.take_hints();
    assert!(
        hints.contains(&mine) && hints.contains(&Hint::Sites),
        "{hints:?}"
    );
    world.cancel(ip).await.unwrap();
    let hints = world.db.take_hints();
    for hint in [mine, Hint::Sites, Hint::Outbox] {
        assert!(hints.contains(&hint), "{hint:?} in {hints:?}");
    }
    world.released(ip).await;
    assert!(world.db.take_hints().contains(&Hint::Schedule));
    // A job that fails tells nobody anything.
    assert!(
        world
            .db
            .write(move |tx| queue::cancel(tx, ip))
            .await
            .is_err()
    );
    assert_eq!(world.db.take_hints(), []);
    assert_eq!(world.state(ip).await, StateName::Failed);
}

#[tokio::test]
async fn a_silence_also_ends_by_itself() {
    let world = World::new(1, 0).await;
    world.up_to_self_check(address(1)).await;
    world.tick_after(120).await;
    world.released(address(1)).await;
    world.db.clock.advance_secs(299);
    assert_eq!(world.claim().await, 0);
    world.db.clock.advance_secs(1);
    assert_eq!(world.claim().await, 1);
}
