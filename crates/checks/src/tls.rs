//! TLS: the full handshake, TLS 1.3 and 1.2. The certificate is recorded; only HTTPS judges it.
//! Latency is the time of the handshake after the connection.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::{ClientConfig, ProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Seen, Stage, Trail, millis};
use crate::tap::Tap;
use crate::target::Target;
use crate::trust::Trust;

mod alert;
mod cert;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod hello;
mod second_look;
mod verify;

use verify::{Captured, CapturingVerifier};

/// Offered to find out what a server prefers; nothing is spoken after the handshake.
const ALPN_ASKED: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// How long a `close_notify` may take; the verdict stands without.
const CLOSE_WAIT: Duration = Duration::from_millis(200);

/// What is done with the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// Only recorded, with whether it would have been valid.
    Recorded,
    /// The handshake fails if it is not valid.
    Judged,
}

/// Connects, shakes hands, reports.
pub(crate) async fn probe(
    target: &Target,
    reach: Reach<'_>,
    trust: &Trust,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    let connected = net::connect(&resolved, reach, budget.connect_end(), trail).await?;
    let sni = target.name().unwrap_or("none");
    let head = format!("{} sni={sni}", connected.facts(&resolved));
    let alpn = ALPN_ASKED.map(<[u8]>::to_vec).to_vec();
    let client = Client::new(trust, Certificate::Recorded, alpn);
    let peer = connected.peer;
    let session = client
        .handshake(connected.stream, target, budget.end(), trail)
        .await;
    let mut session = match session {
        Ok(session) => session,
        Err(fault) => {
            let told = second_look::at(peer, target, reach, budget, trail, fault).await;
            return Err(told.context(&head));
        }
    };
    let facts = format!("{head} {} {}", session.facts(), session.certificate());
    // Polite, and bounded: some peers never read.
    let close_end = (Instant::now() + CLOSE_WAIT).min(budget.end());
    let _closed = timeout_at(close_end, session.stream.shutdown()).await;
    Ok(Seen {
        latency: session.took,
        facts,
    })
}

/// One handshake's settings: made for it, thrown away after it, so that nothing is resumed.
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    captured: Arc<OnceLock<Captured>>,
}

/// An established session.
pub(crate) struct Session {
    pub(crate) stream: TlsStream<Tap>,
    pub(crate) took: Duration,
    captured: Option<Captured>,
}

impl Client {
    pub(crate) fn new(trust: &Trust, certificate: Certificate, alpn: Vec<Vec<u8>>) -> Self {
        let captured = Arc::new(OnceLock::new());
        let judge = certificate == Certificate::Judged;
        let verifier = CapturingVerifier::new(trust.verifier(), judge, Arc::clone(&captured));
        let mut config = trust.client_config(Arc::new(verifier));
        config.resumption = Resumption::disabled();
        config.alpn_protocols = alpn;
        Self {
            config: Arc::new(config),
            captured,
        }
    }

    /// Sends SNI where the target is a name; none for a bare address (RFC 6066 §3).
    pub(crate) async fn handshake(
        &self,
        stream: Tap,
        target: &Target,
        end: Instant,
        trail: &mut Trail,
    ) -> Result<Session, Fault> {
        trail.stage = Stage::Handshake;
        let name = server_name(target)?;
        let begin = Instant::now();
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let result = timeout_at(end, connector.connect(name, stream)).await;
        let took = begin.elapsed();
        trail.phases().handshake = Some(took);
        match result {
            Ok(Ok(stream)) => {
                trail.stage = Stage::Exchange;
                let captured = self.captured.get().cloned();
                Ok(Session {
                    stream,
                    took,
                    captured,
                })
            }
            Ok(Err(e)) => {
                let mut fault = handshake_fault(&e);
                fault.latency = Some(took);
                if let Some(captured) = self.captured.get() {
                    fault.facts = format!("{} {}", fault.facts, captured.shown());
                }
                Err(fault)
            }
            Err(_elapsed) => {
                let facts = format!("TLS handshake: no answer after {}", millis(took));
                Err(Fault::new(Code::TimeoutRead, facts))
            }
        }
    }
}

impl Session {
    /// Whether the server chose this protocol (RFC 7301).
    pub(crate) fn speaks(&self, protocol: &[u8]) -> bool {
        self.stream.get_ref().1.alpn_protocol() == Some(protocol)
    }

    /// Version, cipher suite, ALPN.
    pub(crate) fn facts(&self) -> String {
        let (_, connection) = self.stream.get_ref();
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLS1.3".to_owned(),
            Some(ProtocolVersion::TLSv1_2) => "TLS1.2".to_owned(),
            other => format!("{other:?}"),
        };
        let cipher = connection
            .negotiated_cipher_suite()
            .map_or_else(|| "none".to_owned(), |suite| format!("{:?}", suite.suite()));
        let alpn = connection
            .alpn_protocol()
            .map_or_else(|| "none".into(), String::from_utf8_lossy);
        format!(
            "handshake={} {version} {cipher} alpn={alpn}",
            millis(self.took)
        )
    }

    /// The leaf, and whether it is or would have been valid.
    fn certificate(&self) -> String {
        self.captured
            .as_ref()
            .map_or_else(|| "no certificate".to_owned(), Captured::shown)
    }
}

fn server_name(target: &Target) -> Result<ServerName<'static>, Fault> {
    if let Some(ip) = target.ip() {
        return Ok(ServerName::IpAddress(ip.into()));
    }
    let name = target.name().unwrap_or_default().to_owned();
    ServerName::try_from(name)
        .map_err(|e| Fault::new(Code::DnsFailed, format!("{target} is no DNS name: {e}")))
}

/// What a failed handshake means.
fn handshake_fault(e: &io::Error) -> Fault {
    let inner = e
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(inner) = inner else {
        return net::io_fault(e, "TLS handshake");
    };
    let code = match inner {
        rustls::Error::AlertReceived(alert) => Code::TlsAlert(alert::name(*alert)),
        rustls::Error::InvalidCertificate(_) => Code::CertInvalid,
        rustls::Error::InvalidMessage(
            rustls::InvalidMessage::InvalidContentType
            | rustls::InvalidMessage::UnknownProtocolVersion,
        ) => Code::NotTls,
        // The peer speaks TLS, so it can be reached; we only share no version, suite or group.
        _ => Code::TlsFailed,
    };
    Fault::new(code, format!("TLS handshake: {inner}"))
}
