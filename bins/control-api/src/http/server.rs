//! Connections: how many, how long for their headers, and how they end.

mod crowd;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use civ_boot::tasks::Tasks;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crowd::{Answering, Crowd, Metered, Seat};
pub(super) use tls::PeerNames;
pub use tls::Tls;

/// Connections at once: each agent and prober holds two or three, browsers a few.
const CONNECTIONS_MAX: usize = 4_096;

/// What unfinished requests of all connections may take in memory, in bytes.
const UNFINISHED_BYTES_MAX: usize = 32 * 1_024 * 1_024;

/// How long a client may take to send its headers, or to ask again on a kept connection.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// How long a client may take for its TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Bytes of a request's line and headers.
const HEADER_BYTES_MAX: usize = 64 * 1_024;

/// Pause after `accept` failed, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection may go on after the shutdown has begun: requests under way are answered
/// in far less, and whoever has not finished asking by then does not hold up the end.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Serves until the shutdown; requests under way are answered first.
pub async fn serve(listener: TcpListener, tls: Option<Arc<Tls>>, router: Router, tasks: Tasks) {
    let shutdown = tasks.shutdown().clone();
    let crowd = Arc::new(Crowd::new(CONNECTIONS_MAX, UNFINISHED_BYTES_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(seat) = crowd.enter(peer.ip()) else {
                    // Everybody is being served, and nobody holds more than a few connections.
                    continue;
                };
                let connection = Connection {
                    peer,
                    names: None,
                    router: router.clone(),
                    shutdown: shutdown.clone(),
                    seat: Arc::new(seat),
                };
                tasks.spawn("connection", connection.open(stream, tls.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Mostly for want of descriptors: whoever has been silent longest has one.
                crowd.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Connection {
    peer: SocketAddr,
    /// Of the client's certificate, if it showed one.
    names: Option<PeerNames>,
    router: Router,
    shutdown: CancellationToken,
    seat: Arc<Seat>,
}

impl Connection {
    async fn open(mut self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        // Small answers, each worth its own packet: waiting for more would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        // Below TLS: what a handshake sends counts, and whoever is silent in it makes room, too.
        let stream = Metered::new(stream, Arc::clone(&self.seat));
        let Some(tls) = tls else {
            return self.answer(stream).await;
        };
        let (peer, closed) = (self.peer, self.seat.closed());
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream)) => shaken,
            () = closed.cancelled() => return,
            () = self.shutdown.cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                self.names = chain.and_then(<[_]>::first).map(PeerNames::of);
                self.answer(stream).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_late) => tracing::debug!(%peer, "a TLS handshake took too long"),
        }
    }

    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Self {
            peer,
            names,
            router,
            shutdown,
            seat,
        } = self;
        let closed = seat.closed();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(names) = &names {
                request.extensions_mut().insert(names.clone());
            }
            let (router, served) = (router.clone(), Seat::serve(&seat));
            async move {
                let answered = router.oneshot(request).await;
                answered
                    .map(|response| response.map(|body| Answering::new(body, served)))
                    .map_err(|never: Infallible| never)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = closed.cancelled() => {
                tracing::debug!(%peer, "a connection made room for others");
                return;
            }
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let Ok(ended) = tokio::time::timeout(CLOSE_TIME, connection).await else {
                    tracing::debug!(%peer, "a connection was cut off by the shutdown");
                    return;
                };
                ended
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    }
}
