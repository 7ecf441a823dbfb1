//! Owns the runner's conversation with control-api. Knows no processes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_proto::admin::{Addresses, Enqueued};
use civ_proto::config::InboundChecksBody;
use civ_proto::jobs::{AutoCycle, ScanStatus, Scanned};
use civ_proto::read_model::{Ip, IpDetails, Validator};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One request; control-api is on the same machine.
const LIMIT: Duration = Duration::from_secs(10);

/// A client with the administrator's token, or with none.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Api {
    /// For control-api at `address`.
    ///
    /// # Errors
    ///
    /// When the HTTP client cannot be made.
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(LIMIT)
            .no_proxy()
            .build()?;
        Ok(Self {
            http,
            base: format!("http://{address}"),
            token: token.map(str::to_owned),
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.request(Method::GET, path).send().await?;
        Ok(ok(path, answer).await?.json().await?)
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<Response> {
        let answer = self.request(Method::POST, path).json(body).send().await?;
        ok(path, answer).await
    }

    /// Sends a write to the queue and returns the status and the body, whatever they are.
    ///
    /// # Errors
    ///
    /// When no answer comes, or one that is no JSON.
    pub(crate) async fn told(
        &self,
        method: Method,
        path: &str,
        body: Option<&Addresses>,
    ) -> Result<(StatusCode, Value)> {
        let mut request = self.request(method, &format!("/api/v1/admin/ips{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let body = answer.json().await;
        Ok((status, body.with_context(|| format!("{status} to {path}"))?))
    }

    /// Whether `/readyz` says so.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = self.request(Method::GET, "/readyz").send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    }

    /// Puts addresses into the queue.
    ///
    /// # Errors
    ///
    /// When control-api does not accept them.
    pub(crate) async fn enqueue(&self, addresses: &[Ipv4Addr]) -> Result<Enqueued> {
        let body = Addresses {
            addresses: addresses.iter().map(ToString::to_string).collect(),
        };
        Ok(self.post("/api/v1/admin/ips", &body).await?.json().await?)
    }

    /// Changes what every site checks.
    ///
    /// # Errors
    ///
    /// When control-api refuses.
    pub(crate) async fn set_inbound(&self, body: &InboundChecksBody) -> Result<()> {
        let path = "/api/v1/admin/config/inbound-checks";
        let answer = self.request(Method::PUT, path).json(body).send().await?;
        ok(path, answer).await?;
        Ok(())
    }

    /// All validators.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn validators(&self) -> Result<Vec<Validator>> {
        self.get("/api/v1/admin/validators").await
    }

    /// Breaks off the check of an address.
    ///
    /// # Errors
    ///
    /// When control-api refuses.
    pub(crate) async fn cancel(&self, address: IpAddr) -> Result<()> {
        let path = format!("/api/v1/admin/ips/{address}/cancel");
        self.post(&path, &()).await?;
        Ok(())
    }

    /// Takes an address out of the queue.
    ///
    /// # Errors
    ///
    /// When control-api refuses.
    pub(crate) async fn delete(&self, address: IpAddr) -> Result<()> {
        let path = format!("/api/v1/admin/ips/{address}");
        let answer = self.request(Method::DELETE, &path).send().await?;
        ok(&path, answer).await?;
        Ok(())
    }

    /// The whole queue.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn queue(&self) -> Result<Vec<Ip>> {
        self.get("/api/v1/admin/ips").await
    }

    /// How many events of a type there are, of the latest.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn events_of(&self, event_type: &str) -> Result<usize> {
        let path = format!("/api/v1/admin/events?type={event_type}");
        Ok(self.get::<Vec<Value>>(&path).await?.len())
    }

    /// How far the scan is.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn scan_status(&self) -> Result<ScanStatus> {
        self.get("/api/v1/admin/ips/scan").await
    }

    /// Begins a scan, or joins one.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn scan(&self) -> Result<ScanStatus> {
        let answer = self.post("/api/v1/admin/ips/scan", &()).await?;
        Ok(answer.json().await?)
    }

    /// Scans, or only counts, and waits for the end.
    ///
    /// # Errors
    ///
    /// When control-api does not answer, or the scan fails.
    pub(crate) async fn scan_to_the_end(&self, dry_run: bool) -> Result<Scanned> {
        let path = format!("/api/v1/admin/ips/scan?wait=true&dry_run={dry_run}");
        Ok(self.post(&path, &()).await?.json().await?)
    }

    /// The auto-cycle.
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn auto_cycle(&self) -> Result<AutoCycle> {
        self.get("/api/v1/admin/auto-cycle").await
    }

    /// Turns the auto-cycle on (`start`) or off (`stop`).
    ///
    /// # Errors
    ///
    /// When control-api does not answer.
    pub(crate) async fn auto_cycle_turn(&self, verb: &str) -> Result<AutoCycle> {
        let path = format!("/api/v1/admin/auto-cycle/{verb}");
        Ok(self.post(&path, &()).await?.json().await?)
    }

    /// An address with its results and its history.
    ///
    /// # Errors
    ///
    /// When control-api does not answer or knows no such address.
    pub(crate) async fn details(&self, address: &str) -> Result<IpDetails> {
        self.get(&format!("/api/v1/admin/ips/{address}")).await
    }
}

async fn ok(path: &str, answer: Response) -> Result<Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.text().await.context("an answer without a body")?;
    bail!("control-api answered {status} to {path}: {text}");
}
