//! Backups are whole and proved, restored databases go on from today, and neither costs what was
//! there before.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use civ_orch::attempt::StateName;
use civ_store::backup::{self, BackupError, Made, Stage};
use civ_store::restore::{RestoreError, Restored, restore};
use civ_store::{OpenError, Store, events, ips, leases, queue, validators};
use civ_testkit::{FakeClock, address, addresses, port, rules, validator};
use civ_types::{Clock as _, Utc};

use crate::world::World;

fn make(world: &World, to: &Path) -> Result<Made, BackupError> {
    backup::make(&world.db.path(), to, false, &mut |_| {
        ControlFlow::Continue(())
    })
}

fn put_back(world: &World, from: &Path) -> Result<Restored, RestoreError> {
    let now = world.db.clock.now();
    let go_on = &mut |_| ControlFlow::Continue(());
    restore(from, &world.db.path(), now, rules(), go_on)
}

fn beside(world: &World, name: &str) -> PathBuf {
    world.db.path().with_file_name(name)
}

/// Names in the folder of the database that begin so.
fn names(world: &World, begin: &str) -> Vec<String> {
    let folder = world.db.path().parent().unwrap().to_owned();
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(begin)).collect();
    names.sort();
    names
}

fn open(path: &Path) -> Result<Store, OpenError> {
    let clock = Arc::new(FakeClock::at(civ_testkit::START));
    Store::open(path, clock, rules(), Box::new(drop))
}

async fn queued(path: &Path) -> u64 {
    let store = open(path).unwrap();
    let counts = store.read(ips::counts).await.unwrap();
    counts.states.values().sum()
}

#[tokio::test]
async fn a_backup_is_whole_and_only_the_owners() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(7)).await;
    let to = beside(&world, "copy.db");
    let made = make(&world, &to).unwrap();
    assert_eq!(made.last_write, Some(world.db.clock.now()));
    assert_eq!(made.dangling, Vec::<String>::new());
    let file = std::fs::metadata(&to).unwrap();
    assert_eq!(
        (file.len(), file.permissions().mode() & 0o777),
        (made.bytes, 0o600)
    );
    assert_eq!(names(&world, ".copy"), Vec::<String>::new());
    assert_eq!(names(&world, "copy"), ["copy.db"], "it needs no log");
    assert_eq!(queued(&to).await, 7);
}

#[tokio::test]
async fn nothing_is_replaced_unasked_and_never_by_half() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(1)).await;
    let to = beside(&world, "copy.db");
    std::fs::write(&to, "precious").unwrap();
    let refused = make(&world, &to).unwrap_err();
    assert!(matches!(refused, BackupError::Exists { .. }), "{refused}");
    let from = world.db.path();
    let stopped = backup::make(&from, &to, true, &mut |stage| match stage {
        Stage::Copying { .. } => ControlFlow::Continue(()),
        Stage::Verifying => ControlFlow::Break(()),
    });
    assert!(matches!(stopped, Err(BackupError::Stopped)), "{stopped:?}");
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "precious");
    assert_eq!(names(&world, ".copy"), Vec::<String>::new());
    let itself = backup::make(&from, &from, true, &mut |_| ControlFlow::Continue(()));
    assert!(
        matches!(itself, Err(BackupError::Itself { .. })),
        "{itself:?}"
    );
    backup::make(&from, &to, true, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(queued(&to).await, 1);
    let nowhere = make(&world, &beside(&world, "no/copy.db")).unwrap_err();
    assert!(
        matches!(nowhere, BackupError::Unwritable { .. }),
        "{nowhere}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_holds_up_nobody_and_is_of_one_moment() {
    let world = World::new(1, 0).await;
    let many: Vec<_> = (0..6_000_u32)
        .map(|n| civ_types::Address::from_ip(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into()))
        .collect();
    world.enqueue(&many).await;
    let (from, to) = (world.db.path(), beside(&world, "copy.db"));
    let begun = Arc::new(AtomicBool::new(false));
    let (says, done) = (Arc::clone(&begun), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&done);
    let copying = tokio::task::spawn_blocking(move || {
        let mut steps = 0;
        let made = backup::make(&from, &to, false, &mut |stage| {
            says.store(true, Ordering::SeqCst);
            steps += u32::from(matches!(stage, Stage::Copying { .. }));
            ControlFlow::Continue(())
        });
        ends.store(true, Ordering::SeqCst);
        (made.unwrap(), steps)
    });
    // Writes go on from the first step to the last, and each of them changes pages.
    let mut n_meanwhile = 0;
    let mut n = 0;
    while !done.load(Ordering::SeqCst) {
        n += 1;
        world.cancel(many[n]).await.unwrap();
        n_meanwhile += u32::from(begun.load(Ordering::SeqCst));
    }
    let (_, steps) = copying.await.unwrap();
    assert!(
        steps > 1 && n_meanwhile > 3,
        "{steps} steps, {n_meanwhile} writes"
    );
    assert_eq!(queued(&beside(&world, "copy.db")).await, 6_000);
    let cancelled = world.db.read(ips::counts).await.unwrap().states["failed"];
    assert_eq!(cancelled, n as u64);
}

#[tokio::test]
async fn numbers_of_the_lost_day_are_not_given_out_again() {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(1)).await;
    let backup = beside(&world, "copy.db");
    make(&world, &backup).unwrap();
    // The lost day, by a clock that was wrong: all its numbers are known to agents.
    world.db.clock.advance_secs(86_400);
    world.enqueue(&[address(2)]).await;
    assert_eq!(world.claim().await, 1);
    let (_, lost_claim) = world.holder(address(1)).await;
    let lost = world.row(address(2)).await.attempt.head;
    let last = world.db.read(events::last_id).await.unwrap();
    world.db.clock.set(civ_testkit::START);
    world.end().await;
    let restored = put_back(&world, &backup).unwrap();
    assert_eq!((restored.unread, restored.dropped), (None, Vec::new()));
    world.db.restart(std::time::Duration::ZERO).await;
    assert_eq!(world.find(address(2)).await, None);
    world.enqueue(&[address(3)]).await;
    assert_eq!(world.claim().await, 1);
    let (_, claim) = world.holder(address(1)).await;
    assert!(lost_claim < claim, "{lost_claim} and {claim}");
    let new = world.row(address(3)).await.attempt.head;
    assert!(lost.ip < new.ip, "{} and {}", lost.ip, new.ip);
    let told = world
        .db
        .read(|conn| events::latest(conn, 100))
        .await
        .unwrap();
    let restored = told
        .iter()
        .find(|event| event.event_type == "database_restored");
    assert!(last < restored.unwrap().id);
}

#[tokio::test]
async fn without_a_readable_database_numbers_go_far_on() {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(1)).await;
    let backup = beside(&world, "copy.db");
    make(&world, &backup).unwrap();
    world.end().await;
    std::fs::write(world.db.path(), "no database any more".repeat(1_000)).unwrap();
    std::fs::write(beside(&world, "test.db-wal"), "a log").unwrap();
    let restored = put_back(&world, &backup).unwrap();
    assert!(restored.unread.is_some());
    // A log that nobody could read goes with its file, and never reaches the new one.
    let kept = restored.aside.unwrap();
    let mut log = kept.clone().into_os_string();
    log.push("-wal");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "a log");
    assert_eq!(names(&world, "test.db-"), Vec::<String>::new());
    assert!(
        std::fs::read_to_string(kept)
            .unwrap()
            .starts_with("no database")
    );
    world.db.restart(std::time::Duration::ZERO).await;
    world.enqueue(&[address(3)]).await;
    assert!(world.row(address(3)).await.attempt.head.ip.0 > 1_000_000_000);
    world.claim().await;
    let millis = world.db.clock.now().as_micros() / 1_000;
    let (_, claim) = world.holder(address(1)).await;
    assert!(claim.0 >= millis + 1_000_000_000, "{claim}");
}

#[tokio::test]
async fn what_is_put_aside_is_whole_and_its_log_cannot_reach_the_new_one() {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(2)).await;
    let backup = beside(&world, "copy.db");
    make(&world, &backup).unwrap();
    world.enqueue(&addresses(5)).await;
    // As after kill -9: what was written last is in the log alone.
    let left = ["test.db", "test.db-wal", "test.db-shm"];
    for name in left {
        std::fs::copy(
            beside(&world, name),
            beside(&world, &format!("kept-{name}")),
        )
        .unwrap();
    }
    world.end().await;
    for name in left {
        std::fs::copy(
            beside(&world, &format!("kept-{name}")),
            beside(&world, name),
        )
        .unwrap();
    }
    let restored = put_back(&world, &backup).unwrap();
    assert_eq!(names(&world, "test.db-"), Vec::<String>::new());
    assert_eq!(queued(&world.db.path()).await, 2);
    assert_eq!(queued(&restored.aside.unwrap()).await, 5);
}

#[tokio::test]
async fn what_cannot_be_a_backup_changes_nothing() {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(2)).await;
    let good = beside(&world, "good.db");
    make(&world, &good).unwrap();
    let busy = put_back(&world, &good).unwrap_err();
    let in_use = matches!(busy, RestoreError::Place(OpenError::InUse { .. }));
    assert!(in_use, "{busy}");
    world.end().await;
    let before = std::fs::read(world.db.path()).unwrap();
    let case = |name: &str, change: &dyn Fn(&Path)| {
        let path = beside(&world, name);
        std::fs::copy(&good, &path).unwrap();
        change(&path);
        put_back(&world, &path).unwrap_err().to_string()
    };
    let sql = |sql: &'static str| {
        move |path: &Path| {
            let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
            let connection = rusqlite::Connection::open_with_flags(path, flags).unwrap();
            connection.execute_batch(sql).unwrap();
        }
    };
    let text = case("newer.db", &sql("PRAGMA user_version = 999"));
    assert!(text.contains("use the newer program"), "{text}");
    let text = case("foreign.db", &sql("PRAGMA user_version = 0"));
    assert!(text.contains("no database of control-api"), "{text}");
    let text = case("lacking.db", &sql("DROP TABLE leases"));
    assert!(
        text.contains("it lacks") && text.contains("table leases"),
        "{text}"
    );
    let text = case("text.db", &|path| {
        std::fs::write(path, "text".repeat(2_000)).unwrap();
    });
    assert!(text.contains("no database of control-api"), "{text}");
    let text = case("empty.db", &|path| std::fs::write(path, "").unwrap());
    assert!(text.contains("it is empty"), "{text}");
    let text = case("damaged.db", &|path| {
        crate::damage::overwrite_page(path, "ips");
    });
    assert!(
        text.contains("damaged.db is damaged") || text.contains("not what"),
        "{text}"
    );
    let text = case("cut.db", &|path| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    });
    assert!(
        text.contains("damaged") || text.contains("malformed"),
        "{text}"
    );
    let missing = put_back(&world, &beside(&world, "missing.db")).unwrap_err();
    assert!(missing.to_string().contains("cannot read"), "{missing}");
    assert!(std::fs::read(world.db.path()).unwrap() == before);
    assert_eq!(names(&world, ".test"), Vec::<String>::new());
    assert_eq!(names(&world, "test.db.before"), Vec::<String>::new());
}

#[tokio::test]
async fn a_port_that_was_given_up_since_is_left_to_its_new_owner() {
    let mut world = World::new(3, 0).await;
    world.enqueue(&addresses(3)).await;
    assert_eq!(world.claim().await, 3);
    for n in 2..=3 {
        world.associated(address(n)).await;
    }
    world.self_check(address(3), true).await;
    let states = [
        StateName::AssigningFip,
        StateName::AwaitingSelfCheck,
        StateName::Checking,
    ];
    let mut owners = Vec::new();
    for (n, state) in (1..).zip(states) {
        assert_eq!(world.state(address(n)).await, state);
        owners.push(world.holder(address(n)).await.0);
    }
    let backup = beside(&world, "copy.db");
    make(&world, &backup).unwrap();
    // All come to their ends; then validator 1 keeps its port, 2 loses it, 3 gets another one.
    for n in 1..=3 {
        world.cancel(address(n)).await.unwrap();
        world.released(address(n)).await;
    }
    let change = |tx: &mut civ_store::WriteTx<'_>| {
        validators::delete(tx, &validator(2))?;
        validators::set_port(tx, &validator(3), &port(9))
    };
    world.db.write(change).await.unwrap();
    world.end().await;
    let restored = put_back(&world, &backup).unwrap();
    let dropped = [(validator(2), port(2)), (validator(3), port(3))];
    assert_eq!(restored.dropped, dropped);
    world.db.restart(std::time::Duration::ZERO).await;
    let held = world.db.read(leases::held).await.unwrap();
    let ports: Vec<_> = held.into_iter().map(|lease| lease.port).collect();
    assert_eq!(ports, [port(1)]);
    assert!(
        world
            .orders()
            .await
            .iter()
            .all(|order| order.port == port(1))
    );
    for (n, owner) in (1..).zip(owners) {
        let queued = world.state(address(n)).await == StateName::Queued;
        assert_eq!(queued, owner != validator(1), "{n}");
    }
    assert_eq!(world.db.read(leases::ports).await.unwrap(), [port(1)]);
    assert!(world.db.write(|tx| queue::tick(tx, 256)).await.is_ok());
}

#[tokio::test]
async fn times_are_names_that_sort() {
    let at = Utc::parse("2026-12-01T03:34:11.5Z").unwrap();
    assert_eq!(at.compact(), "20261201T033411Z");
    assert_eq!(
        Utc::parse_compact("20261201T033411Z"),
        Utc::parse("2026-12-01T03:34:11Z").ok()
    );
    assert_eq!(Utc::parse_compact("2026-12-01T03:34:11Z"), None);
}
