//! Real servers on loopback, one thread a connection, and an engine with short budgets.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use civ_checks::{Check, Engine, Family, Kind, Limits, Options, Outcome, Policy, Target, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server that hands each connection to `serve`.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Returns when the peer has closed.
pub(crate) fn until_closed(mut stream: &TcpStream) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).is_ok_and(|got| got > 0) {}
}

/// Writes one byte a segment.
pub(crate) fn drip(mut stream: &TcpStream, bytes: &[u8]) {
    stream.set_nodelay(true).unwrap();
    for byte in bytes {
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
    }
}

/// A port that nobody listens on.
pub(crate) fn closed_port() -> u16 {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A port whose backlog is full: SYNs are dropped, as by a silent firewall.
pub(crate) struct SilentPort {
    pub(crate) address: SocketAddr,
    _listener: socket2::Socket,
    _queued: Vec<socket2::Socket>,
}

pub(crate) fn silent_port() -> SilentPort {
    use socket2::{Domain, Socket, Type};
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener
        .bind(&SocketAddr::new(LOCALHOST, 0).into())
        .unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // A backlog of 0 holds one connection; more make sure of it.
    let queued = (0..4).map(|_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _in_progress = socket.connect(&address.into());
        socket
    });
    SilentPort {
        address,
        _queued: queued.collect(),
        _listener: listener,
    }
}

pub(crate) fn engine(timeout: Duration, trust: Trust) -> Engine {
    let limits = Limits {
        max_concurrent: 64,
        timeout,
        ..Limits::default()
    };
    Engine::new(limits, trust, Policy::anywhere()).unwrap()
}

/// Long enough for everything that answers on loopback.
pub(crate) fn patient() -> Engine {
    engine(Duration::from_secs(5), authority().trust())
}

/// For what never answers.
pub(crate) fn impatient() -> Engine {
    engine(Duration::from_millis(400), authority().trust())
}

pub(crate) fn check(kind: Kind, target: &str) -> Check {
    Check {
        kind,
        target: Target::parse(kind, target).unwrap(),
        source: None,
        family: Family::V4,
        options: Options::default(),
    }
}

pub(crate) async fn run(engine: &Engine, kind: Kind, target: impl ToString) -> Outcome {
    engine.run(&check(kind, &target.to_string())).await
}

/// A certificate authority of its own.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

pub(crate) fn authority() -> Authority {
    authority_named("ours")
}

/// Two authorities of one name and different keys look like a forgery, not like strangers.
pub(crate) fn authority_named(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Authority {
        issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
    }
}

impl Authority {
    pub(crate) fn trust(&self) -> Trust {
        Trust::of(vec![self.issuer.der().clone()]).unwrap()
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_until(name, 2040)
    }

    pub(crate) fn issue_until(&self, name: &str, year: i32) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            chain: vec![cert.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }
}

pub(crate) fn tls_config(identity: Identity, alpn: &[&str]) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// A TLS server that hands each session to `serve`.
pub(crate) fn tls_server(
    config: ServerConfig,
    serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
) -> SocketAddr {
    let config = Arc::new(config);
    server(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        serve(&mut stream);
        stream.conn.send_close_notify();
        let _gone = stream.flush();
    })
}

/// Reads a request head; the text up to the empty line.
pub(crate) fn request_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got > 0) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Answers a request with these lines and body.
pub(crate) fn respond(stream: &mut (impl Read + Write), status: &str, headers: &str, body: &[u8]) {
    request_head(stream);
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n");
    let _gone = stream.write_all(head.as_bytes());
    let _gone = stream.write_all(body);
    let _gone = stream.flush();
}
