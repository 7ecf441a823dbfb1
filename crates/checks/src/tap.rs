//! A TCP stream that keeps account of what went over it: how many bytes, and how the peer began.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Passes everything through.
#[derive(Debug)]
pub(crate) struct Tap {
    stream: TcpStream,
    tape: Tape,
}

/// The account; it outlives the stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Account>>);

/// What went over one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The first bytes of the peer, at most [`HEAD_BYTES_MAX`].
    pub(crate) head: Vec<u8>,
}

/// Most of the peer's first bytes that are kept.
const HEAD_BYTES_MAX: usize = 256;

impl Tape {
    /// The account so far.
    pub(crate) fn account(&self) -> Account {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// So many bytes went out, and these came in.
    pub(crate) fn note(&self, sent: usize, received: &[u8]) {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.sent += u64::try_from(sent).unwrap_or_default();
        account.received += u64::try_from(received.len()).unwrap_or_default();
        let room = HEAD_BYTES_MAX.saturating_sub(account.head.len());
        let kept = received.get(..room).unwrap_or(received);
        account.head.extend_from_slice(kept);
    }
}

impl Tap {
    /// Keeps account on `tape`.
    pub(crate) const fn new(stream: TcpStream, tape: Tape) -> Self {
        Self { stream, tape }
    }

    /// Only the stream below; what goes over it from now on is not accounted for.
    #[cfg(feature = "hostkey")]
    pub(crate) fn into_tcp(self) -> TcpStream {
        self.stream
    }

    /// The stream below.
    pub(crate) const fn tcp(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let got = buf.filled().get(before..).unwrap_or_default();
        if !got.is_empty() {
            self.tape.note(0, got);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.tape.note(sent, &[]);
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
