//! HTTP to control-api: bounded, and its refusals as sentences.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use civ_boot::chain::Chain;

use super::error::{CtlError, Result};
use super::settings::Settings;

/// A connect that takes longer has met a dead host.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// One request with its answer: clearing a large queue takes a while.
const REQUEST_MAX: Duration = Duration::from_secs(120);

/// The longest answer that is read: a queue of half a million addresses.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How much of a text that is not control-api's is repeated, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// A success: the bytes as they came, and what they say.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) json: Value,
}

/// What was answered, whatever it is.
#[derive(Debug)]
pub(super) enum Reply {
    /// 2xx.
    Done(Answer),
    /// Anything else, as a sentence.
    Refused(StatusCode, CtlError),
}

/// The way to one control-api.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<SecretString>,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(crate::tls::client(settings.ca_file.as_deref())?)
            .connect_timeout(CONNECT_MAX)
            .timeout(REQUEST_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .user_agent(concat!("control-api-ctl/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(CtlError::Http)?;
        Ok(Self {
            http,
            base: settings.url.clone(),
            token: settings.token.clone(),
        })
    }

    /// `/api/v1/admin/…` under the base; segments are percent-encoded.
    pub(super) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Only a URL that cannot be a base has no segments; the settings let none through.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend(["api", "v1", "admin"])
                .extend(segments);
        }
        url
    }

    pub(super) async fn get(&self, segments: &[&str]) -> Result<Answer> {
        self.call(Method::GET, segments, None).await
    }

    /// GET with parameters; those without a value are left out.
    pub(super) async fn list(
        &self,
        segments: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<Answer> {
        let mut url = self.url(segments);
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        done(self.send(Method::GET, url, None).await?)
    }

    /// Any method; a refusal is an error.
    pub(super) async fn call(
        &self,
        method: Method,
        segments: &[&str],
        body: Option<&Value>,
    ) -> Result<Answer> {
        done(self.send(method, self.url(segments), body).await?)
    }

    /// Any method; a refusal comes back with its status.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Reply> {
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| self.away(error))?;
        let status = answer.status();
        let bytes = self.bounded(answer).await?;
        if !status.is_success() {
            return Ok(Reply::Refused(status, self.refusal(status, &bytes)));
        }
        let json = serde_json::from_slice(&bytes).map_err(|_error| self.strange(status))?;
        Ok(Reply::Done(Answer { body: bytes, json }))
    }

    async fn bounded(&self, mut answer: reqwest::Response) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| self.away(error))? {
            if ANSWER_BYTES_MAX < body.len() + part.len() {
                let text =
                    format!("the answer is longer than {ANSWER_BYTES_MAX} bytes: use --limit");
                return Err(CtlError::Refused(text));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    fn away(&self, error: reqwest::Error) -> CtlError {
        let error = error.without_url();
        let why = Chain(&error);
        CtlError::Away(format!(
            "control-api does not answer at {}: {why}: is it running, and is the address right \
             (--url, CIV_URL, or url in ctl.yaml)?",
            self.base
        ))
    }

    fn strange(&self, status: StatusCode) -> CtlError {
        CtlError::Refused(format!(
            "{} answered {status}, but not as control-api does: is the address right?",
            self.base
        ))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> CtlError {
        if status == StatusCode::UNAUTHORIZED {
            let text = match self.token {
                Some(_) => "control-api does not take this token (401): is it the admin token",
                None => "control-api wants the admin token (401): is one given",
            };
            return CtlError::Refused(format!(
                "{text} (--token-file, CONTROL_API_ADMIN_TOKEN, or token_file in ctl.yaml)?"
            ));
        }
        let code = status.as_u16();
        match serde_json::from_slice::<civ_proto::ErrorBody>(body) {
            Ok(said) => CtlError::Refused(format!("{} ({code})", plain(&said.error, usize::MAX))),
            Err(_) if body.is_empty() => self.strange(status),
            Err(_) => {
                let text = plain(&String::from_utf8_lossy(body), TEXT_CHARS_MAX);
                CtlError::Refused(format!("{} answered {status}: {text}", self.base))
            }
        }
    }
}

fn done(reply: Reply) -> Result<Answer> {
    match reply {
        Reply::Done(answer) => Ok(answer),
        Reply::Refused(_, error) => Err(error),
    }
}

/// Without what could steer a terminal.
pub(super) fn plain(text: &str, chars_max: usize) -> String {
    let seen = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(chars_max).map(seen).collect()
}
