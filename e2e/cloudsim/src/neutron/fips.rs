//! What a write of a floating IP asks for: bodies, checked in Neutron's order.

use std::net::IpAddr;

use civ_simkit::{Asked, Reply};
use serde_json::{Map, Value};

use super::refusals::server_error;
use crate::ids::is_uuid;
use crate::keystone::Caller;
use crate::setup::Role;
use crate::shapes::{Condition, condition, neutron};
use crate::world::{Ask, New};

/// Longest description, in characters.
const DESCRIPTION_MAX: usize = 255;

/// What a `PUT /v2.0/floatingips/{id}` asks for.
#[derive(Debug)]
pub(crate) enum Put {
    /// To change the binding, the description, or both.
    Bind(Ask),
    /// Something that Neutron refuses before it looks at the floating IP.
    Bad(Reply),
}

/// Keys that a floating IP has and that no request may set.
const READ_ONLY: [&str; 11] = [
    "id",
    "tags",
    "status",
    "revision_number",
    "router_id",
    "port_details",
    "port_forwardings",
    "created_at",
    "updated_at",
    "floating_ip_address",
    "floating_network_id",
];

/// Keys that are set with the binding.
const WRITABLE: [&str; 3] = ["port_id", "fixed_ip_address", "description"];

/// Keys of plug-ins, which are accepted and of which only the empty value is simulated.
const PLUGINS: [&str; 3] = ["qos_policy_id", "dns_name", "dns_domain"];

fn bad(message: &str) -> Reply {
    neutron(400, "HTTPBadRequest", message)
}

/// `Invalid input for KEY. Reason: …`.
pub(super) fn invalid(key: &str, reason: &str) -> Reply {
    bad(&format!("Invalid input for {key}. Reason: {reason}."))
}

/// The object under `key` of the body.
pub(super) fn resource(asked: &Asked, key: &str) -> Result<Map<String, Value>, Reply> {
    if asked.body.is_empty() {
        return Err(neutron(400, "BadRequest", "Resource body required"));
    }
    let Some(body) = asked.json::<Value>() else {
        let message = "Malformed request body: Unable to parse the request as JSON.";
        return Err(neutron(400, "MalformedRequestBody", message));
    };
    let body = match (body, asked.method.as_str()) {
        (Value::Object(body), _) => body,
        (Value::Array(_), "POST") => return Err(bad("Resource body required")),
        (Value::Array(_), _) => return Err(server_error()),
        (_, "POST") => return Err(bad("Body contains invalid data")),
        (other, _) => {
            let message = format!("Bad body request: Invalid format: b'{other}'.");
            return Err(neutron(400, "BadRequest", &message));
        }
    };
    if body.contains_key(&format!("{key}s")) && asked.method == "POST" {
        return Err(bad("Bulk operation not supported"));
    }
    match body.get(key) {
        Some(Value::Object(inner)) => Ok(inner.clone()),
        Some(_) => Err(bad("Resource body required")),
        None if body.is_empty() => Err(bad("Resource body required")),
        None => {
            let message = format!("Unable to find '{key}' in request body");
            Err(neutron(400, "BadRequest", &message))
        }
    }
}

/// Reads the body of a PUT as Neutron does: an empty object disassociates.
pub(crate) fn parse_put(asked: &Asked, has_uuids: bool) -> Put {
    match update_of(asked, has_uuids) {
        Ok(ask) => Put::Bind(ask),
        Err(reply) => Put::Bad(reply),
    }
}

fn update_of(asked: &Asked, has_uuids: bool) -> Result<Ask, Reply> {
    let changes = resource(asked, "floatingip")?;
    for key in changes.keys() {
        if READ_ONLY.contains(&key.as_str()) || ["project_id", "tenant_id"].contains(&key.as_str())
        {
            return Err(bad(&format!("Cannot update read-only attribute {key}")));
        }
    }
    check_known(&changes)?;
    let mut ask = ask_of(&changes, has_uuids)?;
    ask.keeps_port = !changes.is_empty()
        && !changes.contains_key("port_id")
        && !changes.contains_key("fixed_ip_address");
    ask.if_revision = revision(asked)?;
    Ok(ask)
}

/// The revision that `If-Match` asks for.
pub(crate) fn revision(asked: &Asked) -> Result<Option<u64>, Reply> {
    match condition(asked) {
        Condition::Bad => Err(bad("Invalid value for the If-Match header")),
        condition => Ok(condition.revision()),
    }
}

fn check_known(given: &Map<String, Value>) -> Result<(), Reply> {
    let is_known = |key: &str| WRITABLE.contains(&key) || PLUGINS.contains(&key);
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|key| !is_known(key))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let names = unknown.join(", ");
    Err(bad(&format!("Unrecognized attribute(s) '{names}'")))
}

/// Port, fixed address and description of a body.
fn ask_of(given: &Map<String, Value>, has_uuids: bool) -> Result<Ask, Reply> {
    let mut ask = Ask::default();
    match given.get("port_id") {
        None | Some(Value::Null) => {}
        Some(Value::String(id)) if !id.is_empty() && (!has_uuids || is_uuid(id)) => {
            ask.port = Some(id.clone());
        }
        Some(other) => {
            let text = python(other);
            return Err(invalid("port_id", &format!("{text} is not a valid UUID")));
        }
    }
    ask.fixed = ip_of(given, "fixed_ip_address")?;
    match given.get("description") {
        None => {}
        Some(Value::String(text)) if text.chars().count() <= DESCRIPTION_MAX => {
            ask.description = Some(text.clone());
        }
        Some(Value::String(text)) => {
            let reason = format!("'{text}' exceeds maximum length of {DESCRIPTION_MAX}");
            return Err(invalid("description", &reason));
        }
        Some(other) => {
            let reason = format!("'{}' is not a valid string", python(other));
            return Err(invalid("description", &reason));
        }
    }
    Ok(ask)
}

fn ip_of(given: &Map<String, Value>, key: &str) -> Result<Option<IpAddr>, Reply> {
    match given.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_str().and_then(|text| text.parse().ok()) {
            Some(address) => Ok(Some(address)),
            None => {
                let reason = format!("{} is not a valid IP address", python(value));
                Err(invalid(key, &reason))
            }
        },
    }
}

/// As Python writes it in a message.
pub(super) fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

/// Reads the body of `POST /v2.0/floatingips`.
///
/// # Errors
/// The answer of what Neutron refuses before it looks for network and port.
pub(crate) fn parse_post(asked: &Asked, caller: &Caller, has_uuids: bool) -> Result<New, Reply> {
    let mut given = resource(asked, "floatingip")?;
    let settable = ["floating_ip_address", "floating_network_id"];
    for key in given.keys() {
        if READ_ONLY.contains(&key.as_str()) && !settable.contains(&key.as_str()) {
            return Err(bad(&format!("Attribute '{key}' not allowed in POST")));
        }
    }
    let Some(network) = given.remove("floating_network_id") else {
        let message = "Failed to parse request. Required attribute 'floating_network_id' not \
                       specified";
        return Err(bad(message));
    };
    let network = match network.as_str() {
        Some(id) if is_uuid(id) => id.to_owned(),
        _ => {
            let reason = format!("{} is not a valid UUID", python(&network));
            return Err(invalid("floating_network_id", &reason));
        }
    };
    let address = ip_of(&given, "floating_ip_address")?;
    let subnet = given.remove("subnet_id");
    let subnet = subnet.and_then(|subnet| subnet.as_str().map(str::to_owned));
    let own = caller.project.clone().unwrap_or_default();
    let project = ["project_id", "tenant_id"].iter().find_map(|key| {
        let given = given.remove(*key)?;
        given.as_str().map(str::to_owned)
    });
    let project = project.unwrap_or_else(|| own.clone());
    given.remove("floating_ip_address");
    check_known(&given)?;
    let ask = ask_of(&given, has_uuids)?;
    if caller.role != Role::Admin && (address.is_some() || project != own) {
        return Err(super::forbidden("create_floatingip"));
    }
    Ok(New {
        project,
        network,
        subnet,
        address,
        ask,
    })
}
