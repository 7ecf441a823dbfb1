//! Yesterday's database on today's cloud: nothing is stolen, nothing is left attached, and nobody
//! who remembers the lost day is taken at his word.

use std::time::Instant;

use serde_json::{Value, json};

use crate::place::{Place, Process, ip};

/// What both validators were given in a day that is lost then: yesterday's addresses passed, one of
/// them became a customer's, and two others hang on our ports.
async fn lost_day(place: &Place) -> [(&'static str, Value); 2] {
    let process = place.start().await;
    process.register().await;
    process.enqueue([10, 11]).await;
    let (a, b) = (process.work("v1").await, process.work("v2").await);
    place.done(&["backup", "--to", "yesterday.db"]).await;
    for (id, work) in [("v1", &a), ("v2", &b)] {
        assert_eq!(process.report(id, work, true).await, [200, 200]);
    }
    let both = |status: &Value| status["ips_by_state"]["done"] == 2;
    process.when("/admin/status", both).await;
    process.enqueue([12, 13]).await;
    let known = [
        ("v1", process.work("v1").await),
        ("v2", process.work("v2").await),
    ];
    place.sim.bind_foreign(ip(10), "port-x").await.unwrap();
    process.kill().await;
    let attached = place.sim.attached().into_iter();
    let mut attached: Vec<_> = attached.map(|one| one.address).collect();
    attached.sort();
    assert_eq!(attached, [ip(10), ip(12), ip(13)]);
    known
}

/// Validators pass whatever they are given, until an address is in a state.
async fn work_until(process: &Process, ids: &[&str], last: u8, state: &str) -> Value {
    let path = format!("/admin/ips/{}", ip(last));
    let working = async {
        loop {
            for id in ids {
                let path = format!("/agents/{id}/assignment?wait=1");
                let work = process.get(&path).await;
                if work["ip_id"].is_number() {
                    process.report(id, &work, true).await;
                }
            }
        }
    };
    tokio::select! {
        found = process.when(&path, |found| found["ip"]["State"] == state) => found,
        () = working => Value::Null,
    }
}

/// Nobody is taken at his word who remembers the lost day.
async fn refused(process: &Process, id: &str, known: &Value) {
    for fenced in [true, false] {
        let codes = process.report(id, known, fenced).await;
        assert!(codes.iter().all(|code| *code >= 400), "{id}: {codes:?}");
    }
}

#[tokio::test]
async fn rule_02_yesterdays_database_steals_nothing_and_leaves_nothing_attached() {
    let place = Place::new().await;
    let known = lost_day(&place).await;
    place.done(&["restore", "--from", "yesterday.db"]).await;
    let process = place.start().await;
    for (id, known) in &known {
        refused(&process, id, known).await;
    }
    process.register().await;
    // A customer has one of yesterday's addresses; the other is checked again, from the start.
    work_until(&process, &["v1", "v2"], 10, "occupied").await;
    let judged = work_until(&process, &["v1", "v2"], 11, "done").await;
    assert_eq!(judged["ip"]["OverallResult"], "pass", "{judged}");
    place.nothing_is_ours().await;
    let left = place.sim.attached().into_iter();
    let left: Vec<_> = left.map(|one| (one.address, one.port)).collect();
    assert_eq!(left, [(ip(10), "port-x".to_owned())], "it is untouched");
    // New addresses get numbers that nobody of the lost day knows.
    process.enqueue([12, 13]).await;
    for (id, known) in &known {
        let work = process.work(id).await;
        let is_new = |key: &str| work[key].as_i64() > known[key].as_i64();
        assert!(is_new("ip_id") && is_new("fence"), "{work} {known}");
        refused(&process, id, known).await;
        assert_eq!(process.report(id, &work, true).await, [200, 200]);
    }
    let all = |status: &Value| status["ips_by_state"]["done"] == 3;
    process.when("/admin/status", all).await;
    place.nothing_is_ours().await;
    process.kill().await;
    assert!(place.sim.faults().is_empty(), "{:?}", place.sim.faults());
    assert!(place.sim.unknown_calls().is_empty());
}

#[tokio::test]
async fn a_port_that_a_customer_has_now_is_left_alone() {
    let place = Place::new().await;
    let process = place.start().await;
    process.register().await;
    process.enqueue([10, 11]).await;
    process.work("v1").await;
    let b = process.work("v2").await;
    place.done(&["backup", "--to", "yesterday.db"]).await;
    // v2 is taken out, and its port becomes a customer's, with an address that we had once.
    assert_eq!(process.report("v2", &b, true).await, [200, 200]);
    let free = |list: &Value| list[1]["State"] == "idle";
    process.when("/admin/validators", free).await;
    let path = "/admin/config/validators/v2";
    let (code, answer) = process.ask("DELETE", path, &json!(null)).await;
    assert_eq!(code, 200, "{answer}");
    place.sim.bind_foreign(ip(11), "port-2").await.unwrap();
    process.kill().await;
    let restored = place.run(&["restore", "--from", "yesterday.db"]).await;
    assert_eq!(restored.code, 0, "{restored:?}");
    let told = "left out: validator v2, whose port port-2";
    assert!(restored.err.contains(told), "{restored:?}");
    let process = place.start().await;
    process.register_one("v1").await;
    work_until(&process, &["v1"], 10, "done").await;
    work_until(&process, &["v1"], 11, "occupied").await;
    let left = place.sim.attached().into_iter();
    let left: Vec<_> = left.map(|one| (one.address, one.port)).collect();
    assert_eq!(left, [(ip(11), "port-2".to_owned())]);
    process.kill().await;
}

/// One of both, whole, and never a silent mixture.
#[tokio::test]
async fn a_restore_that_is_killed_at_any_moment_leaves_the_old_or_the_new() {
    let place = Place::new().await;
    let process = place.start().await;
    process.enqueue(10..14).await;
    place.done(&["backup", "--to", "four.db"]).await;
    process.kill().await;
    let began = Instant::now();
    place.done(&["restore", "--from", "four.db"]).await;
    let whole = began.elapsed();
    let (mut n_old, mut n_new) = (0, 0);
    // The last one has plenty of time.
    for twelfths in (0..16).chain([120]) {
        let process = place.start().await;
        process.enqueue(10..16).await;
        process.kill().await;
        let restore = ["restore", "--from", "four.db"];
        place.killed(&restore, whole * twelfths / 12).await;
        let process = match place.run(&["doctor", "--no-cloud"]).await.code {
            0 => place.start().await,
            // The log was put aside already: it is said, and the same command ends the work.
            _ => {
                let (code, said) = place.refused().await;
                assert!(
                    code == 1 && said.contains("was cut short or taken away"),
                    "{said}"
                );
                place.done(&restore).await;
                place.start().await
            }
        };
        match process.get("/admin/status").await["total_ips"].as_u64() {
            Some(6) => n_old += 1,
            Some(4) => n_new += 1,
            other => panic!("{other:?} addresses"),
        }
        process.kill().await;
    }
    assert!(n_old > 0 && n_new > 0, "{n_old} old, {n_new} new");
    let left = place.names(".", ".control-api.db.partial-");
    assert!(
        left.len() <= 1,
        "the next one removes what the last one left: {left:?}"
    );
}
