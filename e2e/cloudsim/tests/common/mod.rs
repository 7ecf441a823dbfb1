//! A simulated cloud on a loopback port, and requests to it.
#![expect(dead_code, reason = "every test program uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use civ_cloudsim::{Action, DataPlane, Match, Rule, Setup, Sim, Way};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) const FIPS: &str = "/v2.0/floatingips";
pub(crate) const TOKENS: &str = "/v3/auth/tokens";

/// Writes down what it is told.
#[derive(Debug, Default)]
pub(crate) struct Witness(Mutex<Vec<String>>);

impl Witness {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl DataPlane for Witness {
    async fn associate(&self, floating: IpAddr, fixed: IpAddr) {
        self.note(format!("+ {floating} {fixed}"));
    }

    async fn associate_partial(&self, floating: IpAddr, fixed: IpAddr, way: Way) {
        self.note(format!("+ {floating} {fixed} {way:?}"));
    }

    async fn disassociate(&self, floating: IpAddr, fixed: IpAddr) {
        self.note(format!("- {floating} {fixed}"));
    }
}

pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) plane: Arc<Witness>,
    pub(crate) url: String,
    client: Client,
    pub(crate) token: String,
    /// Serves as long as the stage lives.
    _server: JoinSet<()>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Answer {
    /// Status and type of a Neutron error.
    pub(crate) fn error(&self) -> (u16, &str) {
        let kind = self.body["NeutronError"]["type"].as_str();
        (self.status, kind.unwrap_or("no NeutronError"))
    }
}

impl Stage {
    pub(crate) async fn new(setup: Setup) -> Self {
        let plane = Arc::new(Witness::default());
        let told: Arc<dyn DataPlane> = Arc::<Witness>::clone(&plane);
        Self::of(Sim::new(setup, told).unwrap(), plane).await
    }

    pub(crate) async fn of(sim: Sim, plane: Arc<Witness>) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        let serving = sim.clone();
        server.spawn(async move { serving.serve(listener).await.unwrap() });
        let builder = Client::builder().redirect(reqwest::redirect::Policy::none());
        let client = builder.timeout(Duration::from_secs(10)).build().unwrap();
        let mut stage = Self {
            sim,
            plane,
            url,
            client,
            token: String::new(),
            _server: server,
        };
        let setup = Setup::default();
        stage.token = stage
            .log_in(&setup.username, &setup.password, &setup.project)
            .await;
        stage
    }

    /// A token of this user.
    pub(crate) async fn log_in(&self, user: &str, password: &str, project: &str) -> String {
        let body = login(user, password, Some(project));
        let answer = self.send(Method::POST, TOKENS, Some(body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.headers["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// The same stage as another user sees it.
    pub(crate) async fn become_user(&mut self, user: &str, project: &str) {
        self.token = self
            .log_in(user, &format!("{user}-password"), project)
            .await;
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        self.send_with(method, path, body, &[]).await
    }

    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let text = body.map(|body| body.to_string());
        self.try_send(method, path, text, headers).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> reqwest::Result<Answer> {
        let url = if path.starts_with("http") {
            path.to_owned()
        } else {
            format!("{}{path}", self.url)
        };
        let mut request = self
            .client
            .request(method, url)
            .header("X-Auth-Token", &self.token);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        Ok(Answer {
            status,
            headers,
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    /// The id of the floating IP 203.0.113.`last`.
    pub(crate) async fn id(&self, last: u8) -> String {
        let found = format!("{FIPS}?floating_ip_address=203.0.113.{last}");
        let answer = self.get(&found).await;
        let id = answer.body["floatingips"][0]["id"].as_str();
        id.unwrap().to_owned()
    }

    /// The path of it.
    pub(crate) async fn path(&self, last: u8) -> String {
        format!("{FIPS}/{}", self.id(last).await)
    }

    /// A PUT of its port.
    pub(crate) async fn bind(&self, last: u8, port: Value) -> Answer {
        let path = self.path(last).await;
        self.put(&path, json!({ "port_id": port })).await
    }

    /// A PUT of a floating IP.
    pub(crate) async fn put(&self, path: &str, changes: Value) -> Answer {
        let body = json!({ "floatingip": changes });
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) fn rule(&self, matches: Match, action: Action) {
        let name = "rule".to_owned();
        self.sim.add_rule(Rule {
            name,
            matches,
            action,
        });
    }
}

/// A login by password; without a project it has no scope.
pub(crate) fn login(user: &str, password: &str, project: Option<&str>) -> Value {
    let domain = json!({"id": "default"});
    let user = json!({"name": user, "domain": domain, "password": password});
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    let mut auth = json!({ "identity": identity });
    if let Some(project) = project {
        auth["scope"] = json!({"project": {"name": project, "domain": domain}});
    }
    json!({ "auth": auth })
}

/// Every call that a rule can meet, once or always.
pub(crate) fn always(method: &str, path_prefix: &str) -> Match {
    Match {
        count: None,
        ..Match::next(method, path_prefix)
    }
}

/// Waits for a level, never for an edge.
pub(crate) async fn eventually(holds: impl AsyncFn() -> bool) {
    let reached = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached)
        .await
        .unwrap();
}
