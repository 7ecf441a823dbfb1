//! ICMP echo: the check, over the one engine of the process.
//!
//! The engine ([`IcmpEngine`]) owns sockets, pace and matching; here is only how many echoes a
//! check is worth and what their answers mean.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Budget;
use crate::net::{self, Reach};
use crate::outcome::{Code, Fault, Seen, Stage, Trail};
use crate::target::Target;

mod bucket;
mod driver;
mod engine;
mod flights;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod job;
mod meaning;
mod options;
mod socket;
mod stats;
mod trace;
mod wire;

pub(crate) use engine::IcmpEngine;
pub use engine::IcmpMode;
pub(crate) use job::{Answer, Answers, Echoes};
pub(crate) use meaning::error_code;
pub(crate) use socket::Place;
use stats::Stats;

/// Probes a check: one lost packet is no verdict, more than a few look like a flood.
const COUNT: u16 = 3;
/// Between the probes of one check: short, so that a check lasts little more than a round trip,
/// and long enough not to trip rate limits of routers.
const INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for one reply, whatever the budget: a round trip above is no use to anybody.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(3);
/// Data bytes, as `ping` sends them: some firewalls drop what looks different.
pub(crate) const DATA_BYTES: usize = 56;
/// Sends [`COUNT`] echo requests to the first address; to the next ones only if none came back.
pub(crate) async fn probe(
    engine: &IcmpEngine,
    target: &Target,
    reach: Reach<'_>,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    engine.allowed()?;
    let resolved = net::resolve(target, reach, budget.end(), trail).await?;
    trail.stage = Stage::Probe;
    let mut before = String::new();
    let mut last = None;
    let mut slots_waited = Duration::ZERO;
    let place = Place {
        family: reach.family,
        source: reach.source,
        dont_fragment: false,
    };
    for (index, address) in resolved.addresses.iter().enumerate() {
        let others = u32::try_from(resolved.addresses.len() - index).unwrap_or(1);
        // Waiting for the pace is our business and takes nothing from the budget.
        let left = budget
            .total()
            .saturating_sub(budget.used().saturating_sub(slots_waited));
        let echoes = Echoes {
            targets: vec![address.ip()],
            count: COUNT,
            interval: INTERVAL,
            wait: reply_wait(left / others),
            data: DATA_BYTES,
            ttl: None,
        };
        let begin = Instant::now();
        let answers = engine.echo(place, echoes).await?;
        let slot = answers.waited;
        slots_waited += slot;
        trail.waited += slot;
        let result = judge(address.ip(), answers);
        let code = result.as_ref().err().map(|fault| fault.code);
        trail.tried(*address, code, begin.elapsed().saturating_sub(slot));
        match result {
            Ok(mut seen) => {
                seen.facts = format!("{}{}{before}", seen.facts, resolved.fact());
                return Ok(seen);
            }
            Err(fault) if fault.code.is_inconclusive() => return Err(fault),
            Err(fault) => {
                before.push_str(&format!(" after {} {}", fault.code, fault.facts));
                last = Some((address.ip(), fault));
            }
        }
    }
    // The resolver's answers are never empty here.
    let Some((address, mut fault)) = last else {
        return Err(Fault::new(Code::NoAddressInFamily, "no address to probe"));
    };
    if matches!(fault.code, Code::TimeoutRead | Code::TtlExceeded) {
        let path = trace::trace(engine, place, address).await;
        fault.facts.push_str(&format!(" {path}"));
    }
    Err(fault)
}

/// How long each reply is waited for, if all probes together may take `share`.
fn reply_wait(share: Duration) -> Duration {
    let sending = INTERVAL * u32::from(COUNT - 1);
    share.saturating_sub(sending).min(REPLY_WAIT_MAX)
}

/// What the answers of one check come to.
fn judge(address: IpAddr, answers: Answers) -> Result<Seen, Fault> {
    let mut stats = Stats::default();
    let mut error = None;
    let mut refusal = None;
    for answer in answers.all {
        match answer {
            Answer::Reply(trip) => stats.trips.push(trip),
            Answer::Error(said, took) => error = Some((said, took)),
            Answer::Silent => {}
            Answer::Undecided => {
                stats.undecided += 1;
                continue;
            }
            Answer::NotSent(why) => {
                refusal = Some(why);
                continue;
            }
        }
        stats.sent += 1;
    }
    let mode = if answers.raw { "raw" } else { "datagram" };
    let facts = format!("{address} {stats} socket={mode}");
    if let Some(latency) = stats.mean() {
        return Ok(Seen { latency, facts });
    }
    if let Some((said, took)) = error {
        return Err(Fault {
            code: said.code,
            facts: format!("{facts} {said}"),
            latency: Some(took),
        });
    }
    if let Some(why) = refusal {
        return Err(Fault::new(why.code(), format!("{facts} {why}")));
    }
    if stats.undecided > 0 {
        let facts = format!("{facts} our own receive buffer was full: a reply may have been lost");
        return Err(Fault::new(Code::Internal, facts));
    }
    Err(Fault::new(Code::TimeoutRead, facts))
}

#[cfg(test)]
mod tests {
    use super::meaning::IcmpError;
    use super::*;

    fn judged(all: Vec<Answer>) -> Result<Seen, Fault> {
        let answers = Answers {
            all,
            waited: Duration::ZERO,
            raw: true,
        };
        judge(IpAddr::from([192, 0, 2, 1]), answers)
    }

    #[test]
    fn waiting_for_replies_fits_into_the_share() {
        let share = Duration::from_secs(1);
        assert_eq!(reply_wait(share) + INTERVAL * u32::from(COUNT - 1), share);
        assert_eq!(reply_wait(Duration::from_secs(60)), REPLY_WAIT_MAX);
        assert_eq!(reply_wait(Duration::from_millis(100)), Duration::ZERO);
    }

    #[test]
    fn one_reply_is_enough_and_what_we_lost_is_no_loss() {
        let trip = Duration::from_millis(4);
        let seen = judged(vec![Answer::Undecided, Answer::Silent, Answer::Reply(trip)]).unwrap();
        assert_eq!(seen.latency, trip);
        let expected = "192.0.2.1 sent=2 received=1 loss=50%";
        assert!(seen.facts.starts_with(expected), "{}", seen.facts);
        assert!(seen.facts.contains("undecided=1"), "{}", seen.facts);
    }

    #[test]
    fn our_own_drops_decide_nothing() {
        let fault = judged(vec![Answer::Silent, Answer::Undecided]).unwrap_err();
        assert!(fault.code.is_inconclusive(), "{}", fault.facts);
        let fault = judged(vec![Answer::Silent, Answer::Silent]).unwrap_err();
        assert_eq!(fault.code, Code::TimeoutRead);
    }

    #[test]
    fn what_a_router_says_outweighs_silence() {
        let from = IpAddr::from([192, 0, 2, 254]);
        let code = Code::AdminProhibited;
        let said = IcmpError {
            code,
            from,
            mtu: None,
        };
        let answers = vec![
            Answer::Silent,
            Answer::Error(said, Duration::ZERO),
            Answer::Undecided,
        ];
        let fault = judged(answers).unwrap_err();
        assert_eq!(fault.code, code);
        assert!(
            fault.facts.ends_with("reported by 192.0.2.254"),
            "{}",
            fault.facts
        );
    }
}
