//! The admin API, for those who drive the simulation from another process. No authentication: the
//! listener belongs to a test.
//!
//! | call | what it does |
//! |---|---|
//! | `GET /sim/state` | ports, floating IPs, what is attached, faults of the model |
//! | `GET /sim/calls` | every [`crate::Call`] so far |
//! | `GET /sim/unknown` | calls that were answered 501 |
//! | `GET /sim/rules` | the rules in force |
//! | `POST /sim/rules` | adds a [`crate::Rule`] |
//! | `DELETE /sim/rules` | drops them all |
//! | `POST /sim/bind` `{"address": …, "port": …}` | another client binds the address |
//! | `POST /sim/unbind` `{"address": …}` | another client frees it |
//! | `POST /sim/expire-tokens` | all tokens end |
//! | `DELETE /sim/ports/{id}` | the port vanishes |
//! | `DELETE /sim/fips/{address}` | the floating IP vanishes |
//! | `GET /sim/report` | calls by method, kind of path and status; unsupported ones with counts |
//! | `GET /sim/clock` | the simulation's time and pace |
//! | `PUT /sim/clock` `{"pace": "stepped"}` | another pace (`real`, `{"scaled": 60}`, `stepped`) |
//! | `POST /sim/clock/advance` `{"ms": …}` | time passes at once |
//! | `GET /sim/snapshot` | the whole state as a versioned document |
//! | `PUT /sim/snapshot` | becomes what the document holds |

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use civ_simkit::{Asked, Moment, Pace, Reply, Snapshot};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::calls::Call;
use crate::faults::Rule;
use crate::keystone::Caller;
use crate::neutron::{ListingTwist, View, render};
use crate::setup::Role;
use crate::sim::Sim;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bind {
    address: IpAddr,
    port: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unbind {
    address: IpAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPace {
    pace: Pace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: u64,
}

pub(crate) async fn answer(sim: &Sim, asked: &Asked) -> Reply {
    let path = asked.path.strip_prefix("/sim/").unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", ["state"]) => ok(&state(sim)),
        ("GET", ["calls"]) => ok(&json!(sim.calls())),
        ("GET", ["unknown"]) => ok(&json!(sim.unknown_calls())),
        ("GET", ["rules"]) => ok(&json!(sim.rules())),
        ("POST", ["rules"]) => match body::<Rule>(asked) {
            Ok(rule) => {
                sim.add_rule(rule);
                Reply::empty(204)
            }
            Err(reply) => reply,
        },
        ("DELETE", ["rules"]) => {
            sim.clear_rules();
            Reply::empty(204)
        }
        ("POST", ["bind"]) => match body::<Bind>(asked) {
            Ok(bind) => done(sim.bind_foreign(bind.address, &bind.port).await),
            Err(reply) => reply,
        },
        ("POST", ["unbind"]) => match body::<Unbind>(asked) {
            Ok(unbind) => done(sim.unbind(unbind.address).await),
            Err(reply) => reply,
        },
        ("POST", ["expire-tokens"]) => {
            sim.expire_tokens();
            Reply::empty(204)
        }
        ("DELETE", ["ports", port]) => {
            sim.remove_port(port).await;
            Reply::empty(204)
        }
        ("DELETE", ["fips", address]) => match address.parse() {
            Ok(address) => {
                sim.remove_fip(address).await;
                Reply::empty(204)
            }
            Err(_) => bad("the path must end in an IP address"),
        },
        ("GET", ["report"]) => ok(&report(sim)),
        (method, ["clock", rest @ ..]) => clock(sim, method, rest, asked),
        ("GET", ["snapshot"]) => match sim.snapshot().await {
            Ok(snapshot) => ok(&json!(snapshot)),
            Err(error) => failed(&error),
        },
        ("PUT", ["snapshot"]) => match body::<Snapshot>(asked) {
            Ok(snapshot) => done(sim.restore(snapshot).await),
            Err(reply) => reply,
        },
        _ => Reply::json(404, &json!({"error": "there is no such admin call"})),
    }
}

fn ok(value: &Value) -> Reply {
    Reply::json(200, value)
}

fn bad(why: &str) -> Reply {
    Reply::json(400, &json!({ "error": why }))
}

fn body<T: DeserializeOwned>(asked: &Asked) -> Result<T, Reply> {
    serde_json::from_slice(&asked.body).map_err(|error| bad(&error.to_string()))
}

fn done(outcome: anyhow::Result<()>) -> Reply {
    match outcome {
        Ok(()) => Reply::empty(204),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> Reply {
    Reply::json(409, &json!({ "error": format!("{error:#}") }))
}

fn clock(sim: &Sim, method: &str, rest: &[&str], asked: &Asked) -> Reply {
    let clock = sim.clock();
    match (method, rest) {
        ("GET", []) => ok(&json!(clock.moment())),
        ("PUT", []) => match body::<NewPace>(asked) {
            Ok(NewPace { pace }) => {
                let now = clock.now();
                done(sim.set_clock(Moment { now, pace }))
            }
            Err(reply) => reply,
        },
        ("POST", ["advance"]) => match body::<Advance>(asked) {
            Ok(Advance { ms }) => {
                clock.advance(Duration::from_millis(ms));
                ok(&json!(clock.moment()))
            }
            Err(reply) => reply,
        },
        _ => Reply::json(404, &json!({"error": "there is no such admin call"})),
    }
}

/// How often what was asked, and how it ended.
fn report(sim: &Sim) -> Value {
    let state = sim.state();
    let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for call in state.audit.calls() {
        let statuses = counts.entry(kind(call)).or_default();
        *statuses.entry(call.status.to_string()).or_default() += 1;
    }
    json!({"calls": counts, "unsupported": state.audit.all_unsupported()})
}

/// `PUT /v2.0/floatingips/{id}`: a call without what is its own.
fn kind(call: &Call) -> String {
    let words = call.path.split('/').map(|part| {
        let is_id = part.len() >= 32 || part.starts_with(|c: char| c.is_ascii_digit());
        if is_id { "{id}" } else { part }
    });
    format!("{} {}", call.method, words.collect::<Vec<_>>().join("/"))
}

fn state(sim: &Sim) -> Value {
    let (attached, faults) = (sim.attached(), sim.faults());
    let state = sim.state();
    let view = View {
        world: &state.world,
        setup: &state.setup,
        caller: &Caller {
            writer: "sim".to_owned(),
            project: None,
            role: Role::Admin,
        },
        base: "",
        twist: ListingTwist::default(),
    };
    let fips = state.world.fips().map(|fip| render::fip(fip, &view));
    let fips: Vec<Value> = fips.collect();
    let ports: Vec<Value> = state
        .world
        .ports()
        .map(|port| json!({"id": port.id, "fixed_ips": port.fixed_ips, "ours": port.ours}))
        .collect();
    json!({"attached": attached, "floatingips": fips, "ports": ports, "faults": faults})
}
