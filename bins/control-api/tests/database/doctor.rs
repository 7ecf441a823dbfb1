//! What differs between database and cloud is named, and put right without touching anybody else's.

use civ_cloudsim::{Action, AnswerBody, Match, Rule};
use serde_json::{Value, json};

use crate::place::{Ended, Place, ip};

fn findings(ended: &Ended) -> Vec<(String, bool)> {
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let all = document["findings"].as_array().unwrap().iter();
    all.map(|one| {
        let kind = one["kind"].as_str().unwrap().to_owned();
        (kind, one["repaired"].as_bool().unwrap())
    })
    .collect()
}

#[tokio::test]
async fn a_place_in_order_is_clean_while_it_works_and_after_it() {
    let place = Place::new().await;
    let process = place.start().await;
    process.register().await;
    process.enqueue([10, 11, 12]).await;
    process.work("v1").await;
    process.work("v2").await;
    for _ in 0..3 {
        let ended = place.run(&["doctor"]).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.out, "Everything fits together.\n");
    }
    let busy = place.run(&["doctor", "--fix"]).await;
    assert_eq!(busy.code, 2, "{busy:?}");
    assert!(
        busy.err.contains("another process works on the database"),
        "{}",
        busy.err
    );
    process.kill().await;
    let ended = place.run(&["doctor", "--json"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("\"clean\": true"), "{}", ended.out);
    assert_eq!(place.sim.attached().len(), 2, "it changes nothing");
}

#[tokio::test]
async fn what_the_cloud_and_the_database_disagree_on_is_found_and_put_right() {
    let place = Place::new().await;
    let process = place.start().await;
    process.register().await;
    process.enqueue([10, 11]).await;
    process.work("v1").await;
    process.work("v2").await;
    process.kill().await;
    let before = place.sim.attached();
    let on = |port: &str| before.iter().find(|one| one.port == port).unwrap().address;
    let (first, second) = (on("port-1"), on("port-2"));
    // One of ours is free, another is a customer's; a third one hangs on our port.
    place.sim.unbind(first).await.unwrap();
    place.sim.bind_foreign(second, "port-x").await.unwrap();
    place.sim.bind_foreign(ip(15), "port-1").await.unwrap();
    let ended = place.run(&["doctor", "--json"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    let kinds = ["on_our_port", "not_on_our_port", "not_on_our_port"];
    let expected = |repaired| kinds.map(|kind| (kind.to_owned(), repaired));
    assert_eq!(findings(&ended), expected(false));
    assert!(ended.out.contains("bound to port port-x"), "{}", ended.out);
    assert_eq!(place.sim.attached().len(), 2, "it changes nothing");

    let ended = place.run(&["doctor", "--fix", "--json"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(findings(&ended), expected(true));
    let left = place.sim.attached();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].address, left[0].port.as_str()), (second, "port-x"));
    assert_eq!(place.done(&["doctor"]).await, "Everything fits together.\n");
    // What was not there is checked again.
    let process = place.start().await;
    process.register().await;
    let queue = process.get("/admin/ips").await;
    assert!(queue.to_string().contains(&first.to_string()), "{queue}");
    process.kill().await;
}

#[tokio::test]
async fn ports_that_are_gone_and_marks_that_were_left_are_told() {
    let yaml = "database: { path: control-api.db }\nopenstack: { mark_description: true }\n";
    let place = Place::with(yaml, civ_cloudsim::Setup::default()).await;
    let process = place.start().await;
    process.register_one("v1").await;
    process.enqueue([16]).await;
    process.work("v1").await;
    // By hand, past us; then its attempt is broken off.
    place.sim.bind_foreign(ip(16), "port-x").await.unwrap();
    let cancel = format!("/admin/ips/{}/cancel", ip(16));
    process.post(&cancel, &json!({})).await;
    process
        .when("/admin/validators", |list| list[0]["State"] == "idle")
        .await;
    let body = json!({"validator_id": "v3", "os_port_id": "port-9"});
    process.post("/admin/config/validators", &body).await;
    process.kill().await;
    let ended = place.run(&["doctor"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let missing = "found     port_missing: the cloud has no port port-9 of validator v3";
    assert!(lines[0].starts_with(missing), "{lines:?}");
    let left = "found     mark_left: the description of 203.0.113.16 says that we hold it";
    assert!(lines[1].starts_with(left), "{lines:?}");
    assert_eq!(lines[2], "Left: 2.");
    let ended = place.run(&["doctor", "--fix"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.out.ends_with("Left: 2.\n"), "{}", ended.out);
}

#[tokio::test]
async fn without_the_cloud_the_database_is_looked_at_and_the_rest_is_said() {
    let place = Place::new().await;
    place.start().await.kill().await;
    place.sim.add_rule(Rule {
        name: "away".to_owned(),
        matches: Match::default(),
        action: Action::Answer {
            status: 503,
            body: AnswerBody::Empty,
            retry_after: None,
        },
    });
    let ended = place.run(&["doctor"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.err.contains("the cloud could not be read"),
        "{}",
        ended.err
    );
    assert_eq!(
        place.done(&["doctor", "--no-cloud"]).await,
        "Everything fits together.\n"
    );
}
