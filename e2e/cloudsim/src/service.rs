//! The way of one call: through the rules, to Keystone, Neutron or Nova, into the audit.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use civ_simkit::{Asked, Ending, Reply, Service, Shell, WireFault, sample, serve};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::calls::Call;
use crate::faults::{Action, Rule, Subject, WriteKind, without};
use crate::keystone::{self, Caller};
use crate::neutron::fips::{Put, parse_post, parse_put, revision};
use crate::neutron::refusals::{no_such_fip, refusal};
use crate::neutron::{self, ListingTwist, View, forwardings, render, segments, tags};
use crate::setup::{Role, Setup};
use crate::shapes;
use crate::sim::{PlaneMode, Sim};
use crate::world::{Bound, Change, New, Refused};
use crate::{admin, compute};

/// Neutron takes a 3 MB body and answers 400, so anything that a test sends fits.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the call log is told besides the request and the status.
#[derive(Default)]
struct Effect {
    writer: String,
    change: Option<Change>,
}

/// What rules make of how a call is carried out.
#[derive(Default)]
struct Manner {
    mode: PlaneMode,
    twist: ListingTwist,
    is_stale: bool,
    /// `If-Match` is not looked at.
    is_unconditional: bool,
    /// Changes of floating IPs are answered, and not made.
    ignores_writes: bool,
}

impl Sim {
    /// Serves, and does what is due by the clock, until it is dropped; open connections end with
    /// it.
    ///
    /// # Errors
    /// If the listener fails for another reason than a client that went away.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        self.flow_from_start().await;
        let shell = Shell {
            body_bytes_max: BODY_BYTES_MAX,
            idle_close: self.setup().idle_close,
            request_id_header: "x-openstack-request-id",
            tasks: self.inner.tasks.clone(),
        };
        tokio::select! {
            ended = serve(self.clone(), shell, listener) => ended,
            () = self.drive() => Ok(()),
        }
    }
}

#[async_trait]
impl Service for Sim {
    async fn call(&self, asked: Asked) -> Ending {
        if asked.path.starts_with("/sim/") {
            let ending = Ending::Whole(admin::answer(self, &asked).await);
            self.keep_all().await;
            return ending;
        }
        let (at, started) = (self.inner.clock.now(), Instant::now());
        self.take_time(&asked).await;
        let body_port_id = asked_port(self, &asked);
        let address = about(self, &asked);
        let rules = self.state().rules.meet(&Subject {
            method: &asked.method,
            path: &asked.path,
            address,
            write: body_port_id.as_ref().map(|port| match port {
                Some(_) => WriteKind::Associate,
                None => WriteKind::Release,
            }),
        });
        let mut effect = Effect::default();
        let ending = through_rules(self, &asked, &rules, &mut effect).await;
        let port = |bound: &Option<Bound>| bound.as_ref().map(|b| b.port.clone());
        let change = effect.change.as_ref();
        let call = Call {
            at_micros: at.as_microsecond(),
            status: ending.status(),
            duration_micros: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            address: address.or_else(|| change.map(|change| change.row.address)),
            body_port_id,
            if_match: shapes::condition(&asked).revision(),
            writer: effect.writer,
            before: change.and_then(|change| port(&change.before)),
            after: change.and_then(|change| port(&change.after)),
            rules: rules.into_iter().map(|rule| rule.name).collect(),
            method: asked.method,
            path: asked.path,
            query: asked.raw_query,
        };
        tracing::debug!(
            method = call.method,
            path = call.path,
            status = call.status,
            "call"
        );
        self.state().audit.push(call);
        ending
    }
}

impl Sim {
    /// Lets the latency of a call pass.
    async fn take_time(&self, asked: &Asked) {
        let setup = self.setup();
        if setup.latencies.is_empty() {
            return;
        }
        let latency = {
            let dice = &mut self.state().dice;
            sample(&setup.latencies, &asked.method, &asked.path, dice)
        };
        self.inner.clock.sleep(latency).await;
    }
}

/// Of a change of a floating IP's binding: the port asked for.
fn asked_port(sim: &Sim, asked: &Asked) -> Option<Option<String>> {
    if asked.method != "PUT" || !matches!(segments(asked).as_slice(), ["floatingips", _]) {
        return None;
    }
    match parse_put(asked, sim.state().world.has_uuids()) {
        Put::Bind(ask) if !ask.keeps_port => Some(ask.port),
        Put::Bind(_) | Put::Bad(_) => None,
    }
}

/// The floating address that a call is about, by id in its path or by filter.
fn about(sim: &Sim, asked: &Asked) -> Option<IpAddr> {
    if let ["floatingips", id, ..] = segments(asked).as_slice() {
        return sim.state().world.fip(id).map(|fip| fip.address);
    }
    asked.param("floating_ip_address")?.parse().ok()
}

async fn through_rules(sim: &Sim, asked: &Asked, rules: &[Rule], effect: &mut Effect) -> Ending {
    let clock = sim.clock();
    let wire: Vec<Option<WireFault>> = rules.iter().map(|rule| rule.action.wire()).collect();
    let mut manner = Manner::default();
    for (rule, fault) in rules.iter().zip(&wire) {
        match fault {
            Some(fault) => {
                if let Some(ending) = fault.before(&clock).await {
                    return ending;
                }
            }
            None => before(sim, asked, &rule.action, &mut manner).await,
        }
    }
    let reply = carry_out(sim, asked, &manner, effect).await;
    let mut ending = Ending::Whole(reply);
    for (rule, fault) in rules.iter().zip(&wire) {
        match (fault, &rule.action) {
            (Some(fault), _) => ending = fault.after(ending, &clock).await,
            (None, Action::TakeAfter { port }) => take(sim, asked, port).await,
            (None, Action::DropKey { pointer }) => ending = without(ending, pointer),
            (None, _) => {}
        }
    }
    ending
}

/// What a rule that knows the cloud does before the call is carried out.
async fn before(sim: &Sim, asked: &Asked, action: &Action, manner: &mut Manner) {
    match action {
        Action::PlaneDelay { ms } => {
            manner.mode = PlaneMode::Later(std::time::Duration::from_millis(*ms));
        }
        Action::PlaneNever => manner.mode = PlaneMode::Never,
        Action::PlaneOneWay { way } => manner.mode = PlaneMode::OneWay(*way),
        Action::TakeBefore { port } => take(sim, asked, port).await,
        Action::TakeBeforeUnseen { port } => {
            take(sim, asked, port).await;
            manner.is_unconditional = true;
        }
        Action::ReportBefore => report(sim, asked).await,
        Action::ReportBeforeUnseen => {
            report(sim, asked).await;
            manner.is_unconditional = true;
        }
        Action::ExpireTokens => sim.expire_tokens(),
        Action::RemovePort { port } => sim.remove_port(port).await,
        Action::RemoveMarker => remove_marker(sim, asked).await,
        Action::AddFip => add_fip(sim).await,
        Action::RepeatPage => manner.twist.repeats = true,
        Action::DropNext => manner.twist.drops_next = true,
        Action::IgnoreFilters => manner.twist.ignores_filters = true,
        Action::IgnoreWrite => manner.ignores_writes = true,
        Action::DropLinks => manner.twist.drops_links = true,
        Action::CapPage { rows } => manner.twist.cap = Some((*rows).max(1)),
        Action::StaleCopy => manner.is_stale = true,
        // After the call, or of the wire.
        _ => {}
    }
}

async fn remove_marker(sim: &Sim, asked: &Asked) {
    let marker = asked.param("marker").unwrap_or_default();
    let address = sim.state().world.fip(marker).map(|fip| fip.address);
    if let Some(address) = address {
        sim.remove_fip(address).await;
    }
}

async fn add_fip(sim: &Sim) {
    let setup = sim.setup();
    let new = New {
        project: crate::ids::project_id(&setup.project),
        network: setup.network_id.clone(),
        ..New::default()
    };
    if let Err(refused) = sim.create(&new, PlaneMode::Now).await {
        tracing::warn!(?refused, "a rule could not make a floating IP");
    }
}

async fn take(sim: &Sim, asked: &Asked, port: &str) {
    let Some(address) = about(sim, asked) else {
        return;
    };
    if let Err(error) = sim.bind_foreign(address, port).await {
        tracing::warn!(%error, "a rule could not bind an address");
    }
}

async fn report(sim: &Sim, asked: &Asked) {
    if let Some(address) = about(sim, asked) {
        sim.report_status(address).await;
    }
}

async fn carry_out(sim: &Sim, asked: &Asked, manner: &Manner, effect: &mut Effect) -> Reply {
    let setup = sim.setup();
    let base = keystone::base_url(asked, &setup);
    if keystone::is_its(&asked.path) {
        let now = sim.inner.clock.now();
        let known = keystone::answer(asked, &setup, &mut sim.state().tokens, now);
        if asked.method != "GET" {
            sim.keep_all().await;
        }
        return known.unwrap_or_else(|| unknown(sim, asked));
    }
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/") => return neutron::versions(&base),
        ("GET", "/healthcheck") => return Reply::new(200, "text/plain; charset=UTF-8", "OK"),
        _ => {}
    }
    let is_compute = setup.has_compute && asked.path.starts_with(compute::PREFIX);
    if !is_compute && !asked.path.starts_with("/v2.0/") {
        return Reply::html(404, "Not Found");
    }
    let caller = asked.header("x-auth-token").and_then(|token| {
        let now = sim.inner.clock.now();
        sim.state().tokens.caller(token, now)
    });
    let Some(caller) = caller else {
        return shapes::unauthorized(&base);
    };
    effect.writer.clone_from(&caller.writer);
    if caller.project.is_none() {
        return neutron::nothing_to_see(asked);
    }
    let call = Neutron {
        sim,
        asked,
        manner,
        setup: &setup,
        caller: &caller,
        base: &base,
    };
    if is_compute {
        let known = call.viewing(|view| compute::read(asked, view));
        return known.unwrap_or_else(|| unknown(sim, asked));
    }
    call.answer(effect).await
}

/// Honest about what is not simulated.
fn unknown(sim: &Sim, asked: &Asked) -> Reply {
    let call = asked.line();
    let message = format!("{call} is not simulated");
    tracing::warn!(call, "not simulated");
    sim.state().audit.unsupported(call);
    shapes::neutron(501, "NotSimulated", &message)
}

/// A call of Neutron by somebody with a project.
struct Neutron<'a> {
    sim: &'a Sim,
    asked: &'a Asked,
    manner: &'a Manner,
    setup: &'a Setup,
    caller: &'a Caller,
    base: &'a str,
}

impl Neutron<'_> {
    /// Looks at the world as the caller sees it.
    fn viewing<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let state = self.sim.state();
        let stale = state.stale.as_ref().filter(|_| self.manner.is_stale);
        look(&View {
            world: stale.unwrap_or(&state.world),
            setup: self.setup,
            caller: self.caller,
            base: self.base,
            twist: self.manner.twist,
        })
    }

    async fn answer(&self, effect: &mut Effect) -> Reply {
        let (sim, asked) = (self.sim, self.asked);
        let parts = segments(asked);
        let known = match (asked.method.as_str(), parts.as_slice()) {
            ("GET", _) => self.viewing(|view| neutron::read(asked, view)),
            ("HEAD" | "PATCH", _) => Some(Reply::empty(405)),
            ("POST", ["floatingips" | "floatingips.json"]) => Some(self.create(effect).await),
            ("PUT", ["floatingips", id]) => Some(self.update(id, effect).await),
            ("DELETE", ["floatingips", id]) => Some(self.delete(id).await),
            ("POST", ["floatingips", id, "port_forwardings"]) => Some(self.forward(id).await),
            ("DELETE", ["floatingips", id, "port_forwardings", one]) => {
                Some(self.unforward(id, one).await)
            }
            ("DELETE", ["ports", id]) => Some(self.delete_port(id).await),
            (_, [collection, id, "tags", rest @ ..]) => self.tag(collection, id, rest).await,
            _ => None,
        };
        known.unwrap_or_else(|| unknown(sim, asked))
    }

    fn may_write(&self, action: &str) -> Result<(), Reply> {
        if self.caller.role == Role::Reader {
            return Err(neutron::forbidden(action));
        }
        Ok(())
    }

    /// Whether the caller sees this floating IP; if not, it is as if absent.
    fn sees(&self, id: &str) -> bool {
        self.viewing(|view| view.fip(id).is_some())
    }

    fn shown(&self, status: u16, change: &Change) -> Reply {
        // A report of status may have come while the data plane followed: not ours to show.
        let value = self.viewing(|view| render::fip(&change.row, view));
        shapes::spaced(status, &json!({ "floatingip": value }))
    }

    fn refused(&self, refused: &Refused, id: &str, network: &str) -> Reply {
        refusal(refused, id, network, &self.sim.state().world)
    }

    async fn create(&self, effect: &mut Effect) -> Reply {
        let has_uuids = self.sim.state().world.has_uuids();
        let new = match parse_post(self.asked, self.caller, has_uuids) {
            Ok(new) => new,
            Err(reply) => return reply,
        };
        if let Err(reply) = self.may_write("create_floatingip") {
            return reply;
        }
        if let Some(port) = &new.ask.port
            && !self.sees_port(port)
        {
            let refused = Refused::NoSuchPort(port.clone());
            return self.refused(&refused, "", &new.network);
        }
        match self.sim.create(&new, self.manner.mode).await {
            Ok(change) => {
                let reply = self.shown(201, &change);
                effect.change = Some(change);
                reply
            }
            Err(refused) => self.refused(&refused, "", &new.network),
        }
    }

    fn sees_port(&self, id: &str) -> bool {
        self.viewing(|view| {
            let port = view.world.port(id);
            port.is_some_and(|port| view.sees(&port.project))
        })
    }

    async fn update(&self, id: &str, effect: &mut Effect) -> Reply {
        let has_uuids = self.sim.state().world.has_uuids();
        let mut ask = match parse_put(self.asked, has_uuids) {
            Put::Bind(ask) => ask,
            Put::Bad(reply) => return reply,
        };
        if !self.sees(id) {
            return no_such_fip(id);
        }
        if let Err(reply) = self.may_write("update_floatingip") {
            return reply;
        }
        if self.manner.ignores_writes {
            return self.as_it_is(id);
        }
        if self.manner.is_unconditional {
            ask.if_revision = None;
        }
        if let Some(port) = &ask.port
            && !self.sees_port(port)
        {
            return self.refused(&Refused::NoSuchPort(port.clone()), id, "");
        }
        match self.sim.write(id, &ask, self.manner.mode).await {
            Ok(change) => {
                let reply = self.shown(200, &change);
                effect.change = (!ask.keeps_port).then_some(change);
                reply
            }
            Err(refused) => self.refused(&refused, id, ""),
        }
    }

    fn as_it_is(&self, id: &str) -> Reply {
        self.viewing(|view| match view.fip(id) {
            Some(fip) => shapes::spaced(200, &json!({ "floatingip": render::fip(fip, view) })),
            None => no_such_fip(id),
        })
    }

    async fn delete(&self, id: &str) -> Reply {
        if !self.sees(id) {
            return no_such_fip(id);
        }
        if let Err(reply) = self.may_write("delete_floatingip") {
            return reply;
        }
        let wanted = match revision(self.asked) {
            Ok(wanted) => wanted.filter(|_| !self.manner.is_unconditional),
            Err(reply) => return reply,
        };
        match self.sim.delete(id, wanted).await {
            Ok(_) => Reply::empty(204),
            Err(refused) => self.refused(&refused, id, ""),
        }
    }

    async fn forward(&self, id: &str) -> Reply {
        let new = match forwardings::parse(self.asked) {
            Ok(new) => new,
            Err(reply) => return reply,
        };
        if !self.sees(id) {
            return no_such_fip(id);
        }
        if let Err(reply) = self.may_write("create_floatingip_port_forwarding") {
            return reply;
        }
        match self.sim.forward(id, &new).await {
            Ok(made) => {
                let value = forwardings::value(&made);
                shapes::spaced(201, &json!({ "port_forwarding": value }))
            }
            Err(refused) => self.refused(&refused, id, ""),
        }
    }

    async fn unforward(&self, id: &str, forwarding: &str) -> Reply {
        if !self.sees(id) {
            return no_such_fip(id);
        }
        if let Err(reply) = self.may_write("delete_floatingip_port_forwarding") {
            return reply;
        }
        match self.sim.unforward(id, forwarding).await {
            Ok(()) => Reply::empty(204),
            Err(refused) => self.refused(&refused, id, ""),
        }
    }

    async fn delete_port(&self, id: &str) -> Reply {
        if !self.sees_port(id) {
            return self.refused(&Refused::NoSuchPort(id.to_owned()), "", "");
        }
        if let Err(reply) = self.may_write("delete_port") {
            return reply;
        }
        self.sim.remove_port(id).await;
        Reply::empty(204)
    }

    async fn tag(&self, collection: &str, id: &str, rest: &[&str]) -> Option<Reply> {
        let asked = self.asked;
        let wanted = self.viewing(|view| tags::write(asked, view, collection, id, rest))?;
        let change = match wanted {
            Ok(change) => change,
            Err(reply) => return Some(reply),
        };
        if let Err(reply) = self.may_write("update_tags") {
            return Some(reply);
        }
        let now = self.sim.inner.clock.now();
        if let Some(standard) = self.sim.state().world.standard_mut(change.kind, id)
            && standard.tags != change.tags
        {
            standard.tags = change.tags;
            standard.bump(now);
        }
        self.sim.keep_all().await;
        Some(change.reply)
    }
}
