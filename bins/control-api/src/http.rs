//! The HTTP contract: routes, authentication, bodies, errors. Handlers extract, call one use case
//! and convert; they know neither the database nor the cloud.

mod admin;
mod agents;
mod auth;
mod auto_cycle;
mod body;
mod client;
mod config;
mod docs;
mod document;
mod error;
mod events;
mod export;
mod intake;
mod limits;
mod listing;
mod metrics;
mod path;
mod poll;
mod probers;
mod query;
mod registry;
mod report;
mod router;
mod scan;
mod server;
mod service;
mod view;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::runner::Gate;
pub use crate::tls::TlsError;
pub use auth::{Level, Tokens};
pub use client::Proxies;
pub use error::ApiError;
pub use limits::OpenLimit;
pub use router::{openapi, router};
pub use server::{Tls, serve};

/// What handlers work with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Web {
    /// The use cases.
    pub app: App,
    /// Who may call what.
    pub tokens: Arc<Tokens>,
    /// Why claims pause, for the status page.
    pub gate: Arc<Gate>,
    /// Whose `X-Forwarded-For` counts.
    pub proxies: Arc<Proxies>,
    /// Requests that one client may make to open methods.
    pub open_limit: Arc<OpenLimit>,
    /// Largest body, in bytes.
    pub body_limit: usize,
    /// For reading a request and preparing its answer; the time of `?wait=` is on top.
    pub request_timeout: Duration,
    /// Whether the status page is served.
    pub dashboard: bool,
    /// Ends waits at once.
    pub shutdown: CancellationToken,
}
