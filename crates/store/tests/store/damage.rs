//! Files that were damaged: the start says so and changes nothing, or names what it passes over.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use civ_orch::attempt::StateName;
use civ_store::{OpenError, Store, ips, leases, validators};
use civ_testkit::{FakeClock, START, address, addresses, rules, validator};

use crate::world::World;

fn open(path: &Path) -> Result<Store, OpenError> {
    let clock = Arc::new(FakeClock::at(START));
    Store::open(path, clock, rules(), Box::new(drop))
}

fn look(path: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    rusqlite::Connection::open_with_flags(path, flags).unwrap()
}

/// Writes nonsense over the first page of a table.
pub(crate) fn overwrite_page(path: &Path, table: &str) {
    let (page, size): (u64, u64) = {
        let connection = look(path);
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let page = connection
            .query_row(sql, [table], |row| row.get(0))
            .unwrap();
        let size = connection.pragma_query_value(None, "page_size", |row| row.get(0));
        (page, size.unwrap())
    };
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0x5a; 4_096], (page - 1) * size)
        .unwrap();
}

/// A database that ended in order.
async fn ended() -> World {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(3)).await;
    world.end().await;
    world
}

#[tokio::test]
async fn a_page_of_nonsense_is_told_and_nothing_is_changed() {
    for table in ["leases", "ips", "registry", "events", "ips_grams"] {
        let world = ended().await;
        let path = world.db.path();
        overwrite_page(&path, table);
        let before = std::fs::read(&path).unwrap();
        let refused = open(&path).unwrap_err();
        assert!(
            matches!(refused, OpenError::Damaged { .. }),
            "{table}: {refused}"
        );
        let text = refused.to_string();
        assert!(text.contains("control-api restore --config"), "{text}");
        assert!(std::fs::read(&path).unwrap() == before, "{table}");
    }
}

#[tokio::test]
async fn half_a_file_and_no_header_are_told() {
    let world = ended().await;
    let path = world.db.path();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 8_192 * 4_096]).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    let mut headless = whole.clone();
    headless[..100].fill(0);
    std::fs::write(&path, headless).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    std::fs::write(&path, whole).unwrap();
    open(&path).unwrap();
}

#[tokio::test]
async fn rule_06_a_log_that_was_cut_short_is_no_silent_loss() {
    let world = World::new(1, 0).await;
    world.db.clock.advance_secs(1);
    world.enqueue(&addresses(1)).await;
    let path = world.db.path();
    let (wal, copy) = (
        path.with_added_extension("x"),
        path.with_file_name("copy.db"),
    );
    drop(wal);
    let log = |path: &Path| {
        let mut name = path.to_owned().into_os_string();
        name.push("-wal");
        std::path::PathBuf::from(name)
    };
    world.db.clock.advance_secs(1);
    world.enqueue(&[address(2)]).await;
    // As after kill -9, in another folder.
    let take = || {
        for (from, to) in [
            (path.clone(), copy.clone()),
            (log(&path), log(&copy)),
            (
                path.with_added_extension("lock"),
                copy.with_added_extension("lock"),
            ),
        ] {
            std::fs::copy(from, to).unwrap();
        }
    };
    let cut = |to: u64| {
        let file = File::options().write(true).open(log(&copy)).unwrap();
        file.set_len(to).unwrap();
    };
    take();
    let whole = std::fs::metadata(log(&copy)).unwrap().len();
    let refused = |why: &str| {
        let before = (
            std::fs::read(&copy).unwrap(),
            std::fs::read(log(&copy)).unwrap_or_default(),
        );
        let refused = open(&copy).map(drop).expect_err(why);
        assert!(
            matches!(refused, OpenError::LostWrites { .. }),
            "{why}: {refused}"
        );
        assert!(refused.to_string().contains("doctor"), "{refused}");
        let after = (
            std::fs::read(&copy).unwrap(),
            std::fs::read(log(&copy)).unwrap_or_default(),
        );
        assert!(before == after, "{why}");
    };
    cut(whole - 1);
    refused("its last frame is cut");
    take();
    cut(0);
    refused("it is empty");
    take();
    std::fs::remove_file(log(&copy)).unwrap();
    refused("it is gone");
    take();
    let file = File::options().write(true).open(log(&copy)).unwrap();
    file.write_all_at(&[0x5a; 64], whole - 4_000).unwrap();
    refused("a page in it is damaged");
    // And whole, it is all there.
    take();
    let counts = open(&copy).unwrap().read(ips::counts).await.unwrap();
    assert_eq!(counts.states["queued"], 2);
}

#[tokio::test]
async fn an_older_file_in_its_place_and_none_at_all_are_told() {
    let mut world = World::new(1, 0).await;
    world.enqueue(&addresses(1)).await;
    let path = world.db.path();
    world.db.store().checkpoint().await.unwrap();
    let old = std::fs::read(&path).unwrap();
    world.db.clock.advance_secs(5);
    world.enqueue(&[address(2)]).await;
    world.end().await;
    let new = std::fs::read(&path).unwrap();
    std::fs::write(&path, old).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::LostWrites { .. }), "{refused}");
    std::fs::remove_file(&path).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Gone { .. }), "{refused}");
    assert!(!path.exists());
    std::fs::write(&path, new).unwrap();
    open(&path).unwrap();
    // Whoever wants to begin anew says so.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(path.with_added_extension("lock")).unwrap();
    open(&path).unwrap();
}

#[tokio::test]
async fn a_clock_that_was_set_back_is_no_loss() {
    let mut world = World::new(1, 0).await;
    world.db.clock.advance_secs(3_600);
    world.enqueue(&addresses(1)).await;
    world.db.clock.set(START);
    world.enqueue(&[address(2)]).await;
    world.db.end();
    open(&world.db.path()).unwrap();
}

#[tokio::test]
async fn databases_of_others_and_with_parts_missing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let flags =
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_CREATE;
    let other = rusqlite::Connection::open_with_flags(&path, flags).unwrap();
    other.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert!(std::fs::read(&path).unwrap() == before);

    let mut world = World::new(1, 0).await;
    let sql = world.sql();
    sql.execute_batch("CREATE INDEX mine ON events (site_id)")
        .unwrap();
    drop(sql);
    world.db.restart(std::time::Duration::ZERO).await;
    world.sql().execute_batch("DROP TRIGGER ips_moved").unwrap();
    world.db.end();
    let refused = open(&world.db.path()).unwrap_err();
    assert!(
        refused.to_string().contains("lacks trigger ips_moved"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_row_that_cannot_be_stops_neither_the_start_nor_the_others() {
    let mut world = World::new(3, 0).await;
    world.enqueue(&addresses(2)).await;
    assert_eq!(world.claim().await, 2);
    world.enqueue(&[address(3), address(4)]).await;
    let bad = world.holder(address(1)).await;
    let sql = world.sql();
    sql.execute(
        "UPDATE leases SET port_id = '' WHERE claim_no = ?1",
        [bad.1.0],
    )
    .unwrap();
    sql.execute(
        "UPDATE ips SET address = 'nonsense' WHERE address = '203.0.113.3'",
        [],
    )
    .unwrap();
    sql.execute(
        "UPDATE check_types SET \"groups\" = '[' WHERE name = 'icmp'",
        [],
    )
    .unwrap();
    drop(sql);
    world.db.restart(std::time::Duration::ZERO).await;
    let orders = world.orders().await;
    let there: Vec<_> = orders.iter().map(|order| order.address).collect();
    assert_eq!(there, [address(2)]);
    assert_eq!(world.db.read(leases::held).await.unwrap().len(), 1);
    // The one at the head of the queue is passed over for the next one.
    assert_eq!(world.claim().await, 0);
    assert_eq!(world.claim().await, 1);
    assert_eq!(world.state(address(4)).await, StateName::AssigningFip);
    let all = |conn: &civ_store::ReadConn<'_>| {
        ips::list(
            conn,
            &ips::Filter::default(),
            ips::ListOrder::Sequence,
            None,
        )
    };
    assert_eq!(world.db.read(all).await.unwrap().len(), 3);
    assert_eq!(world.db.read(validators::list).await.unwrap().len(), 3);
    assert!(
        world
            .row(address(2))
            .await
            .attempt
            .head
            .place
            .unwrap()
            .validator
            != validator(0)
    );
}

#[tokio::test]
async fn without_the_settings_nothing_goes_on() {
    let mut world = World::new(1, 0).await;
    world
        .sql()
        .execute("UPDATE settings SET inbound_ports = '[22,'", [])
        .unwrap();
    world.db.end();
    let refused = open(&world.db.path()).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("table settings, row 1") && text.contains("restore"),
        "{text}"
    );
}
