//! Owns the HTTP proxy that stands between the product and a real service, loses what it is told
//! to lose, and remembers every call. Knows nothing of what the calls mean.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::rest;

/// Neutron itself takes no more.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A call, as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The method.
    pub(crate) method: String,
    /// The path.
    pub(crate) path: String,
    /// The query, without its question mark.
    pub(crate) query: String,
    /// The body; null if it is no JSON.
    pub(crate) body: Value,
    /// `X-Auth-Token`.
    pub(crate) token: String,
    /// What the service answered, if it was asked.
    pub(crate) status: Option<u16>,
}

impl Call {
    /// Whether it would change a binding.
    pub(crate) fn is_write(&self) -> bool {
        self.method == "PUT" && self.path.starts_with("/v2.0/floatingips/")
    }

    /// Whether it would bind to a port.
    pub(crate) fn is_association(&self) -> bool {
        self.is_write() && self.body["floatingip"]["port_id"].is_string()
    }

    /// Whether it would free.
    pub(crate) fn is_release(&self) -> bool {
        self.is_write() && !self.is_association()
    }
}

/// Something that is done in the middle of a call.
pub(crate) type Deed =
    Box<dyn FnOnce(Call) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send>;

/// What becomes of a call that was met.
pub(crate) enum Fault {
    /// Closed without an answer, and never passed on.
    CutBefore,
    /// Passed on, then closed without an answer.
    CutAfter,
    /// Closed at once, and passed on only after this long.
    Late(Duration),
    /// Answered with this and never passed on.
    Answer {
        /// HTTP status.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// Passed on, then answered with this, whatever the service said.
    AnswerAfter(u16),
    /// Something is done, then it is passed on.
    Before(Deed),
    /// Something is done, then it is passed on without its `If-Match`.
    BeforeUnseen(Deed),
    /// It is passed on, then something is done, then the answer goes back.
    After(Deed),
    /// It is passed on, and the JSON of its answer is changed.
    Rewrite(fn(&mut Value)),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").finish_non_exhaustive()
    }
}

/// Which calls a rule meets.
type Meets = Box<dyn Fn(&Call) -> bool + Send>;

struct Rule {
    meets: Meets,
    /// How many matching calls pass before.
    skip: u32,
    fault: Fault,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    calls: Vec<Call>,
    faults: Vec<String>,
}

struct Inner {
    /// Calls being carried out, to their end even if the client goes away meanwhile.
    tasks: TaskTracker,
    upstream: OnceLock<String>,
    http: reqwest::Client,
    state: Mutex<State>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first rule that meets the call, taken out; each meets one call.
    fn meet(&self, call: &Call) -> Option<Fault> {
        let mut state = self.state();
        let mut met = None;
        for (index, rule) in state.rules.iter_mut().enumerate() {
            if (rule.meets)(call) {
                if rule.skip == 0 {
                    met = Some(index);
                    break;
                }
                rule.skip -= 1;
            }
        }
        met.map(|index| state.rules.remove(index).fault)
    }
}

/// A proxy that serves until it is dropped.
pub(crate) struct Proxy {
    /// Where it listens, like `http://127.0.0.1:4000`.
    pub(crate) url: String,
    inner: Arc<Inner>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Listens; calls wait for [`Proxy::lead_to`].
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub(crate) async fn listen() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let inner = Arc::new(Inner {
            tasks: TaskTracker::new(),
            upstream: OnceLock::new(),
            http: rest::client()?,
            state: Mutex::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&inner)));
        Ok(Self {
            url,
            inner,
            _serving: serving,
        })
    }

    /// Says where calls go: scheme, host and port.
    ///
    /// # Errors
    ///
    /// When that was said before.
    pub(crate) fn lead_to(&self, upstream: &str) -> Result<()> {
        let said = self.inner.upstream.set(upstream.to_owned());
        said.ok().context("the proxy leads somewhere already")
    }

    /// What is to become of the next call that `meets` says yes to.
    pub(crate) fn next(&self, meets: impl Fn(&Call) -> bool + Send + 'static, fault: Fault) {
        self.nth(1, meets, fault);
    }

    /// The same for the `nth` such call from now, counted from 1.
    pub(crate) fn nth(
        &self,
        nth: u32,
        meets: impl Fn(&Call) -> bool + Send + 'static,
        fault: Fault,
    ) {
        let (meets, skip): (Meets, u32) = (Box::new(meets), nth.saturating_sub(1));
        self.inner.state().rules.push(Rule { meets, skip, fault });
    }

    /// All calls since the last [`Proxy::forget`].
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner.state().calls.clone()
    }

    /// Forgets calls and rules; returns what went wrong in the deeds of rules, and rules that met
    /// nothing.
    pub(crate) fn forget(&self) -> Vec<String> {
        let state = std::mem::take(&mut *self.inner.state());
        let mut faults = state.faults;
        if !state.rules.is_empty() {
            faults.push(format!("{} rules met no call", state.rules.len()));
        }
        faults
    }
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, Arc::clone(&inner)));
                }
                // A client that went away while it was accepted.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, inner: Arc<Inner>) {
    let service = service_fn(|request: Request<Incoming>| {
        let inner = Arc::clone(&inner);
        async move {
            let tasks = inner.tasks.clone();
            let handled = tasks.spawn(async move { handle(&inner, request).await });
            match handled.await {
                Ok(Some(response)) => Ok(response),
                Ok(None) | Err(_) => Err(io::Error::other("cut")),
            }
        }
    });
    // An error is a connection that was cut, on purpose or by its client.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

/// What is passed on.
struct Parts {
    method: reqwest::Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

/// `None` closes the connection without an answer.
async fn handle(inner: &Arc<Inner>, request: Request<Incoming>) -> Option<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.ok()?;
    let target = head.uri.path_and_query()?.to_string();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut call = Call {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        token: header("x-auth-token").unwrap_or_default().to_owned(),
        status: None,
    };
    let parts = Parts {
        method: head.method,
        target,
        headers: head.headers,
        body,
    };
    let fault = inner.meet(&call);
    let answer = through(inner, &mut call, parts, fault).await;
    inner.state().calls.push(call);
    answer
}

async fn through(
    inner: &Arc<Inner>,
    call: &mut Call,
    mut parts: Parts,
    fault: Option<Fault>,
) -> Option<Response<Body>> {
    match fault {
        None => pass_on(inner, call, parts).await,
        Some(Fault::CutBefore) => None,
        Some(Fault::CutAfter) => {
            pass_on(inner, call, parts).await;
            None
        }
        Some(Fault::Late(delay)) => {
            let (later, mut call) = (Arc::clone(inner), call.clone());
            inner.tasks.spawn(async move {
                tokio::time::sleep(delay).await;
                pass_on(&later, &mut call, parts).await
            });
            None
        }
        Some(Fault::Answer {
            status,
            retry_after,
        }) => made_up(status, retry_after),
        Some(Fault::AnswerAfter(status)) => {
            pass_on(inner, call, parts).await;
            made_up(status, None)
        }
        Some(Fault::Before(deed)) => {
            do_it(inner, deed, call).await;
            pass_on(inner, call, parts).await
        }
        Some(Fault::BeforeUnseen(deed)) => {
            do_it(inner, deed, call).await;
            parts.headers.remove("if-match");
            pass_on(inner, call, parts).await
        }
        Some(Fault::After(deed)) => {
            let answer = pass_on(inner, call, parts).await;
            do_it(inner, deed, call).await;
            answer
        }
        Some(Fault::Rewrite(change)) => rewrite(pass_on(inner, call, parts).await?, change).await,
    }
}

async fn rewrite(answer: Response<Body>, change: fn(&mut Value)) -> Option<Response<Body>> {
    let (head, body) = answer.into_parts();
    let bytes = to_bytes(body, BODY_BYTES_MAX).await.ok()?;
    let mut json = serde_json::from_slice(&bytes).ok()?;
    change(&mut json);
    Some(Response::from_parts(head, Body::from(json.to_string())))
}

async fn do_it(inner: &Inner, deed: Deed, call: &Call) {
    if let Err(error) = deed(call.clone()).await {
        inner.state().faults.push(format!("{error:#}"));
    }
}

fn made_up(status: u16, retry_after: Option<u64>) -> Option<Response<Body>> {
    let mut response = Response::new(Body::from("<html>made up by the proxy</html>"));
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    Some(response)
}

/// `Host` goes along unchanged, so that links to further pages lead back here.
async fn pass_on(inner: &Inner, call: &mut Call, parts: Parts) -> Option<Response<Body>> {
    let url = format!("{}{}", inner.upstream.get()?, parts.target);
    let mut headers = parts.headers;
    for own in ["connection", "content-length", "transfer-encoding"] {
        headers.remove(own);
    }
    let request = inner.http.request(parts.method, url).headers(headers);
    let answer = request.body(parts.body).send().await.ok()?;
    call.status = Some(answer.status().as_u16());
    let (status, headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.bytes().await.ok()?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    for (name, value) in &headers {
        if !["connection", "content-length", "transfer-encoding"].contains(&name.as_str()) {
            response.headers_mut().append(name, value.clone());
        }
    }
    Some(response)
}
