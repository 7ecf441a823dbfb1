//! Limits of time and number: how long a request may take, how many a client may make.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Web;
use super::error::ApiError;
use super::{poll, scan};

/// Requests a second that one client may make to open methods.
#[derive(Debug)]
pub struct OpenLimit(Option<DefaultKeyedRateLimiter<IpAddr>>);

impl OpenLimit {
    /// `0`: no limit.
    #[must_use]
    pub fn per_second(n: u32) -> Self {
        Self(NonZeroU32::new(n).map(|n| RateLimiter::keyed(Quota::per_second(n))))
    }

    fn admits(&self, client: IpAddr) -> bool {
        self.0
            .as_ref()
            .is_none_or(|limit| limit.check_key(&client).is_ok())
    }

    /// Forgets clients that were not seen for a while, so that memory stays bounded.
    pub fn forget_idle(&self) {
        if let Some(limit) = &self.0 {
            limit.retain_recent();
        }
    }
}

/// Holds one client to its number of requests a second.
pub(super) async fn per_client(
    State(web): State<Web>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let client = web.proxies.client(peer.ip(), request.headers());
    if web.open_limit.admits(client) {
        return next.run(request).await;
    }
    let text = "too many requests of one client: see server.open_requests_per_second";
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, text)
        .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
        .into_response()
}

/// Holds a request to its time: reading it and preparing its answer. The time that it asks to
/// wait for news is on top; whoever waits for a scan waits for its end.
pub(super) async fn in_time(State(web): State<Web>, request: Request, next: Next) -> Response {
    if scan::waits_for_its_end(&request) {
        return next.run(request).await;
    }
    let wait = poll::asked_wait(request.uri().query()).unwrap_or(Duration::ZERO);
    match tokio::time::timeout(web.request_timeout + wait, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => {
            let text = format!(
                "the request took longer than {} s: try again",
                web.request_timeout.as_secs()
            );
            ApiError::unavailable(text).into_response()
        }
    }
}
