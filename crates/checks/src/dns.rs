//! DNS: one question over UDP, and over TCP if the answer is truncated (RFC 1035, RFC 7766).
//! Latency is the time from the question to its answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Seen, Stage, Trail, millis};
use crate::target::Target;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod wire;

pub(crate) use wire::Question;
pub use wire::QuestionError;
use wire::{NotOurs, Reply, rcode_name, reply};

/// When the question is repeated: a lost datagram is no verdict.
const REPEAT_AFTER: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// Longest datagram that is read; without EDNS a server sends at most 512 bytes.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Asks the addresses of the server in order until one answers.
pub(crate) async fn probe(
    target: &Target,
    reach: Reach<'_>,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    let Some(question) = target.question() else {
        let facts = "the target asks nothing: give server[:port]/name";
        return Err(Fault::new(Code::Internal, facts));
    };
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    let mut last = Fault::new(Code::NoAddressInFamily, "no address to ask");
    let mut before = String::new();
    for (index, address) in resolved.addresses.iter().enumerate() {
        let others = u32::try_from(resolved.addresses.len() - index).unwrap_or(1);
        let end = Instant::now() + budget.left() / others;
        let talk = Talk {
            question,
            address: *address,
            reach,
            end,
        };
        match talk.ask(trail).await {
            Ok(mut seen) => {
                seen.facts = format!("{}{}{before}", seen.facts, resolved.fact());
                return Ok(seen);
            }
            Err(fault) => {
                let fault = fault.context(&address.to_string());
                // An answer, or a reason of ours, is final.
                let silent = matches!(
                    fault.code,
                    Code::TimeoutRead
                        | Code::Refused
                        | Code::UnreachableHost
                        | Code::UnreachableNet
                );
                if !silent {
                    return Err(fault);
                }
                before.push_str(&format!(" after {} {}", fault.code, fault.facts));
                last = fault;
            }
        }
    }
    Err(last)
}

/// One question to one address.
struct Talk<'a> {
    question: &'a Question,
    address: SocketAddr,
    reach: Reach<'a>,
    end: Instant,
}

impl Talk<'_> {
    async fn ask(&self, trail: &mut Trail) -> Result<Seen, Fault> {
        trail.stage = Stage::Probe;
        let begin = Instant::now();
        let over_udp = self.over_udp(trail).await;
        let code = over_udp.as_ref().err().map(|fault| fault.code);
        trail.tried(self.address, code, begin.elapsed());
        let mut got = over_udp?;
        let mut took = begin.elapsed();
        trail.phases().first_byte = Some(took);
        let mut over = "udp";
        if got.truncated {
            over = "udp,tcp";
            let begin = Instant::now();
            got = self.over_tcp(trail).await?;
            took = begin.elapsed();
        }
        self.judge(&got, took, over)
    }

    fn judge(&self, got: &Reply, took: Duration, over: &str) -> Result<Seen, Fault> {
        let authoritative = if got.authoritative {
            " authoritative"
        } else {
            ""
        };
        let facts = format!(
            "{}/{} answer={} over={over} answers={}{authoritative} {}",
            self.address,
            self.question,
            millis(took),
            got.answers,
            got.shown.join(","),
        );
        if got.rcode == 0 {
            return Ok(Seen {
                latency: took,
                facts,
            });
        }
        Err(Fault {
            latency: Some(took),
            ..Fault::new(Code::DnsAnswer(rcode_name(got.rcode)), facts)
        })
    }

    async fn over_udp(&self, trail: &mut Trail) -> Result<Reply, Fault> {
        let tape = trail.new_tape();
        let from = self.reach.source.unwrap_or(net::any(self.reach.family));
        let socket = UdpSocket::bind(SocketAddr::new(from, 0)).await;
        let socket = socket.map_err(|e| net::bind_fault(&e, from))?;
        let connected = socket.connect(self.address).await;
        connected.map_err(|e| net::connect_fault(&e, self.address))?;
        net::keep_errors(&socket, self.address);
        let fault = |e| net::datagram_fault(&socket, &e, self.address);
        let id = fastrand::u16(..);
        let query = self.question.query(id);
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let mut repeats = REPEAT_AFTER.into_iter();
        loop {
            let sent = socket.send(&query).await;
            sent.map_err(fault)?;
            tape.note(query.len(), &[]);
            let wait = repeats
                .next()
                .map_or(self.end, |after| Instant::now() + after);
            while let Ok(got) = timeout_at(wait.min(self.end), socket.recv(&mut datagram)).await {
                let got = got.map_err(fault)?;
                let bytes = datagram.get(..got).unwrap_or_default();
                tape.note(0, bytes);
                match reply(bytes, id, self.question) {
                    Ok(reply) => return Ok(reply),
                    Err(NotOurs::OtherId) => {}
                    Err(NotOurs::Bad(why)) => return Err(Fault::new(Code::NotDns, why)),
                }
            }
            if Instant::now() >= self.end {
                let facts = "no answer to the question over UDP, though it was repeated";
                return Err(Fault::new(Code::TimeoutRead, facts));
            }
        }
    }

    async fn over_tcp(&self, trail: &mut Trail) -> Result<Reply, Fault> {
        let connected = net::connect_to(self.address, self.reach, self.end, trail).await;
        let mut stream = connected?.stream;
        let id = fastrand::u16(..);
        let query = self.question.query(id);
        let length = u16::try_from(query.len()).unwrap_or_default();
        let mut message = length.to_be_bytes().to_vec();
        message.extend(query);
        let exchange = async {
            stream.write_all(&message).await?;
            let length = usize::from(stream.read_u16().await?);
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).await?;
            Ok(bytes)
        };
        let bytes = match timeout_at(self.end, exchange).await {
            Ok(done) => done.map_err(|e: std::io::Error| net::io_fault(&e, "DNS over TCP"))?,
            Err(_elapsed) => {
                let facts = "no complete answer over TCP";
                return Err(Fault::new(Code::TimeoutRead, facts));
            }
        };
        match reply(&bytes, id, self.question) {
            Ok(reply) if !reply.truncated => Ok(reply),
            Ok(_) => Err(Fault::new(Code::NotDns, "truncated over TCP")),
            Err(NotOurs::OtherId) => Err(Fault::new(Code::NotDns, "another id over TCP")),
            Err(NotOurs::Bad(why)) => Err(Fault::new(Code::NotDns, why)),
        }
    }
}
