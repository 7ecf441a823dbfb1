//! TCP: can a connection be opened, or is it refused as it should be. Latency is the time from SYN
//! to SYN-ACK, or to the refusal.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Seen, Trail, Tried, millis};
use crate::target::Target;

/// Connects and closes with RST.
pub(crate) async fn probe(
    target: &Target,
    reach: Reach<'_>,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    let connected = net::connect(&resolved, reach, budget.end(), trail).await?;
    let mut facts = connected.facts(&resolved);
    if let Err(e) = net::close_with_reset(&connected.stream) {
        // The answer stands; the port only stays in TIME_WAIT for a minute.
        facts.push_str(&format!(" closed without RST: {e}"));
    }
    Ok(Seen {
        latency: connected.took,
        facts,
    })
}

/// How long a closed port may be silent before that is the answer: two SYNs (RFC 6298: the second
/// after 1 s), and what a slow path takes.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Connects, and is content with a refusal or with silence. That nobody could be reached at all
/// is no proof that the port is closed.
pub(crate) async fn probe_closed(
    target: &Target,
    reach: Reach<'_>,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    let begin = Instant::now();
    for address in &resolved.addresses {
        let end = budget.end().min(Instant::now() + SILENCE_MAX);
        match net::connect_to(*address, reach, end, trail).await {
            Ok(connected) => {
                let facts = connected.facts(&resolved);
                if let Err(error) = net::close_with_reset(&connected.stream) {
                    tracing::debug!(%error, "closed without RST");
                }
                return Err(Fault {
                    latency: Some(connected.took),
                    ..Fault::new(Code::UnexpectedlyOpen, facts)
                });
            }
            Err(fault) if is_closed(fault.code) => {}
            Err(fault) => return Err(fault.context(&address.to_string())),
        }
    }
    let how: Vec<String> = trail.evidence.tried.iter().map(shown).collect();
    let facts = format!("closed: {}{}", how.join(", "), resolved.fact());
    Ok(Seen {
        latency: begin.elapsed(),
        facts,
    })
}

const fn is_closed(code: Code) -> bool {
    matches!(
        code,
        Code::Refused | Code::TimeoutConnect | Code::AdminProhibited
    )
}

fn shown(tried: &Tried) -> String {
    let code = tried.code.map_or_else(String::new, |code| code.to_string());
    format!("{} {code} {}", tried.address, millis(tried.took))
}
