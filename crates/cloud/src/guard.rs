//! The only way in which the product writes to a cloud: nothing is taken away from a foreign
//! port, nothing is released that is not ours.

use std::collections::BTreeSet;
use std::time::Duration;

use civ_types::{FipId, PortId};

use crate::cloud::{Cloud, FloatingIp};
use crate::fault::{Fault, WriteFault};

/// The ports that are ours: those of our validators and of open leases.
#[derive(Debug, Clone, Default)]
pub struct OwnPorts(BTreeSet<PortId>);

/// A port of ours. Only [`OwnPorts::own`] makes one, so that no call can name a foreign port.
///
/// ```
/// # use civ_cloud::guard::{OwnPort, OwnPorts};
/// # fn make(port: civ_types::PortId) -> Option<OwnPort> {
/// OwnPorts::new([port.clone()]).own(&port)
/// # }
/// ```
///
/// ```compile_fail
/// # use civ_cloud::guard::{OwnPort, OwnPorts};
/// # fn make(port: civ_types::PortId) -> Option<OwnPort> {
/// Some(OwnPort(port))
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPort(PortId);

impl OwnPorts {
    /// Takes the ports of our validators and of open leases.
    pub fn new(ports: impl IntoIterator<Item = PortId>) -> Self {
        Self(ports.into_iter().collect())
    }

    /// `port` as one of ours, if it is.
    #[must_use]
    pub fn own(&self, port: &PortId) -> Option<OwnPort> {
        self.0.get(port).cloned().map(OwnPort)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &PortId> {
        self.0.iter()
    }
}

impl OwnPort {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &PortId {
        &self.0
    }
}

/// What came of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Association {
    /// It is on our port, and that was read back.
    Associated {
        /// As read last.
        fip: FloatingIp,
        /// It was found there: by an earlier call of ours, or one whose answer was lost.
        adopted: bool,
    },
    /// Somebody else uses it; nothing was written.
    Occupied {
        /// By whom, as an operator reads it.
        seen: String,
    },
    /// Somebody else wrote at the same time as we did.
    Conflict {
        /// Whether it is on our port now, and so has to be released like any other.
        ours: bool,
        /// What was seen, as an operator reads it.
        seen: String,
    },
    /// Not associated as far as is known; after [`Fault::Cloud`] a lost write may land later.
    Failed(Fault),
}

/// What came of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Release {
    /// It was on our port and now is free, as the cloud answered or a read showed.
    Released,
    /// It was not bound to anything.
    AlreadyFree,
    /// It is bound to another port and was left alone.
    NotOurs {
        /// To what, as an operator reads it.
        seen: String,
    },
    /// The cloud has no such floating IP any more.
    Gone,
    /// Still to be done.
    Failed(Fault),
}

/// Writes that a floating IP is given that changes between each read and write.
const WRITES_MAX: usize = 3;

/// Pauses before the reads that settle a write whose answer was lost: the change may land after
/// the answer was given up. Together 1.75 s; a write that lands later still is the reconciler's.
const SETTLE_PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Who has a floating IP, seen from the port that it is meant for.
enum Holder {
    Nobody,
    OurPort,
    OtherPortOfOurs(OwnPort),
    Foreign,
}

fn holder(fip: &FloatingIp, port: &OwnPort, own: &OwnPorts) -> Holder {
    match &fip.port {
        Some(on) if on == port.id() => Holder::OurPort,
        Some(on) if civ_planted::is!(TakesForeign) && own.own(on).is_none() => Holder::Nobody,
        Some(on) => own.own(on).map_or(Holder::Foreign, Holder::OtherPortOfOurs),
        None if fip.is_free() => Holder::Nobody,
        None => Holder::Foreign,
    }
}

/// Binds `seen`, read a moment ago, to `port`.
///
/// Whatever is not free is refused; what an earlier crash left on another port of ours is released
/// from there first. Neutron moves a bound address silently and its `If-Match` is no lock, so the
/// write is checked three times: by revision before it, by the answer's revision, and by reading.
/// What counts the revision up meanwhile is somebody else's write unless an agent's report of the
/// status explains it.
pub async fn associate(
    cloud: &dyn Cloud,
    mut seen: FloatingIp,
    port: &OwnPort,
    own: &OwnPorts,
) -> Association {
    let mut writes = 0;
    let mut is_orphan_freed = false;
    loop {
        match holder(&seen, port, own) {
            Holder::OurPort => return adopted(seen),
            Holder::Foreign => return Association::Occupied { seen: seen.usage() },
            Holder::OtherPortOfOurs(_) if is_orphan_freed => return restless(&seen),
            Holder::OtherPortOfOurs(other) => {
                is_orphan_freed = true;
                if let Some(end) = free_orphan(cloud, &seen.id, &other).await {
                    return end;
                }
            }
            Holder::Nobody if writes == WRITES_MAX => return restless(&seen),
            Holder::Nobody => {
                writes += 1;
                if let Ok(end) = write(cloud, &seen, port).await {
                    return end;
                }
            }
        }
        seen = match cloud.get(&seen.id).await {
            Ok(Some(fip)) => fip,
            Ok(None) => return gone(&seen),
            Err(fault) => return Association::Failed(fault),
        };
    }
}

const fn adopted(fip: FloatingIp) -> Association {
    let adopted = true;
    Association::Associated { fip, adopted }
}

fn restless(fip: &FloatingIp) -> Association {
    let text = format!(
        "{} changes all the time: somebody else works on it",
        fip.address
    );
    Association::Failed(Fault::Address { text })
}

fn gone(fip: &FloatingIp) -> Association {
    let text = format!("{} does not exist any more in the cloud", fip.address);
    Association::Failed(Fault::Address { text })
}

/// Frees what hangs on another port of ours; `None` if the way is clear for another look.
async fn free_orphan(cloud: &dyn Cloud, id: &FipId, other: &OwnPort) -> Option<Association> {
    match release(cloud, id, other).await {
        Release::Released | Release::AlreadyFree | Release::NotOurs { .. } | Release::Gone => None,
        Release::Failed(fault) => Some(Association::Failed(fault)),
    }
}

/// The cloud refused the write because the floating IP is not as it was seen.
struct StaleView;

/// Writes on what was seen free, and finds out what came of it.
async fn write(
    cloud: &dyn Cloud,
    seen: &FloatingIp,
    port: &OwnPort,
) -> Result<Association, StaleView> {
    let planted = FloatingIp {
        revision: None,
        ..seen.clone()
    };
    let seen = if civ_planted::is!(WritesUnconditionally) {
        &planted
    } else {
        seen
    };
    match cloud.bind(seen, Some(port.id())).await {
        Ok(answer) => Ok(read_back(cloud, seen, &answer, port).await),
        Err(WriteFault::Stale) => Err(StaleView),
        Err(WriteFault::AnswerLost { text, retry_after }) => {
            let fault = Fault::Cloud { text, retry_after };
            Ok(settle_association(cloud, seen, port, fault).await)
        }
        // An earlier write whose answer was lost may have landed since: then the port refuses, and
        // it is this very address that it has.
        Err(WriteFault::Fault(fault @ Fault::Port { .. })) => Ok(match cloud.get(&seen.id).await {
            Ok(Some(fip)) if fip.is_on(port.id()) => adopted(fip),
            Ok(_) | Err(_) => Association::Failed(fault),
        }),
        Err(WriteFault::Fault(fault)) => Ok(Association::Failed(fault)),
    }
}

/// Whether nobody but us and the agents wrote between `seen` and `later`, a write of ours being
/// one of the changes.
///
/// Neutron counts every change: of a binding by whoever it is, and of the status. Only agents
/// change the status, never a `PUT`; so a status that is another one proves a report, and each
/// write of somebody else would come on top of it. Reports that cancel each other out prove
/// nothing, and are not assumed.
fn is_ours_alone(seen: &FloatingIp, later: &FloatingIp) -> bool {
    let (Some(from), Some(to)) = (seen.revision, later.revision) else {
        return true;
    };
    if civ_planted::is!(TrustsItsWrite) {
        return true;
    }
    let is_reported =
        seen.status.is_some() && later.status.is_some() && seen.status != later.status;
    to == from + 1 || (is_reported && to == from + 2)
}

/// The answer shows whether somebody else wrote before us, and the state read after it as well: in
/// clouds that report the status within our call, the answer may have the count of after and the
/// status of before. After the answer the count may grow.
async fn read_back(
    cloud: &dyn Cloud,
    seen: &FloatingIp,
    answer: &FloatingIp,
    port: &OwnPort,
) -> Association {
    let now = match read_since(cloud, answer).await {
        Ok(Some(fip)) => fip,
        Ok(None) => return gone(seen),
        Err(fault) => return Association::Failed(fault),
    };
    // A copy that still lags behind says nothing about the present: the answer is the newest there
    // is, and the self-check proves or disproves it.
    let now = if is_older(&now, answer) {
        answer.clone()
    } else {
        now
    };
    let ours = now.is_on(port.id());
    let is_alone = is_ours_alone(seen, answer) || is_ours_alone(seen, &now);
    if ours && answer.is_on(port.id()) && is_alone {
        let adopted = false;
        return Association::Associated { fip: now, adopted };
    }
    let seen = format!(
        "somebody else changed it at the same time: revision {} when it was read, {} after our \
         write, {} now, and it is {}",
        count(seen.revision),
        count(answer.revision),
        count(now.revision),
        now.usage()
    );
    Association::Conflict { ours, seen }
}

fn count(revision: Option<u64>) -> String {
    revision.map_or_else(|| "unknown".to_owned(), |n| n.to_string())
}

/// Reads until the cloud shows a state that is not older than `answer`: a read may be served from
/// a copy that lags behind.
async fn read_since(cloud: &dyn Cloud, answer: &FloatingIp) -> Result<Option<FloatingIp>, Fault> {
    let mut last = None;
    for pause in SETTLE_PAUSES {
        tokio::time::sleep(pause).await;
        last = cloud.get(&answer.id).await?;
        if !last.as_ref().is_some_and(|now| is_older(now, answer)) {
            break;
        }
    }
    Ok(last)
}

fn is_older(now: &FloatingIp, answer: &FloatingIp) -> bool {
    now.revision < answer.revision
}

async fn settle_association(
    cloud: &dyn Cloud,
    seen: &FloatingIp,
    port: &OwnPort,
    fault: Fault,
) -> Association {
    for pause in SETTLE_PAUSES {
        tokio::time::sleep(pause).await;
        match cloud.get(&seen.id).await {
            Ok(Some(now)) if now.is_on(port.id()) => return adopted(now),
            Ok(Some(now)) if now.is_free() => {}
            Ok(Some(now)) => {
                let seen = format!(
                    "after our write, whose answer was lost, it is {}",
                    now.usage()
                );
                return Association::Conflict { ours: false, seen };
            }
            Ok(None) => return gone(seen),
            Err(fault) => return Association::Failed(fault),
        }
    }
    Association::Failed(fault)
}

/// Frees the floating IP if, and only if, it is on `port`.
pub async fn release(cloud: &dyn Cloud, id: &FipId, port: &OwnPort) -> Release {
    for _ in 0..WRITES_MAX {
        let seen = match look(cloud, id, port).await {
            Ok(fip) => fip,
            Err(Release::Released) => return Release::AlreadyFree,
            Err(end) => return end,
        };
        match cloud.bind(&seen, None).await {
            // An answer that shows it on our port still is no release, whatever its status says.
            Ok(answer) if answer.is_on(port.id()) => {}
            Ok(answer) => {
                warn_of_another_writer(cloud, &seen, &answer).await;
                return Release::Released;
            }
            Err(WriteFault::Stale) => {}
            Err(WriteFault::AnswerLost { text, retry_after }) => {
                let fault = Fault::Cloud { text, retry_after };
                return settle_release(cloud, id, port, fault).await;
            }
            Err(WriteFault::Fault(fault)) => return Release::Failed(fault),
        }
    }
    let text = format!(
        "floating IP {id} cannot be released: somebody else changes it all the time, or the cloud \
         says yes and leaves it where it is"
    );
    Release::Failed(Fault::Address { text })
}

/// `Ok` if it is on `port`; otherwise what that means for a release.
async fn look(cloud: &dyn Cloud, id: &FipId, port: &OwnPort) -> Result<FloatingIp, Release> {
    match cloud.get(id).await {
        Ok(Some(fip)) if fip.is_on(port.id()) => Ok(fip),
        Ok(Some(fip)) if fip.port.is_none() => Err(Release::Released),
        Ok(Some(fip)) if civ_planted::is!(ReleasesForeign) => Ok(fip),
        Ok(Some(fip)) => Err(Release::NotOurs { seen: fip.usage() }),
        Ok(None) => Err(Release::Gone),
        Err(fault) => Err(Release::Failed(fault)),
    }
}

async fn settle_release(cloud: &dyn Cloud, id: &FipId, port: &OwnPort, fault: Fault) -> Release {
    if civ_planted::is!(LostReleaseIsDone) {
        return Release::Released;
    }
    for pause in SETTLE_PAUSES {
        tokio::time::sleep(pause).await;
        if let Err(end) = look(cloud, id, port).await {
            return end;
        }
    }
    Release::Failed(fault)
}

/// Neutron drops `If-Match` when it repeats a transaction that collided with another: nothing can
/// be undone then without writing again, but somebody should know. One more look only where the
/// answer alone tells of somebody.
async fn warn_of_another_writer(cloud: &dyn Cloud, seen: &FloatingIp, answer: &FloatingIp) {
    if is_ours_alone(seen, answer) {
        return;
    }
    if let Ok(Some(now)) = cloud.get(&seen.id).await
        && is_ours_alone(seen, &now)
    {
        return;
    }
    tracing::warn!(
        address = %seen.address,
        revision_seen = seen.revision,
        revision_answered = answer.revision,
        "somebody else changed the floating IP while it was released"
    );
}

#[cfg(test)]
mod tests {
    use civ_types::Address;

    use super::*;

    fn fip(revision: Option<u64>, status: Option<&str>) -> FloatingIp {
        FloatingIp {
            id: FipId::parse("f").unwrap(),
            address: Address::parse("203.0.113.1").unwrap(),
            port: None,
            fixed_address: None,
            router: None,
            forwardings: false,
            revision,
            status: status.map(str::to_owned),
            network: None,
            description: None,
        }
    }

    /// `name: (seen, later) => alone`, each of revision and status.
    macro_rules! rows {
        ($($name:ident: ($seen:expr, $later:expr) => $alone:literal,)*) => {$(
            #[test]
            fn $name() {
                let (seen, later): ((Option<u64>, _), (Option<u64>, _)) = ($seen, $later);
                assert_eq!(is_ours_alone(&fip(seen.0, seen.1), &fip(later.0, later.1)), $alone);
            }
        )*};
    }

    const DOWN: Option<&str> = Some("DOWN");
    const ACTIVE: Option<&str> = Some("ACTIVE");

    rows! {
        our_write_alone: ((Some(4), DOWN), (Some(5), DOWN)) => true,
        our_write_whatever_the_status: ((Some(4), DOWN), (Some(5), ACTIVE)) => true,
        our_write_and_a_report: ((Some(4), ACTIVE), (Some(6), DOWN)) => true,
        somebody_elses_write: ((Some(4), DOWN), (Some(6), DOWN)) => false,
        somebody_elses_write_and_its_report: ((Some(4), DOWN), (Some(7), ACTIVE)) => false,
        reports_that_cancel_out_prove_nothing: ((Some(4), ACTIVE), (Some(7), ACTIVE)) => false,
        a_status_that_is_not_told: ((Some(4), DOWN), (Some(6), None)) => false,
        a_copy_of_before: ((Some(4), DOWN), (Some(4), DOWN)) => false,
        a_cloud_that_does_not_count: ((None, DOWN), (None, ACTIVE)) => true,
        an_answer_without_a_count: ((Some(4), DOWN), (None, DOWN)) => true,
    }
}
