//! The cloud of a run: the fake one, with delays, faults and strangers in between; every write is
//! held against the rules as it arrives and as it is carried out.

use std::time::Duration;

use async_trait::async_trait;
use civ_cloud::fake::FakeCloud;
use civ_cloud::{Cloud, Fault, FloatingIp, Page, ReadFault, WriteFault};
use civ_types::{Address, Family, FipId, PortId};

use crate::view::number;
use crate::world::{LateWrite, REQUEST, SECOND, Shared, World, fip, foreign};

/// The cloud as the product reaches it.
#[derive(Debug)]
pub(crate) struct SimCloud {
    shared: Shared,
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    NotDone,
    NotAnswered,
    Twice,
    Late,
    Refused(u8),
    TakenBefore,
    TakenUnseen,
    TakenAfter,
    ReportedBefore,
}

fn lost() -> WriteFault {
    WriteFault::AnswerLost {
        text: "the connection was closed without an answer".to_owned(),
        retry_after: None,
    }
}

fn away(n: u8) -> Fault {
    Fault::Cloud {
        text: "the cloud is away".to_owned(),
        retry_after: (n == 0).then(|| Duration::from_secs(2)),
    }
}

/// Counts a call that is under way, however it ends.
struct UnderWay {
    shared: Shared,
    what: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut world = self.shared.world();
        if let Some(n) = world.in_flight.get_mut(&self.what) {
            *n = n.saturating_sub(1);
        }
    }
}

/// A write on its way: if the process dies before it is carried out, it may land all the same.
struct OnTheWay {
    shared: Shared,
    write: Option<LateWrite>,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let Some(mut write) = self.write.take() else {
            return;
        };
        let mut world = self.shared.world();
        if world.strikes("lands after the process's death", 0.5) {
            let rest = i64::from(world.die(30)) * SECOND / 10;
            write.due = world.clock.steady() + rest;
            world.late.push(write);
        }
    }
}

impl World {
    /// Carries out what lands late, if it is time.
    pub(crate) fn land(&mut self) {
        let now = self.clock.steady();
        let (due, rest) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|write| write.due <= now || self.calm);
        self.late = rest;
        let due: Vec<LateWrite> = due;
        for write in due {
            self.tell(|| format!("  a late write lands: {write:?}"));
            self.cloud_trouble();
            let done = self.carry_out(&write.id, write.port.as_ref(), write.revision, false);
            drop(done);
        }
    }

    /// The write itself, held against the rules.
    fn carry_out(
        &mut self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
        unseen: bool,
    ) -> Result<FloatingIp, WriteFault> {
        let before = self.fake.port_of(id);
        let done = self.fake.write_now(id, port, revision);
        let n = number(id.as_str());
        if done.is_ok()
            && let Some(former) = before.filter(|former| Some(former) != port)
        {
            let is_ours = former.as_str().starts_with("port-");
            match port {
                Some(_) if unseen && !is_ours => {
                    self.stolen.insert(n);
                }
                Some(to) => self.broken("2", format!("address {n} was moved: {former} > {to}")),
                None if !is_ours => {
                    self.broken("4", format!("address {n} was taken off {former}"));
                }
                None => {
                    let owned = self.view.count(
                        "SELECT COUNT(*) FROM leases l JOIN ips i ON i.id = l.ip_id \
                         AND i.claim_no = l.claim_no WHERE l.address = ?1 AND l.port_id = ?2 \
                         AND l.attached AND NOT l.releasing",
                        [format!("203.0.113.{n}"), former.to_string()],
                    );
                    if owned > 0 {
                        let text = format!("address {n} was taken off {former}, where it belongs");
                        self.broken("3", text);
                    }
                }
            }
        }
        if let Err(WriteFault::Fault(Fault::Address { .. }) | WriteFault::Stale) = &done {
            *self.address_faults.entry(n).or_default() += 1;
        }
        done
    }

    /// What is asked, before anything is done about it.
    fn arrives(&mut self, id: &FipId, port: Option<&PortId>, revision: Option<u64>) {
        let n = number(id.as_str());
        self.tell(|| format!("  PUT address {n} > {port:?} if {revision:?}"));
        if revision.is_none() {
            let rule = if port.is_some() { "2" } else { "4" };
            self.broken(rule, format!("an unconditional write of address {n}"));
        }
        let Some(port) = port else { return };
        let ours = self.view.count(
            "SELECT EXISTS (SELECT 1 FROM leases WHERE port_id = ?1 \
             UNION ALL SELECT 1 FROM validators WHERE port_id = ?1)",
            [port.as_str()],
        );
        if ours == 0 {
            self.broken("2", format!("{port} is none of ours"));
        }
        let intent = self.view.count(
            "SELECT COUNT(*) FROM leases JOIN outbox USING (claim_no) \
             WHERE address = ?1 AND port_id = ?2",
            [format!("203.0.113.{n}"), port.to_string()],
        );
        if intent == 0 {
            let text = format!("address {n} is written and nothing was noted before");
            self.broken("3", text);
        }
    }

    fn fate(&mut self, binds: bool) -> Fate {
        let chance = 0.02 * self.ground.cloud_faults;
        let all = [
            ("write is not done", Fate::NotDone, true),
            ("write is not answered", Fate::NotAnswered, true),
            ("write is done twice", Fate::Twice, true),
            ("write lands late", Fate::Late, true),
            ("write is refused: address", Fate::Refused(0), true),
            ("write is refused: port", Fate::Refused(1), binds),
            ("write is refused: cloud", Fate::Refused(2), true),
            ("taken before the write", Fate::TakenBefore, true),
            ("taken before the write, unseen", Fate::TakenUnseen, binds),
            ("taken after the write", Fate::TakenAfter, true),
            ("status is reported", Fate::ReportedBefore, true),
        ];
        for (name, fate, possible) in all {
            if self.strikes(name, chance) && possible {
                return fate;
            }
        }
        Fate::Done
    }

    fn meets(
        &mut self,
        fate: Fate,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let n = number(id.as_str());
        let taken_by = foreign(self.die(3) + 1);
        match fate {
            Fate::Done => self.carry_out(id, port, revision, false),
            Fate::NotDone => Err(lost()),
            Fate::NotAnswered => {
                self.carry_out(id, port, revision, false)?;
                Err(lost())
            }
            Fate::Twice => {
                let first = self.carry_out(id, port, revision, false);
                let second = self.carry_out(id, port, revision, false);
                if first.is_ok() { second } else { first }
            }
            Fate::Late => {
                let due = self.clock.steady() + i64::from(self.die(60)) * SECOND / 10;
                self.late.push(LateWrite {
                    due,
                    id: id.clone(),
                    port: port.cloned(),
                    revision,
                });
                Err(lost())
            }
            Fate::Refused(0) => {
                *self.address_faults.entry(n).or_default() += 1;
                let text = "refused for this address".to_owned();
                Err(Fault::Address { text }.into())
            }
            Fate::Refused(1) => {
                let text = "ExternalGatewayForFloatingIPNotFound".to_owned();
                Err(Fault::Port { text }.into())
            }
            Fate::Refused(_) => Err(away(self.die(4)).into()),
            Fate::TakenBefore | Fate::TakenUnseen => {
                self.fake.rebind(id, Some(taken_by));
                let unseen = fate == Fate::TakenUnseen;
                let revision = revision.filter(|_| !unseen);
                self.carry_out(id, port, revision, unseen)
            }
            Fate::TakenAfter => {
                let done = self.carry_out(id, port, revision, false);
                self.fake.rebind(id, Some(taken_by));
                done
            }
            Fate::ReportedBefore => {
                self.fake.report_status(id);
                self.carry_out(id, port, revision, false)
            }
        }
    }
}

impl SimCloud {
    pub(crate) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    fn fake(&self) -> std::sync::Arc<FakeCloud> {
        std::sync::Arc::clone(&self.shared.world().fake)
    }

    /// Waits as long as the way takes; no answer at all if that is too long.
    async fn way(&self) -> Result<(), ()> {
        let (time, hangs) = {
            let mut world = self.shared.world();
            world.land();
            let hangs = !world.calm && world.clock.steady() < world.hangs_until;
            (world.delay(REQUEST.mul_f64(1.3)), hangs)
        };
        if time > Duration::ZERO || hangs {
            let time = if hangs { REQUEST } else { time.min(REQUEST) };
            tokio::time::sleep(time).await;
        }
        let mut world = self.shared.world();
        world.land();
        if hangs || time >= REQUEST {
            world.reach("fault no answer in time");
            world.cloud_trouble();
            return Err(());
        }
        Ok(())
    }

    fn under_way(&self, what: String) -> UnderWay {
        let mut world = self.shared.world();
        let n = world.in_flight.entry(what.clone()).or_default();
        *n += 1;
        if *n > 1 {
            world.broken("3", format!("two calls at once: {what}"));
        }
        drop(world);
        UnderWay {
            shared: self.shared.clone(),
            what,
        }
    }

    /// A read: the way there, faults, the way back.
    async fn read<T>(&self, look: impl FnOnce(&FakeCloud) -> T + Send) -> Result<T, Fault> {
        let no_answer = |()| Fault::cloud("no answer within the time limit");
        self.way().await.map_err(no_answer)?;
        let seen = {
            let mut world = self.shared.world();
            let chance = 0.015 * world.ground.cloud_faults;
            if world.is_away() || world.strikes("read is refused", chance) {
                world.cloud_trouble();
                return Err(away(world.die(4)));
            }
            look(&world.fake)
        };
        self.way().await.map_err(no_answer)?;
        self.shared.world().refused_at = None;
        Ok(seen)
    }
}

fn read_fault(fault: &Fault) -> ReadFault {
    ReadFault::passing(fault.to_string())
}

#[async_trait]
impl Cloud for SimCloud {
    fn families(&self) -> &[Family] {
        &[Family::V4]
    }

    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        let n = number(&address.to_string());
        let _under_way = self.under_way(format!("find address {n}"));
        let found = self.read(|fake| fake.look(&fip(n))).await;
        let mut world = self.shared.world();
        if found.is_err() {
            let mut leases = world.snap.leases.iter();
            if leases.any(|one| one.address == n && !one.releasing) {
                world.refused_at = Some(world.clock.steady());
            }
        }
        let found = found?;
        let chance = 0.008 * world.ground.cloud_faults;
        if world.strikes("address exists twice", chance) {
            *world.address_faults.entry(n).or_default() += 1;
            let text = "it exists on more than one external network".to_owned();
            return Err(Fault::Address { text });
        }
        if found.is_none() {
            *world.address_faults.entry(n).or_default() += 1;
        }
        world.tell(|| format!("  GET address {n}: {:?}", found.as_ref().map(|f| &f.port)));
        Ok(found)
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        let found = self.read(|fake| fake.look(id)).await?;
        let n = number(id.as_str());
        let mut world = self.shared.world();
        if found.is_none() {
            *world.address_faults.entry(n).or_default() += 1;
        }
        world.tell(|| format!("  GET {id}: {:?}", found.as_ref().map(|f| &f.port)));
        Ok(found)
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        let fake = self.fake();
        self.way()
            .await
            .map_err(|()| Fault::cloud("no answer within the time limit"))?;
        {
            let mut world = self.shared.world();
            let chance = 0.015 * world.ground.cloud_faults;
            if world.is_away() || world.strikes("listing is refused", chance) {
                world.cloud_trouble();
                return Err(away(world.die(4)));
            }
        }
        let listed = fake.on_ports(ports).await;
        self.way()
            .await
            .map_err(|()| Fault::cloud("no answer within the time limit"))?;
        self.shared.world().refused_at = None;
        listed
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        let fake = self.fake();
        self.read(|_| ())
            .await
            .map_err(|fault| read_fault(&fault))?;
        fake.page(after, limit).await
    }

    async fn count(&self) -> Result<Option<u64>, ReadFault> {
        let fake = self.fake();
        self.read(|_| ())
            .await
            .map_err(|fault| read_fault(&fault))?;
        fake.count().await
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let _under_way = self.under_way(format!("PUT {id}"));
        let write = LateWrite {
            due: 0,
            id: id.clone(),
            port: port.cloned(),
            revision,
        };
        self.shared.world().arrives(id, port, revision);
        let mut on_the_way = OnTheWay {
            shared: self.shared.clone(),
            write: Some(write),
        };
        if self.way().await.is_err() {
            // It may still land: the drop sees to it.
            return Err(lost());
        }
        on_the_way.write = None;
        let answer = {
            let mut world = self.shared.world();
            if world.is_away() {
                world.cloud_trouble();
                return Err(away(world.die(4)).into());
            }
            let fate = world.fate(port.is_some());
            if fate != Fate::Done {
                world.cloud_trouble();
            }
            world.meets(fate, id, port, revision)
        };
        if self.way().await.is_err() {
            // Nobody can tell any more who it was.
            self.shared.world().stolen.remove(&number(id.as_str()));
            return Err(lost());
        }
        self.shared.world().refused_at = None;
        answer
    }
}
