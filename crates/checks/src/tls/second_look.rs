//! A second connection to a server that the TLS library could not agree with: what would it have
//! spoken? That a server refuses us proves that it can be reached.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::cert;
use super::hello::{Answer, Reader, client_hello};
use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Trail};
use crate::tap::Tap;
use crate::target::Target;

/// Longest second look, whatever is left of the budget.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Adds to `fault` what the server at `peer` says to an offer of old versions and weak suites. The
/// code stays what it was, unless it only said that the peer is gone, and it speaks TLS after all.
pub(super) async fn at(
    peer: SocketAddr,
    target: &Target,
    reach: Reach<'_>,
    budget: &Budget,
    trail: &mut Trail,
    mut fault: Fault,
) -> Fault {
    let is_refusal = matches!(fault.code, Code::TlsAlert(_) | Code::TlsFailed);
    let is_gone = matches!(fault.code, Code::Reset | Code::ClosedEarly);
    let left = budget.left().min(WAIT_MAX);
    if !(is_refusal || is_gone) || left.is_zero() {
        return fault;
    }
    let end = Instant::now() + left;
    let first_look = std::mem::take(trail);
    let answer = match net::connect_to(peer, reach, end, trail).await {
        Ok(connected) => ask(connected.stream, target, end).await,
        Err(_gone) => None,
    };
    // The times and addresses of the first look are those of the check.
    *trail = first_look;
    match answer {
        Some(Answer::Hello { ref leaf, .. }) => {
            let said = answer.as_ref().map(ToString::to_string).unwrap_or_default();
            let leaf = leaf.as_deref().map(cert::facts).unwrap_or_default();
            fault.facts = format!("{} reachable, incompatible: {said} {leaf}", fault.facts);
            if is_gone {
                fault.code = Code::TlsFailed;
            }
        }
        Some(Answer::Alert(_)) if is_refusal => {
            let said = answer.map(|said| said.to_string()).unwrap_or_default();
            fault.facts = format!("{} reachable, incompatible: {said}", fault.facts);
        }
        _ if is_refusal => fault.facts.push_str(" reachable, incompatible"),
        _ => {}
    }
    fault
}

async fn ask(mut stream: Tap, target: &Target, end: Instant) -> Option<Answer> {
    let mut random = [0; 32];
    fastrand::fill(&mut random);
    let hello = client_hello(target.name(), &random);
    let mut reader = Reader::default();
    let talk = async {
        stream.write_all(&hello).await.ok()?;
        let mut piece = [0; 4096];
        loop {
            let got = stream.read(&mut piece).await.ok().filter(|got| *got > 0)?;
            if let Some(answer) = reader.feed(piece.get(..got).unwrap_or_default()) {
                return Some(answer);
            }
        }
    };
    let answer = timeout_at(end, talk).await.ok().flatten();
    answer.or_else(|| reader.so_far())
}
