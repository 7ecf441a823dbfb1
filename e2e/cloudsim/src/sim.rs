//! The handle: the model, the tokens, the rules and the calls behind one lock, and the turn in
//! which bindings change together with the data plane.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::calls::{Call, CallLog};
use crate::faults::{Rule, Rules};
use crate::keystone::Tokens;
use crate::plane::{DataPlane, Way};
use crate::setup::Setup;
use crate::world::{Ask, Change, Refused, World, fip_id};

/// A floating IP and the port that it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// The public address.
    pub address: IpAddr,
    /// The port's id.
    pub port: String,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) tokens: Tokens,
    pub(crate) rules: Rules,
    pub(crate) calls: CallLog,
    /// `METHOD path` of calls that were answered 501.
    pub(crate) unknown: BTreeSet<String>,
}

/// What the data plane lets through: floating to fixed address.
type Flows = BTreeMap<IpAddr, IpAddr>;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) setup: Setup,
    plane: Arc<dyn DataPlane>,
    /// Never held across an await.
    state: Mutex<State>,
    /// Held while a binding and the data plane change, so that both change in the same order.
    turn: tokio::sync::Mutex<Flows>,
    /// Calls being carried out, reports of agents to come, late data planes.
    pub(crate) tasks: TaskTracker,
}

/// What the data plane does with an association.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum PlaneMode {
    /// Lets packets through before the API answers.
    #[default]
    Now,
    Later(Duration),
    Never,
    OneWay(Way),
}

/// The simulated cloud. Clones are the same cloud.
#[derive(Debug, Clone)]
pub struct Sim {
    pub(crate) inner: Arc<Inner>,
}

impl Sim {
    /// Makes the cloud. What the set-up binds at the start goes through the data plane once
    /// [`Sim::serve`] begins.
    ///
    /// # Errors
    /// What of the set-up contradicts itself.
    pub fn new(setup: Setup, plane: Arc<dyn DataPlane>) -> anyhow::Result<Self> {
        let state = State {
            world: World::new(&setup, Timestamp::now())?,
            tokens: Tokens::default(),
            rules: Rules::default(),
            calls: CallLog::default(),
            unknown: BTreeSet::new(),
        };
        let inner = Inner {
            setup,
            plane,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is bound, in order of address.
    #[must_use]
    pub fn attached(&self) -> Vec<Attached> {
        let state = self.state();
        let mut attached: Vec<Attached> = state
            .world
            .fips()
            .filter_map(|fip| {
                let port = fip.bound.as_ref()?.port.clone();
                let address = fip.address;
                Some(Attached { address, port })
            })
            .collect();
        attached.sort_by_key(|entry| entry.address);
        attached
    }

    /// What another client does: binds the address to `port`, silently if it was bound.
    ///
    /// # Errors
    /// If Neutron would refuse it: no such address, no such port, the port has another one.
    pub async fn bind_foreign(&self, address: IpAddr, port: &str) -> anyhow::Result<()> {
        let ask = Ask {
            port: Some(port.to_owned()),
            ..Ask::default()
        };
        self.write_foreign(address, &ask).await
    }

    /// What another client does: frees the address.
    ///
    /// # Errors
    /// If there is no such address.
    pub async fn unbind(&self, address: IpAddr) -> anyhow::Result<()> {
        self.write_foreign(address, &Ask::default()).await
    }

    async fn write_foreign(&self, address: IpAddr, ask: &Ask) -> anyhow::Result<()> {
        let at_micros = Timestamp::now().as_microsecond();
        let id = fip_id(address);
        let done = self.write(&id, ask, PlaneMode::Now).await;
        let name = |bound: Option<crate::world::Bound>| bound.map(|bound| bound.port);
        let (before, after) = match &done {
            Ok(change) => (name(change.before.clone()), name(change.after.clone())),
            Err(_) => (None, None),
        };
        self.state().calls.push(Call {
            at_micros,
            method: "SIM".to_owned(),
            path: format!("/v2.0/floatingips/{id}"),
            query: String::new(),
            status: if done.is_ok() { 200 } else { 409 },
            duration_micros: 0,
            address: Some(address),
            body_port_id: Some(ask.port.clone()),
            if_match: None,
            writer: "sim".to_owned(),
            before,
            after,
            rules: Vec::new(),
        });
        done.map(|_| ())
            .map_err(|why| anyhow::anyhow!("{address} cannot be bound so: {why:?}"))
    }

    /// Deletes a port; what was bound to it is free.
    pub async fn remove_port(&self, port: &str) {
        let mut flows = self.inner.turn.lock().await;
        let freed = self.state().world.remove_port(port, Timestamp::now());
        for (id, change) in freed {
            self.follow(&mut flows, &id, &change, PlaneMode::Now).await;
        }
    }

    /// Deletes a floating IP.
    pub async fn remove_fip(&self, address: IpAddr) {
        let mut flows = self.inner.turn.lock().await;
        self.state()
            .world
            .remove_fip(&fip_id(address), Timestamp::now());
        self.stop(&mut flows, address).await;
    }

    /// All calls so far, oldest first; the last 200,000.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.all()
    }

    /// Adds a fault rule; it is met after those that are there.
    pub fn add_rule(&self, rule: Rule) {
        self.state().rules.add(rule);
    }

    /// Drops all fault rules.
    pub fn clear_rules(&self) {
        self.state().rules.clear();
    }

    /// The fault rules in force.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        self.state().rules.all()
    }

    /// Ends all tokens.
    pub fn expire_tokens(&self) {
        self.state().tokens.expire_all();
    }

    /// `METHOD path` of every call that was answered 501, each once.
    #[must_use]
    pub fn unknown_calls(&self) -> Vec<String> {
        self.state().unknown.iter().cloned().collect()
    }

    /// Whatever contradicts the model's own invariants; empty if all is well.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.state().world.faults()
    }

    /// Changes a binding and, before it returns, the data plane.
    pub(crate) async fn write(
        &self,
        id: &str,
        ask: &Ask,
        mode: PlaneMode,
    ) -> Result<Change, Refused> {
        let mut flows = self.inner.turn.lock().await;
        let change = self.state().world.bind(id, ask, Timestamp::now())?;
        self.follow(&mut flows, id, &change, mode).await;
        Ok(change)
    }

    async fn follow(&self, flows: &mut Flows, id: &str, change: &Change, mode: PlaneMode) {
        let address = self.state().world.fip(id).map(|fip| fip.address);
        let Some(address) = address.filter(|_| change.before != change.after) else {
            return;
        };
        self.stop(flows, address).await;
        self.report_status_later(id);
        let Some(bound) = &change.after else { return };
        let (plane, fixed) = (&self.inner.plane, bound.fixed);
        match mode {
            PlaneMode::Now => plane.associate(address, fixed).await,
            PlaneMode::OneWay(way) => plane.associate_partial(address, fixed, way).await,
            PlaneMode::Never => return,
            PlaneMode::Later(delay) => return self.flow_later(id, address, change, delay),
        }
        flows.insert(address, fixed);
    }

    async fn stop(&self, flows: &mut Flows, address: IpAddr) {
        if let Some(fixed) = flows.remove(&address) {
            self.inner.plane.disassociate(address, fixed).await;
        }
    }

    fn flow_later(&self, id: &str, address: IpAddr, change: &Change, delay: Duration) {
        let (sim, id, change) = (self.clone(), id.to_owned(), change.clone());
        self.inner.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            let mut flows = sim.inner.turn.lock().await;
            let epoch = sim.state().world.fip(&id).map(|fip| fip.epoch);
            if let Some(bound) = change.after.filter(|_| epoch == Some(change.epoch)) {
                sim.inner.plane.associate(address, bound.fixed).await;
                flows.insert(address, bound.fixed);
            }
        });
    }

    fn report_status_later(&self, id: &str) {
        let Some(delay) = self.inner.setup.status_delay else {
            return;
        };
        let (sim, id) = (self.clone(), id.to_owned());
        self.inner.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            sim.state().world.report_status(&id, Timestamp::now());
        });
    }

    /// Lets through what the set-up bound.
    pub(crate) async fn flow_from_start(&self) {
        let mut flows = self.inner.turn.lock().await;
        let bound: Vec<(IpAddr, IpAddr)> = self
            .state()
            .world
            .fips()
            .filter_map(|fip| Some((fip.address, fip.bound.as_ref()?.fixed)))
            .filter(|(address, _)| !flows.contains_key(address))
            .collect();
        for (address, fixed) in bound {
            self.inner.plane.associate(address, fixed).await;
            flows.insert(address, fixed);
        }
    }
}
