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

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::faults::Rule;
use crate::neutron::fip_value;
use crate::reply::{Asked, Reply};
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
        Err(error) => Reply::json(409, &json!({"error": error.to_string()})),
    }
}

fn state(sim: &Sim) -> Value {
    let (attached, faults) = (sim.attached(), sim.faults());
    let state = sim.state();
    let world = &state.world;
    let fips: Vec<Value> = world
        .fips()
        .map(|fip| fip_value(fip, world, &sim.inner.setup))
        .collect();
    let ports: Vec<Value> = world
        .ports()
        .map(|port| json!({"id": port.id, "fixed_ips": port.fixed_ips, "ours": port.ours}))
        .collect();
    json!({"attached": attached, "floatingips": fips, "ports": ports, "faults": faults})
}
