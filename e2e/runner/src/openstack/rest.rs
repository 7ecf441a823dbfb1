//! Owns straight calls to Keystone and Neutron, past the product and past the proxy: what others
//! do in the cloud, and what is really in it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::lab::Facts;

/// Neutron on a busy machine takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A client that keeps no connection: uWSGI closes idle ones without a word.
///
/// # Errors
///
/// When it cannot be made.
pub(crate) fn client() -> Result<Client> {
    let builder = Client::builder().timeout(LIMIT).no_proxy();
    Ok(builder.pool_max_idle_per_host(0).build()?)
}

/// An answer of Neutron.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// The body; null if it is no JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// `NeutronError.type`, if it is such an error.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.body["NeutronError"]["type"].as_str()
    }
}

/// A request to Neutron.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The method.
    pub(crate) method: Method,
    /// What follows `/v2.0/`, with the query.
    pub(crate) path: String,
    /// The body, as it goes over the wire.
    pub(crate) body: Option<String>,
    /// `If-Match: revision_number=…`.
    pub(crate) if_match: Option<u64>,
}

impl Ask {
    /// Without a body.
    pub(crate) fn bare(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            body: None,
            if_match: None,
        }
    }

    /// With a body.
    pub(crate) fn with(method: Method, path: impl Into<String>, body: &Value) -> Self {
        Self {
            body: Some(body.to_string()),
            ..Self::bare(method, path)
        }
    }
}

/// Neutron, as one user of one project.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    http: Client,
    base: String,
    token: String,
}

impl Rest {
    /// Logs in with the lab's password at Keystone, and talks to Neutron itself.
    ///
    /// # Errors
    ///
    /// When Keystone refuses.
    pub(crate) async fn login(facts: &Facts, user: &str) -> Result<Self> {
        // Every user's project has the user's name.
        let base = &facts.network_url;
        Self::login_at(&facts.auth_url, base, user, &facts.secret, user).await
    }

    /// The same at any other Keystone and Neutron.
    ///
    /// # Errors
    ///
    /// When Keystone refuses.
    pub(crate) async fn login_at(
        auth_url: &str,
        base: &str,
        user: &str,
        password: &str,
        project: &str,
    ) -> Result<Self> {
        let http = client()?;
        let domain = json!({"id": "default"});
        let user = json!({"name": user, "domain": domain, "password": password});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let scope = json!({"project": {"name": project, "domain": domain}});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let request = http.post(format!("{auth_url}/auth/tokens")).json(&body);
        let answer = request.send().await?.error_for_status()?;
        let token = answer.headers().get("x-subject-token");
        let token = token.context("Keystone gave no token")?.to_str()?;
        Ok(Self {
            token: token.to_owned(),
            base: base.to_owned(),
            http,
        })
    }

    /// Takes a token back.
    ///
    /// # Errors
    ///
    /// When Keystone refuses.
    pub(crate) async fn revoke(&self, auth_url: &str, token: &str) -> Result<()> {
        let request = self.http.delete(format!("{auth_url}/auth/tokens"));
        let request = request.header("x-auth-token", &self.token);
        request
            .header("x-subject-token", token)
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }

    /// Sends a request, and returns the answer whatever it says.
    ///
    /// # Errors
    ///
    /// When no answer comes.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Answer> {
        let url = format!("{}/v2.0/{}", self.base, ask.path);
        let mut request = self.http.request(ask.method.clone(), url);
        request = request.header("x-auth-token", &self.token);
        if let Some(body) = &ask.body {
            let body = body.clone();
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        if let Some(revision) = ask.if_match {
            request = request.header("if-match", format!("revision_number={revision}"));
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    }

    /// The same for a request that must not be refused; returns the body.
    ///
    /// # Errors
    ///
    /// When no answer comes, or another one than a success.
    pub(crate) async fn must(&self, ask: Ask) -> Result<Value> {
        let answer = self.ask(&ask).await?;
        if !(200..300).contains(&answer.status) {
            let (method, path) = (&ask.method, &ask.path);
            bail!(
                "{method} {path} was answered {} {}",
                answer.status,
                answer.body
            );
        }
        Ok(answer.body)
    }

    /// Makes a resource and returns it.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(crate) async fn make(&self, kind: &str, attributes: &Value) -> Result<Value> {
        let path = format!("{kind}s");
        let body = json!({ kind: attributes });
        let mut made = self.must(Ask::with(Method::POST, path, &body)).await?;
        Ok(made[kind].take())
    }

    /// All rows of a collection, with a query.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(crate) async fn all(&self, collection: &str, query: &str) -> Result<Vec<Value>> {
        let path = format!("{collection}?{query}");
        self.all_of(&path, collection).await
    }

    /// All rows under `key` of what is answered to `path`.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(crate) async fn all_of(&self, path: &str, key: &str) -> Result<Vec<Value>> {
        let mut body = self.must(Ask::bare(Method::GET, path)).await?;
        match body[key].take() {
            Value::Array(rows) => Ok(rows),
            other => bail!("{key} of {path} is {other}"),
        }
    }

    /// Binds a floating IP to a port or to none, whatever it was bound to.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(crate) async fn bind(&self, fip: &str, port: Option<&str>) -> Result<()> {
        let body = json!({"floatingip": {"port_id": port}});
        let path = format!("floatingips/{fip}");
        self.must(Ask::with(Method::PUT, path, &body)).await?;
        Ok(())
    }

    /// Deletes.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(crate) async fn delete(&self, path: impl Into<String>) -> Result<()> {
        self.must(Ask::bare(Method::DELETE, path)).await?;
        Ok(())
    }
}

/// A text of a row; empty if it has none.
pub(crate) fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}
