//! Every route of the document × every kind of token: who gets through stands in one table.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::ground::{ADMIN, AGENT, Ground, Service};
use crate::http::Client;

/// Whom a route lets in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Access {
    /// Everybody, always.
    Everybody,
    /// Everybody, unless `auth.protect_open_methods` is on.
    Open,
    /// The agent or prober whose id the request names.
    Owner,
    /// Administrators.
    Admin,
    /// Administrators, whose token is the password of HTTP Basic and no bearer token.
    Page,
}
use Access::{Admin, Everybody, Open, Owner, Page};

/// A new route without its line here fails, and so does a line without a route.
pub(crate) const TABLE: &[(&str, &str, Access)] = &[
    ("GET", "/", Page),
    ("GET", "/api/v1/admin/auto-cycle", Admin),
    ("PUT", "/api/v1/admin/auto-cycle", Admin),
    ("POST", "/api/v1/admin/auto-cycle/start", Admin),
    ("POST", "/api/v1/admin/auto-cycle/stop", Admin),
    ("GET", "/api/v1/admin/checks/export", Admin),
    ("GET", "/api/v1/admin/config/check-types", Admin),
    ("DELETE", "/api/v1/admin/config/check-types/{name}", Admin),
    ("PUT", "/api/v1/admin/config/check-types/{name}", Admin),
    ("GET", "/api/v1/admin/config/inbound-checks", Admin),
    ("PUT", "/api/v1/admin/config/inbound-checks", Admin),
    ("GET", "/api/v1/admin/config/orchestrator", Admin),
    ("PUT", "/api/v1/admin/config/orchestrator", Admin),
    ("GET", "/api/v1/admin/config/sites", Admin),
    ("DELETE", "/api/v1/admin/config/sites/{index}", Admin),
    ("PUT", "/api/v1/admin/config/sites/{index}", Admin),
    ("GET", "/api/v1/admin/config/targets", Admin),
    ("DELETE", "/api/v1/admin/config/targets/{group}", Admin),
    ("PUT", "/api/v1/admin/config/targets/{group}", Admin),
    ("GET", "/api/v1/admin/config/validators", Admin),
    ("POST", "/api/v1/admin/config/validators", Admin),
    ("DELETE", "/api/v1/admin/config/validators/{id}", Admin),
    ("PUT", "/api/v1/admin/config/validators/{id}", Admin),
    ("GET", "/api/v1/admin/events", Admin),
    ("GET", "/api/v1/admin/events/stream", Admin),
    ("GET", "/api/v1/admin/ips", Admin),
    ("POST", "/api/v1/admin/ips", Admin),
    ("POST", "/api/v1/admin/ips/clear", Admin),
    ("POST", "/api/v1/admin/ips/delete", Admin),
    ("GET", "/api/v1/admin/ips/scan", Admin),
    ("POST", "/api/v1/admin/ips/scan", Admin),
    ("DELETE", "/api/v1/admin/ips/{ip}", Admin),
    ("GET", "/api/v1/admin/ips/{ip}", Admin),
    ("POST", "/api/v1/admin/ips/{ip}/cancel", Admin),
    ("GET", "/api/v1/admin/registry", Admin),
    ("GET", "/api/v1/admin/registry/export", Admin),
    ("GET", "/api/v1/admin/registry/{ip}", Admin),
    ("GET", "/api/v1/admin/status", Admin),
    ("GET", "/api/v1/admin/validators", Admin),
    ("POST", "/api/v1/agents/register", Open),
    ("GET", "/api/v1/agents/{id}/assignment", Open),
    ("POST", "/api/v1/agents/{id}/complete", Owner),
    ("POST", "/api/v1/agents/{id}/events", Owner),
    ("POST", "/api/v1/agents/{id}/heartbeat", Open),
    ("POST", "/api/v1/agents/{id}/results", Owner),
    ("POST", "/api/v1/agents/{id}/self-check", Owner),
    ("POST", "/api/v1/probers/register", Open),
    ("GET", "/api/v1/probers/{site_id}/assignments", Open),
    ("POST", "/api/v1/probers/{site_id}/events", Owner),
    ("POST", "/api/v1/probers/{site_id}/heartbeat", Open),
    ("POST", "/api/v1/probers/{site_id}/results", Owner),
    ("GET", "/docs", Everybody),
    ("GET", "/healthz", Everybody),
    ("GET", "/metrics", Everybody),
    ("GET", "/openapi.json", Everybody),
    ("GET", "/readyz", Everybody),
];

/// Tokens of their own of `v1`, of `site-1` and of `v2`. There is no such token of `v3`.
const OWN: [(&str, &str); 3] = [
    ("v1", "own-token-of-v1-012345"),
    ("site-1", "own-token-of-site-1-0123"),
    ("v2", "own-token-of-v2-012345"),
];

const YAML: &str = "
orchestrator: { poll_interval_seconds: 60 }
validators:
  - { validator_id: v1, os_port_id: port-1 }
  - { validator_id: v2, os_port_id: port-2 }
  - { validator_id: v3, os_port_id: port-3 }
sites: [{ site_id: site-1 }, { site_id: site-3 }]
";

fn ground(protect: bool) -> Ground {
    let yaml = format!(
        "{YAML}
auth:
  required: true
  protect_open_methods: {protect}
  per_agent_tokens:
    v1: {{ token_env: OWN_V1 }}
    site-1: {{ token_env: OWN_SITE_1 }}
    v2: {{ token_env: OWN_V2 }}
"
    );
    let names = ["OWN_V1", "OWN_SITE_1", "OWN_V2"];
    let tokens = names.iter().zip(OWN);
    tokens.fold(Ground::of(&yaml).with_tokens(), |ground, (name, own)| {
        ground.with_variable(name, own.1)
    })
}

fn routes() -> BTreeSet<(String, String)> {
    let document = serde_json::to_value(civ_control_api::http::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let methods = ["get", "put", "post", "delete", "patch", "head"];
    let each = |(path, item): (&String, &Value)| {
        let item = item.as_object().unwrap();
        let known = item.keys().filter(|key| methods.contains(&key.as_str()));
        let all: Vec<_> = known
            .map(|key| (key.to_uppercase(), path.clone()))
            .collect();
        all
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn each_route_has_one_line() {
    let lines = TABLE
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()));
    let lines: Vec<_> = lines.collect();
    let set: BTreeSet<_> = lines.iter().cloned().collect();
    assert_eq!(set.len(), lines.len(), "a line stands there twice");
    assert_eq!(set, routes());
}

/// The path of a route in the name of a validator or a site.
pub(crate) fn path_of(route: &str, [validator, site]: [&str; 2]) -> String {
    let path = route
        .replace("{id}", validator)
        .replace("{site_id}", site)
        .replace("{ip}", "203.0.113.1")
        .replace("{index}", "9")
        .replace("{group}", "none")
        .replace("{name}", "none");
    assert!(
        !path.contains('{'),
        "{path}: what to put there is not known"
    );
    path
}

/// One request in the name of `validator` or `site`; the answer's status. Streams are not read.
async fn status(client: Client, line: (&str, &str), token: Option<&str>, who: [&str; 2]) -> u16 {
    let (method, path) = line;
    let [validator, site] = who;
    let path = path_of(path, who);
    let body = json!({"validator_id": validator, "site_id": site}).to_string();
    let bearer = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{}content-length: {}\r\n\r\n{body}",
        bearer.unwrap_or_default(),
        body.len()
    );
    let mut stream = client.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).await.unwrap();
    first.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Who gets through, of: nobody, the shared tokens, the id's own token, another's own token.
async fn expect(service: &Service, protect: bool, has_own: bool) {
    let who = if has_own {
        ["v1", "site-1"]
    } else {
        ["v3", "site-3"]
    };
    let [v1, site_1, v2] = OWN.map(|(_, token)| token);
    for (method, path, access) in TABLE {
        let own = if path.contains("/probers/") {
            site_1
        } else {
            v1
        };
        let others = if path.contains("/probers/") {
            v1
        } else {
            site_1
        };
        for (caller, token) in [
            ("nobody", None),
            ("agent", Some(AGENT)),
            ("admin", Some(ADMIN)),
            ("own", Some(own)),
            ("another", Some(v2)),
            ("of another kind", Some(others)),
            (
                "both at once",
                Some("own-token-of-v1-012345,agent-token-0123456789"),
            ),
        ] {
            let passes = match access {
                Everybody => true,
                Open if !protect => true,
                Open | Owner if has_own => caller == "own",
                Open | Owner => caller == "agent",
                Admin => caller == "admin",
                Page => false,
            };
            let told = status(service.client, (method, path), token, who).await;
            let line = format!("{method} {path} {caller} protect={protect} own={has_own}: {told}");
            assert_eq!(told != 401, passes, "{line}");
        }
    }
}

#[tokio::test]
async fn everybody_gets_where_the_table_says() {
    for protect in [false, true] {
        let service = ground(protect).start().await;
        for has_own in [true, false] {
            expect(&service, protect, has_own).await;
        }
        service.end().await;
    }
}

#[tokio::test]
async fn an_id_cannot_be_disguised() {
    let service = ground(true).start().await;
    let own = OWN[0].1;
    for (id, token, expected) in [
        ("%761", own, 200),
        ("%761", AGENT, 401),
        ("v%31", OWN[2].1, 401),
        ("v1/", AGENT, 404),
        ("V1", AGENT, 404),
        ("%ff", AGENT, 404),
    ] {
        let path = format!("/api/v1/agents/{id}/heartbeat");
        let told = service.client.json("POST", &path, None, Some(token)).await;
        assert_eq!(told.status, expected, "{id} {told:?}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_token_of_its_own_rotates() {
    let pair = "old-own-of-v1-0123456, new-own-of-v1-0123456";
    let service = ground(true).with_variable("OWN_V1", pair).start().await;
    let path = "/api/v1/agents/v1/heartbeat";
    for (token, expected) in [
        ("old-own-of-v1-0123456", 200),
        ("new-own-of-v1-0123456", 200),
        (pair, 401),
        (OWN[0].1, 401),
    ] {
        let told = service.client.json("POST", path, None, Some(token)).await;
        assert_eq!(told.status, expected, "{token}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_token_of_nobody_is_told() {
    let nobody = |required| {
        let auth = format!(
            "{YAML}auth: {{ required: {required}, per_agent_tokens: {{ v9: {{ token_env: OWN_V9 }} }} }}"
        );
        Ground::of(&auth)
            .with_tokens()
            .with_variable("OWN_V9", "own-token-of-v9-012345")
    };
    nobody(false).start().await.end().await;
    let ground = nobody(true);
    let cloud = std::sync::Arc::clone(&ground.cloud);
    let Err(told) = ground.try_start(cloud).await else {
        panic!("it starts with a token of nobody");
    };
    let told = format!("{told:#}");
    assert!(told.contains("auth.per_agent_tokens.v9"), "{told}");
}
