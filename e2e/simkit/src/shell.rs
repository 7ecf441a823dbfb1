//! HTTP/1.1: the listener, request ids, limits, idle connections, and how an ending is sent.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response, StatusCode};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::reply::{Asked, Reply};
use crate::wire::Ending;

/// What answers the calls.
#[async_trait]
pub trait Service: Clone + Send + Sync + 'static {
    /// Carries out one call. It goes on to its end even if the client leaves meanwhile, as a real
    /// server does.
    async fn call(&self, asked: Asked) -> Ending;
}

/// How the shell behaves.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Largest body that is read, in bytes; a larger one is answered 413 with HTML.
    pub body_bytes_max: usize,
    /// How long a connection may be idle before it is closed without a word; `None`: for ever.
    pub idle_close: Option<Duration>,
    /// The header that carries a new request id on every answer.
    pub request_id_header: &'static str,
    /// Calls that are being carried out.
    pub tasks: TaskTracker,
}

/// Serves until it is dropped; open connections end with it.
///
/// # Errors
/// If the listener fails for another reason than a client that went away.
pub async fn serve<S: Service>(service: S, shell: Shell, listener: TcpListener) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(service.clone(), shell.clone(), stream));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// What a connection is doing.
#[derive(Debug, Default)]
struct Activity {
    n_calls: AtomicUsize,
    last: std::sync::Mutex<Option<Instant>>,
}

impl Activity {
    fn begins(&self) {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
    }

    fn ends(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.n_calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns once nothing was asked for so long.
    async fn idle_for(&self, limit: Duration) {
        let mut since = Instant::now();
        loop {
            tokio::time::sleep_until(since + limit).await;
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let is_busy = self.n_calls.load(Ordering::Relaxed) > 0;
            since = if is_busy {
                Instant::now()
            } else {
                last.unwrap_or(since)
            };
            if since.elapsed() >= limit {
                return;
            }
        }
    }
}

async fn connection<S: Service>(service: S, shell: Shell, stream: TcpStream) {
    // An answer is written at once, like every server's that is asked over and over.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let activity = Arc::new(Activity::default());
    let answering = service_fn(|request: Request<Incoming>| {
        let (service, shell) = (service.clone(), shell.clone());
        let activity = Arc::clone(&activity);
        async move {
            activity.begins();
            let header = shell.request_id_header;
            let tasks = shell.tasks.clone();
            let ending = tasks.spawn(async move { handle(&service, &shell, request).await });
            let ending = ending.await;
            activity.ends();
            match ending {
                Ok(ending) => {
                    respond(ending, header).ok_or_else(|| io::Error::other("cut by a rule"))
                }
                Err(error) => Err(io::Error::other(error)),
            }
        }
    });
    let mut builder = http1::Builder::new();
    let served = builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), answering);
    let idle = async {
        match shell.idle_close {
            Some(limit) => activity.idle_for(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // Dropped, it is closed.
        () = idle => {}
        ended = served => if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        },
    }
}

async fn handle<S: Service>(service: &S, shell: &Shell, request: Request<Incoming>) -> Ending {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(Body::new(body), shell.body_bytes_max).await else {
        return Ending::Whole(Reply::html(413, "Request Entity Too Large"));
    };
    let asked = Asked::new(parts.method.as_str(), &parts.uri, parts.headers, body);
    service.call(asked).await
}

/// `None`: no answer at all.
fn respond(ending: Ending, request_id_header: &str) -> Option<Response<Body>> {
    let mut wrong_by = 0;
    let (reply, body) = match ending {
        Ending::Cut => return None,
        Ending::Whole(reply) => {
            let body = Body::from(reply.body.clone());
            (reply, body)
        }
        Ending::Half(reply) => {
            let body = broken_off(reply.body.slice(..reply.body.len() / 2));
            (reply, body)
        }
        Ending::Drip {
            reply,
            bytes,
            every,
        } => {
            let body = drip(reply.body.clone(), bytes, every);
            (reply, body)
        }
        Ending::WrongLength { reply, by } => {
            wrong_by = by;
            let body = if by > 0 {
                broken_off(reply.body.clone())
            } else {
                unsized_body(reply.body.clone())
            };
            (reply, body)
        }
    };
    let length = i64::try_from(reply.body.len()).unwrap_or(i64::MAX);
    let mut builder = Response::builder()
        .status(StatusCode::from_u16(reply.status).ok()?)
        .header(request_id_header, format!("req-{}", Uuid::new_v4()));
    if reply.status != 204 {
        builder = builder.header("content-length", length.saturating_add(wrong_by).max(0));
    }
    for (name, value) in reply.headers {
        builder = builder.header(name, value);
    }
    builder.body(body).ok()
}

/// A piece of a body, on its way before the connection breaks off.
fn broken_off(piece: Bytes) -> Body {
    let first = stream::once(std::future::ready(Ok(piece)));
    let broken = stream::once(async {
        // As long as the stream is pending, hyper flushes what it has.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(io::Error::other("cut by a rule"))
    });
    Body::from_stream(first.chain(broken))
}

/// A body whose length the server does not know, so that the header is believed.
fn unsized_body(body: Bytes) -> Body {
    Body::from_stream(stream::once(std::future::ready(Ok::<_, Infallible>(body))))
}

fn drip(body: Bytes, bytes: usize, every: Duration) -> Body {
    Body::from_stream(stream::unfold(body, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(every).await;
        let piece = rest.split_to(bytes.min(rest.len()));
        Some((Ok::<_, Infallible>(piece), rest))
    }))
}
