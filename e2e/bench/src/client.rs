//! One HTTP client: requests that must succeed, and how long they took.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The token that the measured program is started with.
pub(crate) const TOKEN: &str = "a-token-of-this-bench-alone";

/// A client with its own connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

impl Client {
    pub(crate) fn new(base: &str) -> Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(120))
            .build()
            .context("no HTTP client")?;
        Ok(Self {
            http,
            base: base.to_owned(),
        })
    }

    /// How long an answer took, body included.
    async fn timed(&self, request: reqwest::RequestBuilder) -> Result<(Duration, Vec<u8>)> {
        let begun = Instant::now();
        let response = request.bearer_auth(TOKEN).send().await?;
        let (status, url) = (response.status(), response.url().clone());
        let body = response.bytes().await?;
        let time = begun.elapsed();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            bail!("{url}: {status}: {text}");
        }
        Ok((time, body.to_vec()))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(Duration, Vec<u8>)> {
        self.timed(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    pub(crate) async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (_, body) = self.get(path).await?;
        serde_json::from_slice(&body).with_context(|| format!("{path}: not the expected JSON"))
    }

    pub(crate) async fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Duration> {
        let request = self.http.post(format!("{}{path}", self.base)).json(body);
        Ok(self.timed(request).await?.0)
    }
}
