//! Neutron v2.0: what is under `/v2.0`, in Neutron's own shapes and words. Reads are here; writes
//! are checked in [`fips`], [`tags`] and [`forwardings`] and made by [`crate::service`].

mod extensions;
pub(crate) mod fips;
pub(crate) mod forwardings;
mod listing;
mod quotas;
pub(crate) mod refusals;
pub(crate) mod render;
pub(crate) mod tags;

use civ_simkit::{Asked, Reply};
use serde_json::{Value, json};

use crate::keystone::Caller;
use crate::setup::{Role, Setup};
use crate::shapes;
use crate::world::{Fip, Kind, World};
use listing::{Collection, fields, list};

pub(crate) use listing::Twist as ListingTwist;

/// Collections that Neutron has and this has not, so that they are no unknown paths.
const NOT_SIMULATED: [&str; 18] = [
    "address-groups",
    "address-scopes",
    "agents",
    "auto-allocated-topology",
    "availability_zones",
    "default-security-group-rules",
    "flavors",
    "local_ips",
    "log",
    "metering",
    "network-ip-availabilities",
    "ndp_proxies",
    "qos",
    "rbac-policies",
    "segments",
    "service-providers",
    "subnetpools",
    "trunks",
];

/// What a call sees of the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) world: &'a World,
    pub(crate) setup: &'a Setup,
    pub(crate) caller: &'a Caller,
    /// Where clients reach us, for links.
    pub(crate) base: &'a str,
    /// What a rule does to listings.
    pub(crate) twist: ListingTwist,
}

impl View<'_> {
    /// Whether the caller may see what belongs to `project`.
    pub(crate) fn sees(&self, project: &str) -> bool {
        self.caller.role == Role::Admin || self.caller.project.as_deref() == Some(project)
    }

    /// A floating IP of the caller's; another project's is as if absent.
    pub(crate) fn fip(&self, id: &str) -> Option<&Fip> {
        let fip = self.world.fip(id)?;
        self.sees(&fip.project).then_some(fip)
    }
}

/// The segments of the path after `/v2.0/`, without empty ones.
pub(crate) fn segments(asked: &Asked) -> Vec<&str> {
    let rest = asked.path.strip_prefix("/v2.0/").unwrap_or_default();
    rest.split('/')
        .filter(|segment| !segment.is_empty())
        .collect()
}

/// `GET /`.
pub(crate) fn versions(base: &str) -> Reply {
    let links = json!([{"rel": "self", "href": format!("{base}/v2.0/")}]);
    let version = json!({"id": "v2.0", "status": "CURRENT", "links": links});
    Reply::json(200, &json!({ "versions": [version] }))
}

/// Answers a read; `None` if it asks for something that is not simulated.
pub(crate) fn read(asked: &Asked, view: &View<'_>) -> Option<Reply> {
    let parts = segments(asked);
    let first = parts.first().map(|part| part.trim_end_matches(".json"));
    Some(match (first, parts.get(1..).unwrap_or_default()) {
        (None, _) if asked.path.ends_with('/') => resources(view.base),
        (Some("floatingips"), []) => floating_ips(asked, view),
        (Some("floatingips"), [id]) => match view.fip(id) {
            Some(fip) => {
                let row = fields(&render::fip(fip, view), asked);
                shapes::spaced(200, &json!({ "floatingip": row }))
            }
            None => refusals::no_such_fip(id),
        },
        (Some("floatingips"), [id, "port_forwardings", rest @ ..]) => {
            return forwardings::read(asked, view, id, rest);
        }
        (Some(name), [id, "tags", rest @ ..]) => return tags::read(view, name, id, rest),
        (Some("extensions"), rest) => return extensions::read(rest),
        (Some("quotas"), rest) => return quotas::read(view, rest),
        (Some("floatingip_pools"), []) => pools(view),
        (Some(name), rest) => return resource(asked, view, name, rest),
        (None, _) => not_found(),
    })
}

/// Ports, networks, subnets, routers, security groups: lists and single ones.
fn resource(asked: &Asked, view: &View<'_>, name: &str, rest: &[&str]) -> Option<Reply> {
    let Some(shelf) = render::Shelf::named(name) else {
        return (!NOT_SIMULATED.contains(&name)).then(not_found);
    };
    match rest {
        [] => {
            let collection = Collection {
                name: shelf.collection,
                filters: shelf.filters,
                page_max: view.setup.page_max,
                base: view.base,
                twist: view.twist,
                is_spaced: shelf.is_spaced,
            };
            Some(list(shelf.rows(view), asked, &collection))
        }
        [id] => {
            let row = shelf.rows(view).into_iter().find(|row| row["id"] == *id);
            Some(match row {
                Some(row) => {
                    let body = json!({ shelf.one: fields(&row, asked) });
                    if shelf.is_spaced {
                        shapes::spaced(200, &body)
                    } else {
                        Reply::json(200, &body)
                    }
                }
                None => shapes::neutron(404, shelf.missing, &shelf.missing_text(id)),
            })
        }
        _ => None,
    }
}

fn not_found() -> Reply {
    shapes::neutron(404, "HTTPNotFound", "The resource could not be found.")
}

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

fn floating_ips(asked: &Asked, view: &View<'_>) -> Reply {
    let all = view.world.fips().filter(|fip| view.sees(&fip.project));
    let rows: Vec<&Fip> = all
        .filter(|fip| view.twist.ignores_filters || may_match(fip, asked))
        .collect();
    let page_max = view.twist.cap.or(view.setup.page_max);
    let rows = if view.twist.repeats {
        rows
    } else {
        near_marker(rows, asked, page_max)
    };
    let rows = rows.iter().map(|fip| render::fip(fip, view)).collect();
    let collection = Collection {
        name: "floatingips",
        filters: &FIP_FILTERS,
        page_max,
        base: view.base,
        twist: view.twist,
        is_spaced: true,
    };
    list(rows, asked, &collection)
}

/// Of rows in order of id, those that the asked page can be made of, its marker included, so that
/// of thousands only a page is written as JSON. The listing pages again.
fn near_marker<'a>(rows: Vec<&'a Fip>, asked: &Asked, page_max: Option<usize>) -> Vec<&'a Fip> {
    let by_id = asked.query.iter().all(|(key, value)| match key.as_str() {
        "sort_key" => value == "id",
        "sort_dir" => value == "asc",
        // These have been looked at already.
        "port_id" | "floating_ip_address" | "floating_network_id" => true,
        "limit" | "marker" | "fields" => true,
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

/// Leaves out what the three common filters exclude, so that of thousands only a few are written
/// as JSON. The listing filters again, by everything.
fn may_match(fip: &Fip, asked: &Asked) -> bool {
    let passes = |key: &str, value: Option<&str>| {
        let mut wanted = asked.params(key).peekable();
        wanted.peek().is_none() || wanted.any(|wanted| Some(wanted) == value)
    };
    passes("port_id", fip.bound.as_ref().map(|b| b.port.as_str()))
        && passes("floating_network_id", Some(&fip.network))
        && (asked.param("floating_ip_address").is_none()
            || passes("floating_ip_address", Some(&fip.address.to_string())))
}

/// `GET /v2.0/floatingip_pools`: a subnet of an external network each.
fn pools(view: &View<'_>) -> Reply {
    let external = view.world.networks.values().filter(|net| net.is_external);
    let rows = external.flat_map(|network| {
        view.world
            .subnets_of(&network.id)
            .into_iter()
            .map(|subnet| {
                json!({"subnet_id": subnet.id, "subnet_name": subnet.name,
                "tenant_id": subnet.project, "project_id": subnet.project,
                "network_id": network.id, "network_name": network.name,
                "cidr": format!("{}/{}", subnet.base, subnet.bits)})
            })
    });
    let rows: Vec<Value> = rows.collect();
    Reply::json(200, &json!({ "floatingip_pools": rows }))
}

fn resources(base: &str) -> Reply {
    let resource = |(name, collection): (&str, &str)| {
        let links = json!([{"rel": "self", "href": format!("{base}/v2.0/{collection}")}]);
        json!({"name": name, "collection": collection, "links": links})
    };
    let all = [
        ("network", "networks"),
        ("subnet", "subnets"),
        ("port", "ports"),
        ("router", "routers"),
        ("floatingip", "floatingips"),
        ("floatingip_pool", "floatingip_pools"),
        ("security_group", "security-groups"),
        ("security_group_rule", "security-group-rules"),
        ("quota", "quotas"),
        ("extension", "extensions"),
    ];
    Reply::json(200, &json!({ "resources": all.map(resource) }))
}

/// A token without a project is accepted and sees nothing.
pub(crate) fn nothing_to_see(asked: &Asked) -> Reply {
    match segments(asked).as_slice() {
        [collection] if asked.method == "GET" => {
            Reply::json(200, &json!({ *collection: Vec::<Value>::new() }))
        }
        [_, id, ..] => refusals::no_such_fip(id),
        _ => not_found(),
    }
}

/// 403: the role does not allow it.
pub(crate) fn forbidden(action: &str) -> Reply {
    let message = format!("rule:{action} is disallowed by policy");
    shapes::neutron(403, "PolicyNotAuthorized", &message)
}

/// The kind of objects of a collection that has tags.
pub(crate) fn kind_of(collection: &str) -> Option<Kind> {
    Some(match collection {
        "floatingips" => Kind::Fip,
        "ports" => Kind::Port,
        "networks" => Kind::Network,
        "subnets" => Kind::Subnet,
        "routers" => Kind::Router,
        "security-groups" => Kind::Group,
        _ => return None,
    })
}
