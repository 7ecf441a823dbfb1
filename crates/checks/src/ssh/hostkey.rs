//! The fingerprint of a host key: a second connection on which libssh2 completes the key exchange
//! and nothing more. It blocks, so it runs on few threads of the blocking pool.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ssh2::{ErrorCode, HashType, HostKeyType, Session};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Trail};
use crate::{PRODUCT, VERSION};

/// Key exchanges at a time in this process: each holds a thread and costs most of a millisecond.
static PLACES: Semaphore = Semaphore::const_new(4);

/// libssh2 (libssh2.h): the socket is gone, the time is up.
const GONE: [i32; 4] = [-1, -7, -13, -43];
const TIMEOUT: [i32; 2] = [-9, -30];

/// ` hostkey=ssh-ed25519 SHA256:…` as OpenSSH writes it.
pub(super) async fn fact(
    peer: SocketAddr,
    reach: Reach<'_>,
    end: Instant,
    trail: &mut Trail,
) -> Result<String, Fault> {
    let Ok(Ok(place)) = timeout_at(end, PLACES.acquire()).await else {
        let facts = "no thread became free for a key exchange";
        return Err(Fault::new(Code::Overloaded, facts));
    };
    let connected = net::connect_to(peer, reach, end, trail).await?;
    let stream = connected
        .stream
        .into_tcp()
        .into_std()
        .and_then(|stream| stream.set_nonblocking(false).map(|()| stream))
        .map_err(|e| net::io_fault(&e, "preparing the key exchange"))?;
    let left = end.saturating_duration_since(Instant::now());
    // The thread ends with `left` even if nobody waits for it any more.
    let exchange = tokio::task::spawn_blocking(move || {
        let _place = place;
        key_exchange(stream, left)
    });
    match timeout_at(end, exchange).await {
        Ok(Ok(done)) => done,
        Ok(Err(e)) => Err(Fault::new(Code::Internal, format!("key exchange: {e}"))),
        Err(_elapsed) => Err(Fault::new(Code::TimeoutRead, "no key exchange in time")),
    }
}

fn key_exchange(stream: TcpStream, left: Duration) -> Result<String, Fault> {
    let mut session = Session::new().map_err(|e| fault(&e))?;
    let millis = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
    session.set_timeout(millis.max(1));
    session
        .set_banner(&format!("SSH-2.0-{PRODUCT}_{VERSION}"))
        .map_err(|e| fault(&e))?;
    session.set_tcp_stream(stream);
    session.handshake().map_err(|e| fault(&e))?;
    let kind = session.host_key().map_or("unknown", |(_, kind)| name(kind));
    let Some(hash) = session.host_key_hash(HashType::Sha256) else {
        return Err(Fault::new(
            Code::Internal,
            "the key exchange left no host key",
        ));
    };
    let hash = STANDARD_NO_PAD.encode(hash);
    // Polite; the answer stands either way.
    drop(session.disconnect(None, "checked", None));
    Ok(format!(" hostkey={kind} SHA256:{hash}"))
}

fn fault(e: &ssh2::Error) -> Fault {
    let code = match e.code() {
        ErrorCode::Session(code) if GONE.contains(&code) => Code::ClosedEarly,
        ErrorCode::Session(code) if TIMEOUT.contains(&code) => Code::TimeoutRead,
        // No algorithm in common and the like: it speaks SSH, only our library does not match.
        ErrorCode::Session(_) | ErrorCode::SFTP(_) => Code::Internal,
    };
    Fault::new(code, format!("key exchange: {e}"))
}

const fn name(kind: HostKeyType) -> &'static str {
    match kind {
        HostKeyType::Rsa => "ssh-rsa",
        HostKeyType::Dss => "ssh-dss",
        HostKeyType::Ecdsa256 => "ecdsa-sha2-nistp256",
        HostKeyType::Ecdsa384 => "ecdsa-sha2-nistp384",
        HostKeyType::Ecdsa521 => "ecdsa-sha2-nistp521",
        HostKeyType::Ed25519 => "ssh-ed25519",
        HostKeyType::Unknown => "unknown",
    }
}
