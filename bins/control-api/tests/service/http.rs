//! HTTP/1.1 by hand, one connection a request: what goes over the wire is what the test says.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self {
            status: status.parse().unwrap(),
            headers: lines.map(header).collect(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The text of an error, which must have the shape of one and that status.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let body = self.json();
        let object = body.as_object().unwrap();
        assert_eq!(object.len(), 1, "{body}");
        let text = object["error"].as_str().unwrap().to_owned();
        assert!(!text.is_empty() && !text.contains("SELECT"), "{text}");
        text
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) addr: SocketAddr,
}

impl Client {
    pub(crate) const fn new(addr: SocketAddr) -> Self {
        Self { addr }
    }

    pub(crate) async fn connect(self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends these bytes and reads to the end of the connection.
    pub(crate) async fn raw(self, request: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::parse(&answer)
    }

    /// A request with these headers; the body is sent as `curl -d` does.
    pub(crate) async fn send(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            request.push_str(&format!(
                "content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n",
                body.len()
            ));
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        self.raw(request.as_bytes()).await
    }

    pub(crate) async fn json(
        self,
        method: &str,
        path: &str,
        body: Option<Value>,
        token: Option<&str>,
    ) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let body = body.map(|body| body.to_string());
        self.send(method, path, &headers, body.as_deref()).await
    }
}
