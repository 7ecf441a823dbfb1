//! control-api in this process, on a socket of its own, with a cloud in memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::fake::FakeCloud;
use civ_control_api::{config, start};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// No condition is waited for longer than this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const YAML: &str = r#"
server: { listen_addr: "127.0.0.1:0" }
validators: [{ validator_id: v1, os_port_id: port-1 }]
sites: [{ site_id: site-1 }]
"#;

/// A running service; ended by [`Service::end`].
pub(crate) struct Service {
    folder: TempDir,
    addr: SocketAddr,
    context: Context,
}

/// Status line and headers, and the body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.next().map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The data of a chunked body (RFC 9112 §7.1), as far as it has come.
fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        let Some((data, next)) = after.split_at_checked(size) else {
            break;
        };
        whole.push_str(data);
        rest = next.strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

impl Service {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("control-api.db");
        let file = folder.path().join("control-api.yaml");
        let text = format!("{YAML}database: {{ path: {} }}\n", database.display());
        std::fs::write(&file, text).unwrap();
        let Ok(loaded) = config::load(&file) else {
            panic!("the settings of the test do not load");
        };
        let shutdown = CancellationToken::new();
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(BTreeMap::new()),
        };
        let cloud = Arc::new(FakeCloud::new());
        let running = start(loaded.settings, &context, cloud).await.unwrap();
        Self {
            folder,
            addr: running.addr,
            context,
        }
    }

    /// Connections that the service holds.
    pub(crate) fn connections(&self) -> usize {
        let running = self.context.tasks.running();
        running
            .iter()
            .find(|(name, _)| *name == "connection")
            .map_or(0, |(_, n)| *n)
    }

    /// Begins the end, without waiting for it.
    pub(crate) fn shut_down(&self) {
        self.context.shutdown.cancel();
    }

    pub(crate) async fn end(self) {
        self.context.shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.context.tasks.ended()).await;
        assert!(ended.is_ok(), "{:?}", self.context.tasks.running());
        drop(self.folder);
    }

    pub(crate) async fn open(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let mut stream = self.open(&request).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        Answer {
            head: head.to_owned(),
            body: if chunked {
                unchunked(body)
            } else {
                body.to_owned()
            },
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn enqueue(&self, entry: &str) {
        let body = format!(r#"{{"addresses":["{entry}"]}}"#);
        let told = self.send("POST", "/api/v1/admin/ips", &body).await;
        assert_eq!(told.status(), 200, "{told:?}");
    }

    /// Lets the agent of `v1` report an event.
    pub(crate) async fn report(&self, event_type: &str) {
        let body = format!(r#"{{"event_type":"{event_type}","payload":"=1+1"}}"#);
        let told = self.send("POST", "/api/v1/agents/v1/events", &body).await;
        assert_eq!(told.status(), 200, "{told:?}");
    }
}

/// Reads until `text` has come; gives what came.
pub(crate) async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = String::new();
    let read = async {
        while !seen.contains(text) {
            let mut bytes = [0; 4_096];
            let n = stream.read(&mut bytes).await.unwrap();
            assert_ne!(n, 0, "ended before {text:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    let done = tokio::time::timeout(PATIENCE, read).await;
    assert!(done.is_ok(), "no {text:?}");
    seen
}
