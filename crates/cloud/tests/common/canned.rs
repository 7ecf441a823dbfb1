//! A cloud of a few lines whose answers a test makes up: for servers that are not as Neutron is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Status, one more header line (or none), body.
pub(crate) type Reply = (u16, String, Value);

/// Answers to what is asked of Neutron: path and query, from behind the version.
type Script = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

/// A server whose catalog puts Neutron behind the prefix `/networking`.
pub(crate) struct Canned {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicUsize>,
    _server: JoinSet<()>,
}

#[derive(Clone)]
struct Inner {
    url: String,
    script: Script,
    seen: Arc<Mutex<Vec<String>>>,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Canned {
    pub(crate) async fn new(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Inner {
            url: format!("http://{}", listener.local_addr().unwrap()),
            script: Arc::new(script),
            seen: Arc::default(),
            now: Arc::default(),
            most: Arc::default(),
        };
        let (url, seen, most) = (
            inner.url.clone(),
            Arc::clone(&inner.seen),
            Arc::clone(&inner.most),
        );
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, inner.clone()));
            }
        });
        Self {
            url,
            seen,
            most,
            _server: server,
        }
    }

    /// What was asked of Neutron: path and query, from behind the version, and the body.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The most requests that were under way at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, inner: Inner) {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut buffer = [0; 4_096];
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => head.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    // Bodies are small enough to come with the head.
    let sent = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
    inner.most.fetch_max(
        inner.now.fetch_add(1, Ordering::SeqCst) + 1,
        Ordering::SeqCst,
    );
    // Others that are under way together are here before this one is answered.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let (status, header, body) = match target.split_once("/networking/v2.0/") {
        Some((_, asked)) => {
            inner.seen.lock().unwrap().push(format!("{asked}{sent}"));
            (inner.script)(asked)
        }
        None => (201, "X-Subject-Token: t".to_owned(), token(&inner.url)),
    };
    let body = body.to_string();
    let more = if header.is_empty() {
        header
    } else {
        header + "\r\n"
    };
    let answer = format!(
        "HTTP/1.1 {status} X\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    inner.now.fetch_sub(1, Ordering::SeqCst);
    // The client may have gone; that is its business.
    drop(stream.write_all(answer.as_bytes()).await);
}

fn token(url: &str) -> Value {
    let endpoint = json!({"interface": "public", "region": "R", "region_id": "R",
        "url": format!("{url}/networking/v2.0/")});
    json!({"token": {"issued_at": "2026-11-30T16:17:47.000000Z",
        "expires_at": "2026-11-30T17:17:47.000000Z", "project": {"id": "p", "name": "p"},
        "roles": [{"name": "member"}],
        "catalog": [{"type": "network", "name": "neutron", "endpoints": [endpoint]}]}})
}

/// A parameter of what was asked.
pub(crate) fn param<'a>(asked: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = asked.split_once('?')?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .next()
}
