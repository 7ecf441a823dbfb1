//! A small control-api for tests of the link and of the two binaries that use it.
//!
//! It keeps what tests set (assignments, refusals) and what callers sent over a kill and a new
//! start on the same port, as the real one does with its database. It judges nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Nothing in these tests takes longer unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) token: Option<String>,
    pub(crate) if_none_match: Option<String>,
}

/// A prepared answer to the next request whose path ends as `method` says.
#[derive(Debug)]
struct Refusal {
    method: &'static str,
    status: u16,
    retry_after: Option<u64>,
    body: Value,
}

#[derive(Debug, Default)]
struct World {
    /// Path of the polled method, and what is assigned there; an agent's list has one or none.
    assigned: Vec<(String, Vec<Value>)>,
    refusals: VecDeque<Refusal>,
    calls: Vec<Call>,
    is_old: bool,
    poll_interval_seconds: u32,
}

/// Shared by the test and the server.
#[derive(Debug, Clone)]
pub(crate) struct StandIn {
    world: Arc<Mutex<World>>,
    /// Grows with everything that happens; long polls and tests wait on it.
    ticks: watch::Sender<u64>,
    addr: SocketAddr,
    runtime: Arc<Mutex<Option<Runtime>>>,
}

impl StandIn {
    /// Starts on a free port of loopback; advises a poll interval of one second.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let world = World {
            poll_interval_seconds: 1,
            ..World::default()
        };
        let stand_in = Self {
            world: Arc::new(Mutex::new(world)),
            ticks: watch::Sender::new(0),
            addr,
            runtime: Arc::default(),
        };
        stand_in.start_again().await;
        stand_in
    }

    /// Listens (again) on the same port, with the same memory.
    pub(crate) async fn start_again(&self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let app = Router::new().fallback(answer).with_state(self.clone());
        let addr = self.addr;
        let (listening, is_listening) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind(addr).await.unwrap();
            listening.send(()).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        is_listening.await.unwrap();
        *self.runtime.lock().unwrap() = Some(runtime);
    }

    /// Dies with all its connections, as by SIGKILL.
    pub(crate) async fn kill(&self) {
        let runtime = self.runtime.lock().unwrap().take().unwrap();
        let end = move || runtime.shutdown_timeout(Duration::from_secs(5));
        tokio::task::spawn_blocking(end).await.unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Behaves like a server that knows neither `wait` nor entity tags.
    pub(crate) fn be_old(&self) {
        self.change(|world| world.is_old = true);
    }

    pub(crate) fn advise_poll_interval(&self, seconds: u32) {
        self.change(|world| world.poll_interval_seconds = seconds);
    }

    /// What the agent or prober at `path` (`agents/v-1`, `probers/s-1`) is to do.
    pub(crate) fn assign(&self, path: &str, list: Vec<Value>) {
        let path = format!("/api/v1/{path}/");
        self.change(|world| {
            world.assigned.retain(|(of, _)| *of != path);
            world.assigned.push((path, list));
        });
    }

    /// The next request to `method` is answered so.
    pub(crate) fn refuse(&self, method: &'static str, status: u16, retry_after: Option<u64>) {
        let body = json!({"error": "as the test wants it"});
        self.answer_once(method, status, retry_after, body);
    }

    pub(crate) fn answer_once(
        &self,
        method: &'static str,
        status: u16,
        retry_after: Option<u64>,
        body: Value,
    ) {
        let refusal = Refusal {
            method,
            status,
            retry_after,
            body,
        };
        self.change(|world| world.refusals.push_back(refusal));
    }

    /// Prepared answers that nobody has got yet.
    pub(crate) fn refusals_left(&self) -> usize {
        self.world.lock().unwrap().refusals.len()
    }

    /// All requests to `method` that were not refused, in order of arrival.
    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        let suffix = format!("/{method}");
        let world = self.world.lock().unwrap();
        world
            .calls
            .iter()
            .filter(|call| call.path.ends_with(&suffix))
            .cloned()
            .collect()
    }

    /// All methods that were called and not refused, in order of arrival, less those named.
    pub(crate) fn methods_but(&self, left_out: &[&str]) -> Vec<String> {
        let world = self.world.lock().unwrap();
        let methods = world
            .calls
            .iter()
            .filter_map(|call| call.path.rsplit('/').next());
        methods
            .filter(|method| !left_out.contains(method))
            .map(str::to_owned)
            .collect()
    }

    /// All rows of all `results`, in order of arrival.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let batches = self.calls("results").into_iter();
        batches
            .flat_map(|call| call.body["results"].as_array().unwrap().clone())
            .collect()
    }

    /// Waits for a level: a state of the world that stays once it is reached.
    pub(crate) async fn until(&self, what: &str, is_reached: impl Fn(&Self) -> bool) {
        let mut ticks = self.ticks.subscribe();
        let waiting = async {
            while !is_reached(self) {
                ticks.changed().await.unwrap();
            }
        };
        let reached = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(
            reached.is_ok(),
            "{what}: not reached; calls: {}",
            self.story()
        );
    }

    /// What was called so far, one line each.
    fn story(&self) -> String {
        let world = self.world.lock().unwrap();
        let line = |call: &Call| format!("\n{} {}", call.path, call.body);
        world.calls.iter().map(line).collect()
    }

    fn change<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let result = f(&mut self.world.lock().unwrap());
        self.ticks.send_modify(|n| *n += 1);
        result
    }

    /// The polled answer at this moment, with its tag.
    fn polled(&self, path: &str) -> (StatusCode, String) {
        let world = self.world.lock().unwrap();
        let list = world
            .assigned
            .iter()
            .find(|(of, _)| path.starts_with(of.as_str()));
        let list = list.map(|(_, list)| list.clone()).unwrap_or_default();
        if path.ends_with("/assignments") {
            return (StatusCode::OK, Value::Array(list).to_string());
        }
        match list.first() {
            Some(one) => (StatusCode::OK, one.to_string()),
            None => (StatusCode::NO_CONTENT, String::new()),
        }
    }

    /// Holds a poll until there is something else to say than the caller has seen.
    async fn poll(&self, path: &str, seen: Option<&str>) -> Response {
        let mut ticks = self.ticks.subscribe();
        let is_old = self.world.lock().unwrap().is_old;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let (status, body) = self.polled(path);
            let tag = format!("\"{body}\"").replace('"', "'");
            let tag = format!("\"{tag}\"");
            let is_news = match seen {
                Some(seen) => seen != tag,
                None => status == StatusCode::OK && body != "[]",
            };
            if is_old {
                return (status, body).into_response();
            }
            if is_news
                || tokio::time::timeout_at(deadline, ticks.changed())
                    .await
                    .is_err()
            {
                return match status {
                    StatusCode::OK => ([(header::ETAG, tag)], body).into_response(),
                    status => status.into_response(),
                };
            }
        }
    }
}

async fn answer(
    State(stand_in): State<StandIn>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    let call = Call {
        path: uri.path().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        token: text(header::AUTHORIZATION),
        if_none_match: text(header::IF_NONE_MATCH),
    };
    let (path, seen) = (call.path.clone(), call.if_none_match.clone());
    if let Some(refused) = stand_in.change(|world| refusal_or_note(world, call)) {
        return refused;
    }
    if method == Method::GET {
        return stand_in.poll(&path, seen.as_deref()).await;
    }
    let seconds = stand_in.world.lock().unwrap().poll_interval_seconds;
    json!({"ok": true, "poll_interval_seconds": seconds})
        .to_string()
        .into_response()
}

fn refusal_or_note(world: &mut World, call: Call) -> Option<Response> {
    let matches = |r: &Refusal| call.path.ends_with(&format!("/{}", r.method));
    let Some(at) = world.refusals.iter().position(matches) else {
        world.calls.push(call);
        return None;
    };
    let refusal = world.refusals.remove(at)?;
    let status = StatusCode::from_u16(refusal.status).unwrap();
    let mut response = (status, refusal.body.to_string()).into_response();
    if let Some(seconds) = refusal.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    if status.is_success() {
        world.calls.push(call);
    }
    Some(response)
}
