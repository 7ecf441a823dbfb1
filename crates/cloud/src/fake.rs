//! A cloud in memory whose faults are scripted: for tests of those who use this crate.
//!
//! It behaves like Neutron where it matters: a write moves a bound address silently, every change
//! counts the revision up, a stale revision is refused. Time plays no part in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use civ_types::{Address, Family, FipId, PortId};

use crate::cloud::{Cloud, FloatingIp, Listed, Page};
use crate::fault::{Fault, ReadFault, WriteFault};

/// What happens to the next write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Refused with this.
    Refused(Fault),
    /// Not carried out, and no answer.
    LostBefore,
    /// Carried out, but no answer.
    LostAfter,
    /// No answer, and carried out only after this many further reads.
    LandsAfterReads(u32),
    /// Just before it, somebody binds the address to this port.
    TakenBefore(PortId),
    /// As before, and this write is made without looking at the revision, as Neutron does when it
    /// repeats a transaction that collided.
    TakenBeforeUnseen(PortId),
    /// Just after it, somebody moves the address to this port.
    TakenAfter(PortId),
    /// Just before it, the agent reports the status.
    ReportedBefore,
    /// As before, and this write is made without looking at the revision.
    ReportedBeforeUnseen,
}

/// What happens to the next page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageTrouble {
    /// Refused with this.
    Refused(ReadFault),
    /// The floating IP that the page is to begin behind is deleted just before.
    MarkerGone,
    /// The page says that nothing follows, although something does.
    EndsEarly,
    /// The page says what it was asked for, and only then is the floating IP bound to this port.
    TakenAfter(FipId, PortId),
}

/// A write that was asked for, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Of which floating IP.
    pub id: FipId,
    /// To which port.
    pub port: Option<PortId>,
    /// On which condition.
    pub revision: Option<u64>,
    /// The port that it took the floating IP from, if it was carried out and took it from one.
    pub replaced: Option<PortId>,
}

#[derive(Debug, Default)]
struct State {
    fips: BTreeMap<FipId, FloatingIp>,
    ports: BTreeSet<PortId>,
    troubles: VecDeque<Trouble>,
    page_troubles: VecDeque<Option<PageTrouble>>,
    /// Pages that may still be answered; `None`: all. Others wait for [`FakeCloud::let_pages`].
    pages_left: Option<u32>,
    outage: Option<Fault>,
    /// Reads to come before it lands, and which of `writes` it is.
    late: Option<(u32, usize)>,
    writes: Vec<Write>,
    n_taken: u64,
    calls: u64,
    /// What the cloud says how many there are, while it does not say the truth.
    said: Option<Option<u64>>,
}

/// The cloud in memory.
#[derive(Debug)]
pub struct FakeCloud {
    state: Mutex<State>,
    more_pages: Notify,
    families: Vec<Family>,
    has_revisions: bool,
}

impl Default for FakeCloud {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeCloud {
    /// Without ports and addresses.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            more_pages: Notify::new(),
            families: vec![Family::V4],
            has_revisions: true,
        }
    }

    /// The same, of a kind that counts no revisions.
    #[must_use]
    pub fn without_revisions() -> Self {
        Self {
            has_revisions: false,
            ..Self::new()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a port that can take floating IPs.
    pub fn add_port(&self, port: PortId) {
        self.state().ports.insert(port);
    }

    /// Removes a port; what is bound to it becomes free.
    pub fn remove_port(&self, port: &PortId) {
        let mut state = self.state();
        state.ports.remove(port);
        for fip in state.fips.values_mut().filter(|fip| fip.is_on(port)) {
            bind(fip, None);
        }
    }

    /// Adds a floating IP, bound to `port` if one is given, whether that port exists or not.
    pub fn add_fip(&self, id: FipId, address: Address, port: Option<PortId>) {
        let fip = FloatingIp {
            description: None,
            id: id.clone(),
            address,
            port,
            fixed_address: None,
            router: None,
            forwardings: false,
            revision: self.has_revisions.then_some(0),
            status: Some("DOWN".to_owned()),
            network: None,
        };
        self.state().fips.insert(id, fip);
    }

    /// Removes a floating IP.
    pub fn remove_fip(&self, id: &FipId) {
        self.state().fips.remove(id);
    }

    /// What somebody else does: binds it to `port`, or frees it.
    pub fn rebind(&self, id: &FipId, port: Option<PortId>) {
        if let Some(fip) = self.state().fips.get_mut(id) {
            bind(fip, port);
        }
    }

    /// What an agent does: its status follows its binding, which counts as a change.
    pub fn report_status(&self, id: &FipId) {
        self.state().report(id);
    }

    /// How often somebody else bound or freed a floating IP just before or after a write of ours.
    #[must_use]
    pub fn n_taken(&self) -> u64 {
        self.state().n_taken
    }

    /// Gives it a port forwarding: it has no port, and is not free.
    pub fn forward(&self, id: &FipId) {
        if let Some(fip) = self.state().fips.get_mut(id) {
            fip.forwardings = true;
            fip.router = Some("router".to_owned());
        }
    }

    /// Adds to what the next writes meet, one each.
    pub fn script(&self, trouble: Trouble) {
        self.state().troubles.push_back(trouble);
    }

    /// Adds to what the next pages meet, one each; `None`: nothing.
    pub fn script_page(&self, trouble: Option<PageTrouble>) {
        self.state().page_troubles.push_back(trouble);
    }

    /// From now on only that many pages are answered, and those behind them wait; `None`: all.
    pub fn let_pages(&self, left: Option<u32>) {
        self.state().pages_left = left;
        self.more_pages.notify_waiters();
    }

    async fn turn_of_page(&self) {
        loop {
            let more = self.more_pages.notified();
            let mut more = std::pin::pin!(more);
            more.as_mut().enable();
            match &mut self.state().pages_left {
                None => return,
                Some(0) => {}
                Some(left) => {
                    *left -= 1;
                    return;
                }
            }
            more.await;
        }
    }

    /// From now on every call fails with this; `None` ends it.
    pub fn set_outage(&self, fault: Option<Fault>) {
        self.state().outage = fault;
    }

    /// What it says from now on when it is asked how many there are; before, it says the truth.
    pub fn say_count(&self, said: Option<u64>) {
        self.state().said = Some(said);
    }

    /// Which port it is on now.
    #[must_use]
    pub fn port_of(&self, id: &FipId) -> Option<PortId> {
        self.state().fips.get(id).and_then(|fip| fip.port.clone())
    }

    /// It as it is now, whatever troubles are scripted.
    #[must_use]
    pub fn look(&self, id: &FipId) -> Option<FloatingIp> {
        self.state().fips.get(id).cloned()
    }

    /// A write that is carried out at once, whatever troubles are scripted, and not remembered.
    ///
    /// # Errors
    /// As [`Cloud::set_port`].
    pub fn write_now(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let mut state = self.state();
        let index = state.writes.len();
        state.writes.push(Write {
            id: id.clone(),
            port: port.cloned(),
            revision,
            replaced: None,
        });
        let answer = state.carry_out(index);
        state.writes.truncate(index);
        answer
    }

    /// All writes so far, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }

    /// How many calls there were of any kind.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }
}

fn bind(fip: &mut FloatingIp, port: Option<PortId>) {
    fip.port = port;
    fip.revision = fip.revision.map(|n| n + 1);
}

impl State {
    fn counted(&self) -> Option<u64> {
        self.said
            .unwrap_or_else(|| u64::try_from(self.fips.len()).ok())
    }

    fn open(&mut self) -> Result<(), Fault> {
        self.calls += 1;
        self.outage.clone().map_or(Ok(()), Err)
    }

    /// A read: what was to land late may land now.
    fn read(&mut self) -> Result<(), Fault> {
        self.open()?;
        self.late = match self.late.take() {
            Some((0, write)) => {
                let _late_answer = self.carry_out(write);
                None
            }
            Some((reads, write)) => Some((reads - 1, write)),
            None => None,
        };
        Ok(())
    }

    fn page(&mut self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        let trouble = self.page_troubles.pop_front().flatten();
        match (&trouble, after) {
            (Some(PageTrouble::Refused(fault)), _) => return Err(fault.clone()),
            (Some(PageTrouble::MarkerGone), Some(id)) => drop(self.fips.remove(id)),
            _ => {}
        }
        self.read().map_err(|fault| match fault {
            Fault::Cloud { text, retry_after } => ReadFault {
                text,
                retry_after,
                passes: true,
            },
            Fault::Address { text } | Fault::Port { text } => ReadFault::lasting(text),
        })?;
        // Like Neutron: a marker that is gone brings the first page.
        let known = after.filter(|id| self.fips.contains_key(id));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let behind = |fip: &&FloatingIp| known.is_none_or(|id| *id < fip.id);
        let rows: Vec<Listed> = self
            .fips
            .values()
            .filter(behind)
            .take(limit)
            .map(|fip| Listed {
                id: fip.id.clone(),
                address: fip.address,
                is_free: fip.is_free(),
            })
            .collect();
        let mut has_more = rows.len() == limit;
        match trouble {
            Some(PageTrouble::TakenAfter(id, port)) => self.take(&id, port),
            Some(PageTrouble::EndsEarly) => has_more = false,
            Some(PageTrouble::Refused(_) | PageTrouble::MarkerGone) | None => {}
        }
        Ok(Page { rows, has_more })
    }

    fn carry_out(&mut self, index: usize) -> Result<FloatingIp, WriteFault> {
        let Some(write) = self.writes.get(index).cloned() else {
            return Err(Fault::cloud("no such write").into());
        };
        let address_fault = |text: &str| {
            let text = text.to_owned();
            Err(Fault::Address { text }.into())
        };
        let Some(fip) = self.fips.get(&write.id) else {
            return address_fault("FloatingIPNotFound");
        };
        if write.revision.is_some() && write.revision != fip.revision {
            return Err(WriteFault::Stale);
        }
        if let Some(port) = &write.port {
            if fip.forwardings {
                return address_fault("FipInUseByPortForwarding");
            }
            let mut others = self.fips.values().filter(|other| other.id != write.id);
            let text = if !self.ports.contains(port) {
                "PortNotFound"
            } else if others.any(|other| other.is_on(port)) {
                "FloatingIPPortAlreadyAssociated"
            } else {
                ""
            };
            if !text.is_empty() {
                let text = text.to_owned();
                return Err(Fault::Port { text }.into());
            }
        }
        let Some(fip) = self.fips.get_mut(&write.id) else {
            return address_fault("FloatingIPNotFound");
        };
        let replaced = fip.port.clone();
        if fip.port.is_some() || write.port.is_some() {
            bind(fip, write.port);
        }
        let answer = fip.clone();
        if let Some(write) = self.writes.get_mut(index) {
            write.replaced = replaced;
        }
        Ok(answer)
    }

    fn take(&mut self, id: &FipId, port: PortId) {
        if let Some(fip) = self.fips.get_mut(id) {
            bind(fip, Some(port));
            self.n_taken += 1;
        }
    }

    fn report(&mut self, id: &FipId) {
        if let Some(fip) = self.fips.get_mut(id) {
            let status = if fip.port.is_some() { "ACTIVE" } else { "DOWN" };
            if fip.status.as_deref() != Some(status) {
                fip.status = Some(status.to_owned());
                fip.revision = fip.revision.map(|n| n + 1);
            }
        }
    }

    /// Carries it out without looking at the revision.
    fn carry_out_unseen(&mut self, index: usize) -> Result<FloatingIp, WriteFault> {
        if let Some(write) = self.writes.get_mut(index) {
            write.revision = None;
        }
        self.carry_out(index)
    }

    fn write(&mut self, write: Write) -> Result<FloatingIp, WriteFault> {
        let lost = || {
            Err(WriteFault::AnswerLost {
                text: "the connection was closed without an answer".to_owned(),
                retry_after: None,
            })
        };
        let (index, id) = (self.writes.len(), write.id.clone());
        self.writes.push(write);
        match self.troubles.pop_front() {
            None => self.carry_out(index),
            Some(Trouble::Refused(fault)) => Err(fault.into()),
            Some(Trouble::LostBefore) => lost(),
            Some(Trouble::LostAfter) => {
                self.carry_out(index)?;
                lost()
            }
            Some(Trouble::LandsAfterReads(reads)) => {
                self.late = Some((reads, index));
                lost()
            }
            Some(Trouble::TakenBefore(port)) => {
                self.take(&id, port);
                self.carry_out(index)
            }
            Some(Trouble::TakenBeforeUnseen(port)) => {
                self.take(&id, port);
                self.carry_out_unseen(index)
            }
            Some(Trouble::ReportedBefore) => {
                self.report(&id);
                self.carry_out(index)
            }
            Some(Trouble::ReportedBeforeUnseen) => {
                self.report(&id);
                self.carry_out_unseen(index)
            }
            Some(Trouble::TakenAfter(port)) => {
                let answer = self.carry_out(index);
                self.take(&id, port);
                answer
            }
        }
    }
}

#[async_trait]
impl Cloud for FakeCloud {
    fn families(&self) -> &[Family] {
        &self.families
    }

    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        let mut state = self.state();
        state.read()?;
        Ok(state
            .fips
            .values()
            .find(|fip| fip.address == address)
            .cloned())
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        let mut state = self.state();
        state.read()?;
        Ok(state.fips.get(id).cloned())
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        let mut state = self.state();
        state.read()?;
        let bound = |fip: &&FloatingIp| fip.port.as_ref().is_some_and(|port| ports.contains(port));
        Ok(state.fips.values().filter(bound).cloned().collect())
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        self.turn_of_page().await;
        self.state().page(after, limit)
    }

    async fn count(&self) -> Result<Option<u64>, ReadFault> {
        Ok(self.state().counted())
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let mut state = self.state();
        state.open()?;
        let write = Write {
            id: id.clone(),
            port: port.cloned(),
            revision,
            replaced: None,
        };
        state.write(write)
    }
}
