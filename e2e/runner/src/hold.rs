//! Owns the peer of the scenario that cuts: one TCP connection, kept open and kept busy.
//!
//! It asks a web server again and again over the same connection and prints, for every answer, the
//! time of its question, until none comes for a second. What was asked in time may be read late on
//! a busy machine; what was asked after the cut must not be answered.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use civ_types::{Clock as _, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::report::say;

/// No answer for so long: the connection is cut.
const SILENCE: Duration = Duration::from_secs(1);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until the connection is cut.
///
/// # Errors
///
/// When there is no connection to begin with.
pub(crate) async fn hold(peer: SocketAddr) -> Result<()> {
    let mut stream = timeout(SILENCE, TcpStream::connect(peer))
        .await
        .context("no connection within a second")??;
    let request = format!("GET / HTTP/1.1\r\nHost: {peer}\r\n\r\n");
    let mut answer = vec![0; 4096];
    loop {
        let asked = SystemClock.now();
        let exchange = async {
            stream.write_all(request.as_bytes()).await?;
            stream.read(&mut answer).await
        };
        match timeout(SILENCE, exchange).await {
            Ok(Ok(bytes)) if bytes > 0 => say(format!("answer {asked}")),
            end => {
                say(format!("cut {end:?}"));
                return Ok(());
            }
        }
        sleep(PAUSE).await;
    }
}
