//! Keystone over HTTP: discovery, every way to log in and to be refused, tokens and their end.

mod common;

use std::time::Duration;

use civ_cloudsim::{Pace, Scenario, Setup};
use common::{FIPS, Stage, TOKENS, login};
use reqwest::Method;
use serde_json::{Value, json};

async fn standard() -> Stage {
    Stage::new(Scenario::standard().setup).await
}

fn credential(fields: &Value) -> Value {
    let identity = json!({"methods": ["application_credential"], "application_credential": fields});
    json!({"auth": {"identity": identity}})
}

#[tokio::test]
async fn discovery_needs_no_token_and_follows_the_host() {
    let mut stage = standard().await;
    stage.token = String::new();
    let root = stage.get("/identity/").await;
    assert_eq!(root.status, 300);
    let location = root.headers["location"].to_str().unwrap();
    assert_eq!(location, format!("{}/identity/v3/", stage.url));
    assert_eq!(root.body["versions"]["values"][0]["id"], "v3.14");
    for path in ["/v3", "/v3/", "/identity/v3"] {
        let answer = stage.get(path).await;
        assert_eq!(
            (answer.status, &answer.body["version"]["id"]),
            (200, &json!("v3.14"))
        );
    }
    let forwarded = [
        ("host", "cloud.example:5000"),
        ("x-forwarded-proto", "https"),
    ];
    let answer = stage.send_with(Method::GET, "/v3", None, &forwarded).await;
    let href = &answer.body["version"]["links"][0]["href"];
    assert_eq!(href, "https://cloud.example:5000/v3/");
}

#[tokio::test]
async fn every_way_to_log_in_works() {
    let stage = standard().await;
    let setup = Setup::default();
    let token = async |body: Value| {
        let answer = stage.post(TOKENS, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer
    };
    let by_name = token(login("validator", "validator-password", Some("validation"))).await;
    let found = &by_name.body["token"];
    assert_eq!(found["methods"], json!(["password"]));
    let roles: Vec<&Value> = found["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| &role["name"])
        .collect();
    assert_eq!(roles, ["member", "reader"]);
    let (user, project) = (&found["user"]["id"], &found["project"]["id"]);
    let by_id = json!({"auth": {
        "identity": {"methods": ["password"], "password": {
            "user": {"id": user, "password": "validator-password"}}},
        "scope": {"project": {"id": project}}}});
    assert_eq!(
        token(by_id).await.body["token"]["project"]["name"],
        "validation"
    );

    let by_id = json!({"id": setup.app_credential_id, "secret": setup.app_credential_secret});
    let answer = token(credential(&by_id)).await;
    assert_eq!(answer.headers["x-subject-token"].len(), 204);
    let found = &answer.body["token"];
    assert_eq!(found["application_credential"]["restricted"], true);
    assert_eq!(found["methods"], json!(["application_credential"]));
    let by_name = json!({"name": setup.app_credential_name, "secret": setup.app_credential_secret,
        "user": {"name": "validator", "domain": {"name": "Default"}}});
    token(credential(&by_name)).await;

    let bare = token(login("validator", "validator-password", None)).await;
    for key in ["project", "roles", "catalog"] {
        assert!(bare.body["token"].get(key).is_none(), "{key}");
    }
    let path = format!("{TOKENS}?nocatalog");
    let body = login("validator", "validator-password", Some("validation"));
    assert!(
        stage.post(&path, body).await.body["token"]
            .get("catalog")
            .is_none()
    );
}

#[tokio::test]
async fn every_refusal_has_its_shape() {
    let stage = standard().await;
    let setup = Setup::default();
    let mut scoped = credential(&json!({"id": setup.app_credential_id,
        "secret": setup.app_credential_secret}));
    scoped["auth"]["scope"] = json!({"project": {"id": "x"}});
    let wrong = json!({"id": setup.app_credential_id, "secret": "guess"});
    for (body, status, title) in [
        (
            login("validator", "guess", Some("validation")),
            401,
            "Unauthorized",
        ),
        (
            login("nobody", "validator-password", Some("validation")),
            401,
            "Unauthorized",
        ),
        (
            login("validator", "validator-password", Some("other")),
            401,
            "Unauthorized",
        ),
        (
            login("validator", "validator-password", Some("nowhere")),
            401,
            "Unauthorized",
        ),
        (credential(&wrong), 401, "Unauthorized"),
        (scoped, 401, "Unauthorized"),
        (
            credential(&json!({"id": "unknown", "secret": "s"})),
            404,
            "Not Found",
        ),
        (json!({"auth": {}}), 400, "Bad Request"),
    ] {
        let answer = stage.post(TOKENS, body.clone()).await;
        let error = &answer.body["error"];
        assert_eq!(
            (answer.status, &error["title"]),
            (status, &json!(title)),
            "{body}"
        );
        assert_eq!(error["code"], status);
    }
    let refused = stage.post(TOKENS, login("validator", "guess", None)).await;
    let challenge = refused.headers["www-authenticate"].to_str().unwrap();
    assert_eq!(challenge, format!("Keystone uri=\"{}/v3\"", stage.url));
}

#[tokio::test]
async fn bodies_and_paths_are_looked_at_first() {
    let stage = standard().await;
    let send = async |text: String, kind: &str| {
        let headers = [("content-type", kind)];
        let path = "/v3/auth/tokens";
        let url = format!("{}{path}", stage.url);
        let client = reqwest::Client::builder().build().unwrap();
        let request = client
            .post(url)
            .header(headers[0].0, headers[0].1)
            .body(text);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(send("{".to_owned(), "application/json").await.0, 400);
    let body = login("validator", "validator-password", None).to_string();
    assert_eq!(send(body, "text/plain").await.0, 400);
    let (status, text) = send("x".repeat(114_689), "application/json").await;
    assert!(status == 413 && text.contains("<html>"), "{status} {text}");
    let unknown = stage.get("/v3/nosuch").await;
    assert!(unknown.status == 404 && unknown.text.contains("<html>"));
    assert_eq!(
        stage.get("/v3/users").await.status,
        501,
        "there, but not simulated"
    );
}

#[tokio::test]
async fn tokens_are_looked_at_and_taken_back() {
    let stage = standard().await;
    let other = stage
        .log_in("validator", "validator-password", "validation")
        .await;
    let about = async |method: Method, subject: &str| {
        stage
            .send_with(method, TOKENS, None, &[("x-subject-token", subject)])
            .await
    };
    let shown = about(Method::GET, &other).await;
    assert_eq!(
        (shown.status, &shown.body["token"]["user"]["name"]),
        (200, &json!("validator"))
    );
    assert_eq!(about(Method::HEAD, &other).await.status, 200);
    let seen = [("x-auth-token", other.as_str())];
    let client = async || {
        let request = reqwest::Client::builder().build().unwrap();
        let request = request
            .get(format!("{}{FIPS}", stage.url))
            .header(seen[0].0, seen[0].1);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(client().await, 200);
    assert_eq!(about(Method::DELETE, &other).await.status, 204);
    assert_eq!(about(Method::GET, &other).await.status, 404);
    assert_eq!(
        client().await,
        200,
        "Neutron believes what it has seen for five minutes"
    );
    stage.sim.clock().advance(Duration::from_secs(301));
    assert_eq!(client().await, 401);
    assert_eq!(about(Method::GET, "garbage").await.status, 404);
    let catalog = stage.get("/v3/auth/catalog").await.body;
    assert_eq!(catalog["catalog"][0]["type"], "network");
    assert_eq!(
        stage.get("/v3/auth/projects").await.body["projects"][0]["name"],
        "validation"
    );
}

#[tokio::test]
async fn a_token_ends_at_its_second_by_the_clock_of_the_cloud() {
    let setup = Setup {
        pace: Pace::Stepped,
        token_ttl: Duration::from_secs(60),
        ..Setup::default()
    };
    let mut stage = Stage::new(setup).await;
    assert_eq!(stage.get(FIPS).await.status, 200);
    let step = json!({"ms": 59_999});
    assert_eq!(stage.post("/sim/clock/advance", step).await.status, 200);
    assert_eq!(stage.get(FIPS).await.status, 200);
    stage.post("/sim/clock/advance", json!({"ms": 1})).await;
    let over = stage.get(FIPS).await;
    assert_eq!(
        (over.status, &over.body["error"]["title"]),
        (401, &json!("Unauthorized"))
    );
    assert_eq!(stage.get("/v3/auth/catalog").await.status, 401);
    stage.token = stage
        .log_in("validator", "validator-password", "validation")
        .await;
    assert_eq!(stage.get(FIPS).await.status, 200);
}
