//! Pages and totals against the plain statements, and blocks against a recount, under random
//! changes.

use std::collections::{BTreeMap, BTreeSet};

use civ_orch::attempt::{Outcome, StateName};
use fastrand::Rng;
use rusqlite::{Connection, params};

use crate::conn::ReadConn;
use crate::ips::{self, ListOrder, Window};
use crate::{blocks, migrate, registry};

const CLASSES: [(&str, &str); 9] = [
    ("queued", ""),
    ("queued", ""),
    ("assigning_fip", ""),
    ("checking", ""),
    ("occupied", ""),
    ("done", "pass"),
    ("done", "partial"),
    ("failed", "fail"),
    ("failed", "cancelled"),
];

/// Neighbours, strangers and IPv6, few enough to meet again.
fn address(rng: &mut Rng) -> String {
    match rng.u8(..10) {
        0..6 => format!("198.18.{}.{}", rng.u8(..12), rng.u8(..)),
        6..8 => format!("{}.{}.1.{}", rng.u8(..4), rng.u8(99..102), rng.u8(..)),
        _ => format!("2001:db8:{:x}::{:x}", rng.u16(..20) + 1, rng.u16(..300) + 1),
    }
}

fn database() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut connection).unwrap();
    connection
}

/// One change of the kind that the store makes, without the machine behind it.
fn change(connection: &Connection, rng: &mut Rng, end: &mut i64) {
    const KNOWN: &str = "INSERT INTO registry (address, first_seen_at, last_seen_at, total_cycles) \
         VALUES (?1, 0, 0, 1) ON CONFLICT DO UPDATE SET total_cycles = total_cycles + 1";
    const ADD: &str = "INSERT OR IGNORE INTO ips (address, sequence, state, cycle_id, attempt_no, \
         created_at, updated_at) VALUES (?1, ?2, 'queued', 1, 1, 0, 0)";
    let address = address(rng);
    let (state, result) = *rng.choice(&CLASSES).unwrap();
    let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
        connection
            .prepare_cached(sql)
            .unwrap()
            .execute(parameters)
            .unwrap()
    };
    *end += 1;
    match rng.u8(..20) {
        0..13 => {
            run(KNOWN, params![address]);
            run(ADD, params![address, *end]);
        }
        13..16 => {
            let at = (!result.is_empty()).then(|| rng.i64(0..50));
            run(
                "UPDATE ips SET state = ?2, result = ?3, aggregated_at = ?4 WHERE address = ?1",
                params![address, state, result, at],
            );
            run(
                "UPDATE registry SET last_result = ?2 WHERE address = ?1",
                params![address, result],
            );
        }
        16..18 => {
            run(
                "UPDATE ips SET sequence = ?2 WHERE address = ?1",
                params![address, *end],
            );
        }
        18 => {
            run("DELETE FROM ips WHERE address = ?1", params![address]);
        }
        // Gaps, so that blocks differ in size.
        _ => *end += rng.i64(0..40),
    }
}

fn text(rng: &mut Rng) -> Option<String> {
    let address = address(rng);
    let (from, n) = (rng.usize(..address.len()), rng.usize(1..8));
    match rng.u8(..8) {
        0 => None,
        1 => Some("z".to_owned()),
        2 => Some("198.18.".to_owned()),
        3 => Some(address),
        _ => {
            let to = (from + n).min(address.len());
            address.get(from..to).map(str::to_owned)
        }
    }
}

fn window(rng: &mut Rng, total: u64) -> Window {
    Window {
        limit: rng.u32(1..80),
        offset: rng.u64(..total + 20),
    }
}

fn compare_queue(connection: &Connection, rng: &mut Rng) {
    let conn = ReadConn::new(connection);
    let mut states = StateName::ALL.to_vec();
    rng.shuffle(&mut states);
    states.truncate(rng.usize(..3));
    let filter = ips::Filter {
        states,
        q: text(rng),
        result: rng.choice(Outcome::ALL).filter(|_| rng.u8(..4) == 0),
    };
    let total = ips::count(&conn, &filter).unwrap();
    let window = window(rng, total);
    for order in [ListOrder::Sequence, ListOrder::AggregatedDesc] {
        let expected = ips::list(&conn, &filter, order, Some(window)).unwrap();
        let page = ips::page(&conn, &filter, order, window).unwrap();
        assert_eq!(page, (expected, total), "{filter:?} {order:?} {window:?}");
    }
}

fn compare_registry(connection: &Connection, rng: &mut Rng) {
    let conn = ReadConn::new(connection);
    let filter = registry::Filter {
        q: text(rng),
        last_result: rng.choice(Outcome::ALL).filter(|_| rng.u8(..3) == 0),
    };
    let total = registry::count(&conn, &filter).unwrap();
    let window = window(rng, total);
    let expected = registry::list(&conn, &filter, Some(window)).unwrap();
    let page = registry::page(&conn, &filter, window).unwrap();
    assert_eq!(page, (expected, total), "{filter:?} {window:?}");
}

/// Block, class and piece of text to a count.
type Recount = BTreeMap<(i64, String, String), i64>;

fn count(recount: &mut Recount, block: i64, class: &str, address: &str, class_of_pieces: &str) {
    let mut add = |class: &str, piece: &str| {
        let key = (block, class.to_owned(), piece.to_owned());
        *recount.entry(key).or_default() += 1;
    };
    add(class, "");
    let pieces: BTreeSet<&str> = (1..=3)
        .flat_map(|n| (0..address.len()).filter_map(move |at| address.get(at..at + n)))
        .collect();
    for piece in pieces {
        add(class_of_pieces, piece);
    }
}

fn piece(code: i64) -> String {
    let letters = [code >> 10, (code >> 5) & 31, code & 31];
    let letters = letters.into_iter().filter(|letter| *letter != 0);
    letters
        .map(|at| char::from(b".0123456789:abcdef"[usize::try_from(at).unwrap() - 1]))
        .collect()
}

fn stored(connection: &Connection, sql: &str) -> Recount {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let key = (row.get(0)?, row.get(1)?, piece(row.get(2)?));
        Ok((key, row.get(3)?))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn recount_queue(connection: &Connection) {
    let mut expected = Recount::new();
    let sql = "SELECT sequence / 1024, state || '/' || result, address FROM ips";
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (block, class): (i64, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let address: String = row.get(2).unwrap();
        count(&mut expected, block, &class, &address, "");
    }
    let sql = "SELECT block, class, 0, n FROM ips_counts \
         UNION ALL SELECT block, '', gram, n FROM ips_grams";
    assert_eq!(stored(connection, sql), expected);
}

fn recount_registry(connection: &Connection) {
    let mut expected = Recount::new();
    let sql = "SELECT (SELECT block FROM registry_blocks WHERE first <= address \
         ORDER BY first DESC LIMIT 1), last_result, address FROM registry";
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut sizes: BTreeMap<i64, i64> = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let (block, class): (i64, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let address: String = row.get(2).unwrap();
        count(&mut expected, block, &class, &address, &class);
        *sizes.entry(block).or_default() += 1;
    }
    let sql = "SELECT block, class, 0, n FROM registry_counts \
         UNION ALL SELECT block, class, gram, n FROM registry_grams";
    assert_eq!(stored(connection, sql), expected);
    let sql = "SELECT block, '', 0, n FROM registry_blocks WHERE n > 0";
    let blocks = stored(connection, sql).into_iter();
    assert_eq!(
        blocks
            .map(|((block, ..), n)| (block, n))
            .collect::<BTreeMap<_, _>>(),
        sizes
    );
    assert!(sizes.values().all(|n| *n <= 2_048));
}

#[test]
fn pages_and_totals_are_those_of_the_plain_statements() {
    let connection = database();
    let mut rng = Rng::with_seed(7);
    let mut end = 0;
    for round in 0..20 {
        for _ in 0..if round % 10 == 0 { 3_500 } else { 60 } {
            change(&connection, &mut rng, &mut end);
        }
        blocks::settle(&connection).unwrap();
        for _ in 0..10 {
            compare_queue(&connection, &mut rng);
            compare_registry(&connection, &mut rng);
        }
        if round % 10 == 9 {
            recount_queue(&connection);
            recount_registry(&connection);
        }
    }
    let sql = "SELECT count(*) > 2 FROM registry_blocks";
    let divided: bool = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(divided, "no block of the registry was divided");
}

#[test]
fn a_transaction_sees_its_own_changes_before_they_are_worked_in() {
    let connection = database();
    let mut rng = Rng::with_seed(8);
    let mut end = 0;
    for _ in 0..10 {
        (0..50).for_each(|_| change(&connection, &mut rng, &mut end));
        compare_queue(&connection, &mut rng);
        compare_registry(&connection, &mut rng);
    }
    let counts = ips::counts(&ReadConn::new(&connection)).unwrap();
    blocks::settle(&connection).unwrap();
    assert_eq!(ips::counts(&ReadConn::new(&connection)).unwrap(), counts);
}

#[test]
fn what_is_undone_is_not_worked_in() {
    let mut connection = database();
    let mut rng = Rng::with_seed(9);
    let mut end = 0;
    for keep in [true, false, true] {
        let mut part = connection.savepoint().unwrap();
        (0..300).for_each(|_| change(&part, &mut rng, &mut end));
        if !keep {
            part.rollback().unwrap();
        }
        part.commit().unwrap();
    }
    blocks::settle(&connection).unwrap();
    recount_queue(&connection);
    recount_registry(&connection);
}

#[test]
fn an_older_database_is_caught_up_with() {
    let mut connection = Connection::open_in_memory().unwrap();
    let first = include_str!("../../../../migrations/0001_create_tables.sql");
    connection.execute_batch(first).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let mut rng = Rng::with_seed(10);
    let mut end = 0;
    (0..4_000).for_each(|_| change(&connection, &mut rng, &mut end));
    migrate::migrate(&mut connection).unwrap();
    blocks::settle(&connection).unwrap();
    recount_queue(&connection);
    recount_registry(&connection);
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let rows = statement
        .query_map([], |row| row.get::<_, String>(3))
        .unwrap();
    rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn nothing_that_a_page_needs_scans_the_list() {
    let connection = database();
    for (sql, expected) in [
        (
            "SELECT id FROM ips INDEXED BY ips_in_order WHERE sequence >= 0 AND sequence < 1024 \
             AND instr(address, '45') > 0 ORDER BY sequence, id LIMIT 50 OFFSET 7",
            "SEARCH ips USING COVERING INDEX ips_in_order (sequence>? AND sequence<?)",
        ),
        (
            "SELECT block, n FROM ips_grams WHERE gram = 1",
            "SEARCH ips_grams USING PRIMARY KEY (gram=?)",
        ),
        (
            "SELECT address FROM registry WHERE address >= '4' AND address < '5' \
             AND instr(address, '45') > 0 ORDER BY address LIMIT 50 OFFSET 7",
            "SEARCH registry USING PRIMARY KEY (address>? AND address<?)",
        ),
        (
            "SELECT block, n FROM registry_grams WHERE gram = 1 AND class = 'pass'",
            "SEARCH registry_grams USING PRIMARY KEY (gram=?)",
        ),
        (
            "SELECT id FROM ips INDEXED BY ips_by_verdict WHERE state = 'done' ORDER BY aggregated_at DESC NULLS LAST, id \
             LIMIT 50 OFFSET 7",
            "SCAN ips USING COVERING INDEX ips_by_verdict",
        ),
        (
            "SELECT id FROM ips i WHERE state = 'queued' \
             AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.address = i.address) \
             ORDER BY sequence LIMIT 8",
            "SEARCH i USING INDEX ips_by_state (state=?); CORRELATED SCALAR SUBQUERY 1; \
             SEARCH l USING COVERING INDEX sqlite_autoindex_leases_1 (address=?)",
        ),
        (
            "SELECT id FROM ips WHERE due_at <= 5 ORDER BY due_at LIMIT 256",
            "SEARCH ips USING COVERING INDEX ips_due (due_at<?)",
        ),
        (
            "SELECT COALESCE(MAX(sequence), 0) + 1 FROM ips",
            "SEARCH ips USING COVERING INDEX ips_in_order",
        ),
    ] {
        assert_eq!(plan(&connection, sql), expected, "{sql}");
    }
}
