//! TCP: can a connection be opened. Latency is the time from SYN to SYN-ACK.

use crate::engine::Check;
use crate::limits::Budget;
use crate::net;
use crate::outcome::{Fault, Seen};

/// Connects and closes with RST.
pub(crate) async fn probe(check: &Check, budget: &Budget) -> Result<Seen, Fault> {
    let resolved = net::resolve(&check.target, check.family, budget.end()).await?;
    let connected = net::connect(&resolved, check.source, budget.end()).await?;
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
