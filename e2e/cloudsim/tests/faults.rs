//! Fault rules over HTTP: what a client meets, and what became of the cloud meanwhile.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::time::{Duration, Instant};

use civ_cloudsim::{Action, AnswerBody, Distribution, Latency, Match, Setup};
use common::{FIPS, Stage, always};
use reqwest::Method;
use serde_json::{Value, json};

async fn stage() -> Stage {
    Stage::new(Setup::default()).await
}

fn ids(body: &Value) -> Vec<String> {
    let rows = body["floatingips"].as_array().unwrap();
    rows.iter().map(|row| row["id"].to_string()).collect()
}

/// Only the next association.
fn next() -> Match {
    Match::next("PUT", FIPS)
}

async fn try_bind(stage: &Stage, path: &str) -> reqwest::Result<common::Answer> {
    let body = json!({"floatingip": {"port_id": "port-1"}}).to_string();
    stage.try_send(Method::PUT, path, Some(body), &[]).await
}

#[tokio::test]
async fn answers_are_made_up() {
    let stage = stage().await;
    let path = stage.path(10).await;
    for (status, body, words) in [
        (
            401,
            AnswerBody::KeystoneError("Unauthorized".to_owned()),
            "\"error\"",
        ),
        (
            404,
            AnswerBody::NeutronError("PortNotFound".to_owned()),
            "PortNotFound",
        ),
        (
            409,
            AnswerBody::NeutronError("IpInUse".to_owned()),
            "IpInUse",
        ),
        (413, AnswerBody::Html, "<html>"),
        (429, AnswerBody::Empty, ""),
        (
            500,
            AnswerBody::NeutronError("HTTPInternalServerError".to_owned()),
            "NeutronError",
        ),
        (503, AnswerBody::Html, "<html>"),
    ] {
        let retry_after = (status == 429).then_some(7);
        let action = Action::Answer {
            status,
            body,
            retry_after,
        };
        stage.rule(next(), action);
        let answer = try_bind(&stage, &path).await.unwrap();
        assert_eq!(answer.status, status);
        assert!(answer.text.contains(words), "{}", answer.text);
        let header = answer.headers.get("retry-after");
        assert_eq!(header.is_some(), status == 429);
    }
    assert!(
        stage.sim.attached().is_empty(),
        "none of them was carried out"
    );
    let garbage = Action::Answer {
        status: 200,
        body: AnswerBody::Garbage,
        retry_after: None,
    };
    stage.rule(Match::next("GET", FIPS), garbage);
    assert!(stage.get(FIPS).await.body.is_null());
}

#[tokio::test]
async fn an_answer_is_lost_before_or_after_the_effect() {
    let stage = stage().await;
    let path = stage.path(10).await;
    stage.rule(next(), Action::CutBefore);
    assert!(try_bind(&stage, &path).await.is_err());
    assert!(stage.sim.attached().is_empty());
    for action in [
        Action::CutAfter,
        Action::CutMidBody,
        Action::WrongLength { by: 50 },
    ] {
        stage.put(&path, json!({"port_id": null})).await;
        stage.rule(next(), action.clone());
        assert!(try_bind(&stage, &path).await.is_err(), "{action:?}");
        assert_eq!(stage.sim.attached().len(), 1, "{action:?}");
    }
    let gateway = Action::AnswerAfter {
        status: 504,
        body: AnswerBody::Html,
        retry_after: None,
    };
    stage.put(&path, json!({"port_id": null})).await;
    stage.rule(next(), gateway);
    assert_eq!(try_bind(&stage, &path).await.unwrap().status, 504);
    assert_eq!(stage.sim.attached().len(), 1);
    stage.rule(Match::next("GET", FIPS), Action::WrongLength { by: -50 });
    assert!(
        stage.get(FIPS).await.body.is_null(),
        "no JSON, for its end is missing"
    );
    let calls = stage.sim.calls();
    assert_eq!(calls.iter().filter(|call| call.status == 0).count(), 2);
}

#[tokio::test]
async fn time_is_taken_before_or_after_the_effect_and_for_every_piece() {
    let stage = stage().await;
    let path = stage.path(10).await;
    let ms = 60;
    for action in [
        Action::DelayBefore { ms },
        Action::DelayAfter { ms },
        Action::Drip {
            bytes: 400,
            every_ms: 40,
        },
    ] {
        stage.rule(next(), action.clone());
        let started = Instant::now();
        assert_eq!(try_bind(&stage, &path).await.unwrap().status, 200);
        assert!(started.elapsed() >= Duration::from_millis(ms), "{action:?}");
    }
}

#[tokio::test]
async fn latencies_are_the_clouds_own_time() {
    let setup = Setup {
        latencies: vec![Latency {
            method: Some("GET".to_owned()),
            path_prefix: FIPS.to_owned(),
            takes: Distribution::Fixed { ms: 60_000 },
        }],
        pace: civ_cloudsim::Pace::Scaled(1_000),
        ..Setup::default()
    };
    let stage = Stage::new(setup).await;
    let started = Instant::now();
    assert_eq!(stage.get(FIPS).await.status, 200);
    let took = started.elapsed();
    assert!(
        Duration::from_millis(60) <= took && took < Duration::from_secs(30),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_token_ends_in_the_middle_of_a_listing() {
    let stage = stage().await;
    let expiry = Match {
        nth: 2,
        ..Match::next("GET", FIPS)
    };
    stage.rule(expiry, Action::ExpireTokens);
    let page = format!("{FIPS}?limit=4");
    let first = stage.get(&page).await;
    let next = first.body["floatingips_links"][0]["href"].as_str().unwrap();
    assert_eq!((first.status, stage.get(next).await.status), (200, 401));
}

#[tokio::test]
async fn pages_repeat_lose_their_links_and_are_capped() {
    let stage = stage().await;
    let page = format!("{FIPS}?limit=4");
    let first = stage.get(&page).await.body;
    let next = first["floatingips_links"][0]["href"]
        .as_str()
        .unwrap()
        .to_owned();
    stage.rule(Match::next("GET", FIPS), Action::RepeatPage);
    assert_eq!(ids(&stage.get(&next).await.body), ids(&first));
    assert_ne!(ids(&stage.get(&next).await.body), ids(&first));
    stage.rule(Match::next("GET", FIPS), Action::DropLinks);
    let bare = stage.get(&page).await.body;
    assert!(bare.get("floatingips_links").is_none() && ids(&bare) == ids(&first));
    stage.rule(Match::next("GET", FIPS), Action::CapPage { rows: 2 });
    let capped = stage.get(&page).await.body;
    assert_eq!(
        (
            ids(&capped).len(),
            capped["floatingips_links"][0]["rel"].as_str()
        ),
        (2, Some("next"))
    );
}

#[tokio::test]
async fn a_listing_changes_between_its_pages() {
    let stage = stage().await;
    let page = format!("{FIPS}?limit=4");
    let first = stage.get(&page).await.body;
    let next = first["floatingips_links"][0]["href"]
        .as_str()
        .unwrap()
        .to_owned();
    stage.rule(Match::next("GET", FIPS), Action::RemoveMarker);
    let second = stage.get(&next).await.body;
    assert_eq!(
        ids(&second)[..3],
        ids(&first)[..3],
        "the first page again, less the marker"
    );
    stage.rule(Match::next("GET", FIPS), Action::AddFip);
    let all = stage.get(FIPS).await.body;
    assert_eq!(ids(&all).len(), 10, "one gone, one new");
}

#[tokio::test]
async fn reads_may_be_of_an_older_copy() {
    let stage = stage().await;
    let path = stage.path(10).await;
    stage.rule(always("GET", FIPS), Action::StaleCopy);
    stage.put(&path, json!({"port_id": "port-1"})).await;
    assert!(stage.get(&path).await.body["floatingip"]["port_id"].is_null());
    stage.sim.clear_rules();
    assert_eq!(
        stage.get(&path).await.body["floatingip"]["port_id"],
        "port-1"
    );
}

#[tokio::test]
async fn a_port_vanishes_under_a_call() {
    let stage = stage().await;
    let path = stage.path(10).await;
    let port = "port-1".to_owned();
    stage.rule(next(), Action::RemovePort { port });
    let answer = try_bind(&stage, &path).await.unwrap();
    assert_eq!(answer.error(), (404, "PortNotFound"));
}

#[tokio::test]
async fn chance_is_the_same_for_the_same_seed_over_http() {
    let run = async |seed| {
        let stage = stage().await;
        let matches = Match {
            chance_percent: 50,
            seed,
            ..always("GET", FIPS)
        };
        let action = Action::Answer {
            status: 503,
            body: AnswerBody::Html,
            retry_after: None,
        };
        stage.rule(matches, action);
        let mut met = Vec::new();
        for _ in 0..30 {
            met.push(stage.get(FIPS).await.status == 503);
        }
        met
    };
    let first = run(5).await;
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, run(5).await);
    assert_ne!(first, run(6).await);
}
