//! Port forwardings of a floating IP: a sub-collection.

use civ_simkit::{Asked, Reply};
use serde_json::{Map, Value, json};

use super::fips::{invalid, python, resource};
use super::listing::{Collection, fields, list};
use super::{View, refusals};
use crate::shapes::neutron;
use crate::world::{Forwarding, NewForwarding, Refused};

const FILTERS: [&str; 6] = [
    "id",
    "protocol",
    "external_port",
    "internal_port",
    "internal_port_id",
    "internal_ip_address",
];

/// One as its own resource shows it.
pub(crate) fn value(forwarding: &Forwarding) -> Value {
    let (inside, outside) = (forwarding.internal_port, forwarding.external_port);
    json!({
        "id": forwarding.id, "protocol": forwarding.protocol,
        "internal_ip_address": forwarding.internal_address,
        "internal_port_id": forwarding.internal_port_id,
        "internal_port": inside, "external_port": outside,
        "internal_port_range": format!("{inside}:{inside}"),
        "external_port_range": format!("{outside}:{outside}"),
        "description": forwarding.description,
    })
}

/// `GET …/port_forwardings` and one of them.
pub(super) fn read(asked: &Asked, view: &View<'_>, id: &str, rest: &[&str]) -> Option<Reply> {
    let Some(fip) = view.fip(id) else {
        return Some(refusals::no_such_fip(id));
    };
    match rest {
        [] => {
            let collection = Collection {
                name: "port_forwardings",
                filters: &FILTERS,
                page_max: view.setup.page_max,
                base: view.base,
                twist: view.twist,
                is_spaced: true,
            };
            let rows = fip.forwardings.iter().map(value).collect();
            Some(list(rows, asked, &collection))
        }
        [one] => {
            let mut found = fip.forwardings.iter().filter(|other| other.id == *one);
            Some(match found.next() {
                Some(found) => {
                    let row = fields(&value(found), asked);
                    crate::shapes::spaced(200, &json!({ "port_forwarding": row }))
                }
                None => {
                    let refused = Refused::NoSuchForwarding((*one).to_owned());
                    refusals::refusal(&refused, id, "", view.world)
                }
            })
        }
        _ => None,
    }
}

/// Reads the body of a POST.
///
/// # Errors
/// The answer of what Neutron refuses before it looks for the port.
pub(crate) fn parse(asked: &Asked) -> Result<NewForwarding, Reply> {
    let given = resource(asked, "port_forwarding")?;
    let text = |key: &str| {
        let value = given.get(key).ok_or_else(|| required(key))?;
        let text = value.as_str();
        text.map(str::to_owned)
            .ok_or_else(|| invalid(key, &format!("{} is not a valid string", python(value))))
    };
    let protocol = text("protocol")?;
    if !["tcp", "udp", "icmp", "sctp", "dccp"].contains(&protocol.as_str()) {
        let reason = format!("'{protocol}' is not in ['tcp', 'udp', 'icmp', 'sctp', 'dccp']");
        return Err(invalid("protocol", &reason));
    }
    let address = text("internal_ip_address")?;
    let internal_address = address.parse().map_err(|_e| {
        let reason = format!("'{address}' is not a valid IP address");
        invalid("internal_ip_address", &reason)
    })?;
    Ok(NewForwarding {
        protocol,
        internal_port_id: text("internal_port_id")?,
        internal_address,
        internal_port: number(&given, "internal_port")?,
        external_port: number(&given, "external_port")?,
        description: given
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    })
}

fn required(key: &str) -> Reply {
    let message = format!("Failed to parse request. Required attribute '{key}' not specified");
    neutron(400, "HTTPBadRequest", &message)
}

/// A port of the transport: a number, or a text that is one, as the CLI sends it.
fn number(given: &Map<String, Value>, key: &str) -> Result<u16, Reply> {
    let range = format!("{key}_range");
    let value = given.get(key).or_else(|| given.get(&range));
    let value = value.ok_or_else(|| required(key))?;
    let text = match value {
        Value::String(text) => text.split(':').next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    let port: Option<u16> = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| invalid(key, &format!("{} is no port number", python(value))))
}
