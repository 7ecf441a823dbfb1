//! The exchange over HTTP/2 (RFC 9113), with a server that chose it by ALPN. One request, one
//! stream; the connection is driven by the same task, so that nothing is left behind.

use std::future::poll_fn;
use std::net::SocketAddr;

use h2::client::{Builder, SendRequest};
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::request::{HEAD_BYTES_MAX, Page, no_answer};
use crate::net;
use crate::outcome::{Code, Fault};

/// Sends `request` and reads the answer; the connection closes with the return.
pub(super) async fn exchange<S>(
    request: hyper::Request<()>,
    stream: S,
    peer: SocketAddr,
    body_max: usize,
    end: Instant,
) -> Result<Page, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let begin = Instant::now();
    let mut answered = None;
    let drive = async {
        let mut settings = Builder::new();
        let head_max = u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX);
        let window = u32::try_from(body_max).unwrap_or(u32::MAX);
        settings
            .enable_push(false)
            .max_header_list_size(head_max)
            .initial_window_size(window);
        let (sender, connection) = settings.handshake(stream).await?;
        let talk = talk(request, sender, peer, body_max, begin, &mut answered);
        tokio::pin!(talk, connection);
        tokio::select! {
            biased;
            done = &mut talk => done,
            closed = &mut connection => match talk.await {
                // What broke the connection says more than that it is gone.
                Err(e) => Err(closed.err().unwrap_or(e)),
                done => done,
            },
        }
    };
    match timeout_at(end, Box::pin(drive)).await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(e)) => Err(Fault {
            latency: answered,
            ..fault(&e)
        }),
        Err(_elapsed) => Err(no_answer(answered, begin)),
    }
}

async fn talk(
    request: hyper::Request<()>,
    sender: SendRequest<Bytes>,
    peer: SocketAddr,
    body_max: usize,
    begin: Instant,
    answered: &mut Option<std::time::Duration>,
) -> Result<Page, h2::Error> {
    let mut sender = sender.ready().await?;
    let (response, _stream) = sender.send_request(request, true)?;
    let response = response.await?;
    let first_byte = *answered.insert(begin.elapsed());
    let (head, mut incoming) = response.into_parts();
    let mut page = Page {
        status: head.status,
        headers: head.headers,
        body: Vec::new(),
        cut: false,
        first_byte,
        peer,
        facts: String::new(),
    };
    while let Some(data) = poll_fn(|cx| incoming.poll_data(cx)).await {
        let data = data?;
        if !page.take(&data, body_max) {
            break;
        }
        incoming.flow_control().release_capacity(data.len())?;
    }
    Ok(page)
}

/// What a failed exchange means.
fn fault(e: &h2::Error) -> Fault {
    if let Some(io) = e.get_io() {
        return net::io_fault(io, "HTTP/2 exchange");
    }
    // The peer ended it by a frame of its own, or what it sends is no HTTP/2.
    let code = if e.is_remote() {
        Code::ClosedEarly
    } else {
        Code::NotHttp
    };
    Fault::new(code, format!("HTTP/2 exchange: {e}"))
}
