//! The shell over real sockets: what a client sees of each ending, of limits and of idleness.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use async_trait::async_trait;
use civ_simkit::{Asked, Ending, Reply, Service, Shell, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

const BODY: &str = "0123456789";

#[derive(Clone)]
struct Endings;

#[async_trait]
impl Service for Endings {
    async fn call(&self, asked: Asked) -> Ending {
        let reply = Reply::new(200, "text/plain", BODY);
        match asked.path.as_str() {
            "/half" => Ending::Half(reply),
            "/cut" => Ending::Cut,
            "/longer" => Ending::WrongLength { reply, by: 5 },
            "/shorter" => Ending::WrongLength { reply, by: -5 },
            "/drip" => Ending::Drip {
                reply,
                bytes: 3,
                every: Duration::from_millis(1),
            },
            _ => Ending::Whole(reply),
        }
    }
}

struct Served {
    address: std::net::SocketAddr,
    _server: JoinSet<()>,
}

async fn served(idle_close: Option<Duration>) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shell = Shell {
        body_bytes_max: 100,
        idle_close,
        request_id_header: "x-request-id",
        tasks: TaskTracker::new(),
    };
    let mut server = JoinSet::new();
    server.spawn(async move { serve(Endings, shell, listener).await.unwrap() });
    Served {
        address,
        _server: server,
    }
}

impl Served {
    /// What comes back until the server closes, which it is asked to do.
    async fn raw(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }
}

#[tokio::test]
async fn every_ending_is_what_it_says() {
    let served = served(None).await;
    let whole = served.raw("/", "").await;
    assert!(
        whole.starts_with("HTTP/1.1 200") && whole.ends_with(BODY),
        "{whole}"
    );
    assert!(
        whole.contains("x-request-id: req-") && !whole.contains("date:"),
        "{whole}"
    );
    assert_eq!(served.raw("/cut", "").await, "");
    let half = served.raw("/half", "").await;
    assert!(
        half.contains("content-length: 10") && half.ends_with("\r\n01234"),
        "{half}"
    );
    let longer = served.raw("/longer", "").await;
    assert!(
        longer.contains("content-length: 15") && longer.ends_with(BODY),
        "{longer}"
    );
    let shorter = served.raw("/shorter", "").await;
    assert!(
        shorter.contains("content-length: 5") && shorter.ends_with("\r\n01234"),
        "{shorter}"
    );
    assert!(served.raw("/drip", "").await.ends_with(BODY));
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_html() {
    let served = served(None).await;
    let answer = served.raw("/", &"x".repeat(101)).await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("<html>"),
        "{answer}"
    );
    assert!(
        served
            .raw("/", &"x".repeat(100))
            .await
            .starts_with("HTTP/1.1 200")
    );
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let served = served(Some(Duration::from_millis(50))).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(request).await.unwrap();
        let mut answer = [0; 512];
        let n = stream.read(&mut answer).await.unwrap();
        assert!(answer[..n].starts_with(b"HTTP/1.1 200"));
    }
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest));
    closed.await.unwrap().unwrap();
    assert!(rest.is_empty());
}
