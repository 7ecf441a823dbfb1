//! The queries that run for every claim, tick and report use an index: their cost depends on what
//! is active, never on the length of the queue or of the history.

use rusqlite::Connection;

use crate::events::{Filter, Severity};
use crate::{agents, conn, leases, migrate, notifications, queue, results};

/// Tables that grow without bound.
const LARGE: [&str; 5] = ["ips", "checks", "events", "registry", "notifications"];

fn database() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = conn::open_writer(&folder.path().join("test.db")).unwrap();
    migrate::migrate(&mut connection).unwrap();
    (folder, connection)
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let n = statement.parameter_count();
    let steps = statement.query_map(rusqlite::params_from_iter(vec![1; n]), |row| {
        row.get::<_, String>("detail")
    });
    let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
    assert!(!steps.is_empty(), "{sql}");
    steps
}

/// The steps of a plan that read a large table from end to end.
fn scans(connection: &Connection, sql: &str) -> Vec<String> {
    let steps = plan(connection, sql);
    // `ips i` and the like: a plan names a table by its alias.
    let aliases = ["i", "c", "e"].map(str::to_owned);
    let large = |step: &String| {
        let table = step.strip_prefix("SCAN ").unwrap_or_default();
        let table = table.split(' ').next().unwrap_or_default();
        LARGE.contains(&table) || aliases.contains(&table.to_owned())
    };
    // Of the outbox, the two orders of one claim are sorted: that is not what grows.
    let sorted = |step: &String| step.contains("TEMP B-TREE") && !step.contains("LAST TERM");
    steps
        .into_iter()
        .filter(|step| large(step) || sorted(step))
        .collect()
}

#[test]
fn nothing_that_is_asked_often_reads_a_whole_table() {
    let (_folder, connection) = database();
    for sql in [
        queue::DUE,
        queue::WAITING,
        queue::FREE,
        queue::NEXT_DUE,
        agents::WORK,
        agents::SITE_WORK,
        leases::OWNERSHIP,
        leases::ORDERS,
        results::RESULTS,
        notifications::ENQUEUE,
        notifications::NEXT,
    ] {
        let found = scans(&connection, sql);
        assert!(found.is_empty(), "{sql}\n{}", found.join("\n"));
    }
}

/// A page of the history is found by one index, and stands in the order of ids without a sort.
#[test]
fn the_history_is_filtered_by_one_index() {
    let (_folder, connection) = database();
    let address = civ_types::Address::parse("203.0.113.1").ok();
    let of_type = || Some("occupied".to_owned());
    let filter = |address, event_type, severity| Filter {
        event_type,
        severity,
        address,
    };
    let by_address = "SEARCH events USING INDEX events_by_address (address=? AND id>?)";
    let by_type = "SEARCH events USING INDEX events_by_type (event_type=? AND rowid>?)";
    let by_severity = "SEARCH events USING INDEX events_by_severity (severity=? AND rowid>?)";
    let by_id = "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)";
    for (filter, expected) in [
        (filter(None, None, None), by_id),
        (filter(None, None, Some(Severity::Info)), by_id),
        (filter(None, None, Some(Severity::Warning)), by_severity),
        (filter(None, None, Some(Severity::Error)), by_severity),
        (filter(None, of_type(), None), by_type),
        (filter(None, of_type(), Some(Severity::Error)), by_type),
        (filter(address, None, None), by_address),
        (filter(address, of_type(), None), by_address),
        (filter(address, None, Some(Severity::Error)), by_address),
        (filter(address, of_type(), Some(Severity::Info)), by_address),
    ] {
        for order in ["ASC", "DESC"] {
            let (sql, _) = filter.sql(order);
            assert_eq!(plan(&connection, &sql), [expected], "{sql}");
        }
    }
}

#[test]
fn a_scan_would_be_found() {
    let (_folder, connection) = database();
    assert_eq!(
        scans(&connection, "SELECT * FROM ips i WHERE last_error = ?1").len(),
        1
    );
    assert_eq!(
        scans(&connection, "SELECT * FROM checks ORDER BY detail").len(),
        2
    );
}

#[test]
fn a_reader_cannot_write() {
    let (folder, _writer) = database();
    let manager = conn::reader_manager(&folder.path().join("test.db"));
    let reader = r2d2::ManageConnection::connect(&manager).unwrap();
    let refused = reader.execute("DELETE FROM ips", []).unwrap_err();
    assert!(refused.to_string().contains("readonly"), "{refused}");
}
