//! One request over one fresh connection: resolve, connect, handshake, exchange, read the body up
//! to its bound. Follows nothing, judges no status.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, LOCATION, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::first_byte::FirstByte;
use super::{h2, kind_of};
use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Trail};
use crate::target::{Kind, Target};
use crate::tls::{Certificate, Client, Session};
use crate::trust::Trust;
use crate::{PRODUCT, VERSION};

/// Longest answer head, in bytes; hyper refuses longer ones.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What to ask, and how.
pub(super) struct Request<'a> {
    pub(super) url: &'a Url,
    pub(super) reach: Reach<'a>,
    /// Most bytes of body that are read.
    pub(super) body_max: usize,
    /// The certificate is recorded, not judged.
    pub(super) insecure: bool,
    pub(super) trust: &'a Trust,
}

/// What came back.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// There was more body than was read.
    pub(super) cut: bool,
    /// From the request to the first byte back.
    pub(super) first_byte: Duration,
    /// Who answered.
    pub(super) peer: SocketAddr,
    /// The same as text, and over what.
    pub(super) facts: String,
}

impl Page {
    /// Keeps `data` up to `body_max` bytes in all; `false` if there was more.
    pub(super) fn take(&mut self, data: &[u8], body_max: usize) -> bool {
        let room = body_max.saturating_sub(self.body.len());
        self.body
            .extend_from_slice(data.get(..room).unwrap_or(data));
        self.cut = data.len() > room;
        !self.cut
    }

    /// Where a redirect leads, if the answer is one (RFC 9110 §15.4).
    pub(super) fn location(&self) -> Option<&str> {
        let redirects = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = self.headers.get(LOCATION).filter(|_| redirects)?;
        location.to_str().ok()
    }
}

impl Request<'_> {
    pub(super) async fn send(&self, budget: &Budget, trail: &mut Trail) -> Result<Page, Fault> {
        let kind = kind_of(self.url).unwrap_or(Kind::Http);
        let target = Target::parse(kind, self.url.as_str())
            .map_err(|e| Fault::new(Code::NotHttp, e.to_string()))?;
        let resolved = net::resolve(&target, self.reach, budget.end(), trail).await?;
        let connected = net::connect(&resolved, self.reach, budget.connect_end(), trail).await?;
        let facts = connected.facts(&resolved);
        let result = match kind {
            Kind::Https => {
                let certificate = if self.insecure {
                    Certificate::Recorded
                } else {
                    Certificate::Judged
                };
                let alpn = vec![b"h2".into(), b"http/1.1".into()];
                let client = Client::new(self.trust, certificate, alpn);
                let session = client
                    .handshake(connected.stream, &target, budget.end(), trail)
                    .await;
                let session = session.map_err(|fault| fault.context(&facts))?;
                let facts = format!("{facts} {}", session.facts());
                let page = self.over_tls(session, connected.peer, budget.end()).await;
                page.map(|page| (page, facts))
            }
            _ => self
                .exchange(connected.stream, connected.peer, budget.end())
                .await
                .map(|page| (page, facts)),
        };
        let (mut page, facts) =
            result.map_err(|fault| fault.context(&connected.peer.to_string()))?;
        page.facts = facts;
        trail.phases().first_byte = Some(page.first_byte);
        Ok(page)
    }

    /// Over the version of HTTP that the server chose.
    async fn over_tls(
        &self,
        session: Session,
        peer: SocketAddr,
        end: Instant,
    ) -> Result<Page, Fault> {
        if !session.speaks(b"h2") {
            return self.exchange(session.stream, peer, end).await;
        }
        let request = hyper::Request::get(self.url.as_str())
            .header(USER_AGENT, format!("{PRODUCT}/{VERSION}"))
            .header(ACCEPT, "*/*")
            .body(());
        let request = request.map_err(|e| self.unsendable(&e))?;
        h2::exchange(request, session.stream, peer, self.body_max, end).await
    }

    /// Sends the request and reads the answer; the connection closes with the return.
    pub(super) async fn exchange<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        end: Instant,
    ) -> Result<Page, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = self.message()?;
        let first_byte = Arc::new(OnceLock::new());
        let stream = TokioIo::new(FirstByte::new(stream, Arc::clone(&first_byte)));
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(stream)
            .await;
        let (mut sender, connection) = handshake.map_err(|e| hyper_fault(&e))?;
        let begin = Instant::now();
        let talk = async {
            let response = sender.send_request(request).await?;
            read(response, peer, self.body_max).await
        };
        // Both are driven by this task: nothing is left behind when the check is dropped.
        let drive = async {
            tokio::pin!(talk, connection);
            tokio::select! {
                biased;
                done = &mut talk => done,
                closed = &mut connection => match talk.await {
                    // What broke the connection says more than that it is gone.
                    Err(e) => Err(closed.err().unwrap_or(e)),
                    done => done,
                },
            }
        };
        let result = timeout_at(end, Box::pin(drive)).await;
        let latency = first_byte
            .get()
            .map(|at| at.saturating_duration_since(begin));
        match result {
            Ok(Ok(mut page)) => {
                page.first_byte = latency.unwrap_or_default();
                Ok(page)
            }
            Ok(Err(e)) => Err(Fault {
                latency,
                ..hyper_fault(&e)
            }),
            Err(_elapsed) => Err(no_answer(latency, begin)),
        }
    }

    fn message(&self) -> Result<hyper::Request<Empty<Bytes>>, Fault> {
        let host = self.url.host_str().unwrap_or_default();
        let host = match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let query = self
            .url
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        hyper::Request::get(format!("{}{query}", self.url.path()))
            .header(HOST, host)
            .header(USER_AGENT, format!("{PRODUCT}/{VERSION}"))
            .header(ACCEPT, "*/*")
            .header(CONNECTION, "close")
            .body(Empty::new())
            .map_err(|e| self.unsendable(&e))
    }

    fn unsendable(&self, e: &dyn Error) -> Fault {
        Fault::new(Code::Internal, format!("request for {}: {e}", self.url))
    }
}

/// The time is up before the answer is complete.
pub(super) fn no_answer(latency: Option<Duration>, begin: Instant) -> Fault {
    let seen = if latency.is_some() {
        "the answer is not complete"
    } else {
        "no answer"
    };
    let facts = format!("{seen} {:?} after the request", begin.elapsed());
    Fault {
        latency,
        ..Fault::new(Code::TimeoutRead, facts)
    }
}

/// Reads the body up to its bound; first byte and facts are the caller's to fill in.
async fn read(
    response: Response<Incoming>,
    peer: SocketAddr,
    body_max: usize,
) -> Result<Page, hyper::Error> {
    let (head, mut incoming) = response.into_parts();
    let sized =
        head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING);
    let mut page = Page {
        status: head.status,
        headers: head.headers,
        body: Vec::new(),
        cut: false,
        first_byte: Duration::ZERO,
        peer,
        facts: String::new(),
    };
    while let Some(frame) = incoming.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            // A body that lasts until the end of the connection has no end to miss: many servers
            // leave the TLS close_notify out, which counts as an error only where length matters.
            Err(e) if !sized && is_end(&e) => break,
            Err(e) => return Err(e),
        };
        let Ok(data) = frame.into_data() else {
            continue; // Trailers.
        };
        if !page.take(&data, body_max) {
            break;
        }
    }
    Ok(page)
}

/// Is it the end of the connection without a `close_notify`?
fn is_end(e: &hyper::Error) -> bool {
    let io = e
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    io.is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof)
}

/// Does hyper say by it that the chunks of a body make no sense? The kernel's errors have a number,
/// and those of TLS hold one of rustls.
fn is_nonsense(e: &io::Error) -> bool {
    let kind = matches!(
        e.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
    );
    let is_tls = e.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    kind && e.raw_os_error().is_none() && !is_tls
}

/// What a failed exchange means.
fn hyper_fault(e: &hyper::Error) -> Fault {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            if is_nonsense(io) {
                return Fault::new(Code::NotHttp, format!("HTTP exchange: {text}"));
            }
            return net::io_fault(io, "HTTP exchange");
        }
        source = inner.source();
    }
    let code = if e.is_parse() || e.is_parse_too_large() || e.is_parse_status() {
        Code::NotHttp
    } else {
        Code::ClosedEarly
    };
    Fault::new(code, format!("HTTP exchange: {text}"))
}
