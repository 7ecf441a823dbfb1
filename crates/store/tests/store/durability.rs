//! What was answered is there, what failed is not, and only the writer writes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use civ_orch::attempt::StateName;
use civ_store::{NotAdvanced, OpenError, Store, StoreError, ips, queue};
use civ_testkit::{FakeClock, START, address, addresses, rules};
use civ_types::Address;

use crate::world::World;

/// Holds the path of the database in the process that is to be killed.
const CHILD: &str = "CIV_STORE_TEST_DATABASE";

/// Acknowledged writes before the kill.
const ACKNOWLEDGED: usize = 200;

fn open(path: &Path) -> Result<Store, OpenError> {
    let clock = Arc::new(FakeClock::at(START));
    Store::open(path, clock, rules(), Box::new(drop))
}

fn nth(n: u32) -> Address {
    Address::from_ip(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into())
}

/// Writes until it is killed, eight at a time, and says of each write when it was answered.
async fn write_and_tell(path: &Path) {
    let store = open(path).unwrap();
    let mut writers = Vec::new();
    for task in 0..8 {
        let store = store.clone();
        writers.push(async move {
            for n in (task..u32::MAX / 16).step_by(8) {
                let list = [nth(n)];
                let job = move |tx: &mut civ_store::WriteTx<'_>| queue::enqueue(tx, &list);
                store.write(job).await.unwrap();
                let line = format!("acknowledged {}\n", nth(n));
                // Straight to the pipe: what was printed before the kill is there to be read.
                std::io::stdout().write_all(line.as_bytes()).unwrap();
                std::io::stdout().flush().unwrap();
            }
        });
    }
    let mut set = tokio::task::JoinSet::new();
    for writer in writers {
        set.spawn(writer);
    }
    set.join_all().await;
}

#[tokio::test]
async fn rule_06_an_acknowledged_write_survives_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_and_tell(Path::new(&path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("durability::rule_06_an_acknowledged_write_survives_a_kill")
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = BTreeSet::new();
    let mut note = |line: &str| {
        if let Some(address) = line.strip_prefix("acknowledged ") {
            acknowledged.insert(Address::parse(address).unwrap());
        }
        acknowledged.len()
    };
    for line in lines.by_ref() {
        if note(&line.unwrap()) == ACKNOWLEDGED {
            break;
        }
    }
    child.kill().unwrap();
    // What was still in the pipe was acknowledged too.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    // The last line may be cut by the kill: its address is not the one that was written.
    for line in rest.iter().rev().skip(1) {
        note(line);
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= ACKNOWLEDGED, "{}", acknowledged.len());
    let store = open(&path).unwrap();
    let rows = store
        .read(|conn| {
            ips::list(
                conn,
                &ips::Filter::default(),
                ips::ListOrder::Sequence,
                None,
            )
        })
        .await
        .unwrap();
    let there: BTreeSet<_> = rows.iter().map(|row| row.attempt.head.address).collect();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
}

#[tokio::test]
async fn a_job_that_fails_undoes_its_own_work_and_no_other() {
    let world = World::new(1, 0).await;
    let store = world.db.store();
    let good = |n: u8| store.write(move |tx| queue::enqueue(tx, &[address(n)]));
    let bad = store.write(|tx| -> Result<(), NotAdvanced> {
        queue::enqueue(tx, &[address(2)])?;
        queue::cancel(tx, address(99))
    });
    let (first, failed, third) = tokio::join!(good(1), bad, good(3));
    assert!(first.is_ok() && third.is_ok());
    assert!(matches!(failed, Err(NotAdvanced::Unknown)), "{failed:?}");
    assert!(world.find(address(1)).await.is_some());
    assert_eq!(world.find(address(2)).await, None);
    assert!(world.find(address(3)).await.is_some());
    assert_eq!(world.events(address(2)).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_comes_after_the_commit() {
    let world = World::new(1, 0).await;
    let mut jobs = tokio::task::JoinSet::new();
    for n in 1..=100 {
        let store = world.db.store().clone();
        jobs.spawn(async move {
            let job = move |tx: &mut civ_store::WriteTx<'_>| queue::enqueue(tx, &[address(n)]);
            store.write(job).await.unwrap();
            // A reader sees only what is committed.
            let row = store
                .read(move |conn| ips::by_address(conn, address(n)))
                .await
                .unwrap();
            assert!(row.is_some(), "{n}");
        });
    }
    jobs.join_all().await;
    let counts = world.db.read(ips::counts).await.unwrap();
    assert_eq!(counts.states["queued"], 100);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_alone() {
    let mut world = World::new(1, 0).await;
    world
        .sql()
        .pragma_update(None, "user_version", 999)
        .unwrap();
    world.db.end();
    let refused = open(&world.db.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::Newer { found: 999, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("start the newer program"));
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let mut world = World::new(1, 0).await;
    let refused = open(&world.db.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    world.db.end();
    open(&world.db.path()).unwrap();
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    std::fs::write(
        &path,
        "no database at all, but long enough to be one: ".repeat(100),
    )
    .unwrap();
    assert!(open(&path).is_err());
    assert!(open(folder.path()).is_err());
    assert!(open(&folder.path().join("missing/test.db")).is_err());
}

#[tokio::test]
async fn a_row_that_cannot_be_is_an_error_that_names_it() {
    let world = World::new(1, 0).await;
    world.enqueue(&addresses(1)).await;
    let sql = world.sql();
    sql.execute("UPDATE ips SET address = 'nonsense'", [])
        .unwrap();
    let list = |conn: &civ_store::ReadConn<'_>| {
        ips::list(
            conn,
            &ips::Filter::default(),
            ips::ListOrder::Sequence,
            None,
        )
    };
    // In a list it is passed over; by itself it is an error that names it.
    assert_eq!(world.db.read(list).await.unwrap(), []);
    let one = |conn: &civ_store::ReadConn<'_>| ips::by_id(conn, civ_types::IpId(1));
    let wrong = world.db.read(one).await.unwrap_err();
    assert!(matches!(wrong, StoreError::Corrupt { .. }), "{wrong}");
    let text = wrong.to_string();
    assert!(text.contains("table ips, row 1: \"nonsense\""), "{text}");
    // A word that no state has is refused by the database itself.
    assert!(sql.execute("UPDATE ips SET state = 'gone'", []).is_err());
    sql.execute("UPDATE ips SET address = '203.0.113.1'", [])
        .unwrap();
    assert_eq!(world.state(address(1)).await, StateName::Queued);
}
