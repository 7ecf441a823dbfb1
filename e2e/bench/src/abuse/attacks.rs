//! What hostile clients do. They come from addresses of their own of 127.0.0.0/8 and go on until
//! they are killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A kind of abuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attack {
    /// More connections than there are places, which say nothing
    Idle,
    /// Headers that come byte by byte
    SlowHeaders,
    /// Headers of almost the greatest length that never end
    HugeHeaders,
    /// Bodies that are announced, almost sent and never ended
    StuckBodies,
    /// Chunked bodies without an end, as fast as they are taken
    EndlessBodies,
    /// A thousand requests at once, whose answers are not read
    Pipelines,
    /// Connections that are reset in the middle of a request
    Resets,
    /// Requests that two readers could understand differently
    Smuggling,
    /// Long polls without end in all places
    LongPolls,
    /// More requests than one client may make
    Flood,
}

/// Pause before a connection that failed or was closed is made again.
const AGAIN: Duration = Duration::from_millis(500);

impl Attack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::SlowHeaders => "slow-headers",
            Self::HugeHeaders => "huge-headers",
            Self::StuckBodies => "stuck-bodies",
            Self::EndlessBodies => "endless-bodies",
            Self::Pipelines => "pipelines",
            Self::Resets => "resets",
            Self::Smuggling => "smuggling",
            Self::LongPolls => "long-polls",
            Self::Flood => "flood",
        }
    }

    /// How many do so at once.
    const fn crowd(self) -> usize {
        match self {
            Self::Idle | Self::LongPolls => 6_000,
            Self::SlowHeaders | Self::HugeHeaders => 3_000,
            Self::StuckBodies => 400,
            Self::Pipelines => 64,
            Self::Resets | Self::Smuggling | Self::EndlessBodies => 16,
            Self::Flood => 4,
        }
    }
}

/// As many descriptors as this process may have; its children inherit that.
pub(crate) fn lift_descriptors() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("more descriptors are not allowed")
}

pub(crate) async fn run(attack: Attack, server: SocketAddr) -> Result<()> {
    lift_descriptors()?;
    let mut all = JoinSet::new();
    for n in 0..attack.crowd() {
        all.spawn(async move {
            loop {
                // Whatever becomes of a connection, the next one is made.
                if once(attack, server, n).await.is_err() {
                    tokio::time::sleep(AGAIN).await;
                }
            }
        });
        if n % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    while all.join_next().await.is_some() {}
    Ok(())
}

async fn connect(server: SocketAddr, n: usize) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let host = u8::try_from(n % 8).unwrap_or(0);
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 66, 0, 1 + host), 0)))?;
    socket.connect(server).await
}

async fn once(attack: Attack, server: SocketAddr, n: usize) -> std::io::Result<()> {
    let mut stream = connect(server, n).await?;
    match attack {
        Attack::Idle => until_closed(&stream).await,
        Attack::SlowHeaders => {
            stream.write_all(b"GET /healthz HTTP/1.1\r\n").await?;
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                stream.write_all(b"a").await?;
            }
        }
        Attack::HugeHeaders => {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await?;
            stream.write_all(&[b'a'; 60_000]).await?;
            until_closed(&stream).await
        }
        Attack::StuckBodies => {
            let head = "POST /api/v1/agents/register HTTP/1.1\r\nhost: h\r\n\
                        content-length: 2000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&vec![b' '; 1_999_999]).await?;
            until_closed(&stream).await
        }
        Attack::EndlessBodies => endless(stream).await,
        Attack::Pipelines => {
            let all = "GET /api/v1/probers/nobody/assignments HTTP/1.1\r\nhost: h\r\n\r\n";
            stream.write_all(all.repeat(1_000).as_bytes()).await?;
            until_closed(&stream).await
        }
        Attack::Resets => {
            let head = "POST /api/v1/agents/register HTTP/1.1\r\nhost: h\r\n\
                        content-length: 500\r\n\r\n{";
            stream.write_all(head.as_bytes()).await?;
            stream.set_zero_linger()?;
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(())
        }
        Attack::Smuggling => {
            stream.write_all(SMUGGLED[n % SMUGGLED.len()]).await?;
            tokio::time::timeout(AGAIN, stream.read_to_end(&mut Vec::new()))
                .await
                .map_err(std::io::Error::other)??;
            Ok(())
        }
        Attack::LongPolls => long_poll(stream).await,
        Attack::Flood => flood(stream).await,
    }
}

async fn endless(mut stream: TcpStream) -> std::io::Result<()> {
    let head = "POST /api/v1/agents/register HTTP/1.1\r\nhost: h\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut chunk = b"8000\r\n".to_vec();
    chunk.extend([b' '; 0x8000]);
    chunk.extend(b"\r\n");
    loop {
        stream.write_all(&chunk).await?;
    }
}

/// Asks for news of what it already knows, and never gets any.
async fn long_poll(mut stream: TcpStream) -> std::io::Result<()> {
    let validator = civ_store::bulk::validator(crate::VALIDATORS - 1);
    let ask = format!("GET /api/v1/agents/{validator}/assignment");
    let rest = "HTTP/1.1\r\nhost: h\r\n";
    let first = format!("{ask} {rest}\r\n");
    stream.write_all(first.as_bytes()).await?;
    let mut answer = vec![0; 16_384];
    let n = stream.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..n]);
    let tag = answer.lines().find_map(|line| line.strip_prefix("etag: "));
    let Some(tag) = tag else {
        return Err(std::io::ErrorKind::InvalidData.into());
    };
    let second = format!("{ask}?wait=60 {rest}if-none-match: {tag}\r\n\r\n");
    stream.write_all(second.as_bytes()).await?;
    until_closed(&stream).await
}

async fn flood(mut stream: TcpStream) -> std::io::Result<()> {
    let ask = b"GET /api/v1/agents/nobody/assignment HTTP/1.1\r\nhost: h\r\n\r\n";
    let mut answer = [0; 2_048];
    loop {
        stream.write_all(ask).await?;
        if stream.read(&mut answer).await? == 0 {
            return Ok(());
        }
    }
}

/// Holds the connection as long as it is held, without reading what comes.
async fn until_closed(stream: &TcpStream) -> std::io::Result<()> {
    loop {
        stream.writable().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The kernel keeps what was said; only the end is looked for.
        let ready = stream.ready(tokio::io::Interest::READABLE);
        if let Ok(ready) = tokio::time::timeout(Duration::from_millis(1), ready).await
            && ready?.is_read_closed()
        {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
    }
}

/// Requests whose end is a matter of opinion.
const SMUGGLED: &[&[u8]] = &[
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n\
      0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ncontent-length : 5\r\n\r\nabcde",
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ncontent-length: +5\r\n\r\nabcde",
    b"GET /healthz HTTP/1.1\nhost: h\n\n",
    b"GET /healthz HTTP/1.1\r\nhost: h\r\nx: a\0b\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n\
      fffffffffffffffff\r\nabc\r\n",
];
