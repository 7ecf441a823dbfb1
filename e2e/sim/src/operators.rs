//! Operators, strangers and the weather: every step of a story that is neither an agent's nor a
//! prober's.

use civ_control_api::app::config::{InboundChange, NewCheckType, OrchestratorChange};
use civ_control_api::app::{AppError, Caller};

use crate::actors::{Actor, site, validator};
use crate::story::Op;
use crate::world::{SECOND, Shared, World, address, fip, foreign, port};

/// Changes that a floating IP that was made again has had already, so that no condition on the
/// former one holds for it.
const FORMER_CHANGES: u8 = 40;

impl World {
    /// What happens without the product. Says whether it was of that kind.
    pub(crate) fn happens(&mut self, op: &Op) -> bool {
        let now = self.clock.steady();
        match op {
            Op::ForeignBinds(n) => {
                let by = foreign(n % 3 + 1);
                self.fake.rebind(&fip(*n), Some(by));
            }
            Op::ForeignFrees(n) => self.fake.rebind(&fip(*n), None),
            Op::Forwarded(n) => {
                if self.fake.look(&fip(*n)).is_some_and(|one| one.is_free()) {
                    self.fake.forward(&fip(*n));
                }
            }
            Op::FipGone(n) => self.fake.remove_fip(&fip(*n)),
            Op::FipBack(n) => {
                let id = fip(*n);
                if self.fake.look(&id).is_none_or(|one| one.forwardings) {
                    self.fake.add_fip(id.clone(), address(*n), None);
                    (0..FORMER_CHANGES).for_each(|_| self.fake.rebind(&id, None));
                }
            }
            Op::PortGone(n) => self.fake.remove_port(&port(*n)),
            Op::PortBack(n) => self.fake.add_port(port(*n)),
            Op::Orphan(n, on) => {
                let is_free = self.fake.look(&fip(*n)).is_some_and(|one| one.is_free());
                let mut all = 1..=crate::story::ADDRESSES;
                let is_taken = all.any(|m| self.fake.port_of(&fip(m)) == Some(port(*on)));
                let mut ours = self.snap.validators.values();
                let is_ours = ours.any(|one| one.port == *on);
                let wanted = self.snap.leases.iter().any(|one| one.address == *n);
                if is_free && is_ours && !is_taken && !wanted {
                    self.by_hand.insert(*n);
                    self.fake.rebind(&fip(*n), Some(port(*on)));
                }
            }
            Op::StatusReported(n) => self.fake.report_status(&fip(*n)),
            Op::Outage(secs) => {
                self.outage_until = now + i64::from(*secs) * SECOND;
                self.cloud_well_since = self.cloud_well_since.max(self.outage_until);
            }
            Op::Hangs(secs) => {
                self.hangs_until = now + i64::from(*secs) * SECOND;
                self.cloud_well_since = self.cloud_well_since.max(self.hangs_until);
            }
            Op::DiskFull(n) => self.disk_full = u32::from(*n),
            Op::ClockJump(secs) => self.jump(i64::from(*secs) * SECOND),
            _ => return false,
        }
        true
    }
}

fn texts(list: &[u8]) -> Vec<String> {
    list.iter().map(|n| format!("203.0.113.{n}")).collect()
}

impl Actor {
    /// A step of an agent, a prober or an operator.
    pub(crate) async fn act(&self, op: Op) {
        match op {
            Op::Agent(v, mood) => self.agent_turn(v, mood).await,
            Op::AgentStarts(v) => self.agent_starts(v).await,
            Op::Heartbeat(v) => drop(self.heartbeat(v).await),
            Op::Late(v, kind) => self.late(v, kind).await,
            Op::Prober(n, mood) => self.prober_turn(n, mood).await,
            Op::LateProber(n) => self.late_prober(n).await,
            other => {
                let mark = self.shared.world().mark();
                let who = format!("#{mark}#");
                let caller = Caller { who, from: None };
                if let Ok(true) = self.operate(&caller, &other).await {
                    self.promised(mark, &other.name());
                }
            }
        }
    }

    /// Says whether it was anything.
    async fn operate(&self, caller: &Caller, op: &Op) -> Result<bool, AppError> {
        let app = &self.app;
        match op {
            Op::Enqueue(list) => drop(app.ips_enqueue(caller, &texts(list)).await?),
            Op::Cancel(n) => app.ips_cancel(caller, address(*n)).await?,
            Op::Delete(n) => app.ips_delete(caller, address(*n)).await?,
            Op::DeleteList(list) => drop(app.ips_delete_list(caller, &texts(list)).await?),
            Op::Clear => drop(app.ips_clear(caller).await?),
            Op::Scan(dry) => drop(app.scan_begin(caller, *dry).await?),
            Op::ValidatorAdd(v, on) => {
                app.config_validator_add(caller, validator(*v), port(*on))
                    .await?;
            }
            Op::ValidatorSet(v, on) => {
                app.config_validator_set(caller, validator(*v), port(*on))
                    .await?;
            }
            Op::ValidatorDelete(v) => {
                app.config_validator_delete(caller, validator(*v)).await?;
            }
            Op::SiteSet(slot, n) => {
                app.config_site_set(caller, i64::from(*slot), site(*n))
                    .await?;
            }
            Op::SiteDelete(slot) => app.config_site_delete(caller, i64::from(*slot)).await?,
            other => return self.configure(caller, other).await,
        }
        Ok(true)
    }

    async fn configure(&self, caller: &Caller, op: &Op) -> Result<bool, AppError> {
        let app = &self.app;
        match op {
            Op::Settle(secs) => {
                let change = OrchestratorChange {
                    fip_settle_seconds: Some(i64::from(*secs)),
                    history_retention_cycles: None,
                };
                app.config_orchestrator_set(caller, change).await?;
            }
            Op::Retention(n) => {
                self.shared.world().cut |= *n > 0;
                let change = OrchestratorChange {
                    fip_settle_seconds: None,
                    history_retention_cycles: Some(i64::from(*n)),
                };
                app.config_orchestrator_set(caller, change).await?;
            }
            Op::Inbound(which, icmp) => {
                let ports: &[i64] = match which {
                    0 => &[],
                    1 => &[22],
                    2 => &[80, 443],
                    _ => &[22, 8080],
                };
                let change = InboundChange {
                    ports: ports.to_vec(),
                    closed_ports: None,
                    icmp: *icmp,
                };
                app.config_inbound_set(caller, change).await?;
            }
            Op::CheckType(which, enabled) => {
                let name = ["https", "tcp-443"][usize::from(*which)];
                let new = NewCheckType {
                    enabled: *enabled,
                    groups: vec!["web".to_owned()],
                    options: None,
                };
                app.config_check_type_set(caller, name, new).await?;
            }
            Op::Targets(which) => {
                let all = [
                    "https://a.example",
                    "https://b.example",
                    "https://c.example",
                ];
                let n = usize::from(*which % 3);
                let list = all[..=n].iter().map(|&one| one.to_owned()).collect();
                app.config_targets_set(caller, "web".to_owned(), list)
                    .await?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One who acts in this world.
    pub(crate) const fn new(shared: Shared, app: civ_control_api::app::App) -> Self {
        Self { shared, app }
    }
}
