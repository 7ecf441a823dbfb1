//! Requests whose end is a matter of opinion: a proxy in front and control-api must never see
//! different requests in the same bytes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ground::{Ground, Service};

/// All that is answered to these bytes until the connection is closed.
async fn answers(service: &Service, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.client.addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut all = Vec::new();
    let read = stream.read_to_end(&mut all);
    let closed = tokio::time::timeout(std::time::Duration::from_secs(10), read).await;
    assert!(closed.is_ok(), "still open: {}", bytes.escape_ascii());
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let service = Ground::new("").start().await;
    // What a second reader would take for a request of its own.
    let hidden = "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n";
    let post = "POST /api/v1/agents/register HTTP/1.1\r\nhost: h\r\n";
    for (head, body) in [
        ("content-length: 4\r\ncontent-length: 5\r\n", "abcde"),
        ("content-length: 4, 5\r\n", "abcde"),
        ("content-length: +5\r\n", "abcde"),
        ("content-length: 0x5\r\n", "abcde"),
        ("content-length: -1\r\n", ""),
        ("content-length: 99999999999999999999\r\n", "abc"),
        ("content-length : 5\r\n", "abcde"),
        ("transfer-encoding: xchunked\r\n", "0\r\n\r\n"),
        ("transfer-encoding: chunked, identity\r\n", "0\r\n\r\n"),
        (
            "transfer-encoding: chunked\r\n",
            "fffffffffffffffff\r\nabc\r\n",
        ),
        ("transfer-encoding: chunked\r\n", "-1\r\nabc\r\n"),
        (
            "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
            "0\r\n\r\n",
        ),
        ("x: a\0b\r\n", ""),
        ("x: a\rb\r\n", ""),
        (" folded: y\r\n", ""),
    ] {
        let told = answers(
            &service,
            format!("{post}{head}\r\n{body}{hidden}").as_bytes(),
        )
        .await;
        assert!(told.matches("HTTP/1.1 ").count() <= 1, "{head:?}: {told}");
        assert!(
            told.is_empty() || told.starts_with("HTTP/1.1 4"),
            "{head:?}: {told}"
        );
    }
    service.end().await;
}
