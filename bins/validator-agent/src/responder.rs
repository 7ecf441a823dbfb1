//! The responder: answers on the addresses under test with the name of the validator and, while one
//! of its attempts runs, with the attempt's nonce, so that probers can tell it from any other host.
//!
//! Anybody can reach it, so an answer is small and always the same, says nothing of the host, and
//! every connection is bounded in number, time and bytes. It knows nothing of the checks.

mod sockets;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_proto::agent::Assignment;
use civ_proto::{NONCE_HEADER, VALIDATOR_HEADER};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::config::Validator;
pub(crate) use sockets::{Sockets, bind};

/// Connections at once, over all ports; who comes later waits for one to end. At 8 KiB of head each
/// that is 2 MiB.
const CONNECTIONS_MAX: usize = 256;
/// A whole connection, from the handshake to the end of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// Until the head of the request is complete.
const HEAD_TIME: Duration = Duration::from_secs(3);
/// Most bytes of a request's head: the least that hyper takes.
const HEAD_BYTES: usize = 8192;
/// Most headers of a request.
const HEADERS_MAX: usize = 32;
/// After a connection could not be accepted: until descriptors are free again, perhaps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What is answered on one validator's address.
#[derive(Debug)]
pub(crate) struct Plate {
    /// Its address on this host; `None`: it is the only validator of this process.
    address: Option<IpAddr>,
    name: Option<HeaderValue>,
    /// What control-api assigns to it now: the nonce is served as long as it stands there.
    assigned: watch::Receiver<Vec<Assignment>>,
}

impl Plate {
    pub(crate) fn new(validator: &Validator, assigned: watch::Receiver<Vec<Assignment>>) -> Self {
        Self {
            address: validator.bind_address,
            name: HeaderValue::from_bytes(validator.validator_id.as_str().as_bytes()).ok(),
            assigned,
        }
    }

    fn nonce(&self) -> Option<HeaderValue> {
        let assigned = self.assigned.borrow();
        let nonce = assigned.first()?.nonce.as_ref()?;
        HeaderValue::from_str(&nonce.0).ok()
    }
}

/// The plate of the address that was reached.
fn plate(plates: &[Plate], local: IpAddr) -> Option<&Plate> {
    let own = plates.iter().find(|plate| plate.address == Some(local));
    own.or_else(|| plates.iter().find(|plate| plate.address.is_none()))
}

/// The one answer there is: 200 with the nonce while an attempt runs, else 404.
fn answer(plate: Option<&Plate>) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NOT_FOUND;
    let Some(plate) = plate else {
        return response;
    };
    let nonce = plate.nonce();
    if nonce.is_some() {
        *response.status_mut() = StatusCode::OK;
    }
    for (header, value) in [
        (VALIDATOR_HEADER, plate.name.clone()),
        (NONCE_HEADER, nonce),
    ] {
        if let Some(value) = value {
            response.headers_mut().insert(header, value);
        }
    }
    response
}

/// What all connections share.
#[derive(Clone)]
struct Desk {
    plates: Arc<Vec<Plate>>,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Sockets {
    /// Answers on every socket until the context's shutdown.
    ///
    /// # Errors
    /// If no certificate can be made.
    pub(crate) fn serve(self, plates: Vec<Plate>, context: &Context) -> anyhow::Result<()> {
        let needs_tls = self.open.iter().any(|open| open.is_tls);
        let desk = Desk {
            plates: Arc::new(plates),
            tls: needs_tls.then(acceptor).transpose()?,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            tasks: context.tasks.clone(),
            stop: context.shutdown.clone(),
        };
        for open in self.open {
            let desk = Desk {
                tls: desk.tls.clone().filter(|_| open.is_tls),
                ..desk.clone()
            };
            let listener = TcpListener::from_std(open.socket).context("a responder's socket")?;
            let accepting = async move { desk.accept_for_ever(listener).await };
            context.tasks.spawn("responder", accepting);
        }
        Ok(())
    }
}

impl Desk {
    async fn accept_for_ever(self, listener: TcpListener) {
        let stop = self.stop.clone();
        let accepting = async {
            loop {
                // The semaphore is never closed.
                let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                    return;
                };
                let stream = match listener.accept().await {
                    Ok((stream, _peer)) => stream,
                    Err(error) => {
                        tracing::debug!(%error, "the responder could not take a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let desk = self.clone();
                self.tasks.spawn("visitor", async move {
                    let talk = timeout(CONNECTION_TIME, desk.talk(stream));
                    let _ended = desk.stop.run_until_cancelled(talk).await;
                    drop(place);
                });
            }
        };
        let _stopped = stop.run_until_cancelled(accepting).await;
    }

    /// One connection. What goes wrong with it is the visitor's business.
    async fn talk(&self, stream: TcpStream) {
        let Ok(local) = stream.local_addr() else {
            return;
        };
        let local = local.ip().to_canonical();
        match &self.tls {
            None => self.converse(local, stream).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.converse(local, stream).await;
                }
            }
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&self, local: IpAddr, stream: S) {
        let service = service_fn(|_request: Request<Incoming>| {
            let response = answer(plate(&self.plates, local));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let ended = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .keep_alive(false)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS_MAX)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = ended {
            tracing::debug!(%error, "a visitor of the responder left");
        }
    }
}

/// TLS with a certificate of this process, which names nobody: probers do not judge it.
fn acceptor() -> anyhow::Result<TlsAcceptor> {
    let key = rcgen::KeyPair::generate().context("a key for the responder's certificate")?;
    let mut params = rcgen::CertificateParams::new(vec!["validator.invalid".to_owned()])
        .context("the responder's certificate")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let cert = params
        .self_signed(&key)
        .context("the responder's certificate")?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS of the responder")?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .context("the responder's certificate")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of one attempt is kept for the next.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
