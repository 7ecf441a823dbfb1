//! Connections: how many, how long for their headers, and how they end.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Connections at once: each agent and prober holds two or three, browsers a few. More wait in
/// the kernel's backlog.
const CONNECTIONS_MAX: usize = 4_096;

/// How long a client may take to send its headers, or to ask again on a kept connection.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// Bytes of a request's line and headers.
const HEADER_BYTES_MAX: usize = 64 * 1_024;

/// Pause after `accept` failed, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection may go on after the shutdown has begun: requests under way are answered
/// in far less, and whoever has not finished asking by then does not hold up the end.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Serves until the shutdown; requests under way are answered first.
pub async fn serve(listener: TcpListener, router: Router, tasks: Tasks) {
    let shutdown = tasks.shutdown().clone();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = tokio::select! {
            () = shutdown.cancelled() => return,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let serve = connection(stream, peer, router.clone(), shutdown.clone(), permit);
                tasks.spawn("connection", serve);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    shutdown: CancellationToken,
    permit: OwnedSemaphorePermit,
) {
    // Small answers, each worth its own packet: waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let router = router.clone();
        async move {
            router
                .oneshot(request)
                .await
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
    drop(permit);
}
