//! What must hold for HTTP answers, whatever they are: read to their bounds, judged alike however
//! they arrive, done as soon as the server is.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use civ_types::Family;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use url::Url;

use super::request::{Page, Request};
use super::{echoed, h2, judge, kind_of, next_url};
use crate::fuzzing::cuts;
use crate::net::Reach;
use crate::options::Options;
use crate::outcome::{Code, Fault};
use crate::policy::Policy;
use crate::target::Target;
use crate::trust::Trust;

/// Small, so that short inputs go over it, too.
const BODY_MAX: usize = 300;

/// Any certificate: nothing is asked of it.
const ROOT: &[u8] = include_bytes!("../../../../fuzz/seeds/certificate/openssl-rsa");

/// A server that says its bytes in pieces of `step` once it has heard a request, and closes. Not
/// before: what comes ahead of the request is never read as its answer.
struct Script<'a> {
    rest: &'a [u8],
    step: usize,
    is_http2: bool,
    heard: Vec<u8>,
    waiting: Option<Waker>,
}

impl<'a> Script<'a> {
    const fn new(rest: &'a [u8], step: usize, is_http2: bool) -> Self {
        Self {
            rest,
            step,
            is_http2,
            heard: Vec::new(),
            waiting: None,
        }
    }

    /// Has a request arrived? In HTTP/2 that is a frame of headers behind the preface.
    fn is_asked(&self) -> bool {
        if !self.is_http2 {
            return !self.heard.is_empty();
        }
        let mut rest = self.heard.get(24..).unwrap_or_default();
        while let Some(([a, b, c, kind, ..], _)) = rest.split_first_chunk::<9>() {
            if *kind == 1 {
                return true;
            }
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            rest = rest.get(9 + length..).unwrap_or_default();
        }
        false
    }
}

impl AsyncRead for Script<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_asked() {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let length = self.step.min(self.rest.len()).min(buf.remaining());
        let (piece, rest) = self.rest.split_at(length);
        buf.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard.extend_from_slice(buf);
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What is made once for all inputs.
struct Bench {
    runtime: Runtime,
    trust: Trust,
    policy: Policy,
    url: Url,
    peer: SocketAddr,
}

impl Bench {
    fn new() -> Option<Self> {
        Some(Self {
            runtime: Builder::new_current_thread().enable_time().build().ok()?,
            trust: Trust::of(vec![ROOT.to_vec().into()]).ok()?,
            policy: Policy::anywhere(),
            url: Url::parse("http://a.test/x/y?z").ok()?,
            peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)),
        })
    }

    fn ask(&self, stream: Script<'_>, is_http2: bool) -> Result<Page, Fault> {
        let request = Request {
            url: &self.url,
            reach: Reach {
                source: None,
                family: Family::V4,
                policy: &self.policy,
            },
            body_max: BODY_MAX,
            insecure: false,
            trust: &self.trust,
        };
        let said = self.runtime.block_on(async {
            let end = Instant::now() + Duration::from_secs(20);
            if !is_http2 {
                return request.exchange(stream, self.peer, end).await;
            }
            let get = hyper::Request::get(self.url.as_str()).body(());
            let get = get.map_err(|e| Fault::new(Code::Internal, e.to_string()))?;
            h2::exchange(get, stream, self.peer, BODY_MAX, end).await
        });
        if let Err(fault) = &said {
            let ours = fault.code == Code::TimeoutRead || fault.code == Code::Internal;
            assert!(!ours, "the server was done: {} {}", fault.code, fault.facts);
        }
        said
    }

    fn judged(&self, page: &Page) -> Judged {
        assert!(page.body.len() <= BODY_MAX, "{} bytes", page.body.len());
        if let Some(location) = page.location()
            && let Ok(next) = next_url(&self.url, location)
        {
            let kind = kind_of(&next);
            assert!(kind.is_some(), "followed to {next}");
            // What cannot be a target is refused, and is no reason to stop.
            drop(kind.map(|kind| Target::parse(kind, next.as_str())));
        }
        let status = page.status.as_u16();
        match judge(&self.url, page, "", &Options::default()) {
            Ok(_seen) => {
                assert!(status < 400, "{status} passed");
                Ok((status, page.body.len(), page.cut))
            }
            Err(fault) => {
                assert!(status >= 400, "{status} failed: {}", fault.code);
                Err(fault.code)
            }
        }
    }
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = RefCell::new(Bench::new());
}

/// Status, length of the body, whether it was cut; or the code.
type Judged = Result<(u16, usize, bool), Code>;

/// An answer over HTTP/1.1, with its redirect, block page or challenge.
pub fn http1(bytes: &[u8]) {
    let [first, others @ ..] = cuts(bytes);
    let said = judged(bytes, first, false);
    for step in others {
        let again = judged(bytes, step, false);
        assert_eq!(again.map_err(alike), said.map_err(alike), "by {step}");
    }
    if said.is_ok() {
        let is_http = bytes.windows(7).any(|window| window == b"HTTP/1.");
        assert!(is_http, "passed: {said:?}");
    }
}

/// An answer over HTTP/2: frames after the handshake of TLS.
pub fn http2(bytes: &[u8]) {
    for step in cuts(bytes) {
        if judged(bytes, step, true).is_ok() {
            // The shortest: a frame of settings, a frame of headers with one byte.
            assert!(bytes.len() > 18, "from {} bytes", bytes.len());
        }
    }
}

/// hyper reads the rest of a head that came in pieces only when its empty line is there. If the
/// server closes before, a head that is wrong in the middle is a head that is not complete.
fn alike(code: Code) -> Code {
    match code {
        Code::ClosedEarly => Code::NotHttp,
        other => other,
    }
}

fn judged(bytes: &[u8], step: usize, is_http2: bool) -> Judged {
    BENCH.with_borrow(|bench| {
        let bench = bench.as_ref();
        assert!(bench.is_some(), "neither runtime nor trust");
        let bench = bench.ok_or(Code::Internal)?;
        let page = bench.ask(Script::new(bytes, step, is_http2), is_http2);
        page.map_err(|fault| fault.code)
            .and_then(|page| bench.judged(&page))
    })
}

/// The body of an IP-echo service: one address of the family that was asked for, or nothing.
pub fn ip_echo(bytes: &[u8]) {
    let body = String::from_utf8_lossy(bytes);
    let seen = [Family::V4, Family::V6].map(|family| echoed(&body, family));
    assert!(seen.iter().flatten().count() <= 1, "{seen:?}");
    for (ip, is_v4) in seen.into_iter().zip([true, false]) {
        let Some(ip) = ip else { continue };
        assert_eq!(ip.is_ipv4(), is_v4, "{ip}");
        let family = if is_v4 { Family::V4 } else { Family::V6 };
        assert_eq!(echoed(&ip.to_string(), family), Some(ip));
        let object = format!("{{\"ip\":\"{ip}\"}}");
        assert_eq!(echoed(&object, family), Some(ip));
    }
}

#[cfg(test)]
mod tests {
    use super::{BODY_MAX, Code, judged};

    #[test]
    fn what_a_server_says_over_http_1_arrives() {
        let said = |seed: &[u8]| judged(seed, 7, false);
        let page = include_bytes!("../../../../fuzz/seeds/http1/nginx-page");
        assert_eq!(said(page), Ok((200, BODY_MAX, true)));
        let redirect = include_bytes!("../../../../fuzz/seeds/http1/nginx-redirect");
        assert!(matches!(said(redirect), Ok((302, ..))));
        let chunks = include_bytes!("../../../../fuzz/seeds/http1/chunks");
        assert_eq!(said(chunks), Ok((200, BODY_MAX, true)));
        let legal = include_bytes!("../../../../fuzz/seeds/http1/nginx-legal");
        assert_eq!(said(legal), Err(Code::HttpGeoBlocked));
        let blocked = include_bytes!("../../../../fuzz/seeds/http1/blocked");
        assert_eq!(said(blocked), Err(Code::HttpGeoBlocked));
        let challenge = include_bytes!("../../../../fuzz/seeds/http1/challenge");
        assert_eq!(said(challenge), Err(Code::HttpChallenge));
    }

    #[test]
    fn what_a_server_says_over_http_2_arrives() {
        let said = |seed: &[u8]| judged(seed, 7, true);
        let page = include_bytes!("../../../../fuzz/seeds/http2/page");
        assert_eq!(said(page), Ok((200, 5, false)));
        let long = include_bytes!("../../../../fuzz/seeds/http2/long");
        assert_eq!(said(long), Ok((200, BODY_MAX, false)));
        let redirect = include_bytes!("../../../../fuzz/seeds/http2/redirect");
        assert!(matches!(said(redirect), Ok((302, ..))));
    }
}
