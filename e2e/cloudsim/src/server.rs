//! HTTP: the listener, the way of one call through rules and model, and how it is answered.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response, StatusCode};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls::Call;
use crate::faults::{Action, AnswerBody, Rule, Subject, WriteKind};
use crate::neutron::{Put, fip_value, parse_put, read, refusal, versions};
use crate::reply::{Asked, Reply};
use crate::sim::{PlaneMode, Sim};
use crate::world::Change;
use crate::{admin, keystone};

/// Neutron takes a 3 MB body and answers 400, so anything that a test sends fits.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What came of a call.
enum Ending {
    Whole(Reply),
    Half(Reply),
    Drip(Reply, usize, Duration),
    /// The connection is closed without an answer.
    Cut,
}

/// What the call log is told besides the request and the status.
#[derive(Default)]
struct Effect {
    writer: String,
    change: Option<Change>,
}

impl Sim {
    /// Serves until it is dropped; open connections end with it.
    ///
    /// # Errors
    /// If the listener fails for another reason than a client that went away.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        self.flow_from_start().await;
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve_connection(self.clone(), stream));
                    }
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => return Err(error),
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn serve_connection(sim: Sim, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| {
        let sim = sim.clone();
        async move {
            // Carried out to its end even if the client goes away meanwhile, as the real one is.
            let tasks = sim.inner.tasks.clone();
            let ending = tasks
                .spawn(async move { handle(&sim, request).await })
                .await;
            match ending {
                Ok(ending) => respond(ending).ok_or_else(|| io::Error::other("cut by a rule")),
                Err(error) => Err(io::Error::other(error)),
            }
        }
    });
    let mut builder = http1::Builder::new();
    let served = builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

async fn handle(sim: &Sim, request: Request<Incoming>) -> Ending {
    let (at, started) = (Timestamp::now(), Instant::now());
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(Body::new(body), BODY_BYTES_MAX).await else {
        return Ending::Cut;
    };
    let asked = Asked::new(parts.method.as_str(), &parts.uri, parts.headers, body);
    if asked.path.starts_with("/sim/") {
        return Ending::Whole(admin::answer(sim, &asked).await);
    }
    let put = (asked.method == "PUT").then(|| parse_put(&asked));
    let body_port_id = put.as_ref().and_then(|put| match put {
        Put::Bind(ask) => Some(ask.port.clone()),
        Put::Nothing | Put::Bad(_) => None,
    });
    let address = about(sim, &asked);
    let rules = sim.state().rules.meet(&Subject {
        method: &asked.method,
        path: &asked.path,
        address,
        write: body_port_id.as_ref().map(|port| match port {
            Some(_) => WriteKind::Associate,
            None => WriteKind::Release,
        }),
    });
    let mut effect = Effect::default();
    let ending = through_rules(sim, &asked, put, &rules, &mut effect).await;
    let port = |bound: &Option<crate::world::Bound>| bound.as_ref().map(|b| b.port.clone());
    let change = effect.change.as_ref();
    let call = Call {
        at_micros: at.as_microsecond(),
        method: asked.method.clone(),
        path: asked.path.clone(),
        query: asked.raw_query.clone(),
        status: ending.status(),
        duration_micros: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        address,
        body_port_id,
        if_match: asked.if_revision(),
        writer: effect.writer,
        before: change.and_then(|change| port(&change.before)),
        after: change.and_then(|change| port(&change.after)),
        rules: rules.into_iter().map(|rule| rule.name).collect(),
    };
    tracing::debug!(
        method = call.method,
        path = call.path,
        status = call.status,
        "call"
    );
    sim.state().calls.push(call);
    ending
}

/// The floating address that a call is about, by id in its path or by filter.
fn about(sim: &Sim, asked: &Asked) -> Option<std::net::IpAddr> {
    if let ["floatingips", id, ..] = asked.segments().as_slice() {
        return sim.state().world.fip(id).map(|fip| fip.address);
    }
    asked.param("floating_ip_address")?.parse().ok()
}

async fn through_rules(
    sim: &Sim,
    asked: &Asked,
    mut put: Option<Put>,
    rules: &[Rule],
    effect: &mut Effect,
) -> Ending {
    let mut mode = PlaneMode::default();
    for rule in rules {
        match before(sim, asked, &mut put, &rule.action).await {
            Some(Early::Ending(ending)) => return ending,
            Some(Early::Plane(wanted)) => mode = wanted,
            None => {}
        }
    }
    let reply = carry_out(sim, asked, put, mode, effect).await;
    let mut ending = Ending::Whole(reply);
    for rule in rules {
        ending = after(sim, asked, ending, &rule.action).await;
    }
    ending
}

enum Early {
    Ending(Ending),
    Plane(PlaneMode),
}

/// What a rule does before the call is carried out.
async fn before(sim: &Sim, asked: &Asked, put: &mut Option<Put>, action: &Action) -> Option<Early> {
    match action {
        Action::DelayBefore { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
        Action::Answer {
            status,
            body,
            retry_after,
        } => {
            return Some(Early::Ending(Ending::Whole(made_up(
                *status,
                body,
                *retry_after,
            ))));
        }
        Action::CutBefore => return Some(Early::Ending(Ending::Cut)),
        Action::PlaneDelay { ms } => {
            return Some(Early::Plane(PlaneMode::Later(Duration::from_millis(*ms))));
        }
        Action::PlaneNever => return Some(Early::Plane(PlaneMode::Never)),
        Action::PlaneOneWay { way } => return Some(Early::Plane(PlaneMode::OneWay(*way))),
        Action::TakeBefore { port } => take(sim, asked, port).await,
        Action::TakeBeforeUnseen { port } => {
            take(sim, asked, port).await;
            if let Some(Put::Bind(ask)) = put {
                ask.if_revision = None;
            }
        }
        Action::ExpireTokens => sim.expire_tokens(),
        Action::RemovePort { port } => sim.remove_port(port).await,
        Action::RemoveMarker => remove_marker(sim, asked).await,
        Action::DelayAfter { .. }
        | Action::AnswerAfter { .. }
        | Action::CutAfter
        | Action::CutMidBody
        | Action::Drip { .. }
        | Action::TakeAfter { .. } => {}
    }
    None
}

/// What a rule does once the call was carried out.
async fn after(sim: &Sim, asked: &Asked, ending: Ending, action: &Action) -> Ending {
    match action {
        Action::DelayAfter { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
        Action::AnswerAfter {
            status,
            body,
            retry_after,
        } => return Ending::Whole(made_up(*status, body, *retry_after)),
        Action::CutAfter => return Ending::Cut,
        Action::CutMidBody => {
            if let Ending::Whole(reply) = ending {
                return Ending::Half(reply);
            }
        }
        Action::Drip { bytes, every_ms } => {
            if let Ending::Whole(reply) = ending {
                return Ending::Drip(reply, (*bytes).max(1), Duration::from_millis(*every_ms));
            }
        }
        Action::TakeAfter { port } => take(sim, asked, port).await,
        Action::DelayBefore { .. }
        | Action::Answer { .. }
        | Action::CutBefore
        | Action::PlaneDelay { .. }
        | Action::PlaneNever
        | Action::PlaneOneWay { .. }
        | Action::TakeBefore { .. }
        | Action::TakeBeforeUnseen { .. }
        | Action::ExpireTokens
        | Action::RemovePort { .. }
        | Action::RemoveMarker => {}
    }
    ending
}

async fn remove_marker(sim: &Sim, asked: &Asked) {
    let marker = asked.param("marker").unwrap_or_default();
    let address = sim.state().world.fip(marker).map(|fip| fip.address);
    if let Some(address) = address {
        sim.remove_fip(address).await;
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

fn made_up(status: u16, body: &AnswerBody, retry_after: Option<u64>) -> Reply {
    let reply = match body {
        AnswerBody::NeutronError(kind) => Reply::neutron(status, kind, "made up by a rule"),
        AnswerBody::Html => Reply::html(status, "made up by a rule"),
        AnswerBody::Empty => Reply::empty(status),
        AnswerBody::Garbage => Reply::new(
            status,
            "application/json",
            Bytes::from_static(b"\xff\x00{\"float"),
        ),
    };
    match retry_after {
        Some(seconds) => reply.with("retry-after", seconds.to_string()),
        None => reply,
    }
}

async fn carry_out(
    sim: &Sim,
    asked: &Asked,
    put: Option<Put>,
    mode: PlaneMode,
    effect: &mut Effect,
) -> Reply {
    let setup = &sim.inner.setup;
    let base = keystone::base_url(asked, setup);
    if asked.path.starts_with("/v3") {
        let known = keystone::answer(asked, setup, &mut sim.state().tokens);
        return known.unwrap_or_else(|| unknown(sim, asked));
    }
    if asked.method == "GET" && asked.path == "/" {
        return versions(&base);
    }
    if !asked.path.starts_with("/v2.0/") {
        return Reply::html(404, "Not Found");
    }
    let grant = asked.header("x-auth-token").and_then(|token| {
        let state = sim.state();
        let grant = state.tokens.grant(token)?;
        Some((grant.writer.clone(), grant.is_scoped()))
    });
    let Some((writer, is_scoped)) = grant else {
        return Reply::unauthorized(&base);
    };
    effect.writer = writer;
    if !is_scoped {
        return nothing_to_see(asked);
    }
    match (asked.method.as_str(), asked.segments().as_slice(), put) {
        ("GET", _, _) => {
            let known = read(asked, &sim.state().world, setup, &base);
            known.unwrap_or_else(|| unknown(sim, asked))
        }
        ("PUT", ["floatingips", id], Some(put)) => update(sim, id, put, mode, effect).await,
        ("HEAD" | "PATCH", _, _) => Reply::empty(405),
        _ => unknown(sim, asked),
    }
}

/// A token without a project is accepted and sees nothing.
fn nothing_to_see(asked: &Asked) -> Reply {
    match asked.segments().as_slice() {
        [collection] if asked.method == "GET" => {
            Reply::json(200, &json!({ *collection: Vec::<Value>::new() }))
        }
        _ => Reply::neutron(404, "FloatingIPNotFound", "Floating IP could not be found"),
    }
}

async fn update(sim: &Sim, id: &str, put: Put, mode: PlaneMode, effect: &mut Effect) -> Reply {
    let setup = &sim.inner.setup;
    let done = match put {
        Put::Bad(reply) => return reply,
        Put::Nothing => Ok(None),
        Put::Bind(ask) => sim.write(id, &ask, mode).await.map(Some),
    };
    let state = sim.state();
    match (done, state.world.fip(id)) {
        (Ok(change), Some(fip)) => {
            // A report of status may have come while the data plane followed: not ours to show.
            let written = change.as_ref().map_or(fip, |change| &change.row);
            let value = fip_value(written, &state.world, setup);
            effect.change = change;
            Reply::json(200, &json!({ "floatingip": value }))
        }
        (Ok(_), None) => refusal(&crate::world::Refused::NoSuchFip, id, &state.world, setup),
        (Err(refused), _) => refusal(&refused, id, &state.world, setup),
    }
}

/// Honest about what is not simulated.
fn unknown(sim: &Sim, asked: &Asked) -> Reply {
    let call = match asked.raw_query.as_str() {
        "" => format!("{} {}", asked.method, asked.path),
        query => format!("{} {}?{query}", asked.method, asked.path),
    };
    let message = format!("{call} is not simulated");
    sim.state().unknown.insert(call);
    Reply::neutron(501, "NotSimulated", &message)
}

impl Ending {
    fn status(&self) -> u16 {
        match self {
            Self::Whole(reply) | Self::Half(reply) | Self::Drip(reply, ..) => reply.status,
            Self::Cut => 0,
        }
    }
}

/// `None`: no answer at all.
fn respond(ending: Ending) -> Option<Response<Body>> {
    let (reply, body) = match ending {
        Ending::Cut => return None,
        Ending::Whole(reply) => {
            let body = Body::from(reply.body.clone());
            (reply, body)
        }
        Ending::Half(reply) => {
            let body = half(&reply.body);
            (reply, body)
        }
        Ending::Drip(reply, bytes, every) => {
            let body = drip(reply.body.clone(), bytes, every);
            (reply, body)
        }
    };
    let length = reply.body.len();
    let mut builder = Response::builder()
        .status(StatusCode::from_u16(reply.status).ok()?)
        .header("x-openstack-request-id", format!("req-{}", Uuid::new_v4()));
    if reply.status != 204 {
        builder = builder.header("content-length", length);
    }
    for (name, value) in reply.headers {
        builder = builder.header(name, value);
    }
    builder.body(body).ok()
}

/// The first half, on its way before the connection breaks off.
fn half(body: &Bytes) -> Body {
    let first = stream::once(std::future::ready(Ok(body.slice(..body.len() / 2))));
    let broken = stream::once(async {
        // As long as the stream is pending, hyper flushes what it has.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(io::Error::other("cut by a rule"))
    });
    Body::from_stream(first.chain(broken))
}

fn drip(body: Bytes, bytes: usize, every: Duration) -> Body {
    Body::from_stream(stream::unfold(body, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(every).await;
        let piece = rest.split_to(bytes.min(rest.len()));
        Some((Ok::<_, Infallible>(piece), rest))
    }))
}
