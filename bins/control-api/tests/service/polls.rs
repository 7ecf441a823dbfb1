//! Long polls: woken at once, never spinning, ended by the shutdown.

use std::time::{Duration, Instant};

use civ_testkit::{address, addresses, eventually};
use serde_json::json;

use crate::ground::{Ground, Service};
use crate::http::Answer;

/// Far less than the wait that is asked for, far more than it takes on a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn ask(service: &Service, path: &str, known: Option<&str>) -> Answer {
    let headers: Vec<_> = known.iter().map(|tag| ("if-none-match", *tag)).collect();
    let path = format!("/api/v1{path}");
    service.client.send("GET", &path, &headers, None).await
}

/// What is asked while `then` happens a moment later, and how long it took.
async fn woken<T>(asked: impl Future<Output = Answer>, then: impl Future<Output = T>) -> Answer {
    let begun = Instant::now();
    let later = async {
        // The poll is to be under way: what comes before it would be found by its first look.
        tokio::time::sleep(Duration::from_millis(100)).await;
        then.await
    };
    let (told, _) = tokio::join!(asked, later);
    assert!(begun.elapsed() < AT_ONCE, "{:?} {told:?}", begun.elapsed());
    told
}

#[tokio::test]
async fn an_assignment_wakes_its_validator() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    let asked = ask(&service, "/agents/v1/assignment?wait=30", None);
    let told = woken(asked, service.enqueue(&["203.0.113.1"])).await;
    assert_eq!(told.status, 200);
    assert_eq!(told.json()["phase"], "awaiting_self_check");
    service.end().await;
}

#[tokio::test]
async fn what_is_known_is_waited_out_and_what_is_new_is_told() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let first = ask(&service, "/agents/v1/assignment?wait=20", None).await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 2, "{tag}");
    let same = ask(&service, "/agents/v1/assignment", Some(&tag)).await;
    assert_eq!((same.status, same.header("etag")), (304, tag.as_str()));
    let begun = Instant::now();
    let same = ask(&service, "/agents/v1/assignment?wait=1", Some(&tag)).await;
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    assert!(
        begun.elapsed() >= Duration::from_millis(990),
        "it must not spin"
    );
    // The next phase is news.
    let work = first.json();
    let asked = ask(&service, "/agents/v1/assignment?wait=30", Some(&tag));
    let told = woken(asked, service.self_check("v1", &work, true)).await;
    assert_eq!(told.json()["phase"], "checking");
    let tag = told.header("etag").to_owned();
    // And so is a cancel: what was known is gone.
    let asked = ask(&service, "/agents/v1/assignment?wait=30", Some(&tag));
    let told = woken(
        asked,
        service.admin("POST", "/ips/203.0.113.1/cancel", None),
    )
    .await;
    assert_eq!(told.status, 204);
    service.end().await;
}

#[tokio::test]
async fn a_settle_pause_ends_a_wait_by_itself() {
    let yaml = "
orchestrator: { poll_interval_seconds: 60, fip_settle_seconds: 1 }
validators: [{ validator_id: v1, os_port_id: port-1 }]
";
    let service = Ground::of(yaml).with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    service.reached("203.0.113.1", "awaiting_self_check").await;
    let told = ask(&service, "/agents/v1/assignment", None).await;
    assert_eq!(told.status, 204, "it settles");
    let begun = Instant::now();
    let told = ask(&service, "/agents/v1/assignment?wait=30", None).await;
    assert_eq!(told.status, 200);
    assert!(begun.elapsed() < AT_ONCE);
    service.end().await;
}

#[tokio::test]
async fn nothing_to_do_is_told_at_once_without_a_wait_and_late_with_one() {
    let service = Ground::new("").start().await;
    service.register("v1").await;
    assert_eq!(
        ask(&service, "/agents/v1/assignment", None).await.status,
        204
    );
    let told = ask(&service, "/agents/v1/assignment?wait=0", None).await;
    assert_eq!(told.status, 204);
    let begun = Instant::now();
    let told = ask(&service, "/agents/v1/assignment?wait=1", None).await;
    assert_eq!(told.status, 204);
    assert!(begun.elapsed() >= Duration::from_millis(990));
    for wait in ["61", "-1", "soon", ""] {
        let path = format!("/agents/v1/assignment?wait={wait}");
        let text = ask(&service, &path, None).await.error(400);
        assert!(text.contains("wait"), "{text}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_prober_is_told_of_every_change_of_the_list() {
    let service = Ground::new("").with_fips(&addresses(2)).start().await;
    service.register("v1").await;
    service.register("v2").await;
    let path = "/probers/site-1/assignments";
    let empty = ask(&service, path, None).await;
    assert_eq!((empty.status, empty.body.as_str()), (200, "[]"));
    let nothing = empty.header("etag").to_owned();
    service.enqueue(&["203.0.113.1", "203.0.113.2"]).await;
    let one = service.assignment("v1").await;
    let asked = ask(&service, "/probers/site-1/assignments?wait=30", None);
    let told = woken(asked, service.self_check("v1", &one, true)).await;
    assert_eq!(told.json().as_array().unwrap().len(), 1);
    assert_eq!(told.json()[0]["fence"], one["fence"]);
    let tag = told.header("etag").to_owned();
    assert_eq!(ask(&service, path, Some(&tag)).await.status, 304);
    let two = service.assignment("v2").await;
    let asked = ask(&service, "/probers/site-1/assignments?wait=30", Some(&tag));
    let told = woken(asked, service.self_check("v2", &two, true)).await;
    assert_eq!(told.json().as_array().unwrap().len(), 2);
    let tag = told.header("etag").to_owned();
    let asked = ask(&service, "/probers/site-1/assignments?wait=30", Some(&tag));
    let both = async {
        service.admin("DELETE", "/ips/203.0.113.1", None).await;
        service.admin("DELETE", "/ips/203.0.113.2", None).await;
    };
    let told = woken(asked, both).await;
    assert!(told.json().as_array().unwrap().len() < 2);
    let told = ask(&service, path, None).await;
    assert_eq!(told.header("etag"), nothing);
    service.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_every_wait() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    for validator in ["v1", "v2"] {
        service.register(validator).await;
    }
    service.enqueue(&["203.0.113.1"]).await;
    let (who, told) = tokio::select! {
        told = ask(&service, "/agents/v1/assignment?wait=20", None) => ("v1", told),
        told = ask(&service, "/agents/v2/assignment?wait=20", None) => ("v2", told),
    };
    let other = if who == "v1" { "v2" } else { "v1" };
    let tag = told.header("etag").to_owned();
    let begun = Instant::now();
    let shutdown = service.context.shutdown.clone();
    let knowing = format!("/agents/{who}/assignment?wait=60");
    let waiting = format!("/agents/{other}/assignment?wait=60");
    let later = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        shutdown.cancel();
    };
    let (knows, waits, probes, ()) = tokio::join!(
        ask(&service, &knowing, Some(&tag)),
        ask(&service, &waiting, None),
        ask(&service, "/probers/site-1/assignments?wait=60", None),
        later,
    );
    assert_eq!((knows.status, waits.status, probes.status), (304, 204, 200));
    assert!(begun.elapsed() < AT_ONCE);
    service.end().await;
}

#[tokio::test]
async fn clients_that_say_nothing_do_not_hold_up_the_end() {
    use tokio::io::AsyncWriteExt as _;
    let service = Ground::new("").start().await;
    let _silent = service.client.connect().await;
    let mut half = service.client.connect().await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost:")
        .await
        .unwrap();
    let mut owing = service.client.connect().await;
    let head = b"POST /api/v1/agents/register HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    owing.write_all(head).await.unwrap();
    let tasks = service.context.tasks.clone();
    eventually("three connections", async || {
        tasks.running().contains(&("connection", 3)).then_some(())
    })
    .await;
    service.end().await;
}

#[tokio::test]
async fn a_waiting_poll_looks_only_when_woken() {
    let service = Ground::new("").with_fips(&[address(1)]).start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    // Reports of the same claim that change nothing for the agent leave it waiting.
    let tag = ask(&service, "/agents/v1/assignment", None).await;
    let tag = tag.header("etag").to_owned();
    let begun = Instant::now();
    let (told, _) = tokio::join!(
        ask(&service, "/agents/v1/assignment?wait=1", Some(&tag)),
        service.report(
            "v1",
            "events",
            &work,
            json!({"event_type": "config_received"})
        ),
    );
    assert_eq!(told.status, 304);
    assert!(begun.elapsed() >= Duration::from_millis(990));
    service.end().await;
}
