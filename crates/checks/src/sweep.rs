//! A sweep: echoes to thousands of addresses at once, as cheap as they can be. Knows no names.

use std::net::IpAddr;
use std::time::Duration;

use civ_types::Family;

use crate::engine::family_of;
use crate::icmp::{Answer, DATA_BYTES, Echoes, IcmpEngine, Place};
use crate::outcome::{Code, Fault};
use crate::policy::Policy;

/// What to sweep, and how. Each address gets `count` echoes, one a round; a round begins no sooner
/// than `interval` after the one before, and all share the pace of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Whom; both families may be mixed, and an address may stand here more than once.
    pub targets: Vec<IpAddr>,
    /// Address of this host to send from; the kernel chooses if there is none. With it, all
    /// targets must be of its family.
    pub source: Option<IpAddr>,
    /// Echoes to each address, 1 to 65,535.
    pub count: u16,
    /// Least time between two echoes to one address.
    pub interval: Duration,
    /// How long each reply is waited for.
    pub wait: Duration,
}

/// What one address answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Whom.
    pub address: IpAddr,
    /// Echoes that left this host and whose fate is known.
    pub sent: u32,
    /// Replies.
    pub received: u32,
    /// Echoes without a reply while our own receive buffer overflowed: neither lost nor answered.
    pub undecided: u32,
    /// The round trips of the replies, in the order of sending.
    pub trips: Vec<Duration>,
    /// Why there are fewer replies than echoes, if something said so: a router, or this host.
    pub code: Option<Code>,
}

/// Sweeps; the rows are in the order of the targets.
pub(crate) async fn sweep(
    engine: &IcmpEngine,
    policy: &Policy,
    sweep: &Sweep,
) -> Result<Vec<Swept>, Fault> {
    let mut rows: Vec<Swept> = sweep.targets.iter().map(|ip| Swept::new(*ip)).collect();
    for family in [Family::V4, Family::V6] {
        let mut places = Vec::new();
        for (place, row) in rows.iter_mut().enumerate() {
            if family_of(row.address) != family {
                continue;
            }
            match policy.judge(row.address) {
                Ok(()) => places.push(place),
                Err(_denied) => row.code = Some(Code::TargetDenied),
            }
        }
        if !places.is_empty() {
            one_family(engine, family, sweep, &places, &mut rows).await?;
        }
    }
    Ok(rows)
}

async fn one_family(
    engine: &IcmpEngine,
    family: Family,
    sweep: &Sweep,
    places: &[usize],
    rows: &mut [Swept],
) -> Result<(), Fault> {
    if sweep.source.is_some_and(|ip| family_of(ip) != family) {
        let facts = "the source address is not of the family of the targets";
        return Err(Fault::new(Code::SourceUnavailable, facts));
    }
    let place = Place {
        family,
        source: sweep.source,
        dont_fragment: false,
    };
    let targets = places.iter().filter_map(|place| rows.get(*place));
    let echoes = Echoes {
        targets: targets.map(|row| row.address).collect(),
        count: sweep.count,
        interval: sweep.interval,
        wait: sweep.wait,
        data: DATA_BYTES,
        ttl: None,
    };
    let answers = engine.echo(place, echoes).await?;
    let each = usize::from(sweep.count).max(1);
    for (place, answers) in places.iter().zip(answers.all.chunks(each)) {
        if let Some(row) = rows.get_mut(*place) {
            row.fill(answers);
        }
    }
    Ok(())
}

impl Swept {
    const fn new(address: IpAddr) -> Self {
        Self {
            address,
            sent: 0,
            received: 0,
            undecided: 0,
            trips: Vec::new(),
            code: None,
        }
    }

    fn fill(&mut self, answers: &[Answer]) {
        for answer in answers {
            match answer {
                Answer::Reply(trip) => {
                    self.received += 1;
                    self.trips.push(*trip);
                }
                Answer::Error(said, _) => self.code = Some(said.code),
                Answer::Silent => {}
                Answer::Undecided => {
                    self.undecided += 1;
                    continue;
                }
                Answer::NotSent(why) => {
                    self.code = Some(why.code());
                    continue;
                }
            }
            self.sent += 1;
        }
    }
}
