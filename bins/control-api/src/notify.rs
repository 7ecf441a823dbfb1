//! Tells receivers of events: takes what waits in the outbox, signs it, sends it.
//!
//! One task a receiver, one request at a time: order is kept, and a slow receiver delays nobody
//! else. At least once: what was delivered is delivered again if the process ends before it is
//! noted. Nothing but the pauses is kept in memory.

mod message;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use civ_boot::{Context, Refused};
use civ_store::notifications;
use secrecy::ExposeSecret as _;

use crate::app::App;
use crate::config::Receiver;
use message::Key;
use sender::Sender;

/// Notifications that may wait for one receiver: a day of a large cloud, some 100 MB at most and
/// 50 MB as a rule.
const ROWS_MAX: u32 = 100_000;

/// A connect that takes longer has met a dead host.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Idle connections younger than this are used again.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Shortest key that passes without a warning, in bytes.
const KEY_BYTES_MIN: usize = 16;

/// A receiver with its key.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    receiver: Receiver,
    key: Key,
}

/// Reads the keys; called once, at start.
///
/// # Errors
/// A key that cannot be read or is empty: nothing is ever sent unsigned.
pub(crate) fn keys(receivers: &[Receiver], context: &Context) -> anyhow::Result<Vec<Keyed>> {
    let keyed = |receiver: &Receiver| -> anyhow::Result<Keyed> {
        let source = &receiver.secret;
        let secret = source.read(context.environment.as_ref());
        let secret = secret.map_err(Refused::new)?.ok_or_else(|| {
            let (place, name) = (source.place(), &receiver.name);
            Refused::new(format!(
                "{place} is empty: it must hold the key that signs what {name} is sent"
            ))
        })?;
        if secret.expose_secret().len() < KEY_BYTES_MIN {
            let place = source.place();
            tracing::warn!(
                "{place} holds a key shorter than {KEY_BYTES_MIN} bytes: signatures can be forged"
            );
        }
        Ok(Keyed {
            receiver: receiver.clone(),
            key: Key::new(secret.expose_secret().as_bytes()),
        })
    };
    receivers.iter().map(keyed).collect()
}

/// The receivers as the store keeps them.
pub(crate) fn rows(receivers: &[Receiver]) -> Vec<notifications::Receiver> {
    let row = |one: &Receiver| notifications::Receiver {
        name: one.name.clone(),
        events: one.events.clone(),
        rows_max: ROWS_MAX,
    };
    receivers.iter().map(row).collect()
}

/// Tells of receivers that the configuration no longer has, and whose rows are gone.
pub(crate) fn tell_gone(gone: Vec<(String, u64)>) {
    for (receiver, dropped) in gone {
        tracing::warn!(
            receiver,
            dropped,
            "is not among the notifications any more: what waited for it is dropped"
        );
    }
}

/// Starts a task for each receiver.
///
/// # Errors
/// If TLS cannot be set up.
pub(crate) fn start(app: &App, receivers: Vec<Keyed>, context: &Context) -> anyhow::Result<()> {
    if receivers.is_empty() {
        return Ok(());
    }
    let http = client()?;
    for Keyed { receiver, key } in receivers {
        let sender = Sender {
            app: app.clone(),
            http: http.clone(),
            receiver: Arc::new(receiver),
            key,
            shutdown: context.shutdown.clone(),
        };
        context.tasks.spawn_essential("notifier", sender.run());
    }
    Ok(())
}

/// Sends to the address that is configured and nowhere else: no proxy of the environment, no
/// redirect, no silent repetition.
fn client() -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(crate::tls::client(None)?)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(IDLE_MAX)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(concat!("cloud-ip-validator/", env!("CARGO_PKG_VERSION")))
        .build()
        .context("the client for notifications cannot be set up")
}
