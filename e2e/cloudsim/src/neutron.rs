//! Neutron v2.0: what is under `/v2.0`, in Neutron's own shapes and words.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::keystone::{hex_id, project_id};
use crate::listing::{Collection, fields, list};
use crate::reply::{Asked, Reply};
use crate::setup::Setup;
use crate::world::{Ask, Fip, Port, Refused, Status, World};

/// Aliases of the extensions that are simulated.
const EXTENSIONS: [&str; 12] = [
    "router",
    "external-net",
    "fip-port-details",
    "floating-ip-port-forwarding",
    "expose-port-forwarding-in-fip",
    "standard-attr-revisions",
    "revision-if-match",
    "standard-attr-timestamp",
    "standard-attr-description",
    "pagination",
    "sorting",
    "project-id",
];

const FIP_FILTERS: [&str; 11] = [
    "id",
    "floating_ip_address",
    "port_id",
    "status",
    "floating_network_id",
    "router_id",
    "fixed_ip_address",
    "project_id",
    "tenant_id",
    "description",
    "revision_number",
];

const PORT_FILTERS: [&str; 7] = [
    "id",
    "name",
    "network_id",
    "status",
    "device_owner",
    "project_id",
    "tenant_id",
];

const NETWORK_FILTERS: [&str; 5] = ["id", "name", "router:external", "project_id", "status"];

/// `GET /` and `GET /v2.0/`-less discovery.
pub(crate) fn versions(base: &str) -> Reply {
    let links = json!([{"rel": "self", "href": format!("{base}/v2.0/")}]);
    let version = json!({"id": "v2.0", "status": "CURRENT", "links": links});
    Reply::json(200, &json!({"versions": [version]}))
}

/// Answers a read; `None` if it asks for something that is not simulated.
pub(crate) fn read(asked: &Asked, world: &World, setup: &Setup, base: &str) -> Option<Reply> {
    let collection = |name, filters| Collection {
        name,
        filters,
        page_max: setup.page_max,
        base,
    };
    match asked.segments().as_slice() {
        [] if asked.path.ends_with('/') => Some(resources(base)),
        ["extensions"] => {
            let all: Vec<Value> = EXTENSIONS.iter().map(|alias| extension(alias)).collect();
            Some(Reply::json(200, &json!({"extensions": all})))
        }
        ["extensions", alias] => Some(match EXTENSIONS.iter().find(|known| *known == alias) {
            Some(alias) => Reply::json(200, &json!({"extension": extension(alias)})),
            None => Reply::html(404, "Not Found"),
        }),
        ["floatingips" | "floatingips.json"] => {
            let rows = world.fips().filter(|fip| may_match(fip, asked));
            let rows = near_marker(rows.collect(), asked, setup.page_max);
            let rows = rows.iter().map(|fip| fip_value(fip, world, setup));
            let rows = rows.collect();
            list(rows, asked, &collection("floatingips", &FIP_FILTERS))
        }
        ["floatingips", id] => Some(match world.fip(id) {
            Some(fip) => {
                let row = fields(&fip_value(fip, world, setup), asked);
                Reply::json(200, &json!({"floatingip": row}))
            }
            None => refusal(&Refused::NoSuchFip, id, world, setup),
        }),
        ["ports" | "ports.json"] => {
            let rows = world.ports().map(|port| port_value(port, setup)).collect();
            list(rows, asked, &collection("ports", &PORT_FILTERS))
        }
        ["ports", id] => Some(match world.port(id) {
            Some(port) => Reply::json(
                200,
                &json!({"port": fields(&port_value(port, setup), asked)}),
            ),
            None => no_such_port(id),
        }),
        ["networks" | "networks.json"] => {
            let rows = vec![network_value(setup)];
            list(rows, asked, &collection("networks", &NETWORK_FILTERS))
        }
        ["networks", id] if *id == setup.network_id => {
            Some(Reply::json(200, &json!({"network": network_value(setup)})))
        }
        ["networks", id] => {
            let message = format!("Network {id} could not be found.");
            Some(Reply::neutron(404, "NetworkNotFound", &message))
        }
        _ => None,
    }
}

/// Of rows in order of id, those that the asked page can be made of, its marker included, so that
/// of thousands only a page is written as JSON. The listing pages again.
fn near_marker<'a>(rows: Vec<&'a Fip>, asked: &Asked, page_max: Option<usize>) -> Vec<&'a Fip> {
    let by_id = asked.query.iter().all(|(key, value)| match key.as_str() {
        "sort_key" => value == "id",
        "sort_dir" => value == "asc",
        "limit" | "marker" | "fields" | "port_id" | "floating_ip_address" => true,
        // One network: all rows are on it, or none.
        "floating_network_id" => true,
        _ => false,
    });
    let limit: usize = match asked.param("limit").map(str::parse) {
        Some(Ok(limit)) if by_id && limit > 0 => limit,
        _ => return rows,
    };
    let limit = page_max.map_or(limit, |most| limit.min(most));
    let marker = asked.param("marker").unwrap_or_default();
    let at = rows.iter().position(|fip| fip.id == marker);
    let n_marker = usize::from(at.is_some());
    let page = rows.into_iter().skip(at.unwrap_or(0));
    page.take(limit.saturating_add(n_marker)).collect()
}

/// Leaves out what the two common filters exclude, so that of thousands only a few are written as
/// JSON. The listing filters again, by everything.
fn may_match(fip: &Fip, asked: &Asked) -> bool {
    let (address, port) = (
        fip.address.to_string(),
        fip.bound.as_ref().map(|b| b.port.as_str()),
    );
    let passes = |key: &str, value: Option<&str>| {
        let mut wanted = asked
            .query
            .iter()
            .filter(|(name, _)| name == key)
            .peekable();
        wanted.peek().is_none() || wanted.any(|(_, wanted)| Some(wanted.as_str()) == value)
    };
    passes("floating_ip_address", Some(&address)) && passes("port_id", port)
}

fn resources(base: &str) -> Reply {
    let resource = |name: &str| {
        let links = json!([{"rel": "self", "href": format!("{base}/v2.0/{name}s")}]);
        json!({"name": name, "collection": format!("{name}s"), "links": links})
    };
    let all = ["network", "port", "floatingip", "extension"].map(resource);
    Reply::json(200, &json!({ "resources": all }))
}

fn extension(alias: &str) -> Value {
    json!({"name": alias, "alias": alias, "description": "", "links": [],
        "updated": "2013-01-01T00:00:00-00:00"})
}

/// What a `PUT /v2.0/floatingips/{id}` asks for.
#[derive(Debug)]
pub(crate) enum Put {
    /// To change the binding.
    Bind(Ask),
    /// Nothing that changes anything (a description, which is not kept).
    Nothing,
    /// Something that Neutron refuses before it looks at the floating IP.
    Bad(Reply),
}

/// Reads the body of a PUT as Neutron does: an empty object disassociates.
pub(crate) fn parse_put(asked: &Asked) -> Put {
    let bad = |kind: &str, message: &str| Put::Bad(Reply::neutron(400, kind, message));
    let Some(body) = asked.json::<Value>() else {
        return bad("MalformedRequestBody", "Malformed request body: not JSON.");
    };
    let Some(changes) = body["floatingip"].as_object() else {
        return bad("HTTPBadRequest", "Resource body required");
    };
    let known = ["port_id", "fixed_ip_address", "description"];
    if let Some(key) = changes.keys().find(|key| !known.contains(&key.as_str())) {
        let read_only = [
            "tags",
            "status",
            "floating_ip_address",
            "revision_number",
            "id",
        ];
        return if read_only.contains(&key.as_str()) {
            bad(
                "HTTPBadRequest",
                &format!("Cannot update read-only attribute {key}"),
            )
        } else {
            bad(
                "HTTPBadRequest",
                &format!("Unrecognized attribute(s) '{key}'"),
            )
        };
    }
    let mut ask = Ask {
        if_revision: asked.if_revision(),
        ..Ask::default()
    };
    match changes.get("port_id") {
        None if changes.contains_key("description") => return Put::Nothing,
        None | Some(Value::Null) => {}
        Some(Value::String(id)) if !id.is_empty() => ask.port = Some(id.clone()),
        Some(other) => {
            let message =
                format!("Invalid input for port_id. Reason: '{other}' is not a valid UUID.");
            return bad("HTTPBadRequest", &message);
        }
    }
    match changes.get("fixed_ip_address") {
        None | Some(Value::Null) => {}
        Some(value) => match value.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
            Some(fixed) => ask.fixed = Some(fixed),
            None => return bad("HTTPBadRequest", "Invalid input for fixed_ip_address."),
        },
    }
    Put::Bind(ask)
}

/// Neutron's words for a change that was not made.
pub(crate) fn refusal(refused: &Refused, id: &str, world: &World, setup: &Setup) -> Reply {
    let address = world.fip(id).map(|fip| fip.address.to_string());
    let address = address.unwrap_or_default();
    match refused {
        Refused::NoSuchFip => {
            let message = format!("Floating IP {id} could not be found");
            Reply::neutron(404, "FloatingIPNotFound", &message)
        }
        Refused::Stale { wanted, is } => {
            let message = format!("Constrained to {wanted}, but current revision is {is}");
            Reply::neutron(412, "RevisionNumberConstraintFailed", &message)
        }
        Refused::Forwarded => {
            let message = format!("Floating IP {id} in use by Port Forwarding resources.");
            Reply::neutron(409, "FipInUseByPortForwarding", &message)
        }
        Refused::FixedWithoutPort => {
            let message = "fixed_ip_address cannot be specified without a port_id";
            Reply::neutron(
                400,
                "BadRequest",
                &format!("Bad floatingip request: {message}."),
            )
        }
        Refused::NoSuchPort(port) => no_such_port(port),
        Refused::NoGateway(port) => {
            let message = format!(
                "External network {} is not reachable from the subnet of port {port}. Therefore, \
                 cannot associate Port {port} with a Floating IP.",
                setup.network_id
            );
            Reply::neutron(404, "ExternalGatewayForFloatingIPNotFound", &message)
        }
        Refused::SeveralFixed(port) => {
            let message = format!(
                "Bad floatingip request: Port {port} has multiple fixed IPv4 addresses. Must \
                 provide a specific IPv4 address when assigning a floating IP."
            );
            Reply::neutron(400, "BadRequest", &message)
        }
        Refused::NotItsFixed(port) => {
            let message =
                format!("Bad floatingip request: Port {port} does not have this fixed ip.");
            Reply::neutron(400, "BadRequest", &message)
        }
        Refused::PortHasOne { port, fixed } => {
            let message = format!(
                "Cannot associate floating IP {address} ({id}) with port {port} using fixed IP \
                 {fixed}, as that fixed IP already has a floating IP on external network {}.",
                setup.network_id
            );
            Reply::neutron(409, "FloatingIPPortAlreadyAssociated", &message)
        }
    }
}

fn no_such_port(id: &str) -> Reply {
    Reply::neutron(
        404,
        "PortNotFound",
        &format!("Port {id} could not be found."),
    )
}

fn router_id() -> String {
    dashed("router")
}

/// A UUID made from a name, the same in every run.
fn dashed(name: &str) -> String {
    uuid::Uuid::parse_str(&hex_id(name)).map_or_else(|_| name.to_owned(), |id| id.to_string())
}

fn seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A floating IP as the API shows it.
pub(crate) fn fip_value(fip: &Fip, world: &World, setup: &Setup) -> Value {
    let bound = fip.bound.as_ref();
    let port = bound.and_then(|bound| world.port(&bound.port));
    let uses_router = bound.is_some() || fip.forwarded;
    let forwarding = json!({"id": dashed("forwarding"), "protocol": "tcp", "external_port": 2222,
        "internal_ip_address": "10.77.250.1", "internal_port": 22,
        "internal_port_id": dashed("forwarded")});
    let mut value = json!({
        "id": fip.id,
        "tenant_id": project_id(setup),
        "project_id": project_id(setup),
        "floating_ip_address": fip.address,
        "floating_network_id": setup.network_id,
        "router_id": uses_router.then(router_id),
        "port_id": bound.map(|bound| &bound.port),
        "fixed_ip_address": bound.map(|bound| bound.fixed),
        "status": match fip.status {
            Status::Down => "DOWN",
            Status::Active => "ACTIVE",
        },
        "description": "",
        "port_details": port.map(|port| json!({
            "name": port.id, "network_id": dashed("private"), "mac_address": mac(port),
            "admin_state_up": true, "status": "ACTIVE", "device_id": dashed(&port.id),
            "device_owner": "compute:nova",
        })),
        "port_forwardings": if fip.forwarded { vec![forwarding] } else { Vec::new() },
        "created_at": seconds(fip.created_at),
        "updated_at": seconds(fip.updated_at),
    });
    if setup.has_revisions {
        value["revision_number"] = json!(fip.revision);
    }
    value
}

fn mac(port: &Port) -> String {
    let id = hex_id(&port.id);
    let octets = id.as_bytes().chunks(2).take(3);
    let tail: Vec<&str> = octets
        .filter_map(|pair| std::str::from_utf8(pair).ok())
        .collect();
    format!("fa:16:3e:{}", tail.join(":"))
}

fn port_value(port: &Port, setup: &Setup) -> Value {
    let fixed = |ip: &IpAddr| json!({"subnet_id": dashed("private-subnet"), "ip_address": ip});
    json!({
        "id": port.id, "name": port.id, "network_id": dashed("private"),
        "project_id": project_id(setup), "tenant_id": project_id(setup),
        "mac_address": mac(port), "admin_state_up": true, "status": "ACTIVE",
        "device_id": dashed(&port.id), "device_owner": "compute:nova",
        "fixed_ips": port.fixed_ips.iter().map(fixed).collect::<Vec<_>>(),
        "allowed_address_pairs": [], "extra_dhcp_opts": [], "security_groups": [],
        "description": "", "binding:vnic_type": "normal", "port_security_enabled": true,
    })
}

fn network_value(setup: &Setup) -> Value {
    json!({
        "id": setup.network_id, "name": setup.network_name, "status": "ACTIVE",
        "admin_state_up": true, "shared": false, "router:external": true, "mtu": 1500,
        "project_id": hex_id("admin"), "tenant_id": hex_id("admin"),
        "subnets": [dashed("public-subnet")], "description": "",
    })
}
