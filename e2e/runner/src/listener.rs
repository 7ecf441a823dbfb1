//! Owns a receiver of control-api's notifications: it keeps what comes. Judges nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A notification, as far as it is looked at.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Notification {
    /// The event's.
    pub(crate) id: i64,
    /// The event's.
    pub(crate) event_type: String,
    /// The event's.
    pub(crate) payload: String,
}

/// By the event's id: a notification may come twice.
type Kept = Arc<Mutex<BTreeMap<i64, Notification>>>;

/// Listens until it is dropped.
pub(crate) struct Listener {
    address: SocketAddr,
    kept: Kept,
    /// Ends with this value.
    _serving: JoinSet<std::io::Result<()>>,
}

impl Listener {
    /// On a free port of `address`.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub(crate) async fn new(address: impl Into<IpAddr>) -> Result<Self> {
        let socket = TcpListener::bind((address.into(), 0)).await?;
        let address = socket.local_addr()?;
        let kept = Kept::default();
        let router = Router::new()
            .route("/", post(keep))
            .with_state(Arc::clone(&kept));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(socket, router).await });
        Ok(Self {
            address,
            kept,
            _serving: serving,
        })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has come so far, by id.
    pub(crate) fn kept(&self) -> Vec<Notification> {
        lock(&self.kept).values().cloned().collect()
    }
}

fn lock(kept: &Kept) -> MutexGuard<'_, BTreeMap<i64, Notification>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep(State(kept): State<Kept>, Json(notification): Json<Notification>) {
    lock(&kept).insert(notification.id, notification);
}
