//! The simulated cloud over HTTP, as a client that is not ours meets it: shapes, statuses, paging,
//! conditions, the data plane's order, the admin API.

mod common;

use std::net::IpAddr;

use civ_cloudsim::{Action, Attached, Match, Setup, Way};
use common::{FIPS, Stage, eventually, login};
use reqwest::Method;
use serde_json::{Value, json};

fn password() -> Value {
    let setup = Setup::default();
    login(&setup.username, &setup.password, Some(&setup.project))
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

#[tokio::test]
async fn a_login_shows_token_project_and_catalog() {
    let stage = Stage::new(Setup::default()).await;
    let answer = stage
        .send(Method::POST, "/v3/auth/tokens", Some(password()))
        .await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.headers["x-subject-token"].len(), 183);
    let token = &answer.body["token"];
    assert_eq!(token["catalog"][0]["type"], "network");
    assert_eq!(token["catalog"][0]["endpoints"][0]["url"], stage.url);
    assert!(token["expires_at"].as_str().unwrap().ends_with(".000000Z"));

    let mut wrong = password();
    wrong["auth"]["identity"]["password"]["user"]["password"] = json!("guess");
    let answer = stage
        .send(Method::POST, "/v3/auth/tokens", Some(wrong))
        .await;
    assert_eq!(
        (answer.status, &answer.body["error"]["title"]),
        (401, &json!("Unauthorized"))
    );

    let mut scoped = json!({"auth": {"scope": {}, "identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": "unknown", "secret": "s"}}}});
    let answer = stage
        .send(Method::POST, "/v3/auth/tokens", Some(scoped.clone()))
        .await;
    assert_eq!(
        answer.status, 401,
        "application credentials bring their own scope"
    );
    scoped["auth"].as_object_mut().unwrap().remove("scope");
    let answer = stage
        .send(Method::POST, "/v3/auth/tokens", Some(scoped))
        .await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn neutron_wants_a_token_and_says_so_in_keystones_shape() {
    let mut stage = Stage::new(Setup::default()).await;
    assert_eq!(stage.get("/").await.body["versions"][0]["id"], "v2.0");
    let known = stage.get(FIPS).await;
    let id = known.headers["x-openstack-request-id"].to_str().unwrap();
    assert!(known.status == 200 && id.starts_with("req-"));
    stage.token = "garbage".to_owned();
    let answer = stage.get(FIPS).await;
    assert_eq!(
        (answer.status, &answer.body["error"]["code"]),
        (401, &json!(401))
    );
}

#[tokio::test]
async fn a_token_without_a_project_sees_nothing() {
    let mut stage = Stage::new(Setup::default()).await;
    let mut unscoped = password();
    unscoped["auth"].as_object_mut().unwrap().remove("scope");
    let login = stage
        .send(Method::POST, "/v3/auth/tokens", Some(unscoped))
        .await;
    assert!(login.body["token"].get("catalog").is_none());
    stage.token = login.headers["x-subject-token"]
        .to_str()
        .unwrap()
        .to_owned();
    let answer = stage.get(FIPS).await;
    assert_eq!(
        (answer.status, answer.body),
        (200, json!({"floatingips": []}))
    );
}

#[tokio::test]
async fn pages_have_next_while_full_and_previous_always() {
    let stage = Stage::new(Setup::default()).await;
    let mut path = format!("{FIPS}?limit=5&sort_key=id&sort_dir=asc");
    let mut seen = Vec::new();
    for expected in [5, 5, 0] {
        let page = stage.get(&path).await.body;
        let rows = page["floatingips"].as_array().unwrap();
        assert_eq!(rows.len(), expected);
        seen.extend(rows.iter().map(|row| row["id"].to_string()));
        let links = page["floatingips_links"].as_array().unwrap();
        assert_eq!(links.last().unwrap()["rel"], "previous");
        assert_eq!(links.len(), if expected == 5 { 2 } else { 1 });
        path = links[0]["href"].as_str().unwrap().to_owned();
    }
    assert!(seen.is_sorted() && seen.len() == 10);
    let again = stage
        .get(&format!("{FIPS}?limit=5&marker=nonsense"))
        .await
        .body;
    assert_eq!(
        again["floatingips"][0]["id"].to_string(),
        seen[0],
        "the first page again"
    );
    let all = stage.get(&format!("{FIPS}?marker=nonsense")).await.body;
    assert!(
        all["floatingips"].as_array().unwrap().len() == 10
            && all.get("floatingips_links").is_none()
    );
}

#[tokio::test]
async fn filters_are_or_within_a_key_and_never_find_null() {
    let stage = Stage::new(Setup::default()).await;
    stage.bind(10, json!("port-1")).await;
    stage.bind(11, json!("port-2")).await;
    let count = async |query: &str| {
        let answer = stage.get(&format!("{FIPS}?{query}")).await;
        (
            answer.status,
            answer.body["floatingips"].as_array().map(Vec::len),
        )
    };
    assert_eq!(count("port_id=port-1&port_id=port-2").await, (200, Some(2)));
    assert_eq!(
        count("port_id=port-1&floating_ip_address=203.0.113.11").await,
        (200, Some(0))
    );
    assert_eq!(count("port_id=").await, (200, Some(0)));
    assert_eq!(count("port_id=null").await, (200, Some(0)));
    assert_eq!(count("status=BOGUS").await, (200, Some(0)));
    assert_eq!(count("name=x").await, (400, None));
    assert_eq!(count("limit=-1").await, (400, None));
    assert_eq!(count("sort_key=id").await, (400, None));
    let fields = stage
        .get(&format!("{FIPS}?fields=id&fields=status"))
        .await
        .body;
    assert_eq!(fields["floatingips"][0].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn a_put_moves_silently_unless_its_condition_is_stale() {
    let stage = Stage::new(Setup {
        status_delay: None,
        ..Setup::default()
    })
    .await;
    let answer = stage.bind(10, json!("port-x")).await;
    assert_eq!(
        (answer.status, &answer.body["floatingip"]["revision_number"]),
        (200, &json!(1))
    );
    let path = format!("{FIPS}/{}", stage.id(10).await);
    let body = || Some(json!({"floatingip": {"port_id": "port-1"}}));
    let stale = stage
        .send_with(
            Method::PUT,
            &path,
            body(),
            &[("if-match", "revision_number=0")],
        )
        .await;
    let kind = &stale.body["NeutronError"]["type"];
    assert_eq!(
        (stale.status, kind),
        (412, &json!("RevisionNumberConstraintFailed"))
    );
    let ignored = stage
        .send_with(Method::PUT, &path, body(), &[("if-match", "\"abc\"")])
        .await;
    assert_eq!(
        (ignored.status, &ignored.body["floatingip"]["port_id"]),
        (200, &json!("port-1"))
    );
    let empty = stage
        .send(Method::PUT, &path, Some(json!({"floatingip": {}})))
        .await;
    assert_eq!(
        (empty.status, &empty.body["floatingip"]["port_id"]),
        (200, &Value::Null)
    );
    let attached = stage.sim.attached();
    assert_eq!(attached, []);
}

#[tokio::test]
async fn the_status_follows_by_itself_and_counts() {
    let stage = Stage::new(Setup::default()).await;
    let answer = stage.bind(10, json!("port-1")).await;
    assert_eq!(answer.body["floatingip"]["status"], "DOWN");
    let path = format!("{FIPS}/{}", stage.id(10).await);
    eventually(async || stage.get(&path).await.body["floatingip"]["status"] == "ACTIVE").await;
    assert_eq!(
        stage.get(&path).await.body["floatingip"]["revision_number"],
        2
    );
    let answer = stage.bind(10, Value::Null).await;
    assert_eq!(
        answer.body["floatingip"]["status"], "ACTIVE",
        "for a while yet"
    );
    eventually(async || stage.get(&path).await.body["floatingip"]["status"] == "DOWN").await;
}

#[tokio::test]
async fn refusals_carry_neutrons_types() {
    let stage = Stage::new(Setup::default()).await;
    stage.bind(11, json!("port-1")).await;
    for (port, status, kind) in [
        (json!("absent"), 404, "PortNotFound"),
        (json!("port-1"), 409, "FloatingIPPortAlreadyAssociated"),
        (json!(5), 400, "HTTPBadRequest"),
    ] {
        let answer = stage.bind(10, port).await;
        let found = &answer.body["NeutronError"]["type"];
        assert_eq!((answer.status, found), (status, &json!(kind)));
    }
    let answer = stage.get(&format!("{FIPS}/absent")).await;
    assert_eq!(answer.body["NeutronError"]["type"], "FloatingIPNotFound");
    let answer = stage
        .send(Method::DELETE, &format!("{FIPS}/absent"), None)
        .await;
    assert_eq!(answer.body["NeutronError"]["type"], "FloatingIPNotFound");
    let answer = stage.send(Method::DELETE, "/v2.0/networks/x", None).await;
    assert_eq!(answer.status, 501);
    assert_eq!(stage.sim.unknown_calls(), ["DELETE /v2.0/networks/x"]);
}

#[tokio::test]
async fn the_data_plane_has_changed_before_the_answer_comes() {
    let stage = Stage::new(Setup::default()).await;
    stage.bind(10, json!("port-1")).await;
    assert_eq!(stage.plane.told(), ["+ 203.0.113.10 10.77.0.1"]);
    stage.bind(10, json!("port-1")).await;
    stage.bind(10, json!("port-2")).await;
    stage.bind(10, Value::Null).await;
    let told = stage.plane.told();
    assert_eq!(
        told[1..],
        [
            "- 203.0.113.10 10.77.0.1",
            "+ 203.0.113.10 10.77.0.2",
            "- 203.0.113.10 10.77.0.2",
        ]
    );
}

#[tokio::test]
async fn the_data_plane_may_be_late_one_way_or_missing() {
    let stage = Stage::new(Setup::default()).await;
    let next = |last| Match::next_association(address(last));
    stage.rule(next(10), Action::PlaneOneWay { way: Way::Inbound });
    stage.rule(next(11), Action::PlaneNever);
    stage.rule(next(12), Action::PlaneDelay { ms: 50 });
    stage.bind(10, json!("port-1")).await;
    stage.bind(11, json!("port-2")).await;
    stage.bind(11, Value::Null).await;
    assert_eq!(stage.plane.told(), ["+ 203.0.113.10 10.77.0.1 Inbound"]);
    stage.bind(12, json!("port-2")).await;
    assert_eq!(stage.plane.told().len(), 1, "answered before packets flow");
    eventually(async || stage.plane.told().len() == 2).await;
    // Released before its time: a late association must not come back.
    stage.bind(12, Value::Null).await;
    stage.rule(next(13), Action::PlaneDelay { ms: 30 });
    stage.rule(next(14), Action::PlaneDelay { ms: 60 });
    stage.bind(13, json!("port-2")).await;
    stage.bind(13, Value::Null).await;
    stage.bind(14, json!("port-2")).await;
    eventually(async || {
        stage
            .plane
            .told()
            .iter()
            .any(|line| line.contains("113.14"))
    })
    .await;
    assert!(
        stage
            .plane
            .told()
            .iter()
            .all(|line| !line.contains("113.13"))
    );
}

#[tokio::test]
async fn calls_say_who_asked_and_what_was_there_before() {
    let stage = Stage::new(Setup::default()).await;
    let taken = Action::TakeBefore {
        port: "port-x".to_owned(),
    };
    stage.rule(Match::next_association(address(10)), taken);
    stage.bind(10, json!("port-1")).await;
    let calls = stage.sim.calls();
    let [foreign, ours] = &calls[calls.len() - 2..] else {
        unreachable!("two calls");
    };
    assert_eq!(
        (foreign.writer.as_str(), foreign.after.as_deref()),
        ("sim", Some("port-x"))
    );
    assert_eq!(
        (ours.writer.as_str(), ours.before.as_deref()),
        ("validator", Some("port-x"))
    );
    assert_eq!(
        (ours.address, &ours.rules),
        (Some(address(10)), &vec!["rule".to_owned()])
    );
    assert_eq!(ours.body_port_id, Some(Some("port-1".to_owned())));
}

#[tokio::test]
async fn the_admin_api_does_what_the_handle_does() {
    let stage = Stage::new(Setup::default()).await;
    let bind = json!({"address": "203.0.113.10", "port": "port-x"});
    assert_eq!(
        stage
            .send(Method::POST, "/sim/bind", Some(bind))
            .await
            .status,
        204
    );
    let attached = Attached {
        address: address(10),
        port: "port-x".to_owned(),
    };
    assert_eq!(stage.sim.attached(), [attached]);
    let bad = json!({"address": "203.0.113.99", "port": "port-x"});
    assert_eq!(
        stage
            .send(Method::POST, "/sim/bind", Some(bad))
            .await
            .status,
        409
    );
    let rule = json!({"name": "r", "match": {"method": "GET", "path_prefix": "/v2.0/ports"},
        "action": {"answer": {"status": 503, "body": "html", "retry_after": 2}}});
    assert_eq!(
        stage
            .send(Method::POST, "/sim/rules", Some(rule.clone()))
            .await
            .status,
        204
    );
    let answer = stage.get("/v2.0/ports").await;
    assert_eq!(
        (answer.status, answer.headers["retry-after"].as_bytes()),
        (503, b"2".as_slice())
    );
    assert_eq!(
        stage.get("/sim/rules").await.body[0]["action"],
        rule["action"]
    );
    assert_eq!(
        stage.send(Method::DELETE, "/sim/rules", None).await.status,
        204
    );
    assert_eq!(stage.get("/v2.0/ports").await.status, 200);
    let unbind = json!({"address": "203.0.113.10"});
    assert_eq!(
        stage
            .send(Method::POST, "/sim/unbind", Some(unbind))
            .await
            .status,
        204
    );
    let state = stage.get("/sim/state").await.body;
    assert_eq!(
        (&state["attached"], &state["faults"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(
        stage
            .send(Method::POST, "/sim/expire-tokens", None)
            .await
            .status,
        204
    );
    assert_eq!(stage.get(FIPS).await.status, 401);
}
