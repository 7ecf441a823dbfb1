//! The handle: the state behind one lock, and the turn in which bindings change together with the
//! data plane.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use civ_simkit::{Clock, Moment, Snapshot, Store};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::calls::Call;
use crate::faults::{Action, Rule};
use crate::plane::{DataPlane, Way};
use crate::setup::Setup;
use crate::state::{CLOUD, Due, Flow, Flows, State, assemble};
use crate::world::{Ask, Bound, Change, Fip, Forwarding, New, NewForwarding, Refused};

/// A floating IP and the port that it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// The public address.
    pub address: IpAddr,
    /// The port's id.
    pub port: String,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) clock: Clock,
    plane: Arc<dyn DataPlane>,
    /// Never held across an await.
    state: Mutex<State>,
    /// Held while a binding and the data plane change, so that both change in the same order.
    turn: tokio::sync::Mutex<Flows>,
    /// Calls being carried out.
    pub(crate) tasks: TaskTracker,
    /// Something earlier is on the agenda.
    rescheduled: Notify,
    store: Option<Store>,
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
        let clock = Clock::new(setup.pace);
        let state = State::new(setup, &clock)?;
        let flows = flows_of(&state);
        Ok(Self::of(state, clock, flows, plane, None))
    }

    /// Makes the cloud with its state in a file: what is there, or, if it is new, the set-up.
    ///
    /// # Errors
    /// If the file cannot be used, or what of the set-up contradicts itself.
    pub fn with_file(setup: Setup, plane: Arc<dyn DataPlane>, path: &Path) -> anyhow::Result<Self> {
        let store = Store::open(path, CLOUD)?;
        let rows = store.load()?;
        let clock = Clock::new(setup.pace);
        let mut state = State::new(setup, &clock)?;
        let flows = if rows.is_empty() {
            let flows = flows_of(&state);
            let mut all = state.all_rows();
            all.extend(state.parts(&clock, &flows));
            store.replace(&all)?;
            flows
        } else {
            state.become_document(assemble(rows), &clock)?
        };
        Ok(Self::of(state, clock, flows, plane, Some(store)))
    }

    fn of(
        state: State,
        clock: Clock,
        flows: Flows,
        plane: Arc<dyn DataPlane>,
        store: Option<Store>,
    ) -> Self {
        let inner = Inner {
            clock,
            plane,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::new(flows),
            tasks: TaskTracker::new(),
            rescheduled: Notify::new(),
            store,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.state().setup)
    }

    /// The simulation's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock.clone()
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
        let at_micros = self.inner.clock.now().as_microsecond();
        let id = self.state().world.id_at(address).unwrap_or_default();
        let done = self.write(&id, ask, PlaneMode::Now).await;
        let name = |bound: Option<Bound>| bound.map(|bound| bound.port);
        let (before, after) = match &done {
            Ok(change) => (name(change.before.clone()), name(change.after.clone())),
            Err(_) => (None, None),
        };
        self.state().audit.push(Call {
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

    /// What an agent does, now and not after its delay: the status follows the binding.
    pub async fn report_status(&self, address: IpAddr) {
        let id = self.state().world.id_at(address);
        if let Some(fip) = id {
            self.carry_out(Due::Status { fip }).await;
        }
    }

    /// Deletes a port; what was bound to it is free.
    pub async fn remove_port(&self, port: &str) {
        let mut flows = self.inner.turn.lock().await;
        let now = self.inner.clock.now();
        let freed = self.state().world.remove_port(port, now);
        for (_, change) in freed {
            self.follow(&mut flows, &change, PlaneMode::Now).await;
        }
        self.keep(&flows);
    }

    /// Deletes a floating IP.
    pub async fn remove_fip(&self, address: IpAddr) {
        let mut flows = self.inner.turn.lock().await;
        {
            let mut state = self.state();
            if let Some(id) = state.world.id_at(address) {
                state.world.remove_fip(&id);
            }
        }
        self.stop(&mut flows, address).await;
        self.keep(&flows);
    }

    /// All calls so far, oldest first; the last 200,000.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().audit.calls().cloned().collect()
    }

    /// Adds a fault rule; it is met after those that are there.
    pub fn add_rule(&self, rule: Rule) {
        let mut state = self.state();
        if rule.action == Action::StaleCopy {
            state.stale = Some(state.world.clone());
        }
        state.rules.add(rule);
    }

    /// Drops all fault rules.
    pub fn clear_rules(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.stale = None;
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
        let state = self.state();
        state.audit.all_unsupported().keys().cloned().collect()
    }

    /// Whatever contradicts the model's own invariants; empty if all is well.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.state().world.faults()
    }

    /// The clouds.yaml by which clients reach it at `url`.
    #[must_use]
    pub fn clouds_yaml(&self, url: &str) -> String {
        crate::clouds::clouds_yaml(&self.setup(), url)
    }

    /// The whole state as a document.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let flows = self.inner.turn.lock().await;
        let document = self.state().document(&self.inner.clock, &flows)?;
        Ok(Snapshot::new(CLOUD, document))
    }

    /// Becomes what a document holds, the data plane too. Calls so far and the file stay.
    ///
    /// # Errors
    /// If the document is none of ours; nothing is changed then.
    pub async fn restore(&self, snapshot: Snapshot) -> anyhow::Result<()> {
        let document = snapshot.state_of(CLOUD)?;
        let mut flows = self.inner.turn.lock().await;
        let clock = &self.inner.clock;
        let wanted = self.state().become_document(document, clock)?;
        for address in flows.keys().copied().collect::<Vec<_>>() {
            self.stop(&mut flows, address).await;
        }
        for (address, flow) in wanted {
            self.start(&mut flows, address, flow).await;
        }
        self.inner.rescheduled.notify_one();
        if let Some(store) = &self.inner.store {
            let mut state = self.state();
            let mut rows = state.all_rows();
            rows.extend(state.parts(clock, &flows));
            store.replace(&rows)?;
        }
        Ok(())
    }

    /// Goes on with another time or pace.
    ///
    /// # Errors
    /// If the pace is no multiple.
    pub fn set_clock(&self, moment: Moment) -> anyhow::Result<()> {
        ensure!(
            moment.pace != civ_simkit::Pace::Scaled(0),
            "a clock cannot be 0 times as fast"
        );
        self.inner.clock.set(moment);
        Ok(())
    }

    /// Changes a binding and, before it returns, the data plane.
    pub(crate) async fn write(
        &self,
        id: &str,
        ask: &Ask,
        mode: PlaneMode,
    ) -> Result<Change, Refused> {
        let mut flows = self.inner.turn.lock().await;
        let change = self.state().world.bind(id, ask, self.inner.clock.now())?;
        self.follow(&mut flows, &change, mode).await;
        self.keep(&flows);
        Ok(change)
    }

    /// Makes a floating IP and, if it is bound, lets packets through.
    pub(crate) async fn create(&self, new: &New, mode: PlaneMode) -> Result<Change, Refused> {
        let mut flows = self.inner.turn.lock().await;
        let change = self.state().world.create(new, self.inner.clock.now())?;
        self.follow(&mut flows, &change, mode).await;
        self.keep(&flows);
        Ok(change)
    }

    /// Deletes a floating IP as a client does.
    pub(crate) async fn delete(&self, id: &str, revision: Option<u64>) -> Result<Fip, Refused> {
        let mut flows = self.inner.turn.lock().await;
        let gone = self.state().world.delete(id, revision)?;
        self.stop(&mut flows, gone.address).await;
        self.keep(&flows);
        Ok(gone)
    }

    pub(crate) async fn forward(
        &self,
        id: &str,
        new: &NewForwarding,
    ) -> Result<Forwarding, Refused> {
        let flows = self.inner.turn.lock().await;
        let made = self.state().world.forward(id, new, self.inner.clock.now());
        self.keep(&flows);
        made
    }

    pub(crate) async fn unforward(&self, id: &str, forwarding: &str) -> Result<(), Refused> {
        let flows = self.inner.turn.lock().await;
        let now = self.inner.clock.now();
        let done = self.state().world.unforward(id, forwarding, now);
        self.keep(&flows);
        done
    }

    /// Writes to the state file what changed, if there is one.
    pub(crate) async fn keep_all(&self) {
        if self.inner.store.is_some() {
            let flows = self.inner.turn.lock().await;
            self.keep(&flows);
        }
    }

    fn keep(&self, flows: &Flows) {
        let Some(store) = &self.inner.store else {
            return;
        };
        let mut state = self.state();
        let mut rows = state.touched_rows();
        rows.extend(state.parts(&self.inner.clock, flows));
        if let Err(error) = store.save(&rows) {
            tracing::error!(%error, "the state file was not written");
        }
    }

    async fn follow(&self, flows: &mut Flows, change: &Change, mode: PlaneMode) {
        if change.before == change.after {
            return;
        }
        let (id, address) = (&change.row.id, change.row.address);
        self.stop(flows, address).await;
        self.report_status_later(id, address);
        let Some(bound) = &change.after else { return };
        let flow = |way| Flow {
            fixed: bound.fixed,
            way,
        };
        match mode {
            PlaneMode::Now => self.start(flows, address, flow(None)).await,
            PlaneMode::OneWay(way) => self.start(flows, address, flow(Some(way))).await,
            PlaneMode::Never => {}
            PlaneMode::Later(delay) => {
                let (fip, epoch) = (id.clone(), change.epoch);
                self.later(delay, Due::Flow { fip, epoch });
            }
        }
    }

    async fn start(&self, flows: &mut Flows, address: IpAddr, flow: Flow) {
        let plane = &self.inner.plane;
        match flow.way {
            None => plane.associate(address, flow.fixed).await,
            Some(way) => plane.associate_partial(address, flow.fixed, way).await,
        }
        flows.insert(address, flow);
    }

    async fn stop(&self, flows: &mut Flows, address: IpAddr) {
        if let Some(flow) = flows.remove(&address) {
            self.inner.plane.disassociate(address, flow.fixed).await;
        }
    }

    fn later(&self, delay: Duration, due: Due) {
        let at = self.inner.clock.after(delay);
        self.state().agenda.add(at, due);
        self.inner.rescheduled.notify_one();
    }

    fn report_status_later(&self, id: &str, address: IpAddr) {
        let setup = self.setup();
        if let Some(delay) = setup
            .status_delay
            .filter(|_| !setup.status_never.contains(&address))
        {
            self.later(delay, Due::Status { fip: id.to_owned() });
        }
    }

    /// Does what is due, for as long as it is polled.
    pub(crate) async fn drive(&self) {
        let clock = &self.inner.clock;
        loop {
            let due = self.state().agenda.take_due(clock.now());
            if let Some(due) = due {
                self.carry_out(due).await;
                continue;
            }
            let next = self.state().agenda.next_at();
            let rescheduled = self.inner.rescheduled.notified();
            match next {
                Some(at) => tokio::select! {
                    () = clock.sleep_until(at) => {}
                    () = rescheduled => {}
                },
                None => rescheduled.await,
            }
        }
    }

    async fn carry_out(&self, due: Due) {
        let mut flows = self.inner.turn.lock().await;
        match due {
            Due::Status { fip } => {
                let now = self.inner.clock.now();
                let mut state = self.state();
                let address = state.world.fip(&fip).map(|fip| fip.address);
                let errors = &state.setup.status_error;
                let is_error = address.is_some_and(|address| errors.contains(&address));
                state.world.report_status(&fip, is_error, now);
            }
            Due::Flow { fip, epoch } => {
                let found = self.state().world.fip(&fip).cloned();
                let bound = found
                    .filter(|fip| fip.epoch == epoch)
                    .and_then(|fip| Some((fip.address, fip.bound?.fixed)));
                if let Some((address, fixed)) = bound {
                    let flow = Flow { fixed, way: None };
                    self.start(&mut flows, address, flow).await;
                }
            }
        }
        self.keep(&flows);
    }

    /// Lets through what was bound before this process.
    pub(crate) async fn flow_from_start(&self) {
        let mut flows = self.inner.turn.lock().await;
        for (address, flow) in flows.clone() {
            self.start(&mut flows, address, flow).await;
        }
    }
}

/// What a set-up has bound flows both ways.
fn flows_of(state: &State) -> Flows {
    let fips = state.world.fips();
    fips.filter_map(|fip| {
        let fixed = fip.bound.as_ref()?.fixed;
        Some((fip.address, Flow { fixed, way: None }))
    })
    .collect()
}
