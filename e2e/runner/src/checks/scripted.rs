//! Owns peers that no real server plays: what answers at port 7 of a case's address.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::sleep;

/// Where scripted peers listen.
const PORT: u16 = 7;
/// Between the bytes of one that drips.
const DRIP: Duration = Duration::from_millis(100);

/// What a peer does with each connection, or with each datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// Takes it and says nothing.
    Silent,
    /// Reads something and closes.
    Closes,
    /// Reads something and resets.
    Resets,
    /// Reads nothing, says this, waits for the end.
    Says(&'static [u8]),
    /// Reads something, says this, then one `a` after the other.
    Drips(&'static [u8]),
    /// Reads something, then says this.
    Answers(&'static [u8]),
    /// Is OpenSSH behind these lines, in segments of one byte.
    Relays(&'static [u8]),
    /// UDP: the question back, with these two bytes of flags.
    Flags([u8; 2]),
    /// UDP: the first two bytes back, and nothing more.
    Echoes,
}

/// Serves until it is dropped.
///
/// # Errors
///
/// When the port cannot be had or accepting fails.
pub(super) async fn serve(act: Act, at: Ipv4Addr) -> Result<()> {
    if matches!(act, Act::Flags(_) | Act::Echoes) {
        return datagrams(act, at).await;
    }
    let listener = TcpListener::bind((at, PORT)).await;
    let listener = listener.with_context(|| format!("port {PORT} of {at}"))?;
    let mut talks = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        // How the checking side ends a connection is its own business.
        talks.spawn(async move { drop(talk(act, stream).await) });
    }
}

async fn talk(act: Act, mut stream: TcpStream) -> io::Result<()> {
    let mut some = [0; 1024];
    match act {
        Act::Closes => drop(stream.read(&mut some).await?),
        Act::Resets => {
            let _asked = stream.read(&mut some).await?;
            stream.set_zero_linger()?;
        }
        Act::Says(bytes) => {
            stream.write_all(bytes).await?;
            while stream.read(&mut some).await? > 0 {}
        }
        Act::Answers(bytes) => {
            let _asked = stream.read(&mut some).await?;
            stream.write_all(bytes).await?;
            while stream.read(&mut some).await? > 0 {}
        }
        Act::Drips(bytes) => {
            let _asked = stream.read(&mut some).await?;
            stream.write_all(bytes).await?;
            loop {
                stream.write_all(b"a").await?;
                sleep(DRIP).await;
            }
        }
        Act::Relays(lines) => relay(stream, lines).await?,
        Act::Silent | Act::Flags(_) | Act::Echoes => while stream.read(&mut some).await? > 0 {},
    }
    Ok(())
}

/// OpenSSH itself, from behind: what it says comes a byte at a time.
async fn relay(stream: TcpStream, lines: &[u8]) -> io::Result<()> {
    let server = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, 22))).await?;
    stream.set_nodelay(true)?;
    let (mut from_client, mut to_client) = stream.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = async {
        to_client.write_all(lines).await?;
        let mut byte = [0; 1];
        while from_server.read(&mut byte).await? > 0 {
            to_client.write_all(&byte).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        done = back => done,
        done = io::copy(&mut from_client, &mut to_server) => done.map(drop),
    }
}

async fn datagrams(act: Act, at: Ipv4Addr) -> Result<()> {
    let socket = UdpSocket::bind((at, PORT)).await?;
    let mut bytes = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut bytes).await?;
        let answer = match (act, bytes.get_mut(..length)) {
            (Act::Flags(flags), Some(question)) if length > 4 => {
                for (place, flag) in question.iter_mut().skip(2).zip(flags) {
                    *place = flag;
                }
                question
            }
            (_, Some(question)) => {
                let two = length.min(2);
                question.get_mut(..two).unwrap_or_default()
            }
            (_, None) => continue,
        };
        socket.send_to(answer, from).await?;
    }
}
