//! SSH: identification exchange and start of the key exchange (RFC 4253 §4.2, §7.1). Latency is
//! the time from the connection to the server's identification.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::limits::Budget;
use crate::net::{self, Connected, Reach};
use crate::outcome::{Code, Fault, Seen, Trail, millis, printable};
use crate::target::Target;
use crate::{PRODUCT, VERSION};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(feature = "hostkey")]
mod hostkey;
mod parse;

use parse::{Parser, Refusal, Server};

/// Longest piece of a banner in a detail, in bytes.
const SHOWN_MAX: usize = 255;
/// What one read may bring; the parser bounds the sum.
const READ_BYTES: usize = 2048;

/// Connects, names us, reads until the server has offered its host-key algorithms.
///
/// With `hostkey`, asks for the fingerprint on a second connection.
pub(crate) async fn probe(
    target: &Target,
    reach: Reach<'_>,
    hostkey: bool,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    if hostkey && !cfg!(feature = "hostkey") {
        let facts = "option ssh_hostkey: this build reads no host keys (feature hostkey)";
        return Err(Fault::new(Code::Internal, facts));
    }
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    let mut connected = net::connect(&resolved, reach, budget.connect_end(), trail).await?;
    let facts = connected.facts(&resolved);
    let mut talk = Talk {
        parser: Parser::default(),
        connected_at: Instant::now(),
        banner_after: None,
        first_byte_after: None,
        end: budget.end(),
    };
    let result = talk.run(&mut connected).await;
    // The peer may be gone already, and the verdict stands either way.
    let _closed = timeout_at(budget.end(), connected.stream.shutdown()).await;
    trail.phases().first_byte = talk.first_byte_after;
    match result {
        Ok(server) => {
            let latency = talk.banner_after.unwrap_or_default();
            let facts = format!("{facts} banner={} {}", millis(latency), shown(&server));
            #[cfg(feature = "hostkey")]
            let facts = if hostkey {
                let key = hostkey::fact(connected.peer, reach, budget.end(), trail).await;
                facts.clone() + &key.map_err(|fault| fault.context(&facts))?
            } else {
                facts
            };
            Ok(Seen { latency, facts })
        }
        Err(mut fault) => {
            fault.latency = talk.banner_after;
            Err(fault.context(&facts))
        }
    }
}

fn shown(server: &Server) -> String {
    let prelude = match server.prelude_lines {
        0 => String::new(),
        lines => format!(" prelude_lines={lines}"),
    };
    let banner = printable(&server.banner, SHOWN_MAX);
    format!("{banner} host_keys={}{prelude}", server.host_keys.join(","))
}

struct Talk {
    parser: Parser,
    connected_at: Instant,
    banner_after: Option<Duration>,
    first_byte_after: Option<Duration>,
    end: Instant,
}

impl Talk {
    async fn run(&mut self, connected: &mut Connected) -> Result<Server, Fault> {
        let ours = format!("SSH-2.0-{PRODUCT}_{VERSION}\r\n");
        let sent = timeout_at(self.end, connected.stream.write_all(ours.as_bytes())).await;
        if !matches!(sent, Ok(Ok(()))) {
            // A server that refuses us may have said why before it closed: read on.
            tracing::debug!(peer = %connected.peer, "our SSH identification was not taken");
        }
        let mut piece = [0; READ_BYTES];
        loop {
            let got = match timeout_at(self.end, connected.stream.read(&mut piece)).await {
                Err(_elapsed) => return Err(self.cut_off(Code::TimeoutRead, "no more in time")),
                Ok(Ok(0)) => return Err(self.cut_off(Code::ClosedEarly, "closed")),
                Ok(Err(e)) => {
                    let fault = net::io_fault(&e, "reading");
                    return Err(self.cut_off(fault.code, &fault.facts));
                }
                Ok(Ok(got)) => got,
            };
            self.first_byte_after
                .get_or_insert_with(|| self.connected_at.elapsed());
            let done = self.parser.feed(piece.get(..got).unwrap_or_default());
            if self.banner_after.is_none() && self.parser.banner().is_some() {
                self.banner_after = Some(self.connected_at.elapsed());
            }
            match done {
                Ok(Some(server)) => return Ok(server),
                Ok(None) => {}
                Err(refusal) => return Err(refused(&refusal)),
            }
        }
    }

    /// The stream ended before the server had said enough.
    fn cut_off(&self, code: Code, how: &str) -> Fault {
        if let Some(banner) = self.parser.banner() {
            let banner = printable(banner, SHOWN_MAX);
            return Fault::new(code, format!("{banner} then {how} before the key exchange"));
        }
        match self.parser.first_line() {
            // It talks, but not SSH: another service, or a tarpit that drips lines.
            Some(line) => {
                let line = printable(line, SHOWN_MAX);
                let facts = format!("{how} after {line:?} without an SSH identification");
                Fault::new(Code::NotSsh, facts)
            }
            None => Fault::new(code, format!("{how} before an SSH identification")),
        }
    }
}

fn refused(refusal: &Refusal) -> Fault {
    match refusal {
        Refusal::NotSsh(why) => Fault::new(Code::NotSsh, printable(why, SHOWN_MAX * 2)),
        Refusal::V1Only(banner) => Fault::new(Code::SshV1Only, printable(banner, SHOWN_MAX)),
        Refusal::Busy(line) => Fault::new(Code::ServerBusy, printable(line, SHOWN_MAX)),
    }
}
