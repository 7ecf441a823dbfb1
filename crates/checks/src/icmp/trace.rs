//! How far packets came that nobody answered: echoes with few hops to live, and the routers that
//! say where those ended.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;

use super::{Answer, DATA_BYTES, Echoes, IcmpEngine, Place};
use crate::outcome::Code;

/// Hops that are asked at once, and again as many if the path goes on behind them.
const HOPS_AT_ONCE: u8 = 10;
/// Most hops.
const HOPS_MAX: u8 = 2 * HOPS_AT_ONCE;
/// How long the hops of one round are waited for: two rounds are below two seconds.
const WAIT: Duration = Duration::from_millis(900);

/// Who answered for packets to a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// Distance in hops and address of each router that answered, in order.
    hops: Vec<(u8, IpAddr)>,
    /// Distance at which the target itself answered.
    reached: Option<u8>,
}

impl Trace {
    fn note(&mut self, ttl: u8, answer: &Answer) {
        match answer {
            Answer::Error(said, _) if said.code == Code::TtlExceeded => {
                self.hops.push((ttl, said.from));
            }
            Answer::Reply(_) if self.reached.is_none() => self.reached = Some(ttl),
            _ => {}
        }
    }

    /// Somebody is behind the last hop that was asked.
    fn goes_on_behind(&self, ttl: u8) -> bool {
        self.reached.is_none() && self.hops.last().is_some_and(|(last, _)| *last == ttl)
    }

    /// A router that answers at two distances sends packets in a circle.
    fn in_a_circle(&self) -> Option<IpAddr> {
        let (_, last) = self.hops.last()?;
        let times = self.hops.iter().filter(|(_, hop)| hop == last).count();
        (times > 1).then_some(*last)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hops.last() {
            None => f.write_str("path: no router answered"),
            Some((ttl, hop)) => write!(f, "path: last hop {hop} at {ttl}"),
        }?;
        if let Some(hop) = self.in_a_circle() {
            write!(f, ", in a circle through {hop}")?;
        }
        match self.reached {
            Some(ttl) => write!(f, ", target answered at {ttl}"),
            None => Ok(()),
        }
    }
}

/// Asks the path to `address`, in less than two seconds. What keeps this process from it is an
/// empty trace: it is an extra.
pub(super) async fn trace(engine: &IcmpEngine, place: Place, address: IpAddr) -> Trace {
    let mut trace = Trace::default();
    let mut first = 1;
    while first <= HOPS_MAX {
        let last = first + HOPS_AT_ONCE - 1;
        let asked = (first..=last).map(|ttl| async move {
            let answers = engine.echo(place, echo(address, ttl)).await;
            (
                ttl,
                answers.map_or_else(|_ours| Vec::new(), |answers| answers.all),
            )
        });
        for (ttl, answers) in join_all(asked).await {
            if let Some(answer) = answers.first() {
                trace.note(ttl, answer);
            }
        }
        if !trace.goes_on_behind(last) {
            break;
        }
        first = last + 1;
    }
    trace
}

fn echo(address: IpAddr, ttl: u8) -> Echoes {
    Echoes {
        targets: vec![address],
        count: 1,
        interval: Duration::ZERO,
        wait: WAIT,
        data: DATA_BYTES,
        ttl: Some(ttl),
    }
}

#[cfg(test)]
mod tests {
    use super::super::meaning::IcmpError;
    use super::*;

    fn hop(last: u8) -> Answer {
        let said = IcmpError {
            code: Code::TtlExceeded,
            from: IpAddr::from([192, 0, 2, last]),
            mtu: None,
        };
        Answer::Error(said, Duration::ZERO)
    }

    #[test]
    fn the_last_hop_that_answered_is_named() {
        let mut trace = Trace::default();
        assert_eq!(trace.to_string(), "path: no router answered");
        for (ttl, answer) in [
            (1, hop(1)),
            (2, Answer::Silent),
            (3, hop(3)),
            (4, Answer::Silent),
        ] {
            trace.note(ttl, &answer);
        }
        assert_eq!(trace.to_string(), "path: last hop 192.0.2.3 at 3");
        assert!(trace.goes_on_behind(3) && !trace.goes_on_behind(4));
    }

    #[test]
    fn a_circle_and_a_late_answer_are_said() {
        let mut trace = Trace::default();
        for (ttl, answer) in [(1, hop(1)), (2, hop(2)), (3, hop(1))] {
            trace.note(ttl, &answer);
        }
        assert!(
            trace
                .to_string()
                .ends_with(", in a circle through 192.0.2.1")
        );
        trace.note(4, &Answer::Reply(Duration::ZERO));
        assert!(trace.to_string().ends_with(", target answered at 4"));
        assert!(!trace.goes_on_behind(4));
    }
}
